"""JSONL: a line for each note, as JSON text or as an object with the fields of `NoteInput`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidInputError
from ...notes import SOURCES, NoteInput
from . import values

TEXTS = ("content", "text", "memory")
THREADS = ("thread", "session", "conversation", "thread_id", "session_id")
SPEAKERS = ("speaker", "name", "role")
TIMES = ("at", "timestamp", "created_at", "date")
_KNOWN = {*TEXTS, *THREADS, *SPEAKERS, *TIMES, "key", "id", "source", "metadata"}


def read(text: str, thread: str | None, where: str) -> list[NoteInput]:
    """Return a note for each line that is not empty.

    Raises:
        InvalidInputError: A line is no JSON, or has no text; the message names the line.
    """
    # Not splitlines(): text may hold a line separator of another kind.
    lines = [(f"{where}, line {n}", line) for n, line in enumerate(text.split("\n"), start=1)]
    items = [_item(line, thread, place) for place, line in lines if line.strip()]
    if not items:
        raise InvalidInputError(f"{where} is empty")
    return items


def holds_text(item: Mapping[str, Any]) -> bool:
    """Return whether an object can be read as a note."""
    return values.first_text(item, TEXTS) is not None


def _item(line: str, thread: str | None, where: str) -> NoteInput:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise InvalidInputError(f"{where} is not JSON: {error}") from error
    item = {"content": found} if isinstance(found, str) else values.mapping(found, where)
    content = values.first_text(item, TEXTS)
    if content is None:
        raise InvalidInputError(f"{where} has no text; give it as 'content'")
    source = item.get("source", "user")
    if source not in SOURCES:
        raise InvalidInputError(f"{where}: source {source!r} must be one of {', '.join(SOURCES)}")
    return NoteInput(
        content=content,
        at=next((values.time(item[name], where) for name in TIMES if item.get(name)), None),
        key=values.label(item.get("key", item.get("id"))),
        thread=next(filter(None, (values.label(item.get(name)) for name in THREADS)), thread),
        speaker=values.first_text(item, SPEAKERS),
        source=source,
        metadata=_metadata(item, where),
    )


def _metadata(item: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the metadata, and with it every field that has no other place: nothing is lost."""
    given = values.mapping(item.get("metadata") or {}, f"{where}: metadata")
    return {**{name: item[name] for name in item if name not in _KNOWN}, **given}
