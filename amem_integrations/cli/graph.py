"""`amem graph`: the notes and their links to look at, as a picture or as a page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidInputError
from ..memory import AgenticMemory
from ..notes import Change, Namespace
from . import page
from .looks import console
from .namespaces import format_namespace
from .opening import reading
from .options import NAMESPACE, Options, command
from .page import picture
from .values import print_json
from .work import scan

_PICTURES = (".png", ".svg", ".pdf")
_PAGES = (".html", ".htm")

Out = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Where to write: a .html page, or a .png, .svg, .pdf."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "graph", NAMESPACE)(graph)


def graph(options: Options, out: Out = Path("memory.html")) -> None:
    """Draw the notes and their links.

    The page needs nothing but a browser: notes, links and their history, with a search. Without a
    namespace all of them are drawn.
    """
    kind = out.suffix.lower()
    if kind not in (*_PAGES, *_PICTURES):
        raise InvalidInputError(f"{str(out)!r} must end in {', '.join((*_PAGES, *_PICTURES))}")
    space = options.optional_space
    with reading(options) as opened:
        spaces = [space] if space else opened.memory.namespaces()
        notes = [note for one in spaces for note in scan(opened.memory, one)]
        changes = _changes(opened.memory, spaces) if kind in _PAGES else []
    title = f"Memory of {format_namespace(space)}" if space else "Memory"
    if kind in _PAGES:
        text = page.render(notes, changes, title=title)
        _whole(out, lambda draft: draft.write_text(text, encoding="utf-8"))
    else:
        _whole(out, lambda draft: picture.draw(notes, draft, title=title))
    links = sum(link.direction == "out" for note in notes for link in note.links.values())
    if options.as_json:
        print_json({"file": str(out), "notes": len(notes), "links": links})
    else:
        console().print(f"{out}: {len(notes)} notes, {links} links", soft_wrap=True)


def _changes(memory: AgenticMemory, spaces: Sequence[Namespace]) -> list[Change]:
    return [change for one in spaces for change in memory.history(None, namespace=one)]


def _whole(out: Path, write: Callable[[Path], object]) -> None:
    """Write a file aside and move it into place: what was there stays until the new one is whole."""
    handle, name = tempfile.mkstemp(prefix=".amem-", suffix=out.suffix, dir=out.parent)
    os.close(handle)
    draft = Path(name)
    try:
        write(draft)
        draft.chmod(0o644)
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
