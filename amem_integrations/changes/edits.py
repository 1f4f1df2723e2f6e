"""Pure: edits of single notes. An edit is a set operation, so edits commute and can be done again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..notes import Change, Link, Note
from . import fields
from .fields import entry_json, link_json
from .record import change

Edit = Callable[[Note], tuple[Note, list[Change]]]

TOO_MANY = "a note had too many links"


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
    """Return the edit by which the user changes `fields.GIVEN` of a note; the old values go to the history.

    With other content, another speaker or time the note is pending again: its own context entry was made of
    the old ones. Its links stay. `rest` holds the texts of the chunks after the first, `before` and `after`.
    """

    def edit(note: Note) -> tuple[Note, list[Change]]:
        new = {name: value for name, value in values.items() if value != getattr(note, name)}
        if not new and not rest:
            return note, []
        revised = note.revised(**new)
        data: dict[str, Any] = {
            name: {"before": fields.get(note, name), "after": fields.get(revised, name)}
            for name in fields.GIVEN
            if name in new
        }
        if rest:
            data["rest"] = {name: list(texts) for name, texts in rest.items()}
        if not new.keys().isdisjoint(fields.STATED):
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
    reasons: Iterable[str] = (),
) -> Note:
    """Return the note without these context entries (by their changes), links, and reasons of links.

    A note that loses its own entry is pending again.
    """
    gone, blanked = set(links), set(reasons)
    kept = {
        target: replace(link, reason="", relation="related") if target in blanked else link
        for target, link in note.links.items()
        if target not in gone
    }
    contexts = tuple(entry for entry in note.contexts if entry.change not in entries)
    revised = note.revised(contexts=contexts, links=kept)
    if note.own_entry is not None and revised.own_entry is None:
        return unconstructed(revised)
    return revised
