"""Pure: from chat messages to notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import InvalidInputError
from ..ids import derive
from ..notes import NoteInput, Source

Message = Mapping[str, Any]

_SOURCES: dict[str, Source] = {"user": "user", "assistant": "assistant", "tool": "tool"}


def note_inputs(
    messages: Iterable[Message],
    *,
    thread: str | None,
    roles: Sequence[str],
    should_store: Callable[[Message], bool] | None,
) -> list[NoteInput]:
    """Return what is to be stored of the messages. See `AgenticMemory.add_messages`."""
    seen: Counter[tuple[str, str]] = Counter()
    items = []
    for message in messages:
        role, text = _read(message)
        if role not in roles or not text or (should_store and not should_store(message)):
            continue
        seen[role, text] += 1
        items.append(
            NoteInput(
                content=text,
                key=_key(message, thread, role, text, seen[role, text]),
                thread=thread,
                speaker=message.get("name") or role,
                source=_SOURCES.get(role, "user"),
            )
        )
    return items


def _key(message: Message, thread: str | None, role: str, text: str, occurrence: int) -> str:
    if message.get("id"):
        # Ids of messages are often unique within their conversation only.
        return f"{thread}/{message['id']}" if thread else str(message["id"])
    return derive("message", thread, role, text, occurrence)


def _read(message: Message) -> tuple[str, str]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidInputError(f"message {message!r} must be a dict with 'role' and 'content'")
    content = message.get("content")
    if content is None or isinstance(content, str):
        return message["role"], (content or "").strip()
    if isinstance(content, Sequence):
        texts = [_block(block) for block in content]
        return message["role"], "\n".join(text for text in texts if text).strip()
    raise InvalidInputError(f"content of message {message!r} must be text or a list of blocks")


def _block(block: object) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return str(block["text"])
    return ""
