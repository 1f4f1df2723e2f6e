"""Chat messages as the `Message` that the core makes a note of, and whose memory a message is for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock

from amem_integrations import adapting
from amem_integrations.conversation import Message, time_of

from .events import AMemRecallEvent, dispatcher

P = ParamSpec("P")
T = TypeVar("T")

Space = tuple[str, ...]
Whose = Sequence[str] | Callable[[], Sequence[str]]
Where = Mapping[str, Any] | Callable[[], Mapping[str, Any] | None] | None

SPOKEN = (MessageRole.USER, MessageRole.ASSISTANT)
ASSISTANTS = (MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL)

# Where frameworks and their users put the time of a message, among its `additional_kwargs`.
TIMES = ("timestamp", "created_at", "at")

# `ReActAgent` keeps its whole reasoning as the assistant's message; only the answer was said to the user.
_ANSWERING = re.compile(
    r"^Thought:(?:(?!^(?:Thought|Action|Observation|Answer):).)*^Answer:", re.MULTILINE | re.DOTALL
)
_ACTING = re.compile(r"Thought:.*^Action:", re.MULTILINE | re.DOTALL)
# `CodeActAgent` puts code into the assistant's messages, and its results into messages of the user.
_CODE = re.compile(r"<execute>.*?</execute>", re.DOTALL)
_CODE_RESULT = "Result of executing the code given:"
# A model may repeat the recalled notes of its prompt (see `render_notes`), to the end or not.
_QUOTED = re.compile(r"<memories>.*?</memories>", re.DOTALL)
_BROKEN_OFF = re.compile(r"<memories>\s*Notes from long-term memory.*", re.DOTALL)


def to_message(message: ChatMessage, *, stored: bool = True) -> Message:
    """Return a chat message for `amem_integrations.conversation`.

    Its id is `additional_kwargs["id"]`, its speaker `additional_kwargs["name"]`, its time one of `TIMES` there:
    a datetime, ISO 8601 (UTC without a zone), or seconds or milliseconds since 1970.
    """
    extra = message.additional_kwargs
    known, name = extra.get("id"), extra.get("name")
    return Message(
        role=message.role.value,
        text=spoken(message),
        calls_tools=bool(extra.get("tool_calls"))
        or any(isinstance(block, ToolCallBlock) for block in message.blocks),
        id=None if known in (None, "") else str(known),
        speaker=name if isinstance(name, str) and name else None,
        at=time_of((extra[field] for field in TIMES if field in extra), UTC),
        stored=stored,
    )


def text_of(message: ChatMessage) -> str:
    """Return the text of a message, as the memory stores it; images, tool calls and thoughts have none."""
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    return adapting.storable("\n".join(texts)).strip()


def spoken(message: ChatMessage) -> str:
    """Return the spoken text, or "": of agents that think or program aloud only the answer is spoken."""
    text = text_of(message)
    if message.role not in ASSISTANTS:
        is_result = message.role == MessageRole.USER and text.startswith(_CODE_RESULT)
        return "" if is_result else text
    if text.startswith("Thought:"):
        answered = list(_ANSWERING.finditer(text))
        if answered or _ACTING.match(text):
            text = text[answered[-1].end() :] if answered else ""
    head, closing, tail = _CODE.sub("", text).rpartition("</memories>")
    return (_QUOTED.sub("", head + closing) + _BROKEN_OFF.sub("", tail)).strip()


class Search(adapting.SearchOptions, total=False):
    """The options of a search: of `AgenticMemory.search`, and further namespaces by the names that mark their notes."""

    also: Mapping[str, Whose] | None


class Door(adapting.Door):
    """A way into a memory, whose functions have no arguments."""

    def recalled(
        self,
        question: str,
        find: Callable[..., adapting.Recalled],
        whose: Callable[[], Space],
        **options: Any,  # noqa: ANN401 - of `asked`
    ) -> adapting.Recalled:
        """Return the hits for a question, and send an event; nothing if nobody asks, or the memory does not answer."""
        found = adapting.Recalled()
        if not question.strip() or self.failures.resting("recall"):
            return found
        with self.failures.tolerated("recall", callback=True):
            if (asked := self.asked(namespace=whose(), **options)) is not None:
                found = find(**asked)
        self.failures.failed("recall", found.error)
        ids = [hit.note.id for hit in found.hits]
        dispatcher.event(AMemRecallEvent(question=question, note_ids=ids))
        return found


def threaded(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the asynchronous twin of a method: a thread in the context of the caller serves every loop."""

    @wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, *args, **kwargs)

    return twin
