"""`amem graph`: the notes and their links as a page.

Notes are data: on the page their text never becomes code or markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInputError
from ..notes import Change, Note
from . import app
from .app import Session, format_namespace, note_values
from .changes import cause_of, change_values

_SLOT = "__AMEM_DATA__"


@app.command("graph", app.NAMESPACE)
def graph(
    amem: Session,
    out: Annotated[Path, typer.Argument(metavar="FILE")] = Path("memory.html"),
) -> None:
    """Draw the notes and their links.

    The page needs nothing but a browser: notes, links and their history, with a search. Without a
    namespace all of them are drawn.

    Args:
        out: Where to write the page, a .html file.
    """
    from ..flows.transfer import whole_file  # noqa: PLC0415 - imports numpy

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"{str(out)!r} must end in .html or .htm")
    spaces = [amem.any_space] if amem.any_space else amem.memory.namespaces()
    notes = [note for each in spaces for note in amem.all_notes(each)]
    changes = [change for each in spaces for change in amem.memory.history(None, namespace=each)]
    title = f"Memory of {format_namespace(amem.any_space)}" if amem.any_space else "Memory"
    with whole_file(out) as file:
        file.write(render(notes, changes, title=title))
    links = sum(link.direction == "out" for note in notes for link in note.links.values())
    values = {"file": str(out), "notes": len(notes), "links": links}
    amem.show(values, [f"{out}: {len(notes)} notes, {links} links"])


def render(notes: Sequence[Note], changes: Sequence[Change], *, title: str) -> str:
    """Return the page as HTML.

    Args:
        notes: The notes to show, oldest first.
        changes: Their history, oldest first.
        title: What the page is about.
    """
    from pydantic_core import to_json  # noqa: PLC0415 - takes as long as Typer

    histories: dict[str, list[dict[str, Any]]] = {}
    for change in changes:
        values = {**change_values(change), "cause": cause_of(change)}
        for end in dict.fromkeys((change.note_id, change.after.get("to", change.note_id))):
            histories.setdefault(end, []).append(values)
    held = [
        {
            **note_values(note),
            "space": format_namespace(note.namespace),
            "when": note.when,
            "holds_until": note.holds_until,
            "history": histories.get(note.id, []),
        }
        for note in notes
    ]
    text = to_json({"title": title, "notes": held}).decode()
    # Within a script element only "<" could end it; JSON may spell it otherwise.
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    template = (files(__package__) / "graph_page.html").read_text(encoding="utf-8")
    before, after = template.split(_SLOT)
    return before + safe + after
