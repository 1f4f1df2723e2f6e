"""What a model wrote when it was shown a text that is gone, and that nobody knows any more: all of it goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..fetch import all_changes
from ..ids import new_operation, now
from ..notes import Change, Namespace, Note
from ..runtime import Runtime, resolve
from .edits import Edit, change, without
from .quote_matching import without_quotes_in, written_texts
from .quotes import Gone, QuoteRemoval, texts_in
from .rewrite import rewrite


async def remove_all_of(runtime: Runtime, namespace: Namespace, ops: Sequence[str]) -> None:
    """Remove all that a model wrote in these operations: it was shown a text that nobody knows any more.

    What others, who were shown that, quoted of it goes first: by what was written it is known.
    """
    store, at, op = runtime.store, now(), f"{ops[0]}:unknown"
    changes = await resolve(store.changes_by_op(namespace, ops))
    by_note: dict[str, list[Change]] = {}
    for made in changes:
        by_note.setdefault(made.note_id, []).append(made)
    by_note.pop("", None)
    await _remove_quotes_of(runtime, namespace, by_note)
    steps = {note_id: _without_all(mine, op, at) for note_id, mine in by_note.items()}
    await rewrite(runtime, namespace, op, steps, removing=True)
    made_now = {made.id for made in changes}
    records = {made.id: made for made in changes}
    for note_id in by_note:  # an entry that was replaced since stands in the record of that, too
        history = await all_changes(store, namespace, note_id)
        records |= {made.id: made for made in history}
    blanked = [
        replace(made, data={**data, "blanked": True})
        for made in records.values()
        if (data := _without_entries(made.data, made_now, all_of_it=made.id in made_now))
        != made.data
    ]
    if blanked:
        await resolve(store.rewrite_changes(namespace, blanked))


async def _remove_quotes_of(
    runtime: Runtime, namespace: Namespace, by_note: Mapping[str, Sequence[Change]]
) -> None:
    """Remove what quotes the contexts that changes brought to notes, from other notes."""
    first = min((made.recorded_at for mine in by_note.values() for made in mine), default=None)
    notes = await resolve(runtime.store.get(namespace, list(by_note)))
    entries = [e for note in notes for e in note.contexts if first and e.recorded_at < first]
    kept = tuple(text for entry in entries for text in texts_in(entry))
    for note_id, changes in by_note.items():
        brought = [made.data["entry"] for made in changes if "entry" in made.data]
        texts = tuple(text for entry in brought for text in written_texts(entry))
        if texts:
            gone = Gone(note_id=note_id, texts=texts, kept=kept, in_context=True)
            await QuoteRemoval(runtime, namespace, new_operation(), [gone]).remove()


def _without_entries(value: Any, made: Collection[str], *, all_of_it: bool) -> Any:  # noqa: ANN401
    """Return the data of a record without the texts of entries that these changes made; or without any."""
    if isinstance(value, Mapping):
        inside = all_of_it or value.get("change") in made
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
    entries = {made.id for made in changes}
    targets = {made.data["target"] for made in changes if made.kind == "link"}
    newer = {made.cause or "" for made in changes if made.kind == "supersede"}

    def edit(note: Note) -> tuple[Note, list[Change]]:
        revised = without(note, entries=entries, reasons=targets | newer)
        if revised == note:
            return note, []
        data = {"entries": sorted(entries), "links": [], "reasons": sorted(targets)}
        return revised, [change(op, "forget", note, recorded_at=at, data=data)]

    return edit
