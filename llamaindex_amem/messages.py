"""Pure: what was said in a chat message, as the `Message` that the core makes notes of."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock

from amem_integrations.conversation import Message, count_spoken, note_inputs, storable

ShouldStore = Callable[[ChatMessage], bool]

SPOKEN = (MessageRole.USER, MessageRole.ASSISTANT)
ASSISTANTS = (MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL)

# Where frameworks and their users put the time of a message, among its `additional_kwargs`.
TIMES = ("timestamp", "created_at", "at")
MILLISECONDS = 1e11  # seconds up to the year 5138, milliseconds since 1973

# `ReActAgent` keeps its whole reasoning as the assistant's message; only the answer was said to the user.
_ANSWERING = re.compile(
    r"^Thought:(?:(?!^(?:Thought|Action|Observation|Answer):).)*^Answer:", re.MULTILINE | re.DOTALL
)
_ACTING = re.compile(r"Thought:.*^Action:", re.MULTILINE | re.DOTALL)
# `CodeActAgent` puts code into the assistant's messages, and its results into messages of the user.
_CODE = re.compile(r"<execute>.*?</execute>", re.DOTALL)
_CODE_RESULT = "Result of executing the code given:"
# A model may repeat the recalled notes of its prompt (see `render_notes`), to the end or not.
_OPENING, _CLOSING, _HEADING = "<memories>", "</memories>", "Notes from long-term memory"


def text_of(message: ChatMessage) -> str:
    """Return the text of a message; images, tool calls and thoughts have none.

    It is as the memory stores it: see `storable`.
    """
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    joined = "\n".join(text for text in texts if text)
    return storable(joined).strip()


def spoken(message: ChatMessage) -> str:
    """Return what a user or an assistant said to the other, or "" if it is nothing of the kind."""
    text = text_of(message)
    if message.role == MessageRole.USER:
        return "" if text.startswith(_CODE_RESULT) else text
    if message.role not in ASSISTANTS or _calls_tools(message):
        return ""
    if text.startswith("Thought:") and (answers := list(_ANSWERING.finditer(text))):
        return _own_words(text[answers[-1].end() :])
    return "" if _ACTING.match(text) else _own_words(_CODE.sub("", text))


def _calls_tools(message: ChatMessage) -> bool:
    in_blocks = any(isinstance(block, ToolCallBlock) for block in message.blocks)
    return in_blocks or bool(message.additional_kwargs.get("tool_calls"))


def _own_words(text: str) -> str:
    """Return an answer without the recalled notes that it quotes."""
    first, *others = text.split(_OPENING)
    kept = [first]
    for part in others:
        inside, closing, after = part.partition(_CLOSING)
        if closing:
            kept.append(after)
        elif not inside.lstrip().startswith(_HEADING):
            kept.append(_OPENING + part)
    return "".join(kept).strip()


def to_message(message: ChatMessage, *, stored: bool = True) -> Message:
    """Return a chat message for `amem_integrations.conversation`.

    Its id is `additional_kwargs["id"]`, its speaker `additional_kwargs["name"]`, its time one of `TIMES` there:
    a datetime, ISO 8601 (UTC without a zone), or seconds or milliseconds since 1970.
    """
    extra = message.additional_kwargs
    known, name = extra.get("id"), extra.get("name")
    times = (_as_time(extra.get(field)) for field in TIMES)
    return Message(
        role=message.role.value,
        text=spoken(message),
        id=None if known is None or known == "" else str(known),
        speaker=name if isinstance(name, str) and name else None,
        at=next((at for at in times if at), None),
        stored=stored,
    )


def _as_time(value: object) -> datetime | None:
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / (1000 if value > MILLISECONDS else 1), UTC)
    except (ValueError, OverflowError, OSError):
        return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def question(messages: Sequence[ChatMessage]) -> str:
    """Return the last thing the user said; at the end of an agent's run, that is not the last message."""
    said = (spoken(m) for m in reversed(messages) if m.role == MessageRole.USER)
    return next((text for text in said if text), "")


def said_before(messages: Sequence[ChatMessage]) -> list[str]:
    """Return what was said before the last question, oldest first."""
    by_user = [n for n, m in enumerate(messages) if m.role == MessageRole.USER and spoken(m)]
    talk = (MessageRole.USER, *ASSISTANTS)
    before = messages[: by_user[-1]] if by_user else ()
    said = [text for message in before if message.role in talk and (text := spoken(message))]
    # In the run of an agent the framework gives the question once in the history, and once more behind it.
    return said[:-1] if said[-1:] == [question(messages)] else said


def answers(messages: Sequence[ChatMessage]) -> bool:
    """Return whether the assistant says something to the user in these messages."""
    return any(message.role in ASSISTANTS and spoken(message) for message in messages)


def find_offset(
    messages: Sequence[Message],
    *,
    thread: str | None,
    roles: Sequence[str],
    stored: Collection[str | None],
    count: int,
) -> int:
    """Return how many messages of the thread were spoken before these, as far as what is stored shows it.

    A batch that begins with messages which are stored, and ends with them or goes on where the thread ends,
    is delivered again and keeps its position. Any other follows what is stored.

    Args:
        messages: A batch, in the order in which it was said.
        thread: The conversation.
        roles: Whose messages are stored.
        stored: The keys of the notes of the thread.
        count: How many messages were spoken in it, at least.
    """

    def keys(some: Sequence[Message], offset: int) -> list[str | None]:
        items = note_inputs(some, thread=thread, roles=roles, offset=offset)
        return [item.key for item in items]

    kept = [index for index, m in enumerate(messages) if keys([m], 0)]
    first = next((index for index in kept if messages[index].id is None), None)
    if first is None:  # ids say who they are
        return count
    before = count_spoken(messages[:first])
    for offset in range(2 * count + len(stored)):
        if keys([messages[first]], offset + before)[0] not in stored:
            continue
        known = [key in stored for key in keys(messages, offset)]
        run = (*known, False).index(False)
        if run == len(known) or (
            run and not any(known[run:]) and offset + count_spoken(messages[: kept[run]]) >= count
        ):
            return offset
    offset = count
    while keys([messages[first]], offset + before)[0] in stored:
        offset += 1
    return offset
