"""`amem update`, `delete` and `clear`: the user's own corrections."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import ConfigurationError
from .finding import find_note
from .looks import console, short
from .namespaces import format_namespace
from .opening import encoding, reading
from .options import EMBEDDER, MODEL, NAMESPACE, Options, command
from .values import note_values, print_json

Which = Annotated[str, typer.Argument(metavar="NOTE", help="Id, start of the id, or key.")]
Content = Annotated[str, typer.Argument(help="The new text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it: this cannot be undone.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "update", MODEL, NAMESPACE)(update)
    command(app, "delete", EMBEDDER, NAMESPACE)(delete)
    command(app, "clear", NAMESPACE)(clear)


def update(options: Options, note: Which, content: Content) -> None:
    """Correct the text of a note.

    The old text stays in the history; `amem undo` brings it back.
    """
    space = options.space
    with encoding(options) as opened:
        memory = opened.memory
        found = find_note(memory, note, space)
        memory.update(found.id, namespace=space, content=content)
        memory.evolve(namespace=space)
        updated = memory.get(found.id, namespace=space)
    if options.as_json:
        print_json(note_values(updated))
    else:
        console().print(short(updated.id), updated.state)


def delete(options: Options, note: Which, yes: Yes = False) -> None:
    """Remove a note for good, with its history and every trace of it in others."""
    space = options.space
    with encoding(options) as opened:
        found = find_note(opened.memory, note, space)
        _confirm(yes, f"note {found.id}")
        opened.memory.delete(found.id, namespace=space)
    if options.as_json:
        print_json({"deleted": found.id})
    else:
        console().print(short(found.id), "deleted")


def clear(options: Options, yes: Yes = False) -> None:
    """Remove all notes of a namespace for good, with their history."""
    space = options.space
    with reading(options) as opened:
        notes = opened.memory.stats(namespace=space)["notes"]
        _confirm(yes, f"all {notes} notes of {format_namespace(space)}")
        opened.memory.clear(namespace=space)
    if options.as_json:
        print_json({"cleared": list(space), "notes": notes})
    else:
        console().print(f"{format_namespace(space)}: {notes} notes removed", soft_wrap=True)


def _confirm(yes: bool, what: str) -> None:
    if not yes:
        raise ConfigurationError(f"this removes {what} for good; add --yes to do it")
