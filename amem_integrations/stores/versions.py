"""Versions of a note as points: whose they are, which follows which, and whether one was written."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import StoreError
from .payloads import Point


def follows(new: Point, old: Point | None) -> bool:
    """Return whether `new` is the version after the stored one."""
    return old is not None and old.payload["revision"] == new.payload["revision"] - 1


def is_same_write(new: Point, old: Point) -> bool:
    """Return whether `old` is `new`, written by an earlier try whose answer was lost."""
    last = new.payload["ops"][-1:]
    same = new.payload["revision"] == old.payload["revision"]
    return same and bool(last) and last == old.payload["ops"][-1:]


def completed(new: Point, old: Point) -> Point:
    """Return `new` with the vectors of `old` where it has none of its own."""
    dense = old.dense if new.dense is None else new.dense
    return Point(new.id, new.payload, dense, old.lexical if new.lexical is None else new.lexical)


def is_written(wanted: Point, stored: Point | None) -> bool:
    """Return whether this version of a note was written; a later one may already have replaced it."""
    if stored is None:
        return False
    if ops := wanted.payload["ops"]:
        return ops[-1] in stored.payload["ops"]
    return bool(stored.payload["revision"] == wanted.payload["revision"])


def check_owner(taken: Collection[Point], namespace: str) -> None:
    """Raise `StoreError` if a point is that of a note in another namespace."""
    others = [point.id for point in taken if point.payload.get("namespace") != namespace]
    if others:
        raise StoreError(
            f"the ids {others} belong to notes of another namespace than {namespace}; nothing was "
            "written. Ids come from the namespace: these notes were imported with ids that do not"
        )


def about_others(records: Sequence[Point], ids: Collection[str]) -> list[Point]:
    """Return the changes that are about none of these notes."""
    return [record for record in records if record.payload["note_id"] not in ids]
