"""Pure: how notes are shown to a model, as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import texts
from ..notes import Note

# Longest piece of one note in a prompt; a page of text says what it is about long before its end.
CONTENT_CHARS = 2000
CANDIDATE_CHARS = 400

Shown = dict[str, Any]


def aliases(notes: Iterable[Note], letter: str) -> dict[str, str]:
    """Return alias by note id: n1, n2, … A prompt never shows an id."""
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
    head = ", ".join(part for part in (shown.get("alias"), texts.header(note)) if part)
    extra = f"\n    (context: {shown['context']})" if shown.get("context") else ""
    return f"[{head}] {_clip(note.content, CONTENT_CHARS)}{extra}"


def brief(shown: Mapping[str, Any], note: Note) -> str:
    """Return one line for a candidate: its context rather than its content, which is longer."""
    head = ", ".join(part for part in (shown["alias"], texts.header(note)) if part)
    tags = f" ({', '.join(note.tags)})" if note.tags else ""
    return f"[{head}] {_clip(shown['context'] or note.content, CANDIDATE_CHARS)}{tags}"


def lines(rows: Sequence[str]) -> str:
    """Return the rows as a block of text; an empty one says so."""
    return "\n".join(rows) or "(none)"


def _clip(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
