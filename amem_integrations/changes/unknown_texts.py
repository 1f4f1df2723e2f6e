"""What a model wrote when it was shown a text that is gone, and that nobody knows any more: all of it goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..fetch import all_changes
from ..ids import clock, new_operation, now
from ..kinds import FORM
from ..notes import Change, Namespace, Note
from ..runtime import Runtime, resolve
from .edits import ENTRY, LINK, SUPERSEDED, Edit, change, without
from .quote_matching import without_quotes_in
from .quote_removal import delete_forms
from .rewrite import rewrite
from .undo import fields_of


async def remove_all_of(
    runtime: Runtime, namespace: Namespace, ops: Sequence[str], gone: Collection[str] = ()
) -> None:
    """Remove all that a model wrote in these operations: it was shown a text that nobody knows any more.

    The records of its prompts do not name the notes that are `gone` any more.
    """
    store, at, op = runtime.store, now(), new_operation()
    by_note: dict[str, list[Change]] = {}
    changes = await resolve(store.changes_by_op(namespace, ops))
    for made in changes:
        by_note.setdefault(made.note_id, []).append(made)
    prompts = [made for made in by_note.pop("", []) if made.kind == "prompt"]
    stored = await resolve(store.get(namespace, sorted(by_note)))
    forms = [note for note in stored if note.kind == FORM]
    await delete_forms(runtime, namespace, forms)
    for form in forms:
        del by_note[form.id]
    steps = {note_id: _without_all(mine, op, at) for note_id, mine in by_note.items()}
    await rewrite(runtime, namespace, op, steps, removing=True)
    ids, entries = {made.id for made in changes}, _entries(changes)
    records = {made.id: made for mine in by_note.values() for made in mine}
    for note_id in by_note:  # an entry that was replaced since stands in the record of that, too
        history = await all_changes(store, namespace, note_id)
        records |= {made.id: made for made in history}
    rewritten = [
        replace(made, data={**data, "blanked": True})
        for made in records.values()
        if (data := _without_entries(made.data, entries, all_of_it=made.id in ids)) != made.data
    ]
    for made in prompts:
        shown = [note_id for note_id in made.data["shown"] if note_id not in gone]
        rewritten.append(replace(made, data={"shown": shown, "since": clock.tick()}))
    if rewritten:
        await resolve(store.rewrite_changes(namespace, rewritten))


async def remove_brought_back(
    runtime: Runtime, namespace: Namespace, changes: Iterable[Change]
) -> None:
    """Remove what changes took from records that are blanked by now: from one undone, or a proposal approved."""
    taken: dict[str, str] = {}
    for made in changes:
        origin = made.data.get("undone") or made.data.get("proposal")
        if origin and made.kind != "rejection" and not made.data.get("blanked"):
            taken[origin] = made.op
    if taken:
        found = await resolve(runtime.store.changes_by_id(namespace, sorted(taken)))
        if ops := sorted({taken[made.id] for made in found if made.data.get("blanked")}):
            await remove_all_of(runtime, namespace, ops)


def _entries(changes: Iterable[Change]) -> set[str]:
    """Return the entries that changes made or brought back."""
    found = set()
    for made in changes:
        found.add(made.id)
        for name, step in fields_of(made).items():
            if (name == "own" or name.startswith(ENTRY)) and step["after"]:
                found.add(step["after"]["change"])
    return found


def _without_entries(value: Any, made: Collection[str], *, all_of_it: bool) -> Any:  # noqa: ANN401
    """Return the data of a record without the texts of entries that these changes made; or without any."""
    if isinstance(value, Mapping):
        own = value.get("own") or {}
        inside = all_of_it or not {value.get("change"), own.get("change")}.isdisjoint(made)
        return (
            without_quotes_in(value, bool)
            if inside
            else {
                key: _without_entries(inner, made, all_of_it=False) for key, inner in value.items()
            }
        )
    return value


def _without_all(changes: Sequence[Change], op: str, at: datetime) -> Edit:
    """Return the edit that takes what these changes brought from their note."""
    entries, names = _entries(changes), [name for made in changes for name in fields_of(made)]
    reasons = {name for name in names if name.startswith((LINK, SUPERSEDED))}

    def edit(note: Note) -> tuple[Note, list[Change]]:
        revised = without(note, entries=entries, reasons=reasons)
        if revised == note:
            return note, []
        data = {"entries": sorted(entries), "links": [], "reasons": sorted(reasons)}
        return revised, [change(op, "forget", note, recorded_at=at, data=data)]

    return edit
