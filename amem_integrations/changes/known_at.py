"""What the memory believed at an earlier time: notes with the changes recorded since taken back.

Nothing is written: unlike `undo`, it leaves out no change that somebody else built on, as all of those are later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
            if made.kind == "reinforce":
                note = _unreinforced(note, made)
            for name, step in fields_of(made).items():
                if name != "rest":
                    note = with_field(note, name, step["before"])
        return note


async def past_at(store: NoteStore, namespace: Namespace, time: datetime) -> Past:
    """Return what takes the notes of a namespace back to a time."""
    since: dict[str, list[Change]] = {}
    last = first_seq(time) + 999  # nanoseconds: the last instant of this microsecond
    for made in await all_changes(store, namespace, after=last):
        for note_id in _notes_of(made):
            since.setdefault(note_id, []).append(made)
    return Past(since)


def _notes_of(made: Change) -> set[str]:
    """Return the notes that a change is about; one of kind `reinforce` is about several."""
    if made.kind != "reinforce":
        return {made.note_id}
    return {end for *pair, _ in made.data["links"] for end in pair}


def _unreinforced(note: Note, made: Change) -> Note:
    links = dict(note.links)
    for one, other, before in made.data["links"]:
        target = {one: other, other: one}.get(note.id)
        if target in links:
            links[target] = replace(links[target], reinforced=datetime.fromisoformat(before))
    return note.revised(links=links)
