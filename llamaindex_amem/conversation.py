"""Chat messages as the `Message` that the core makes a note of, and whose memory a message is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

from amem_integrations import adapting
from amem_integrations.conversation import Message, time_of

from .events import AMemRecallEvent, dispatcher

Space = tuple[str, ...]
Whose = Sequence[str] | Callable[[], Sequence[str]]
Where = Mapping[str, Any] | Callable[[], Mapping[str, Any] | None] | None

# Where frameworks and their users put the time of a message, among its `additional_kwargs`.
TIMES = ("timestamp", "created_at", "at")

# `CodeActAgent` puts code into the assistant's messages, and its results into messages of the user. And a model may
# repeat the recalled notes of its prompt (see `render_notes`), to the end or not.
_UNSPOKEN = re.compile(
    r"<execute>.*?</execute>|<memories>(?:.*?</memories>|\s*Notes from long-term memory.*)",
    re.DOTALL,
)
_CODE_RESULT = "Result of executing the code given:"


def to_message(message: ChatMessage, *, stored: bool = True) -> Message:
    """Return a chat message for `amem_integrations.conversation`.

    Its id is `additional_kwargs["id"]`, its speaker `additional_kwargs["name"]`, its time one of `TIMES` there:
    a datetime, ISO 8601 (UTC without a zone), or seconds or milliseconds since 1970. Images, tool calls and thoughts
    have no text.
    """
    extra, blocks = message.additional_kwargs, message.blocks
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    said = Message(
        role=message.role.value,
        text=adapting.storable("\n".join(texts)).strip(),
        id=None if (known := extra.get("id")) in (None, "") else str(known),
        speaker=name if (name := extra.get("name")) and isinstance(name, str) else None,
        at=time_of((extra[field] for field in TIMES if field in extra), UTC),
        calls_tools=bool(extra.get("tool_calls"))
        or any(isinstance(block, ToolCallBlock) for block in blocks),
        stored=stored,
    )
    return said if (spoken := _spoken(said)) == said.text else replace(said, text=spoken)


def _spoken(message: Message) -> str:
    """Return the spoken text, or "": of agents that think or program aloud only the answer is spoken."""
    text = message.text
    if message.party != "assistant":
        return "" if text.startswith(_CODE_RESULT) else text
    if text.startswith("Thought:"):  # `ReActAgent` keeps its whole reasoning as the message
        last_thought = f"\n{text}".rpartition("\nThought:")[2]
        _, answering, answer = last_thought.partition("\nAnswer:")
        text = answer if answering or "\nAction:" in text else text
    return _UNSPOKEN.sub("", text).strip()


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
        if not question.strip():
            return found
        with self.failures.tolerated("recall", callback=True):
            if (asked := self.asked(namespace=whose(), **options)) is not None:
                found = find(**asked)
        self.failures.failed("recall", found.error)
        ids = [hit.note.id for hit in found.hits]
        dispatcher.event(AMemRecallEvent(question=question, note_ids=ids))
        return found
