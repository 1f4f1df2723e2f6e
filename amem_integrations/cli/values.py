"""Notes, hits and changes as JSON values, the same for every command."""

from __future__ import annotations

import json
from typing import Any

import typer
from pydantic import TypeAdapter

from ..notes import Change, Note, ScoredNote

_NOTE = TypeAdapter(Note)
_HIT = TypeAdapter(ScoredNote)
_CHANGE = TypeAdapter(Change)


def note_values(note: Note) -> dict[str, Any]:
    """Return a note, with the keywords and tags that follow from its context entries."""
    values: dict[str, Any] = _NOTE.dump_python(note, mode="json")
    derived = {"keywords": list(note.keywords), "tags": list(note.tags)}
    return {**values, **derived, "attributes_source": note.attributes_source}


def hit_values(hit: ScoredNote) -> dict[str, Any]:
    """Return a hit: the note, its scores, and the links that led to it."""
    values: dict[str, Any] = _HIT.dump_python(hit, mode="json")
    return {**values, "note": note_values(hit.note)}


def change_values(change: Change) -> dict[str, Any]:
    """Return an entry of the history."""
    values: dict[str, Any] = _CHANGE.dump_python(change, mode="json")
    return values


def print_json(value: object) -> None:
    """Print a value as JSON, alone on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
