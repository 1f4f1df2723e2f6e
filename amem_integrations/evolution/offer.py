"""Offer: what is shown for a batch of new notes, and what a reply may refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, permutations

from ..notes import Link, Namespace, Note
from ..plans import FOLLOWS, Candidate
from ..ports import Vector
from .show import NONE, Shown, aliases, apart, candidate, day_of, enriched, turn

MAX_LINKS_SHOWN = 8
REPLY_TOKENS = 120  # for a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is shown for a batch of new notes.

    Attributes:
        batch: The new notes, in order of seq.
        others: The candidates that are not of the batch themselves.
        candidates: The earlier notes shown for each, best first, by its id.
        notes: The candidates by id; notes of the batch may be among them.
        vectors: The vectors of all of them that have one.
        alias: What each is called, by id: n1… for the batch, c1… for the others.
    """

    batch: Sequence[Note]
    others: Sequence[Note]
    candidates: Mapping[str, Sequence[Candidate]]
    notes: Mapping[str, Note]
    vectors: Mapping[str, Vector]
    alias: Mapping[str, str]

    @classmethod
    def of(
        cls,
        batch: Sequence[Note],
        candidates: Mapping[str, Sequence[Candidate]],
        notes: Mapping[str, Note],
        vectors: Mapping[str, Vector],
    ) -> Offer:
        """Return the offer, in which every note has an alias."""
        alias = aliases(batch, "n")
        others = [note for note in notes.values() if note.id not in alias]
        return cls(
            batch=batch,
            others=others,
            candidates=candidates,
            notes=notes,
            vectors=vectors,
            alias={**aliases(others, "c"), **alias},
        )

    @property
    def namespace(self) -> Namespace:
        """Whose notes they are."""
        return self.batch[0].namespace

    @property
    def reply_tokens(self) -> int:
        """How many tokens a reply about the batch has at most, by what models wrote."""
        return REPLY_TOKENS * (len(self.batch) + 1)

    def only(self, notes: Sequence[Note]) -> Offer:
        """Return what is shown for some of the batch; the others are earlier notes like any."""
        ids = {note.id for note in notes}
        shown = {one.id: None for note in notes for one in self.candidates[note.id]}
        others = [self.notes[note_id] for note_id in shown if note_id not in ids]
        return replace(self, batch=notes, others=others)

    def halves(self) -> list[Offer]:
        """Return the offer in two, for a model that cannot take it at once."""
        middle = len(self.batch) // 2
        return [self.only(self.batch[:middle]), self.only(self.batch[middle:])]

    def without_last(self, note: Note) -> Offer:
        """Return the offer without the last candidate of a note."""
        fewer = {**self.candidates, note.id: self.candidates[note.id][:-1]}
        return replace(self, candidates=fewer)

    def near(self, note: Note) -> list[Note]:
        """Return the candidates of a new note, best first."""
        return [self.notes[candidate.id] for candidate in self.candidates[note.id]]

    def enriched(self, notes: Iterable[Note]) -> list[Shown]:
        """Return notes as plain data with their attributes."""
        return [enriched(note, self.alias[note.id]) for note in notes]

    def data(self, note: Note) -> Shown:
        """Return a new note as plain data, with its candidates in order of rank."""
        candidates = [
            {
                "alias": self.alias[candidate.id],
                "similarity": candidate.similarity,
                "rank": rank,
                "previous": candidate.previous,
                "same_thread": self._same_thread(note, candidate.id),
            }
            for rank, candidate in enumerate(self.candidates[note.id], start=1)
        ]
        return {**enriched(note, self.alias[note.id]), "candidates": candidates}

    def text(self, notes: Sequence[Note]) -> str:
        """Return new notes as text, each with the ids it may refer to and the earlier notes not listed before."""
        listed = {note.id for note in notes}
        rows = apart(notes)
        for day, group in groupby(notes, key=day_of):
            rows.append(f"({day})")
            for note in group:
                rows += [turn(note, self.alias[note.id]), f"  ids: {self._ids(note)}"]
                for other in self.near(note):
                    if other.id not in listed:
                        listed.add(other.id)
                        rows.append(f"  {candidate(other, self.alias[other.id])}")
        return "\n".join(rows)

    def _ids(self, note: Note) -> str:
        """Return the aliases of the candidates of a new note, that of the turn before it with a star."""
        ids = [
            f"{self.alias[one.id]}{'*' if one.previous else ''}" for one in self.candidates[note.id]
        ]
        return ", ".join(ids) or NONE

    def links(self, time: datetime, half_life: timedelta | None) -> list[Shown]:
        """Return the first links between notes that are shown for one new note, each once, as plain data.

        Their strength is that of the given time. Those from turn to turn are not for a model to judge.
        """
        notes = {**{note.id: note for note in self.batch}, **self.notes}
        found: dict[tuple[str, str], Link] = {}
        for note in self.batch:
            shown = [note.id, *(candidate.id for candidate in self.candidates[note.id])]
            for one, other in permutations(shown, 2):
                link = notes[one].links.get(other)
                if link is not None and link.direction == "out" and link.relation != FOLLOWS:
                    found[one, other] = link
        return [
            {
                "between": [self.alias[one], self.alias[other]],
                "relation": link.relation,
                "strength": round(link.strength_at(time, half_life), 2),
            }
            for (one, other), link in list(found.items())[:MAX_LINKS_SHOWN]
        ]

    def end(self, note: Note, alias: str) -> Note | None:
        """Return the note behind an alias: the new one itself, or an earlier one that was shown."""
        if alias.strip("[]* ") == self.alias[note.id]:
            return note
        target = self.target(note, alias)
        return None if target is None else self.notes[target]

    def target(self, note: Note, alias: str) -> str | None:
        """Return the id behind an alias, if that note was shown for `note`."""
        shown = {self.alias[one.id]: one.id for one in self.candidates[note.id]}
        return shown.get(alias.strip("[]* "))

    def _same_thread(self, note: Note, other: str) -> bool:
        return note.thread is not None and self.notes[other].thread == note.thread
