"""`amem update`, `supersede`, `delete`, `clear`, `history`, `undo`, `proposals`, `approve` and `reject`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from ..errors import ConfigurationError, NoteNotFoundError
from ..ids import parse_time
from ..notes import USER, Change, Note, Relation
from . import app
from .app import (
    SHORT_ID,
    Line,
    Session,
    dim,
    format_namespace,
    headline,
    note_values,
    short_id,
    values_of,
)

_STYLES = {"+": "green", "-": "red"}
_HIDDEN = ("cause", "kind", "why")  # of a change: told beside it, or by the note itself

NoteName = Annotated[str, typer.Argument(metavar="NOTE")]
ChangeNames = Annotated[list[str] | None, typer.Argument(metavar="CHANGE...")]
Yes = Annotated[bool, typer.Option("--yes", "-y")]
All = Annotated[bool, typer.Option("--all")]


@app.command("update", app.MODEL, app.NAMESPACE)
def update(
    amem: Session,
    note: NoteName,
    content: Annotated[str | None, typer.Argument(metavar="CONTENT")] = None,
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
    found = amem.find(note)
    amem.memory.update(found.id, namespace=amem.space, **changed)
    amem.memory.evolve(namespace=amem.space)
    updated = amem.memory.get(found.id, namespace=amem.space)
    amem.show(note_values(updated), [f"{updated.id[:SHORT_ID]} {updated.state}"])


@app.command("supersede", app.EMBEDDER, app.NAMESPACE)
def supersede(
    amem: Session,
    older: NoteName,
    newer: Annotated[str, typer.Argument(metavar="NEWER")],
    relation: Relation = "updates",
    reason: str = "",
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
def delete(amem: Session, note: NoteName, yes: Yes = False, thorough: bool = False) -> None:
    """Remove a note for good, with what was made of it.

    Args:
        note: Id, start of the id, or key.
        yes: Do it: this cannot be undone.
        thorough: Also take all that was written by calls that were shown it.
    """
    found = amem.find(note)
    _require(yes, f"note {found.id}")
    gone = amem.memory.delete(found.id, namespace=amem.space, thorough=thorough)
    again = f"; `amem evolve` makes {gone.pending} notes anew" if gone.pending else ""
    text = f"{found.id[:SHORT_ID]} deleted{again}"
    amem.show({"deleted": found.id, **gone.to_dict()}, [text])


@app.command("clear", app.NAMESPACE)
def clear(amem: Session, yes: Yes = False) -> None:
    """Remove all notes of a namespace for good, with their history.

    Args:
        yes: Do it: this cannot be undone.
    """
    space, notes = amem.space, amem.memory.stats(namespace=amem.space)["notes"]
    _require(yes, f"all {notes} notes of {format_namespace(space)}")
    amem.memory.clear(namespace=space)
    text = f"{format_namespace(space)}: {notes} notes removed"
    amem.show({"cleared": space, "notes": notes}, [text])


def _require(yes: bool, what: str) -> None:
    if not yes:
        raise ConfigurationError(f"this removes {what} for good; add --yes to do it")


@app.command("history", app.NAMESPACE)
def history(
    amem: Session,
    note: Annotated[str | None, typer.Argument(metavar="NOTE")] = None,
    limit: Annotated[int, typer.Option("-k", "--limit", min=1)] = 50,
) -> None:
    """Show what was changed, as diffs, oldest first.

    That is every context, link, correction and failure, with its cause.

    Args:
        note: Id, start of the id, or key; none: all notes.
        limit: Most changes: the last ones.
    """
    try:
        changes = amem.memory.history(note and amem.find(note).id, namespace=amem.space)
    except NoteNotFoundError:  # one that was deleted is named by the whole id
        known = amem.memory.history(None, namespace=amem.space)
        changes = [change for change in known if change.note_id == note]
        if not changes:
            raise
    _show(amem, changes[-limit:])


@app.command("undo", app.EMBEDDER, app.NAMESPACE)
def undo(
    amem: Session,
    changes: ChangeNames = None,
    model: str | None = None,
    since: datetime | None = None,
) -> None:
    """Take changes back, or all that a model did.

    The undoing is recorded as well, and can be undone. What somebody else changed afterwards is left.

    Args:
        changes: Ids of changes, or their starts.
        model: Take back all that this model did, named as in the history.
        since: Take back what a model did since then: 2026-05-08, or with a time.
    """
    if bool(changes) == (model is not None or since is not None):
        raise ConfigurationError("name a change, or give --model or --since")
    memory, space, ids = amem.memory, amem.space, _named(amem, changes or ())
    if len(ids) == 1:
        _show(amem, [memory.undo(ids[0], namespace=space)])
        return
    if ids:
        report = memory.undo(ids, namespace=space)
    else:
        report = memory.undo(namespace=space, model=model, since=since)
    text = (
        f"{len(report.undone)} changes taken back, {len(report.skipped)} left, "
        f"{len(report.rejected)} proposals rejected"
    )
    left = [f"  left {short_change(one)} {why}" for one, why in report.skipped.items()]
    amem.show(report.to_dict(), [text, *left])


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
    amem: Session, changes: ChangeNames = None, every: All = False, text: str | None = None
) -> None:
    """Write what was proposed.

    Args:
        changes: Ids of the proposals, or their starts.
        every: All proposals that wait.
        text: Write this text instead.
    """
    ids = _proposals(amem, changes, every=every)
    if text is not None and len(ids) != 1:
        raise ConfigurationError("--text is for a single proposal")
    if text is None:
        _show(amem, amem.memory.approve(ids, namespace=amem.space))
    else:
        _show(amem, [amem.memory.approve(ids[0], namespace=amem.space, context=text)])


@app.command("reject", app.NAMESPACE)
def reject(amem: Session, changes: ChangeNames = None, every: All = False) -> None:
    """Take proposals off the list.

    Args:
        changes: Ids of the proposals, or their starts.
        every: All proposals that wait.
    """
    ids = _proposals(amem, changes, every=every)
    _show(amem, amem.memory.reject(ids, namespace=amem.space))


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
    history = amem.memory.history(None, namespace=amem.space) if names else []
    known, ids = {one.id: short_change(one.id) for one in history}, []
    for name in names:
        whole = [one for one, short in known.items() if name in (one, short)]
        starts = [
            one for one, short in known.items() if name in (one[: len(name)], short[: len(name)])
        ]
        if not starts:
            where = f"in namespace {format_namespace(amem.space)}; `amem history` lists them"
            raise NoteNotFoundError(f"there is no change {name!r} {where}")
        ids.append(app.only(name, whole or starts))
    return ids


def short_change(change_id: str) -> str:
    """Return the id of a change with the start of each id in it."""
    return ":".join(part[:SHORT_ID] for part in change_id.split(":"))


def cause_of(change: Change) -> str:
    """Return the id of the later note from which a change of another note followed; empty: there is none."""
    later = change.after.get("by") if change.kind == "supersede" else None
    return str(change.after.get("cause") or later or "")


def change_values(change: Change) -> dict[str, Any]:
    """Return a change as values for JSON, with its diff."""
    return {**values_of(change), "diff": diff(change)}


def _show(amem: Session, changes: Sequence[Change], *, otherwise: str = "") -> None:
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
            yield Text("note", "bold"), short_id(last), Text(title, "bold")
        by = "" if change.by == USER else f" by {change.by}"
        state = "" if change.state == "on" else f", {change.state}"
        name, when = Text(short_change(change.id), "cyan"), f"{change.at:%Y-%m-%d %H:%M:%S}"
        yield "  ", name, Text(change.kind, "bold"), f"{when}{by}{state}"
        cause = notes.get(cause_of(change))
        if cause is not None and cause.id != change.note_id:
            yield dim("      because of"), short_id(cause.id), dim(headline(cause))
        for line in diff(change):
            yield Text(f"    {app.clean(line)}", _STYLES.get(line[0], ""))


def diff(change: Change) -> list[str]:
    """Return what a change did, as lines of a diff, which start with `+`, `-`, or a space."""
    before, after = change.before, {n: v for n, v in change.after.items() if n not in _HIDDEN}
    match change.kind:
        case "link" | "relink":
            lines = [_link("-", {**after, **before})] if before else []
            lines += [_link("+", after)] if after else []
        case "supersede":
            since, reason = str(after.get("since", ""))[:10], after.get("reason") or ""
            said = f"+outdated since {since}: {after.get('relation')} {reason}"
            lines = [said.rstrip()] if after else []
        case "undo":
            lines = [f" {short_change(after['change'])}: {before['state']} -> {after['state']}"]
        case _:
            lines = [line for name in after for line in _field(name, before.get(name), after[name])]
    said, why = "failed" if change.state == "failed" else "not written", change.after.get("why")
    return lines + ([f" {said}: {app.text_of(why)}"] if why else [])


def _field(name: str, before: object, after: object) -> list[str]:
    """Return a diff of two values; of a value that is new, one line."""
    if before is None:
        return [f"+{name}: {app.text_of(after)}"] if after not in (None, "", [], {}) else []
    old, new = (
        ([] if side is None else app.text_of(side).splitlines()) for side in (before, after)
    )
    # Lines with "?" only mark characters of the lines above; in the others a space follows the sign.
    lines = [f"{one[0]}{one[2:]}" for one in difflib.ndiff(old, new) if one[0] != "?"]
    return [f" {name}:", *lines]


def _link(sign: str, link: Mapping[str, Any]) -> str:
    said = ": ".join(app.text_of(link[name]) for name in ("relation", "reason") if link.get(name))
    strength = f" ({app.text_of(link['strength'])})" if "strength" in link else ""
    return f"{sign}link {str(link.get('to', ''))[:SHORT_ID]} {said}{strength}"
