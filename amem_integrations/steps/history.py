"""Pure: entries of the history. Ids are derived, so that an operation redone records nothing twice."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..ids import clock, derive
from ..notes import Change, ChangeKind, ContextEntry, Note


def change(
    op: str,
    kind: ChangeKind,
    note: Note,
    *,
    recorded_at: datetime,
    cause: str | None = None,
    model: str | None = None,
    data: dict[str, Any] | None = None,
) -> Change:
    """Return the record of one change to a note."""
    return Change(
        id=derive("change", op, kind, note.id, cause),
        seq=clock.tick(),
        op=op,
        kind=kind,
        namespace=note.namespace,
        note_id=note.id,
        cause=cause,
        model=model,
        recorded_at=recorded_at,
        data=data or {},
    )


def entry_data(entry: ContextEntry) -> dict[str, Any]:
    """Return a context entry as JSON values."""
    return {
        "text": entry.text,
        "keywords": list(entry.keywords),
        "tags": list(entry.tags),
        "seen": list(entry.seen),
    }
