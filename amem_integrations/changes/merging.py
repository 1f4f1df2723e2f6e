"""Merge notes that say the same: one is found in place of the others, which stay stored as its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..current_facts import IN_COMMON
from ..fetch import note_pages
from ..filters import Condition
from ..ids import now
from ..notes import Change, ChangeKind, Namespace, Note
from ..runtime import Runtime
from .edits import GIVEN, Edit, change
from .undo import fields_of

MERGED_INTO = "merged_into"
# A note in which one of these changes is no longer the note that was merged.
OWN = ("content", "at", "supersessions", *IN_COMMON)


def merge(into: str, op: str, at: datetime) -> Edit:
    """Return the edit by which a note is no longer found, because `into` says the same."""
    return _set(into, "merge", op, at)


def unmerge(op: str, at: datetime) -> Edit:
    """Return the edit by which a note is found again; nothing for one that is."""
    return _set(None, "unmerge", op, at)


def _set(into: str | None, kind: ChangeKind, op: str, at: datetime) -> Edit:
    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.merged_into == into:
            return note, []
        fields = {MERGED_INTO: {"before": note.merged_into, "after": into}}
        cause = into or note.merged_into
        made = change(op, kind, note, cause=cause, recorded_at=at, data={"fields": fields})
        return note.revised(merged_into=into), [made]

    return edit


def unmerged_if_other(old: Note, new: Note, op: str) -> tuple[Note, list[Change]]:
    """Return a merged note that says something else since an edit as one that is found again."""
    if new.merged_into is None or new.merged_into != old.merged_into:
        return new, []
    if all(getattr(old, name) == getattr(new, name) for name in OWN):
        return new, []
    return unmerge(op, now())(new)


async def merged_into(runtime: Runtime, namespace: Namespace, ids: Iterable[str]) -> list[Note]:
    """Return the notes that are merged into any of these, oldest first."""
    where = (Condition(MERGED_INTO, "$in", tuple(ids)),)
    return [note async for page in note_pages(runtime.store, namespace, where) for note in page]


def changed_notes(changes: Sequence[Change]) -> list[str]:
    """Return the notes of which something changed that they have in common with what is merged into them."""
    return [made.note_id for made in changes if not fields_of(made).keys().isdisjoint(GIVEN)]
