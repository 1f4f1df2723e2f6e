"""Notes for tests of pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from uuid import UUID

from amem_integrations import ContextEntry, Link, Note

NOON = datetime(2024, 5, 8, 12, tzinfo=UTC)
_numbers = count(1)


def make_id(number: int) -> str:
    return str(UUID(int=number))


def make_note(content: str = "hello", **fields) -> Note:
    number = next(_numbers)
    known = {"id": make_id(number), "seq": number, "namespace": ("ann",), "recorded_at": NOON}
    return Note(content=content, **{**known, **fields})


def make_entry(text: str, cause: str, **fields) -> ContextEntry:
    known = {"model": "test", "change": f"change of {text}", "at": NOON, "recorded_at": NOON}
    return ContextEntry(text=text, cause=cause, **{**known, **fields})


def make_link(**fields) -> Link:
    known = {
        "relation": "related",
        "reason": "they say so",
        "strength": 0.5,
        "direction": "out",
        "created": NOON,
    }
    return Link(**{**known, **fields})
