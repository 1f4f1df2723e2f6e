"""Pure: edits of single notes, and the records of them in the history.

An edit is a set operation, so edits commute and can be done again; the ids of records are derived, so that an
operation done again records nothing twice. What an edit did is recorded by field: `content`, `rest` (the texts of
the chunks after the first), `speaker`, `at`, `metadata`, `until`, `expires_at`, `own` (the entry of construction),
`entry:<change>` (an entry that evolution added), `link:<note>` or `superseded:<note>`, each with what it was `before` and `after`, in JSON values; None: not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from ..ids import clock, derive
from ..notes import Change, ChangeKind, ContextEntry, Link, Namespace, Note, Supersession
from ..plans import Cost

Edit = Callable[[Note], tuple[Note, list[Change]]]

ENTRY, LINK, SUPERSEDED = "entry:", "link:", "superseded:"
STATED = ("content", "speaker", "at")  # who stated what, and when: attributes are made of it
TIMES = ("at", "until", "expires_at")
GIVEN = (*STATED, "metadata", "until", "expires_at")  # what the user can change
ENTRIES = TypeAdapter(ContextEntry)
LINKS = TypeAdapter(Link)
SUPERSESSIONS = TypeAdapter(Supersession)

TOO_MANY = "a note had too many links"


def change(
    op: str,
    kind: ChangeKind,
    note: Note,
    *,
    recorded_at: datetime,
    cause: str | None = None,
    model: str | None = None,
    data: dict[str, Any] | None = None,
) -> Change:
    """Return the record of one change to a note."""
    return Change(
        id=derive("change", op, kind, note.id, cause),
        seq=clock.tick(),
        op=op,
        kind=kind,
        namespace=note.namespace,
        note_id=note.id,
        cause=cause,
        model=model,
        recorded_at=recorded_at,
        data=data or {},
    )


def change_of_namespace(
    op: str,
    kind: ChangeKind,
    namespace: Namespace,
    at: datetime,
    data: dict[str, Any],
    model: str | None = None,
) -> Change:
    """Return a record that is about no single note."""
    return Change(
        id=derive("change", op, kind),
        seq=clock.tick(),
        op=op,
        kind=kind,
        namespace=namespace,
        note_id="",
        cause=None,
        model=model,
        recorded_at=at,
        data=data,
    )


def prompt_records(
    op: str,
    namespace: Namespace,
    sources: Iterable[Note | str],
    at: datetime,
    *,
    since: int,
    stale: bool = False,
    apart: bool = False,
) -> list[Change]:
    """Return the record of which notes' words may stand in what a model wrote in an operation.

    There is none if it was shown one note only: it can have quoted no other; unless what it wrote stands `apart`, in a
    note of its own. `since` is the instant at which they were shown; `stale` says that they held a quote of a text
    that was being removed.
    """
    ids = list(dict.fromkeys(note.id if isinstance(note, Note) else note for note in sources))
    data = {"shown": ids, "since": since, **({"stale": True} if stale else {})}
    named = apart or len(ids) > 1
    return [change_of_namespace(op, "prompt", namespace, at, data)] if named else []


def prompt_id(op: str) -> str:
    """Return the id of the record of what a model was shown in an operation."""
    return derive("change", op, "prompt")


def usage_records(op: str, namespace: Namespace, cost: Cost, at: datetime) -> list[Change]:
    """Return the record of what the model calls for an operation cost; `at` says on which day it counts.

    There is none if no call was answered.
    """
    if not cost.tasks:
        return []
    tasks = {task: dict(counts) for task, counts in cost.tasks.items()}
    data = {"day": at.astimezone(UTC).date().isoformat(), "tasks": tasks}
    return [change_of_namespace(op, "usage", namespace, at, data, cost.model)]


def stated(note: Note) -> tuple[Any, ...]:
    """Return what attributes are made of."""
    return tuple(getattr(note, name) for name in STATED)


def entry_data(entry: ContextEntry) -> dict[str, Any]:
    """Return what a context entry says, as JSON values."""
    return {"text": entry.text, "keywords": list(entry.keywords), "tags": list(entry.tags)}


def entry_json(entry: ContextEntry | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a context entry as JSON values that `undo.with_field` takes back."""
    return None if entry is None else ENTRIES.dump_python(entry, mode="json")


def link_json(link: Link | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a link as JSON values that `undo.with_field` takes back."""
    return None if link is None else LINKS.dump_python(link, mode="json")


def supersession_json(supersession: Supersession | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a supersession as JSON values that `undo.with_field` takes back."""
    return None if supersession is None else SUPERSESSIONS.dump_python(supersession, mode="json")


def field_value(note: Note, field: str) -> Any:  # noqa: ANN401 - JSON values
    """Return a field of a note, as JSON values."""
    if field == "own":
        own = entry_json(note.own_entry)
        return own and {**own, "kind": note.kind}  # who describes a note says what it is
    if field.startswith(ENTRY):
        made = field.removeprefix(ENTRY)
        return entry_json(next((entry for entry in note.contexts if entry.change == made), None))
    if field.startswith(LINK):
        return link_json(note.links.get(field.removeprefix(LINK)))
    if field.startswith(SUPERSEDED):
        return supersession_json(note.supersessions.get(field.removeprefix(SUPERSEDED)))
    value = getattr(note, field)
    if isinstance(value, datetime):
        value = value.isoformat()
    return dict(value) if field == "metadata" else value


def chain(parts: Sequence[Edit]) -> Edit:
    """Return the edit that does these, one after the other."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        changes: list[Change] = []
        for part in parts:
            note, made = part(note)
            changes += made
        return note, changes

    return edit


def fail(reason: str, op: str, at: datetime) -> Edit:
    """Return the edit that marks a note as failed; what it has stays, and a later try goes on from there."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.state == "done":
            return note, []
        data = {"reason": reason, "attempts": note.attempts + 1}
        record = change(op, "failure", note, recorded_at=at, data=data)
        return note.revised(state="failed", failure=reason, attempts=note.attempts + 1), [record]

    return edit


def finish(entry: str) -> Edit:
    """Return the edit that marks a note as done, if it still has the entry (by its change) it was linked by."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.own_entry is None or note.own_entry.change != entry:
            return note, []
        return note.revised(state="done", failure=None), []

    return edit


def drop_link(target: str, op: str, at: datetime, why: str = TOO_MANY) -> Edit:
    """Return the edit that removes the link to `target`, if there is one."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if target not in note.links:
            return note, []
        links = {other: link for other, link in note.links.items() if other != target}
        return note.revised(links=links), [unlinked(note, target, note.links[target], op, at, why)]

    return edit


def set_strength(target: str, strength: float) -> Edit:
    """Return the edit that gives the link to `target` the strength that its other end has on record."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if target not in note.links:
            return note, []
        link = replace(note.links[target], strength=strength)
        return note.revised(links={**note.links, target: link}), []

    return edit


def unlinked(
    note: Note, target: str, link: Link, op: str, at: datetime, why: str = TOO_MANY
) -> Change:
    """Return the record of a link that a note did not keep."""
    data = {"target": target, **link_json(link), "why": why}
    return change(op, "unlink", note, cause=target, recorded_at=at, data=data)


def update(
    op: str,
    at: datetime,
    values: Mapping[str, Any],
    rest: Mapping[str, Sequence[str]] | None = None,
) -> Edit:
    """Return the edit by which the user changes what is `GIVEN` of a note; the old values go to the history.

    With other content, another speaker or time the note is pending again: its own context entry was made of
    the old ones. Its links stay. `rest` holds the texts of the chunks after the first, `before` and `after`.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        new = {name: value for name, value in values.items() if value != getattr(note, name)}
        if not new and not rest:
            return note, []
        revised = note.revised(**new)
        data: dict[str, Any] = {
            name: {"before": field_value(note, name), "after": field_value(revised, name)}
            for name in GIVEN
            if name in new
        }
        if rest:
            data["rest"] = {name: list(texts) for name, texts in rest.items()}
        if not new.keys().isdisjoint(STATED) and note.source != "derived":
            data["own"] = entry_json(note.own_entry)
            data["state"] = {"before": note.state, "after": "pending"}
            revised = unconstructed(revised)
        return revised, [change(op, "update", note, recorded_at=at, data=data)]

    return edit


def unconstructed(note: Note) -> Note:
    """Return the note without its own context entry, waiting for another."""
    others = tuple(entry for entry in note.contexts if entry.cause != note.id)
    return note.revised(contexts=others, state="pending", failure=None, attempts=0)


def without(
    note: Note,
    *,
    entries: Collection[str] = (),
    links: Iterable[str] = (),
    supersessions: Iterable[str] = (),
    reasons: Iterable[str] = (),
) -> Note:
    """Return the note without these context entries (by their changes), links, supersessions, and reasons of both.

    The reasons are by field, such as `link:<note>`. A note that loses its own entry is pending again.
    """
    gone, blanked, current = set(links), set(reasons), set(supersessions)
    kept = {
        target: replace(link, reason="", relation="related")
        if f"{LINK}{target}" in blanked
        else link
        for target, link in note.links.items()
        if target not in gone
    }
    contexts = tuple(entry for entry in note.contexts if entry.change not in entries)
    superseded = {
        newer: replace(s, reason="") if f"{SUPERSEDED}{newer}" in blanked else s
        for newer, s in note.supersessions.items()
        if newer not in current
    }
    revised = note.revised(contexts=contexts, links=kept, supersessions=superseded)
    if note.own_entry is not None and revised.own_entry is None:
        return unconstructed(revised)
    return revised
