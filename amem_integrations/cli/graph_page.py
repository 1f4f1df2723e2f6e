"""The page of `amem graph`, as HTML. Notes are data: their text never becomes code or markup."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ..notes import Change, Link, Note
from .diff import diff
from .options import format_namespace

_SLOT = "__AMEM_DATA__"


def render(notes: Sequence[Note], changes: Sequence[Change], *, title: str) -> str:
    """Return the page as HTML.

    Args:
        notes: The notes to show, oldest first.
        changes: Their history, oldest first.
        title: What the page is about.
    """
    ids = {note.id: place for place, note in enumerate(notes)}
    histories: dict[str, list[Change]] = {}
    for change in changes:
        histories.setdefault(change.note_id, []).append(change)
    data = {
        "title": title,
        "notes": [_note(note, histories.get(note.id, []), ids) for note in notes],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # Within a script element only "<" could end it; JSON may spell it otherwise.
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    before, after = _template().split(_SLOT)
    return before + safe + after


def _template() -> str:
    return (files(__package__) / "graph_page.html").read_text(encoding="utf-8")


def _note(note: Note, history: Sequence[Change], ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": note.id,
        "space": format_namespace(note.namespace),
        "content": note.content,
        "speaker": note.speaker,
        "thread": note.thread,
        "key": note.key,
        "when": note.when.isoformat(timespec="minutes"),
        "state": note.state,
        "failure": note.failure,
        "source": note.source,
        "keywords": note.keywords,
        "tags": note.tags,
        "metadata": json.dumps(dict(note.metadata), ensure_ascii=False) if note.metadata else None,
        "contexts": [
            {
                "text": entry.text,
                "own": entry.cause == note.id,
                "cause": ids.get(entry.cause),
                "model": entry.model,
                "at": entry.recorded_at.isoformat(timespec="minutes"),
            }
            for entry in note.contexts
        ],
        "links": [_link(ids[t], link) for t, link in note.links.items() if t in ids],
        "history": [_change(change, note, ids) for change in history],
    }


def _link(target: int, link: Link) -> dict[str, Any]:
    return {
        "to": target,
        "out": link.direction == "out",
        "relation": link.relation,
        "reason": link.reason,
        "strength": round(link.strength, 3),
    }


def _change(change: Change, note: Note, ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": change.id,
        "kind": change.kind,
        "cause": ids.get(change.cause) if change.cause else None,
        "model": change.model,
        "at": change.recorded_at.isoformat(timespec="seconds"),
        "diff": diff(change, note),
    }
