"""Pure: LangChain messages as notes, and the question and the answer in them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage

from amem_integrations import ConfigurationError, NoteInput
from amem_integrations.conversation import Message, note_inputs

ShouldStore = Callable[[BaseMessage], bool]

# Metadata of a note: a fingerprint of its message, which tells an edited message from a corrected note, and
# the id of the message that it answers, by which an answer that was given again is known.
HASH = "message_hash"
ANSWERS = "answers"

TIMES = ("created_at", "timestamp")
MILLISECONDS = 1e11  # a time stamp above that many seconds would lie in the year 5138


def to_message(message: BaseMessage, *, stored: bool = True) -> Message:
    """Return a LangChain message as the core reads it.

    A summary that another middleware wrote counts as a system message: it is no turn of the conversation.
    """
    return Message(
        role=_role(message),
        text=str(message.text),
        id=message.id or None,
        speaker=message.name,
        at=_time(message),
        calls_tools=isinstance(message, AIMessage) and bool(message.tool_calls),
        stored=stored,
    )


def _role(message: BaseMessage) -> str:
    if message.additional_kwargs.get("lc_source"):
        return "system"
    if isinstance(message, ChatMessage):
        return message.role
    return "assistant" if isinstance(message, AIMessage) else message.type


def _time(message: BaseMessage) -> datetime | None:
    """Return the time that a message carries, if any."""
    carried = (message.additional_kwargs, message.response_metadata)
    found = (_as_time(data.get(name)) for data in carried for name in TIMES)
    return next((at for at in found if at is not None), None)


def _as_time(value: object) -> datetime | None:
    """Return a datetime, an ISO string or a time stamp as a time; None if it is none, or has no zone."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > MILLISECONDS else value
            value = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None


def is_spoken(message: BaseMessage) -> bool:
    """Return whether a person said it, or the agent answered it: the default of `should_store`.

    Tool calls, tool results, and summaries that another middleware wrote are left out.
    """
    return to_message(message).spoken


def checked_filter(should_store: ShouldStore) -> ShouldStore:
    """Return the function.

    Raises:
        ConfigurationError: It cannot be called, or is a coroutine function, whose result would always count
            as true.
    """
    called = getattr(should_store, "__call__", None)  # noqa: B004 - an object may have an async one
    if not callable(should_store) or any(map(inspect.iscoroutinefunction, (should_store, called))):
        raise ConfigurationError(
            f"should_store={should_store!r} must be a plain function of a message that returns a bool"
        )
    return should_store


def notes_of(
    messages: Sequence[BaseMessage],
    *,
    thread: str | None,
    should_store: ShouldStore = is_spoken,
    skip: int = 0,
    now: datetime | None = None,
    max_chars: int | None = None,
) -> list[NoteInput]:
    """Return a note for each message worth storing that holds text, from number `skip` on.

    The first `skip` messages only count for the positions of messages without an id.
    """
    read, question = [], None
    for number, message in enumerate(messages):
        new = number >= skip
        found = to_message(message, stored=new and should_store(message))
        question = found.id if found.party == "user" else question
        read.append(_with_metadata(found, question) if new else found)
    return note_inputs(
        read,
        thread=thread,
        roles=tuple({found.party for found in read}),  # `should_store` decides
        now=now,
        max_chars=max_chars,
    )


def _with_metadata(message: Message, question: str | None) -> Message:
    text = message.text.strip()
    metadata = {HASH: hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]}
    if message.party == "assistant" and question is not None:
        metadata[ANSWERS] = question
    return replace(message, metadata=metadata)


def keys_of(messages: Sequence[BaseMessage], thread: str | None, last: int) -> set[str]:
    """Return the keys of the notes that the last messages are, or would be."""
    skip = max(0, len(messages) - last)
    items = notes_of(messages, thread=thread, should_store=lambda _: True, skip=skip)
    return {item.key for item in items if item.key is not None}


def question_in(messages: Sequence[BaseMessage]) -> str:
    """Return what was last asked, or "" if nobody said anything in words."""
    for message in reversed(messages):
        if is_human(message):
            return str(message.text).strip()
    return ""


def said_before(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what was said before the last question, oldest first; what tools and summaries say is left out."""
    last = max((place for place, one in enumerate(messages) if is_human(one)), default=0)
    spoken = (one for one in messages[:last] if is_human(one) or isinstance(one, AIMessage))
    return [text for one in spoken if (text := str(one.text).strip())]


def is_human(message: BaseMessage) -> bool:
    """Return whether a person said it; a summary that another middleware wrote is none."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source")
