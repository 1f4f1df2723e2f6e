"""`amem update`, `amem delete` and `amem clear`: the user's own corrections."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import ConfigurationError
from .command import command
from .lookup import find_note
from .open_memory import open_to_read, open_to_write
from .options import EMBEDDER, MODEL, NAMESPACE, Options, format_namespace
from .terminal import SHORT_ID, note_values, print_result

app = typer.Typer(rich_markup_mode=None)

NoteName = Annotated[str, typer.Argument(metavar="NOTE", help="Id, start of the id, or key.")]
Content = Annotated[str, typer.Argument(help="The new text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it: this cannot be undone.")]


@command(app, "update", MODEL, NAMESPACE)
def update(options: Options, note: NoteName, content: Content) -> None:
    """Correct the text of a note.

    The old text stays in the history; `amem undo` brings it back.
    """
    namespace = options.required_namespace
    with open_to_write(options) as memory:
        found = find_note(memory, note, namespace)
        memory.update(found.id, namespace=namespace, content=content)
        memory.evolve(namespace=namespace)
        updated = memory.get(found.id, namespace=namespace)
    text = f"{updated.id[:SHORT_ID]} {updated.state}"
    print_result(text, note_values(updated), as_json=options.as_json)


@command(app, "delete", EMBEDDER, NAMESPACE)
def delete(options: Options, note: NoteName, yes: Yes = False) -> None:
    """Remove a note for good, with its history."""
    namespace = options.required_namespace
    with open_to_write(options) as memory:
        found = find_note(memory, note, namespace)
        _require(yes, f"note {found.id}")
        memory.delete(found.id, namespace=namespace)
    print_result(f"{found.id[:SHORT_ID]} deleted", {"deleted": found.id}, as_json=options.as_json)


@command(app, "clear", NAMESPACE)
def clear(options: Options, yes: Yes = False) -> None:
    """Remove all notes of a namespace for good, with their history."""
    namespace = options.required_namespace
    name = format_namespace(namespace)
    with open_to_read(options) as (memory, _):
        notes = memory.stats(namespace=namespace)["notes"]
        _require(yes, f"all {notes} notes of {name}")
        memory.clear(namespace=namespace)
    values = {"cleared": list(namespace), "notes": notes}
    print_result(f"{name}: {notes} notes removed", values, as_json=options.as_json)


def _require(yes: bool, what: str) -> None:
    if not yes:
        raise ConfigurationError(f"this removes {what} for good; add --yes to do it")
