"""`amem update`, `supersede`, `delete`, `clear`, `history`, `undo`, `proposals`, `approve` and `reject`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.text import Text

from .. import AgenticMemory
from ..errors import ConfigurationError, NoteNotFoundError
from ..ids import parse_time
from ..notes import RELATIONS, USER, Change, Namespace, Note, Relation
from .command import command
from .diff import cause_of, diff
from .open_memory import find_change, find_note, notes_by_id, open_to_read, open_to_write
from .options import EMBEDDER, MODEL, NAMESPACE, Options, format_namespace
from .terminal import (
    SHORT_ID,
    change_values,
    clean,
    console,
    headline,
    note_values,
    one_line,
    print_json,
    print_result,
    short_change,
    short_id,
)

_STYLES = {"+": "green", "-": "red"}

app = typer.Typer(rich_markup_mode=None)

NoteName = Annotated[str, typer.Argument(metavar="NOTE", help="Id, start of the id, or key.")]
NewerName = Annotated[
    str, typer.Argument(metavar="NEWER", help="The note that takes its place, named likewise.")
]
RelationName = Annotated[str, typer.Option(help=f"How: {', '.join(RELATIONS)}.")]
Reason = Annotated[str, typer.Option(help="Why, in a few words.")]
Content = Annotated[str | None, typer.Argument(help="The new text; none: it stays.")]
Expires = Annotated[
    str | None,
    typer.Option(help="From this time on it is not found: 2026-05-08T18:30Z; or: never."),
]
Thorough = Annotated[
    bool,
    typer.Option("--thorough", help="Also take all that was written by calls that were shown it."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it: this cannot be undone.")]
AnyNote = Annotated[
    str | None, typer.Argument(metavar="NOTE", help="Id, start of the id, or key; none: all notes.")
]
UndoneNames = Annotated[
    list[str] | None, typer.Argument(metavar="CHANGE...", help="Ids of changes, or their starts.")
]
ChangeNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="CHANGE...", help="Ids of the proposals, or their starts."),
]
ByModel = Annotated[
    str | None,
    typer.Option("--model", help="Take back all that this model did, named as in the history."),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Take back what a model did since then: 2026-05-08, or with a time."
    ),
]
All = Annotated[bool, typer.Option("--all", help="All proposals that wait.")]
Limit = Annotated[int, typer.Option("-k", "--limit", min=1, help="Most changes: the last ones.")]
NewText = Annotated[str | None, typer.Option("--text", help="Write this text instead.")]


@command(app, "update", MODEL, NAMESPACE)
def update(
    options: Options,
    note: NoteName,
    content: Content = None,
    expires: Expires = None,
    thorough: Thorough = False,
) -> None:
    """Correct the text of a note, or when it expires.

    The old text stays in the history, but with --thorough; `amem undo` brings it back.
    """
    namespace = options.required_namespace
    with open_to_write(options) as memory:
        found = find_note(memory, note, namespace)
        changed = {"content": content, **_expiry(expires), "thorough": thorough}
        memory.update(found.id, namespace=namespace, **changed)
        memory.evolve(namespace=namespace)
        updated = memory.get(found.id, namespace=namespace)
    text = f"{updated.id[:SHORT_ID]} {updated.state}"
    print_result(text, note_values(updated), as_json=options.as_json)


def _expiry(expires: str | None) -> dict[str, Any]:
    if expires is None:
        return {}
    return {"expires_at": None if expires == "never" else parse_time(expires)}


@command(app, "supersede", EMBEDDER, NAMESPACE)
def supersede(
    options: Options,
    older: NoteName,
    newer: NewerName,
    relation: RelationName = "updates",
    reason: Reason = "",
) -> None:
    """Say that a later note takes the place of an earlier one.

    Nothing is deleted; `amem undo` takes it back.
    """
    namespace = options.required_namespace
    with open_to_write(options) as memory:
        ids = [find_note(memory, name, namespace).id for name in (older, newer)]
        made = memory.supersede(
            *ids, namespace=namespace, relation=cast("Relation", relation), reason=reason
        )
        _print_changes(options, memory, [made])


@command(app, "delete", EMBEDDER, NAMESPACE)
def delete(options: Options, note: NoteName, yes: Yes = False, thorough: Thorough = False) -> None:
    """Remove a note for good, with what was made of it."""
    namespace = options.required_namespace
    with open_to_write(options) as memory:
        found = find_note(memory, note, namespace)
        _require(yes, f"note {found.id}")
        gone = memory.delete(found.id, namespace=namespace, thorough=thorough)
    again = f"; `amem evolve` makes {gone.pending} notes anew" if gone.pending else ""
    values = {"deleted": found.id, **gone.to_dict()}
    print_result(f"{found.id[:SHORT_ID]} deleted{again}", values, as_json=options.as_json)


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


@command(app, "history", NAMESPACE)
def history(options: Options, note: AnyNote = None, limit: Limit = 50) -> None:
    """Show what was changed, as diffs, oldest first.

    That is every context, link, correction and failure, with its cause.
    """
    namespace = options.required_namespace
    with open_to_read(options) as (memory, _):
        note_id = None if note is None else _note_id(memory, note, namespace)
        _print_changes(options, memory, memory.history(note_id, namespace=namespace)[-limit:])


@command(app, "undo", EMBEDDER, NAMESPACE)
def undo(
    options: Options, changes: UndoneNames = None, model: ByModel = None, since: Since = None
) -> None:
    """Take changes back, or all that a model did.

    The undoing is recorded as well, and can be undone. What somebody else changed afterwards is left.
    """
    namespace = options.required_namespace
    if bool(changes) == (model is not None or since is not None):
        raise ConfigurationError("name a change, or give --model or --since")
    time = None if since is None else parse_time(since)
    with open_to_write(options) as memory:
        ids = [find_change(memory, name, namespace).id for name in changes or ()]
        if len(ids) == 1:
            _print_changes(options, memory, [memory.undo(ids[0], namespace=namespace)])
            return
        if ids:
            report = memory.undo(ids, namespace=namespace)
        else:
            report = memory.undo(namespace=namespace, model=model, since=time)
    if options.as_json:
        print_json(report.to_dict())
        return
    out = console()
    out.print(
        f"{len(report.undone)} changes taken back, {len(report.skipped)} left, "
        f"{len(report.rejected)} proposals rejected"
    )
    for change_id, why in report.skipped.items():
        out.print("  left", short_change(change_id), one_line(why), soft_wrap=True)


@command(app, "proposals", NAMESPACE)
def proposals(options: Options) -> None:
    """Show what waits for a decision.

    That is what the gate stopped and, with --review, everything that was proposed for earlier notes: contexts,
    links and what supersedes what. `amem approve` writes it, `amem reject` takes it off the list.
    """
    with open_to_read(options) as (memory, _):
        found = memory.proposals(namespace=options.required_namespace)
        _print_changes(options, memory, found)
    if not found and not options.as_json:
        console().print("No proposals wait for an answer.")


@command(app, "approve", EMBEDDER, NAMESPACE)
def approve(
    options: Options, changes: ChangeNames = None, every: All = False, text: NewText = None
) -> None:
    """Write what was proposed."""
    namespace = options.required_namespace
    with open_to_write(options) as memory:
        ids = _proposals(memory, changes, namespace, every=every)
        if text is not None:
            if len(ids) != 1:
                raise ConfigurationError("--text is for a single proposal")
            made = [memory.approve(ids[0], namespace=namespace, context=text)]
        else:
            made = memory.approve(ids, namespace=namespace)
        _print_changes(options, memory, made)


@command(app, "reject", NAMESPACE)
def reject(options: Options, changes: ChangeNames = None, every: All = False) -> None:
    """Take proposals off the list."""
    namespace = options.required_namespace
    with open_to_read(options) as (memory, _):
        ids = _proposals(memory, changes, namespace, every=every)
        _print_changes(options, memory, memory.reject(ids, namespace=namespace))


def _proposals(
    memory: AgenticMemory, names: Sequence[str] | None, namespace: Namespace, *, every: bool
) -> list[str]:
    """Return the ids of the proposals that a command is about."""
    if bool(names) == every:
        raise ConfigurationError("name the proposals, or give --all for all of them")
    if every:
        return [made.id for made in memory.proposals(namespace=namespace)]
    return [find_change(memory, name, namespace).id for name in names or ()]


def _note_id(memory: AgenticMemory, name: str, namespace: Namespace) -> str:
    """Return the id of a note; a note that was deleted is found by the whole id."""
    try:
        return find_note(memory, name, namespace).id
    except NoteNotFoundError:
        if any(change.note_id == name for change in memory.history(None, namespace=namespace)):
            return name
        raise


def _print_changes(options: Options, memory: AgenticMemory, changes: Sequence[Change]) -> None:
    if options.as_json:
        print_json([{**change_values(change), "diff": diff(change)} for change in changes])
        return
    ids = [each for change in changes for each in (change.note_id, cause_of(change)) if each]
    notes = notes_by_id(memory, ids, options.required_namespace)
    out, last = console(), None
    for change in changes:
        if change.note_id != last:
            last = change.note_id
            title = headline(notes[last]) if last in notes else ""
            out.print(Text("note", "bold"), short_id(last), Text(title, "bold"), soft_wrap=True)
        _print_change(out, change, notes)


def _print_change(out: Console, change: Change, notes: Mapping[str, Note]) -> None:
    by = "" if change.by == USER else f" by {one_line(change.by)}"
    state = "" if change.state == "on" else f", {change.state}"
    name, when = Text(short_change(change.id), "cyan"), f"{change.at:%Y-%m-%d %H:%M:%S}"
    out.print("  ", name, Text(change.kind, "bold"), f"{when}{by}{state}", soft_wrap=True)
    cause = notes.get(cause_of(change))
    if cause is not None and cause.id != change.note_id:
        title = headline(cause)
        out.print("      because of", short_id(cause.id), title, style="dim", soft_wrap=True)
    for line in diff(change):
        out.print(Text(f"    {clean(line)}", _STYLES.get(line[0], "")), soft_wrap=True)
