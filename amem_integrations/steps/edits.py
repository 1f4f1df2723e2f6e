"""Pure: edits of single notes. An edit is a set operation, so edits commute and can be done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..notes import Change, ContextEntry, Link, Note
from . import fields
from .fields import ENTRY, entry_json, link_json
from .history import change

Edit = Callable[[Note], tuple[Note, list[Change]]]


def fail(reason: str, op: str, at: datetime) -> Edit:
    """Return the edit that marks a note as failed; what it has stays, and a later try goes on from there."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.state == "done":
            return note, []
        data = {"reason": reason, "attempts": note.attempts + 1}
        record = change(op, "failure", note, recorded_at=at, data=data)
        revised = note.revised(state="failed", failure=reason, attempts=note.attempts + 1)
        return revised, [record]

    return edit


TOO_MANY = "a note had too many links"


def drop_link(target: str, op: str, at: datetime, why: str = TOO_MANY) -> Edit:
    """Return the edit that removes the link to `target`, if there is one."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if target not in note.links:
            return note, []
        links = {other: link for other, link in note.links.items() if other != target}
        return note.revised(links=links), [unlinked(note, target, note.links[target], op, at, why)]

    return edit


def chain(parts: Sequence[Edit]) -> Edit:
    """Return the edit that does these, one after the other."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        changes: list[Change] = []
        for part in parts:
            note, made = part(note)
            changes += made
        return note, changes

    return edit


def finish(entry: str) -> Edit:
    """Return the edit that marks a note as done, if it still has the entry (by its change) it was linked by."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.own_entry is None or note.own_entry.change != entry:
            return note, []
        return note.revised(state="done", failure=None), []

    return edit


def unlinked(
    note: Note, target: str, link: Link, op: str, at: datetime, why: str = TOO_MANY
) -> Change:
    """Return the record of a link that a note did not keep."""
    data = {"target": target, **link_json(link), "why": why}
    return change(op, "unlink", note, cause=target, recorded_at=at, data=data)


def update(op: str, at: datetime, values: Mapping[str, Any]) -> Edit:
    """Return the edit by which the user changes `fields.GIVEN` of a note; the old values go to the history.

    Other content, another speaker or time makes the note pending: its own context entry was made of the
    old ones. Its links stay.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        new = {name: value for name, value in values.items() if value != getattr(note, name)}
        if not new:
            return note, []
        revised = note.revised(**new)
        data: dict[str, Any] = {
            name: {"before": fields.get(note, name), "after": fields.get(revised, name)}
            for name in new
        }
        if not new.keys().isdisjoint(fields.SAID):
            data["own"] = entry_json(note.own_entry)
            data["state"] = {"before": note.state, "after": "pending"}
            others = tuple(entry for entry in note.contexts if entry.cause != note.id)
            revised = revised.revised(contexts=others, state="pending", failure=None, attempts=0)
        return revised, [change(op, "update", note, recorded_at=at, data=data)]

    return edit


def forget(gone: str, op: str, at: datetime) -> Edit:
    """Return the edit that removes every trace of a deleted note.

    Those are the link to it, the entries that it caused, and the note's own entry if that may quote it: the
    note is then constructed again.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        links = {target: link for target, link in note.links.items() if target != gone}
        kept, dropped = _without(note, gone)
        if not dropped and len(links) == len(note.links):
            return note, []
        record = change(op, "forget", note, cause=gone, recorded_at=at)
        return kept.revised(links=links), [record]

    return edit


def withdraw(cause: str, op: str, at: datetime, until: datetime | None = None) -> Edit:
    """Return the edit that removes what the old content of another note had brought to this one.

    With `until`, what was brought later stays: it comes from the new content.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        kept, dropped = _without(note, cause, until)
        if not dropped:
            return note, []
        done = {
            "own" if entry.cause == note.id else f"{ENTRY}{entry.change}": {
                "before": entry_json(entry),
                "after": None,
            }
            for entry in dropped
        }
        data = {"fields": done, "state": {"before": note.state, "after": kept.state}}
        return kept, [change(op, "withdraw", note, cause=cause, recorded_at=at, data=data)]

    return edit


def _without(
    note: Note, source: str, until: datetime | None = None
) -> tuple[Note, list[ContextEntry]]:
    """Return the note without the entries that come from another one or may quote it, and those."""
    if source == note.id:
        return note, []
    dropped = [
        entry
        for entry in note.contexts
        if source in (entry.cause, *entry.seen) and (until is None or entry.recorded_at <= until)
    ]
    kept = note.revised(contexts=tuple(e for e in note.contexts if e not in dropped))
    if note.own_entry is not None and kept.own_entry is None:
        kept = kept.revised(state="pending", failure=None, attempts=0)
    return kept, dropped
