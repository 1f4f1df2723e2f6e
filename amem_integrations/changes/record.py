"""Pure: records of the history. Ids are derived, so that an operation done again records nothing twice."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..ids import clock, derive
from ..notes import Change, ChangeKind, ContextEntry, Namespace, Note


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


def of_namespace(
    op: str, kind: ChangeKind, namespace: Namespace, at: datetime, data: dict[str, Any]
) -> Change:
    """Return a record that is about no single note."""
    return Change(
        id=derive("change", op, kind),
        seq=clock.tick(),
        op=op,
        kind=kind,
        namespace=namespace,
        note_id="",
        cause=None,
        model=None,
        recorded_at=at,
        data=data,
    )


def prompts(
    op: str, namespace: Namespace, shown: Iterable[Note | str], at: datetime
) -> list[Change]:
    """Return the record of which notes a model was shown in an operation, and may have quoted.

    There is none if it was shown one note only: it can have quoted no other.
    """
    ids = list(dict.fromkeys(note.id if isinstance(note, Note) else note for note in shown))
    data = {"shown": ids}
    return [of_namespace(op, "prompt", namespace, at, data)] if len(ids) > 1 else []


def entry_data(entry: ContextEntry) -> dict[str, Any]:
    """Return what a context entry says, as JSON values."""
    return {"text": entry.text, "keywords": list(entry.keywords), "tags": list(entry.tags)}
