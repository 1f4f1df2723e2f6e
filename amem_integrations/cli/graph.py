"""`amem graph`: the notes and their links as a page or as a picture."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidInputError
from .command import command
from .graph_page import render
from .graph_picture import draw
from .lookup import all_notes
from .open_memory import open_to_read
from .options import NAMESPACE, Options, format_namespace
from .terminal import print_result

_PICTURES = (".png", ".svg", ".pdf")
_PAGES = (".html", ".htm")

app = typer.Typer(rich_markup_mode=None)

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Where to write: a .html page, or a .png, .svg, .pdf."),
]


@command(app, "graph", NAMESPACE)
def graph(options: Options, out: File = Path("memory.html")) -> None:
    """Draw the notes and their links.

    The page needs nothing but a browser: notes, links and their history, with a search. Without a
    namespace all of them are drawn.
    """
    kind = out.suffix.lower()
    if kind not in (*_PAGES, *_PICTURES):
        raise InvalidInputError(f"{str(out)!r} must end in {', '.join((*_PAGES, *_PICTURES))}")
    with open_to_read(options) as (memory, _):
        namespaces = [options.namespace] if options.namespace else memory.namespaces()
        notes = [note for each in namespaces for note in all_notes(memory, each)]
        changes = [
            change
            for each in (namespaces if kind in _PAGES else ())
            for change in memory.history(None, namespace=each)
        ]
    title = f"Memory of {format_namespace(options.namespace)}" if options.namespace else "Memory"
    if kind in _PAGES:
        page = render(notes, changes, title=title)
        _replace(out, lambda draft: draft.write_text(page, encoding="utf-8"))
    else:
        _replace(out, lambda draft: draw(notes, draft, title=title))
    links = sum(link.direction == "out" for note in notes for link in note.links.values())
    values = {"file": str(out), "notes": len(notes), "links": links}
    print_result(f"{out}: {len(notes)} notes, {links} links", values, as_json=options.as_json)


def _replace(out: Path, write: Callable[[Path], object]) -> None:
    """Write a draft and move it into place, so that the old file stays until the new one is complete."""
    handle, name = tempfile.mkstemp(prefix=".amem-", suffix=out.suffix, dir=out.parent)
    os.close(handle)
    draft = Path(name)
    try:
        write(draft)
        draft.chmod(0o644)
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
