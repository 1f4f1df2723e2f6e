"""A batch of new notes as it is shown to a model: short aliases, and the closed set behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..notes import Note
from . import show
from .candidates import Offer


@dataclass(frozen=True, slots=True)
class Prompted:
    """A batch as it was shown: alias by note id, and back."""

    batch: Sequence[Note]
    offer: Offer
    alias: dict[str, str]

    @classmethod
    def of(cls, batch: Sequence[Note], offer: Offer) -> Prompted:
        """Give every shown note an alias: n1… for the batch, c1… for the others."""
        alias = show.aliases(batch, "n")
        others = [note for note in offer.notes.values() if note.id not in alias]
        return cls(batch, offer, {**show.aliases(others, "c"), **alias})

    @property
    def others(self) -> list[Note]:
        """The candidates that are not of the batch themselves."""
        ids = {note.id for note in self.batch}
        return [note for note in self.offer.notes.values() if note.id not in ids]

    def shown(self, note: Note) -> show.Shown:
        """Return a new note as plain data, with its candidates in order of rank."""
        candidates = [
            {
                "alias": self.alias[candidate.id],
                "similarity": candidate.similarity,
                "rank": rank,
                "previous": candidate.previous,
                "same_thread": self._same_thread(note, candidate.id),
            }
            for rank, candidate in enumerate(self.offer.candidates[note.id], start=1)
        ]
        return {**show.enriched(note, self.alias[note.id]), "candidates": candidates}

    def text(self, note: Note) -> str:
        """Return a new note as text, with the aliases of its candidates."""
        aliases = [self.alias[candidate.id] for candidate in self.offer.candidates[note.id]]
        row = show.line(show.enriched(note, self.alias[note.id]), note)
        return f"{row}\n    (candidates: {', '.join(aliases) or 'none'})"

    def target(self, note: Note, alias: str) -> str | None:
        """Return the id behind an alias, if that note was shown and came before `note`."""
        ids = {shown: note_id for note_id, shown in self.alias.items()}
        target = ids.get(alias.strip().strip("[]"))
        known = self.offer.notes.get(target or "")
        return known.id if known is not None and known.seq < note.seq else None

    def _same_thread(self, note: Note, other: str) -> bool:
        return note.thread is not None and self.offer.notes[other].thread == note.thread
