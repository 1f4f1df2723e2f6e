"""Texts that are not there any more: of notes that were deleted, and what corrected ones said before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..notes import Change, ChangeKind, Note
from .edits import STATED
from .quote_matching import texts_of

BROUGHT: tuple[ChangeKind, ...] = ("evolve", "supersede", "proposal")
CORRECTING: tuple[ChangeKind, ...] = ("update", "undo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A text that is not there any more.

    Attributes:
        note_id: The note that it stood in.
        texts: The text, in parts.
        kept: What a corrected note says instead.
        corrected_at: When, if it was corrected rather than deleted. What the note brought to others after that
            comes from what it says now, and stays.
        in_context: Whether it stood in contexts of the note, which had quoted something. The history of the note
            must not hold it either, and what the note brought to others stays.
        chunk_of: The first note of the text that it was a chunk of. The history of that note holds the chunks, too.
    """

    note_id: str
    texts: tuple[str, ...]
    kept: tuple[str, ...] = ()
    corrected_at: datetime | None = None
    in_context: bool = False
    chunk_of: str | None = None

    def brought(self, made: Change, *, deleted: bool) -> bool:
        """Return whether a model wrote because of it what this change of another note records."""
        if self.in_context or made.note_id == self.note_id:
            return False
        if self.corrected_at is None:
            return deleted
        return made.kind in BROUGHT and made.recorded_at <= self.corrected_at


def stated_texts(note: Note, changes: Iterable[Change]) -> tuple[str, ...]:
    """Return what a note says, and what it has said before by its corrections among these changes."""
    made = corrections(change for change in changes if change.note_id == note.id)
    texts = [text for gone in made for text in (*gone.texts, *gone.kept)]
    return tuple(dict.fromkeys([*texts_of(note), *texts]))


def without_chunks(data: Mapping[str, Any], gone: Collection[str]) -> Mapping[str, Any]:
    """Return the data of a record without these chunks of a text."""
    fields = data.get("fields", data)
    if "rest" not in fields:
        return data
    rest = {side: [t for t in texts if t not in gone] for side, texts in fields["rest"].items()}
    kept = {**fields, "rest": rest}
    return {**data, "fields": kept} if "fields" in data else kept


def corrections(changes: Iterable[Change]) -> list[Gone]:
    """Return the texts that these changes replaced in their own notes."""
    found = []
    for made in changes:
        steps: Mapping[str, Any] = made.data.get("fields", made.data)
        if made.kind in CORRECTING and not steps.keys().isdisjoint(STATED):
            texts = [steps[name] for name in ("content", "speaker") if name in steps]
            found.append(
                Gone(
                    note_id=made.note_id,
                    texts=tuple(str(step["before"] or "") for step in texts),
                    kept=tuple(str(step["after"] or "") for step in texts),
                    corrected_at=made.recorded_at,
                )
            )
    return found
