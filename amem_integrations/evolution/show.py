"""Pure: how notes are shown to a model, as plain data and as text.

A prompt never shows an id: notes have short aliases, and a reply is resolved against the closed set shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import texts
from ..notes import Namespace, Note
from .candidates import Offer

# Longest part of one note in a prompt; a page of text says what it is about long before its end.
CONTENT_CHARS = 2000
CANDIDATE_CHARS = 400
CONTEXT_CHARS = 1200
TAGS_CHARS = 200

Shown = dict[str, Any]


def aliases(notes: Iterable[Note], letter: str) -> dict[str, str]:
    """Return alias by note id: n1, n2 and so on."""
    return {note.id: f"{letter}{number}" for number, note in enumerate(notes, start=1)}


def raw(note: Note, alias: str | None = None) -> Shown:
    """Return what is known of a note before any model has read it."""
    shown: Shown = {
        "key": note.key,
        "content": note.content,
        "speaker": note.speaker,
        "at": note.at.isoformat() if note.at else None,
        "thread": note.thread,
    }
    return {"alias": alias, **shown} if alias else shown


def enriched(note: Note, alias: str) -> Shown:
    """Return a note with its attributes."""
    return {
        **raw(note, alias),
        "context": texts.context(note),
        "keywords": list(note.keywords),
        "tags": list(note.tags),
    }


def line(shown: Mapping[str, Any], note: Note) -> str:
    """Return one line for a note that the model is to work on: its content in full."""
    context = texts.inline(shown.get("context") or "", CONTEXT_CHARS)
    extra = f"\n    (context: {context})" if context else ""
    return f"{_head(shown, note)} {texts.inline(note.content, CONTENT_CHARS)}{extra}"


def brief(shown: Mapping[str, Any], note: Note) -> str:
    """Return one line for a candidate: its context rather than its content, which is longer."""
    tags = texts.inline(", ".join(note.tags), TAGS_CHARS)
    text = texts.inline(shown["context"] or note.content, CANDIDATE_CHARS)
    return f"{_head(shown, note)} {text}{f' ({tags})' if tags else ''}"


def lines(rows: Sequence[str]) -> str:
    """Return the rows as a block of text; an empty one says so."""
    return "\n".join(rows) or "(none)"


def briefs(shown: Sequence[Shown], notes: Sequence[Note]) -> str:
    """Return a block of text with a line for each candidate."""
    return lines([brief(s, n) for s, n in zip(shown, notes, strict=True)])


def _head(shown: Mapping[str, Any], note: Note) -> str:
    return f"[{', '.join(part for part in (shown.get('alias'), texts.header(note)) if part)}]"


@dataclass(frozen=True, slots=True)
class ShownBatch:
    """A batch of new notes as it is shown: alias by note id, and the closed set behind the aliases."""

    batch: Sequence[Note]
    offer: Offer
    alias: dict[str, str]

    @classmethod
    def of(cls, batch: Sequence[Note], offer: Offer) -> ShownBatch:
        """Give every shown note an alias: n1… for the batch, c1… for the others."""
        alias = aliases(batch, "n")
        others = [note for note in offer.notes.values() if note.id not in alias]
        return cls(batch, offer, {**aliases(others, "c"), **alias})

    @property
    def namespace(self) -> Namespace:
        """Whose notes they are."""
        return self.batch[0].namespace

    @property
    def others(self) -> list[Note]:
        """The candidates that are not of the batch themselves."""
        ids = {note.id for note in self.batch}
        return [note for note in self.offer.notes.values() if note.id not in ids]

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
            for rank, candidate in enumerate(self.offer.candidates[note.id], start=1)
        ]
        return {**enriched(note, self.alias[note.id]), "candidates": candidates}

    def text(self, note: Note) -> str:
        """Return a new note as text, with the aliases of its candidates."""
        listed = [self.alias[candidate.id] for candidate in self.offer.candidates[note.id]]
        row = line(enriched(note, self.alias[note.id]), note)
        return f"{row}\n    (candidates: {', '.join(listed) or 'none'})"

    def target(self, note: Note, alias: str) -> str | None:
        """Return the id behind an alias, if that note was shown and came before `note`."""
        ids = {shown: note_id for note_id, shown in self.alias.items()}
        known = self.offer.notes.get(ids.get(alias.strip().strip("[]"), ""))
        return known.id if known is not None and known.seq < note.seq else None

    def _same_thread(self, note: Note, other: str) -> bool:
        return note.thread is not None and self.offer.notes[other].thread == note.thread
