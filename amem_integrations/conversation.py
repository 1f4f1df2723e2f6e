"""From chat messages to notes. It is the only place where a message gets its key.

An adapter turns its framework's messages into `Message` values and calls `note_inputs`; whichever adapter the
same message comes through, it is the same note.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter

from .errors import InvalidInputError
from .notes import NoteInput, Source, storable
from .runtime import log

# The names that frameworks have for the same two or three parties of a conversation.
ROLES = {
    "human": "user",
    "ai": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
    "function": "tool",
}
SPEAKING = ("user", "assistant")
_TIME = TypeAdapter(datetime)
_SOURCES: dict[str, Source] = {"user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message, whatever framework it comes from.

    Attributes:
        role: `user`, `assistant`, `tool`, `system`, or another name of one of them (see `ROLES`).
        text: What was said; the text blocks only.
        id: What identifies it within its thread and role, if the framework knows.
        speaker: The name of who said it; without one, the role.
        at: When it was said, if the message carries its time.
        calls_tools: It asks for tools to be run, so nobody was spoken to.
        stored: False leaves it out of the memory; it still counts for the occurrences of others. None leaves it out too,
            unless there is a note of it already, which is edited if the message was.
        metadata: JSON values for the note.
    """

    role: str
    text: str
    id: str | None = None
    speaker: str | None = None
    at: datetime | None = None
    calls_tools: bool = False
    stored: bool | None = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def party(self) -> str:
        """The role under its common name."""
        return _party(self.role)

    @property
    def source(self) -> Source:
        """The source of the note: the user, unless an assistant or a tool speaks."""
        return _SOURCES.get(self.party, "user")

    @property
    def spoken(self) -> bool:
        """Whether user or assistant said something to the other."""
        return self.party in SPEAKING and bool(self.text.strip()) and not self.calls_tools


def _party(role: str) -> str:
    return ROLES.get(role.lower(), role.lower())


def parties(roles: Sequence[str]) -> set[str]:
    """Return roles under their common names.

    Raises:
        InvalidInputError: They are no list of texts.
    """
    is_list = isinstance(roles, Iterable) and not isinstance(roles, str)
    if not is_list or not all(isinstance(role, str) for role in roles):
        raise InvalidInputError(f"roles={roles!r} must be a list of roles, such as ('user',)")
    return {_party(role) for role in roles}


def message_key(thread: str | None, role: str, message_id: str) -> str:
    """Return the key of a message that has an id. Different arguments give different keys."""
    return json.dumps([_clean(thread), role, storable(message_id)], ensure_ascii=False)


def occurrence_key(thread: str | None, role: str, text: str, nth: int) -> str:
    """Return the key of a message without an id: the nth of this text, from 1, in its thread and role."""
    digest = sha256(storable(text).encode()).hexdigest()[:32]
    return json.dumps([_clean(thread), role, digest, nth], ensure_ascii=False)


def _clean(thread: str | None) -> str | None:
    return None if thread is None else storable(thread)


def time_of(values: Iterable[object], zone: tzinfo | None = None) -> datetime | None:
    """Return the first of some values that is a time: a datetime, ISO 8601, or seconds or milliseconds since 1970.

    Args:
        values: What a message carries under the names for its time.
        zone: That of times without one. None: these are left out, as nobody knows when they are.
    """
    for value in values:
        with suppress(ValueError, OverflowError):  # the latter where UTC has no such time
            time = _TIME.validate_python(value)
            if (own := time.tzinfo or zone) is not None:
                return time.replace(tzinfo=own).astimezone(UTC)
    return None


def note_inputs(
    messages: Iterable[Message],
    *,
    thread: str | None,
    roles: Sequence[str] = SPEAKING,
    max_chars: int | None = None,
    now: datetime | None = None,
    new: bool = False,
) -> list[NoteInput]:
    """Return a note for each non-empty message of the given roles that is not left out, in order.

    Args:
        messages: A conversation from its start: a message without an id is known as the nth of its text and role
            that has none.
        thread: The conversation.
        roles: Whose messages are taken, by any name (see `ROLES`).
        max_chars: Longest text that can be stored; of a longer one the beginning is, with a warning.
        now: When those were said that carry no time, if that is known.
        new: The messages follow what is stored: those without an id get no key, as their numbers are still to be found.

    Raises:
        InvalidInputError: `roles` are no list of texts, or `thread` is no text.
    """
    if not isinstance(thread, str | None):
        raise InvalidInputError(f"thread={thread!r} must be a string")
    wanted, seen, items = parties(roles), Counter[tuple[str, str]](), []
    for message in messages:
        full = storable(message.text).strip()
        text = full[:max_chars]
        # Of the roles that are stored several may be one source, whose occurrences are counted together.
        said = message.source if message.party in wanted else message.party, text
        # A message with an id has no number: those that are `new` go on from stored ones, of which that is so as well.
        seen[said] += message.id is None
        is_looked_at = message.stored is None and message.id is not None
        if message.party not in wanted or not text or not (message.stored or is_looked_at):
            continue
        if text != full:
            warning = "a message of %d characters is stored up to the first %d (MemoryConfig.max_content_chars)"
            log.warning(warning, len(full), max_chars)
        key = None
        if message.id is not None:
            key = message_key(thread, message.party, message.id)
        elif not new:
            key = occurrence_key(thread, message.source, text, seen[said])
        items.append(
            NoteInput(
                content=text,
                key=key,
                thread=thread,
                at=message.at,
                default_at=now,
                speaker=message.speaker or message.party,
                source=message.source,
                metadata=message.metadata,
            )
        )
    return items


def from_dict(message: Mapping[str, Any] | Message) -> Message:
    """Return a message given as `{"role": …, "content": …}`, or as it is; see `AgenticMemory.add_messages`.

    Raises:
        InvalidInputError: It has no role, or its content is no text.
    """
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidInputError(f"message {message!r} must be a dict with 'role' and 'content'")
    known = message.get("id")
    return Message(
        role=message["role"],
        text=_text(message),
        id=None if known is None or known == "" else str(known),
        speaker=message.get("name") or None,
        at=message.get("at"),
        calls_tools=bool(message.get("tool_calls")),
    )


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return (content or "").strip()
    if not isinstance(content, Sequence):
        raise InvalidInputError(f"content of message {message!r} must be text or a list of blocks")
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in content]
    return "\n".join(text for text in texts if text and isinstance(text, str)).strip()
