"""What the memory believed at an earlier time: notes with the changes recorded since taken back.

Nothing is written: unlike `undo`, it leaves out no change that somebody else built on, as all of those are later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..fetch import all_changes
from ..ids import first_seq
from ..notes import Change, Namespace, Note
from ..ports import NoteStore
from .undo import fields_of, with_field


@dataclass(frozen=True, slots=True)
class Past:
    """The changes made since some time, by note, oldest first."""

    changes: Mapping[str, Sequence[Change]]

    def of(self, note: Note) -> Note:
        """Return the note as it was then. What was deleted or blanked since cannot come back."""
        for made in reversed(self.changes.get(note.id, ())):
            for name, step in fields_of(made).items():
                if name != "rest":
                    note = with_field(note, name, step["before"])
        return note


async def past_at(store: NoteStore, namespace: Namespace, time: datetime) -> Past:
    """Return what takes the notes of a namespace back to a time."""
    since: dict[str, list[Change]] = {}
    last = first_seq(time) + 999  # nanoseconds: the last instant of this microsecond
    for made in await all_changes(store, namespace, after=last):
        since.setdefault(made.note_id, []).append(made)
    return Past(since)
