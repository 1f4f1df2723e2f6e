"""`amem graph`: the notes and their links as a page.

Notes are data: on the page their text never becomes code or markup.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInputError
from ..notes import Change, Link, Note
from .command import command
from .diff import cause_of, diff
from .open_memory import all_notes, open_to_read
from .options import NAMESPACE, Options, format_namespace
from .terminal import print_result

_SLOT = "__AMEM_DATA__"
_PAGES = (".html", ".htm")

app = typer.Typer(rich_markup_mode=None)

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Where to write the page, a .html file."),
]


@command(app, "graph", NAMESPACE)
def graph(options: Options, out: File = Path("memory.html")) -> None:
    """Draw the notes and their links.

    The page needs nothing but a browser: notes, links and their history, with a search. Without a
    namespace all of them are drawn.
    """
    if out.suffix.lower() not in _PAGES:
        raise InvalidInputError(f"{str(out)!r} must end in {' or '.join(_PAGES)}")
    with open_to_read(options) as (memory, _):
        namespaces = [options.namespace] if options.namespace else memory.namespaces()
        notes = [note for each in namespaces for note in all_notes(memory, each)]
        changes = [change for each in namespaces for change in memory.history(None, namespace=each)]
    title = f"Memory of {format_namespace(options.namespace)}" if options.namespace else "Memory"
    _write_whole(out, render(notes, changes, title=title))
    links = sum(link.direction == "out" for note in notes for link in note.links.values())
    values = {"file": str(out), "notes": len(notes), "links": links}
    print_result(f"{out}: {len(notes)} notes, {links} links", values, as_json=options.as_json)


def _write_whole(out: Path, text: str) -> None:
    """Write a draft and move it into place, so that the old file stays until the new one is complete."""
    draft = out.with_name(f".{os.getpid()}-{out.name}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(out)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(out)) from error
    finally:
        draft.unlink(missing_ok=True)


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
        for end in dict.fromkeys((change.note_id, change.after.get("to", change.note_id))):
            histories.setdefault(end, []).append(change)
    data = {
        "title": title,
        "notes": [_note(note, histories.get(note.id, []), ids) for note in notes],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # Within a script element only "<" could end it; JSON may spell it otherwise.
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    template = (files(__package__) / "graph_page.html").read_text(encoding="utf-8")
    before, after = template.split(_SLOT)
    return before + safe + after


def _note(note: Note, history: Sequence[Change], ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": note.id,
        "space": format_namespace(note.namespace),
        "content": note.content,
        "speaker": note.speaker,
        "thread": note.thread,
        "key": note.key,
        "when": note.when.isoformat(timespec="minutes"),
        "time": _milliseconds(note.when),
        "until": _milliseconds(note.holds_until) if note.holds_until else None,
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
                "time": _milliseconds(entry.at),
            }
            for entry in note.contexts
        ],
        "supersessions": [
            {
                "by": ids[newer],
                "relation": one.relation,
                "reason": one.reason,
                "model": one.model,
                "since": one.since.isoformat(timespec="minutes"),
                "time": _milliseconds(one.since),
            }
            for newer, one in note.supersessions.items()
            if newer in ids
        ],
        "links": [_link(ids[t], link) for t, link in note.links.items() if t in ids],
        "history": [_change(change, ids) for change in history],
    }


def _milliseconds(time: datetime) -> int:
    """Return a time as scripts of a browser count it."""
    return round(time.timestamp() * 1000)


def _link(target: int, link: Link) -> dict[str, Any]:
    return {
        "to": target,
        "out": link.direction == "out",
        "relation": link.relation,
        "reason": link.reason,
        "strength": round(link.strength, 3),
    }


def _change(change: Change, ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": change.id,
        "kind": change.kind,
        "cause": ids.get(cause_of(change)),
        "by": change.by,
        "state": change.state,
        "at": change.at.isoformat(timespec="seconds"),
        "diff": diff(change),
    }
