"""Going through all notes of a memory once, and keeping what is odd about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from ..memory import AgenticMemory
from ..notes import Namespace, Note
from ..ports import NoteStore, Vector
from .work import scan

PAGE = 256


@dataclass(slots=True)
class Census:
    """What there is, and, by note id, what is wrong with it."""

    states: Counter[str] = field(default_factory=Counter)
    failed: list[Note] = field(default_factory=list)
    dangling: list[tuple[str, str]] = field(default_factory=list)
    one_sided: list[tuple[str, str]] = field(default_factory=list)
    orphaned: list[tuple[str, str]] = field(default_factory=list)
    without_vector: list[str] = field(default_factory=list)
    links: int = 0

    @property
    def notes(self) -> int:
        """How many notes there are."""
        return self.states.total()


def take(memory: AgenticMemory, store: NoteStore) -> Census:
    """Return the census of all namespaces."""
    census = Census()
    for space in memory.namespaces():
        _count(census, list(scan(memory, space)), space, store)
    return census


def _count(census: Census, notes: Sequence[Note], space: Namespace, store: NoteStore) -> None:
    links = {note.id: set(note.links) for note in notes}
    for note in notes:
        census.states[note.state] += 1
        census.links += sum(link.direction == "out" for link in note.links.values())
        if note.state == "failed":
            census.failed.append(note)
        for target in note.links:
            if target not in links:
                census.dangling.append((note.id, target))
            elif note.id not in links[target]:
                census.one_sided.append((note.id, target))
        gone = {entry.cause for entry in note.contexts} - links.keys()
        census.orphaned += [(note.id, cause) for cause in gone]
    for start in range(0, len(notes), PAGE):
        ids = [note.id for note in notes[start : start + PAGE]]
        found = cast("dict[str, Vector]", store.vectors(space, ids))
        census.without_vector += [note_id for note_id in ids if note_id not in found]
