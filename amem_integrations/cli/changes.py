"""`amem update`, `supersede`, `delete`, `clear`, `history`, `undo`, `proposals`, `approve` and `reject`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from ..errors import ConfigurationError, NoteNotFoundError
from ..ids import parse_time
from ..notes import USER, Change, Note, Relation
from . import app
from .app import SHORT_ID, Limit, Line, Session, dim, format_namespace, headline, text_of
from .notes import show_written

_STYLES = {"+": "green", "-": "red"}

Names = list[str] | None
Yes = Annotated[bool, typer.Option("--yes", "-y")]
All = Annotated[bool, typer.Option("--all")]


@app.command("update", app.MODEL, app.NAMESPACE)
def update(
    amem: Session,
    note: str,
    content: str | None = None,
    *,
    expires: str | None = None,
    thorough: bool = False,
) -> None:
    """Correct the text of a note, or when it expires.

    The old text stays in the history, but with --thorough; `amem undo` brings it back.

    Args:
        note: Id, start of the id, or key.
        content: The new text; none: it stays.
        expires: From this time on it is not found: 2026-05-08T18:30Z; or: never.
        thorough: Also take all that was written by calls that were shown it.
    """
    changed: dict[str, Any] = {"content": content, "thorough": thorough}
    if expires is not None:
        changed["expires_at"] = None if expires == "never" else parse_time(expires)
    made = amem.memory.update(amem.find(note).id, namespace=amem.space, **changed)
    amem.memory.evolve(namespace=amem.space)
    show_written(amem, amem.notes([made.id]).get(made.id, made))  # it may have expired by that


@app.command("supersede", app.EMBEDDER, app.NAMESPACE)
def supersede(
    amem: Session, older: str, newer: str, *, relation: Relation = "updates", reason: str = ""
) -> None:
    """Say that a later note takes the place of an earlier one.

    Nothing is deleted; `amem undo` takes it back.

    Args:
        older: Id, start of the id, or key.
        newer: The note that takes its place, named likewise.
        relation: How.
        reason: Why, in a few words.
    """
    how: dict[str, Any] = {"namespace": amem.space, "relation": relation, "reason": reason}
    _show(amem, [amem.memory.supersede(amem.find(older).id, amem.find(newer).id, **how)])


@app.command("delete", app.EMBEDDER, app.NAMESPACE)
def delete(amem: Session, note: str, *, yes: Yes = False, thorough: bool = False) -> None:
    """Remove a note for good, with what was made of it.

    Args:
        note: Id, start of the id, or key.
        yes: Do it: this cannot be undone.
        thorough: Also take all that was written by calls that were shown it.
    """
    found = amem.find(note)
    _require(yes, f"note {found.id}")
    gone = amem.memory.delete(found.id, namespace=amem.space, thorough=thorough)
    amem.show({"deleted": found.id, **gone.to_dict()})


@app.command("clear", app.NAMESPACE)
def clear(amem: Session, *, yes: Yes = False) -> None:
    """Remove all notes of a namespace for good, with their history.

    Args:
        yes: Do it: this cannot be undone.
    """
    space, notes = amem.space, amem.memory.stats(namespace=amem.space)["notes"]
    _require(yes, f"all {notes} notes of {format_namespace(space)}")
    amem.memory.clear(namespace=space)
    amem.show({"cleared": [*space], "notes": notes})


def _require(yes: bool, what: str) -> None:
    if not yes:
        raise ConfigurationError(f"this removes {what} for good; add --yes to do it")


@app.command("history", app.NAMESPACE)
def history(amem: Session, note: str | None = None, *, limit: Limit = 50) -> None:
    """Show what was changed, as diffs, oldest first.

    That is every context, link, correction and failure, with its cause.

    Args:
        note: Id, start of the id, or key; none: all notes.
        limit: Most changes: the last ones.
    """
    try:
        known = note and amem.find(note).id
    except NoteNotFoundError:
        known = note  # one that was deleted is named by the whole id
    _show(amem, amem.memory.history(known, namespace=amem.space)[-limit:])


@app.command("undo", app.EMBEDDER, app.NAMESPACE)
def undo(
    amem: Session, change: Names = None, *, model: str | None = None, since: datetime | None = None
) -> None:
    """Take changes back, or all that a model did.

    The undoing is recorded as well, and can be undone. What somebody else changed afterwards is left.

    Args:
        change: Ids of changes, or their starts.
        model: Take back all that this model did, named as in the history.
        since: Take back what a model did since then: 2026-05-08, or with a time.
    """
    ids, how = _named(amem, change or ()), {"model": model, "since": since}
    which: Any = ids[0] if len(ids) == 1 else ids or None
    done = amem.memory.undo(which, namespace=amem.space, **how)
    if isinstance(done, Change):
        _show(amem, [done])
    else:
        amem.show(done, [*app.listed(done)] or ["No changes."])


@app.command("proposals", app.NAMESPACE)
def proposals(amem: Session) -> None:
    """Show what waits for a decision.

    That is what the gate stopped and, with --review, everything that was proposed for earlier notes: contexts,
    links and what supersedes what. `amem approve` writes it, `amem reject` takes it off the list.
    """
    found = amem.memory.proposals(namespace=amem.space)
    _show(amem, found, otherwise="No proposals wait for an answer.")


@app.command("approve", app.EMBEDDER, app.NAMESPACE)
def approve(
    amem: Session, change: Names = None, *, every: All = False, text: str | None = None
) -> None:
    """Write what was proposed.

    Args:
        change: Ids of the proposals, or their starts.
        every: All proposals that wait.
        text: Write this text instead.
    """
    ids = _proposals(amem, change, every=every)
    which: Any = ids[0] if len(ids) == 1 else ids
    made = amem.memory.approve(which, namespace=amem.space, context=text)
    _show(amem, [made] if isinstance(made, Change) else made)


@app.command("reject", app.NAMESPACE)
def reject(amem: Session, change: Names = None, *, every: All = False) -> None:
    """Take proposals off the list.

    Args:
        change: Ids of the proposals, or their starts.
        every: All proposals that wait.
    """
    _show(amem, amem.memory.reject(_proposals(amem, change, every=every), namespace=amem.space))


def _proposals(amem: Session, names: Sequence[str] | None, *, every: bool) -> list[str]:
    """Return the ids of the proposals that a command is about."""
    if bool(names) == every:
        raise ConfigurationError("name the proposals, or give --all for all of them")
    if names:
        return _named(amem, names)
    return [made.id for made in amem.memory.proposals(namespace=amem.space)]


def _named(amem: Session, names: Sequence[str]) -> list[str]:
    """Return the ids of changes, each named by its id or as it is printed, or by the start of these.

    Raises:
        NoteNotFoundError: There is no change of a name.
        InvalidInputError: There are several.
    """
    changes = amem.memory.history(None, namespace=amem.space) if names else []
    known = {one.id: (one.id, short_change(one.id)) for one in changes}
    none = f"in namespace {format_namespace(amem.space)}; `amem history` lists them"
    return [app.only(name, known, f"there is no change {name!r} {none}") for name in names]


def short_change(change_id: str) -> str:
    """Return the id of a change with the start of each id in it."""
    return ":".join(part[:SHORT_ID] for part in change_id.split(":"))


def cause_of(change: Change) -> str:
    """Return the id of the later note from which a change of another note followed; empty: there is none."""
    later = change.after.get("by") if change.kind == "supersede" else None
    return str(change.after.get("cause") or later or "")


def change_values(change: Change) -> dict[str, Any]:
    """Return a change as values for JSON, with its diff."""
    return {**app.values_of(change), "diff": diff(change)}


def _show(amem: Session, changes: Sequence[Change], *, otherwise: str = "No changes.") -> None:
    """Print changes as diffs, each with its note and its cause; if there are none, what is said otherwise."""
    ends = (each for change in changes for each in (change.note_id, cause_of(change)) if each)
    values = [change_values(change) for change in changes]
    amem.show(values, list(_lines(changes, amem.notes(ends))) or [otherwise])


def _lines(changes: Sequence[Change], notes: Mapping[str, Note]) -> Iterator[Line]:
    last = None
    for change in changes:
        if change.note_id != last:
            last = change.note_id
            title = headline(notes[last]) if last in notes else ""
            yield Text(f"note {last[:SHORT_ID]} {title}", "bold")
        by = "" if change.by == USER else f" by {change.by}"
        state = "" if change.state == "on" else f", {change.state}"
        name, when = Text(short_change(change.id), "cyan"), f"{change.at:%Y-%m-%d %H:%M:%S}"
        yield "  ", name, Text(change.kind, "bold"), f"{when}{by}{state}"
        cause = notes.get(cause_of(change))
        if cause is not None and cause.id != change.note_id:
            yield dim(f"      because of {cause.id[:SHORT_ID]} {headline(cause)}")
        for line in diff(change):
            yield Text(f"    {app.clean(line)}", _STYLES.get(line[0], ""))


def diff(change: Change) -> list[str]:
    """Return the effect of a change as lines of a diff, which start with `+`, `-`, or a space."""
    after = change.after
    before = {**after, **change.before} if change.before else {}  # what is not named has stayed
    old, new = _told(change.kind, before), _told(change.kind, after)
    lines = [f"-{line}" for line in old if line not in new]
    lines += [f"{' ' if line in old else '+'}{line}" for line in new]
    said, why = "failed" if change.state == "failed" else "not written", after.get("why")
    return lines + ([f" {said}: {text_of(why)}"] if why else [])


def _told(kind: str, values: Mapping[str, Any]) -> list[str]:
    """Return the values on one side of a change as lines."""
    shown = {name: text_of(one) for name, one in values.items() if one not in (None, "", [], {})}
    if kind == "undo":
        return [f"{short_change(shown['change'])}: {shown['state']}"] if "change" in shown else []
    # The others are told beside the change, or by the note itself.
    told = [f"{name}: {one}" for name, one in shown.items() if name not in ("cause", "kind", "why")]
    return [line for one in told for line in one.splitlines()]
