"""Upgrade: what rules made of a note gives way to what a language model makes of it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ..changes import edits
from ..changes.edits import Edit
from ..changes.proposals import rejection
from ..changes.rewrite import rewrite
from ..errors import ModelUnavailableError
from ..fetch import all_changes
from ..ids import clock, new_operation, now
from ..notes import Change, Namespace, Note
from ..plans import EvolutionReport
from ..runtime import RULES, Runtime, resolve
from . import construct
from .ask import counting
from .construct import Batch, Outcome, describe, shown_ids

log = logging.getLogger("amem_integrations")

WHY = "it was made without a language model"


async def upgrade_all(runtime: Runtime, namespace: Namespace, batches: Sequence[Batch]) -> Outcome:
    """Upgrade the notes of several batches at once; return those that were, and why it stopped, if it did."""

    async def one(batch: Batch) -> Outcome:
        try:
            return await _upgrade_batch(runtime, namespace, batch)
        except ModelUnavailableError as error:
            return Outcome(error=error)

    done = await runtime.map(one, batches, runtime.config.max_concurrency)
    return Outcome(
        notes={note_id: note for made in done for note_id, note in made.notes.items()},
        report=sum((made.report for made in done), EvolutionReport()),
        error=next((made.error for made in done if made.error is not None), None),
        ops=tuple(op for made in done for op in made.ops),
    )


async def _upgrade_batch(runtime: Runtime, namespace: Namespace, batch: Batch) -> Outcome:
    """Give notes made by rules the attributes of a model; what rules linked and evolved for them goes.

    A note without a usable answer stays as it is. The others are then `constructed`: should this be
    interrupted, any `evolve` goes on with them.

    Raises:
        ModelUnavailableError: The model did not answer.
    """
    op, since, at = new_operation(), clock.tick(), now()
    async with counting(runtime, namespace, op, at) as asking:
        said = await describe(asking, batch)
        await runtime.confirm_hold()
    described, reasons = said.described, said.failed
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    touched: list[str] = []
    for note in (note for note in batch.notes if note.id in described):
        linked, (current, *others) = await _rule_ends(runtime, namespace, note)
        for target, edit in _edits_of_others(current, linked, others, op, at):
            steps[target].append(edit)
        made = construct.apply(described[note.id], note, model=runtime.model_name, op=op, at=at)
        steps[note.id].append(_replaced(made, note, linked, op, at))
        touched.append(note.id)
    chained = {note_id: edits.chain(parts) for note_id, parts in steps.items()}
    shown = shown_ids([batch]) if chained else []
    prompts = edits.prompt_records(op, namespace, shown, at, since=since)
    records = [*prompts, *edits.usage_records(op, namespace, asking.usage.cost(), at)]
    done = await rewrite(runtime, namespace, op, chained, records=records)
    for note_id in touched:
        await _reject(runtime, namespace, note_id, op)
    for note_id, reason in reasons.items():
        log.warning("note %s stays as it was made without a model: %s", note_id, reason)
    upgraded = {note_id: done.notes[note_id] for note_id in touched if note_id in done.notes}
    report = EvolutionReport(failed=reasons, constructed=tuple(upgraded))
    return Outcome(notes=upgraded, report=report, ops=(op,))


async def _rule_ends(
    runtime: Runtime, namespace: Namespace, note: Note
) -> tuple[set[str], list[Note]]:
    """Return what rules linked a note to; and the note as it is now, and those that point back to it.

    A link names no model. The last record of its making does: what was undone and redone since is the same.
    """
    made = await all_changes(runtime.store, namespace, note.id, ("link",))
    models = {one.data["target"]: one.model for one in made}
    current = await resolve(runtime.store.get(namespace, [note.id])) or [note]
    others = await resolve(runtime.store.backlinks(namespace, [note.id]))
    return {target for target, model in models.items() if model == RULES}, [*current, *others]


def _edits_of_others(
    note: Note, linked: set[str], others: Sequence[Note], op: str, at: datetime
) -> Iterator[tuple[str, Edit]]:
    """Yield by note id the edits that remove rule-made links from `note`, and entries because of it."""
    for target in sorted(linked):
        if target in note.links and note.links[target].direction == "out":
            yield target, edits.drop_link(note.id, op, at, WHY)
    for other in others:
        yield other.id, _drop_what_rules_added(note.id, op, at)


def _replaced(construct_edit: Edit, asked: Note, linked: set[str], op: str, at: datetime) -> Edit:
    """Return the edit that puts a model's entry in place of the one by rules, and drops links by rules."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if note.attributes_source != RULES or edits.stated(note) != edits.stated(asked):
            return note, []
        bare = note.revised(contexts=tuple(e for e in note.contexts if e.cause != note.id))
        revised, made = construct_edit(bare)
        made = [one.with_data(**_step(note, revised, ["own"])) for one in made]
        for target in sorted(linked & set(note.links)):
            if note.links[target].direction == "out":
                revised, dropped = edits.drop_link(target, op, at, WHY)(revised)
                made += dropped
        return revised, made

    return edit


def _drop_what_rules_added(cause: str, op: str, at: datetime) -> Edit:
    """Return the edit that removes what rules added to a note because of another."""

    def edit(note: Note) -> tuple[Note, list[Change]]:
        gone = [e for e in note.contexts if e.cause == cause and e.model == RULES]
        fields = [f"{edits.ENTRY}{entry.change}" for entry in gone]
        if not fields:
            return note, []
        contexts = tuple(entry for entry in note.contexts if entry not in gone)
        revised = note.revised(contexts=contexts)
        data = _step(note, revised, fields)
        made = edits.change(op, "upgrade", note, cause=cause, recorded_at=at, data=data)
        return revised, [made]

    return edit


async def _reject(runtime: Runtime, namespace: Namespace, cause: str, op: str) -> None:
    """Reject what rules proposed because of a note, so that it does not wait for a reviewer."""
    mentions = await resolve(runtime.store.mentions(namespace, [cause]))
    proposals = [made for made in mentions if made.kind == "proposal" and made.cause == cause]
    ids = list(dict.fromkeys(made.note_id for made in proposals))
    notes = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    records = [
        rejection(made, notes[made.note_id], op, now(), WHY)
        for made in proposals
        if made.model == RULES and made.note_id in notes
    ]
    if records:
        await resolve(runtime.store.replace(namespace, [], records))


def _step(old: Note, new: Note, names: Sequence[str]) -> dict[str, Any]:
    done = {
        name: {"before": edits.field_value(old, name), "after": edits.field_value(new, name)}
        for name in names
    }
    return {"fields": done, "state": {"before": old.state, "after": new.state}}
