"""`amem history`, `undo`, `proposals`, `approve` and `reject`: what was changed, and having a say in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..errors import NoteNotFoundError
from ..memory import AgenticMemory
from ..notes import Change, Namespace, Note
from .changes import diff
from .finding import find_note, one
from .looks import clean, console, one_line, said, short
from .namespaces import format_namespace
from .opening import encoding, reading
from .options import EMBEDDER, NAMESPACE, Options, command
from .values import change_values, print_json

_STYLES = {"+": "green", "-": "red"}

Which = Annotated[
    str | None, typer.Argument(metavar="NOTE", help="Id, start of the id, or key; none: all notes.")
]
ChangeId = Annotated[str, typer.Argument(metavar="CHANGE", help="Id of the change, or its start.")]
Most = Annotated[int, typer.Option("-k", "--limit", min=1, help="Most changes: the last ones.")]
Instead = Annotated[str | None, typer.Option("--text", help="Write this text instead.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "history", NAMESPACE)(history)
    command(app, "undo", EMBEDDER, NAMESPACE)(undo)
    command(app, "proposals", NAMESPACE)(proposals)
    command(app, "approve", EMBEDDER, NAMESPACE)(approve)
    command(app, "reject", NAMESPACE)(reject)


def history(options: Options, note: Which = None, limit: Most = 50) -> None:
    """Show what was changed, as diffs, oldest first.

    That is every context, link, correction and failure, with its cause.
    """
    space = options.space
    with reading(options) as opened:
        memory = opened.memory
        of = None if note is None else _note_id(memory, note, space)
        changes = memory.history(of, namespace=space)[-limit:]
        _print_changes(changes, memory, space, options)


def undo(options: Options, change: ChangeId) -> None:
    """Take a change back.

    The undoing is recorded as well, and can be undone.
    """
    space = options.space
    with encoding(options) as opened:
        memory = opened.memory
        found = _find_change(memory, change, space)
        made = memory.undo(found.id, namespace=space)
        _print_changes([made], memory, space, options)


def proposals(options: Options) -> None:
    """Show the updates that the gate stopped.

    `amem approve` writes one all the same, `amem reject` takes it off the list.
    """
    space = options.space
    with reading(options) as opened:
        found = opened.memory.proposals(namespace=space)
        _print_changes(found, opened.memory, space, options)
    if not found and not options.as_json:
        console().print("No proposals wait for an answer.")


def approve(options: Options, change: ChangeId, text: Instead = None) -> None:
    """Write a proposal although the gate stopped it."""
    space = options.space
    with encoding(options) as opened:
        memory = opened.memory
        found = _find_change(memory, change, space)
        made = memory.approve(found.id, namespace=space, context=text)
        _print_changes([made], memory, space, options)


def reject(options: Options, change: ChangeId) -> None:
    """Take a proposal off the list."""
    space = options.space
    with reading(options) as opened:
        memory = opened.memory
        found = _find_change(memory, change, space)
        made = memory.reject(found.id, namespace=space)
        _print_changes([made], memory, space, options)


def _note_id(memory: AgenticMemory, name: str, space: Namespace) -> str:
    """Return the id of a note; of a deleted one there is only a receipt, found by its whole id."""
    try:
        return find_note(memory, name, space).id
    except NoteNotFoundError:
        if any(change.note_id == name for change in memory.history(None, namespace=space)):
            return name
        raise


def _find_change(memory: AgenticMemory, name: str, space: Namespace) -> Change:
    changes = memory.history(None, namespace=space)
    found = [change for change in changes if change.id.startswith(name)]
    if not found:
        raise NoteNotFoundError(
            f"there is no change {name!r} in namespace {format_namespace(space)}; "
            "`amem history` lists them"
        )
    return one(name, found, [change.id for change in found])


def _print_changes(
    changes: Sequence[Change], memory: AgenticMemory, space: Namespace, options: Options
) -> None:
    notes = _notes(memory, space, changes)
    if options.as_json:
        print_json([{**change_values(c), "diff": diff(c, notes.get(c.note_id))} for c in changes])
        return
    out = console()
    about = None
    for change in changes:
        if change.note_id and change.note_id != about:  # that of a `clear` is of no note
            about = change.note_id
            title = said(notes[about]) if about in notes else ""
            out.print(Text("note", "bold"), short(about), Text(title, "bold"), soft_wrap=True)
        _print_change(out, change, notes)


def _print_change(out: Console, change: Change, notes: dict[str, Note]) -> None:
    by = f" by {one_line(change.model)}" if change.model else ""
    when = f"{change.recorded_at:%Y-%m-%d %H:%M:%S}"
    out.print("  ", short(change.id), Text(change.kind, "bold"), f"{when}{by}", soft_wrap=True)
    cause = notes.get(change.cause or "")
    if cause is not None and cause.id != change.note_id and change.kind != "link":
        out.print("      because of", short(cause.id), said(cause), style="dim", soft_wrap=True)
    for line in diff(change, notes.get(change.note_id)):
        out.print(Text(f"    {clean(line)}", _STYLES.get(line[0], "")), soft_wrap=True)


def _notes(memory: AgenticMemory, space: Namespace, changes: Iterable[Change]) -> dict[str, Note]:
    ids = list({i for change in changes for i in (change.note_id, change.cause) if i})
    found: dict[str, Note] = {}
    for start in range(0, len(ids), 256):
        some = ids[start : start + 256]
        where = {"id": {"$in": some}}
        held = memory.get_all(namespace=space, where=where, limit=len(some))
        found |= {note.id: note for note in held}
    return found
