"""The write path in three steps: construct, propose, commit."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from .._sync import resolve
from ..errors import ModelReplyError
from ..filters import Condition
from ..ids import new_operation, now
from ..notes import Change, Namespace, Note
from ..plans import EvolutionReport, Plan, PlannedNote, PlannedUpdate
from ..runtime import Runtime
from ..steps import candidates, construct, edits, gate
from ..steps.evolve import ask_evolution
from ..steps.linking import planned_edits
from ..steps.planning import planned
from ..steps.prompted import Prompted
from .decisions import Decisions, decide
from .embedding import embed
from .rewriting import rewrite

log = logging.getLogger("amem_integrations")


def batches(notes: Sequence[Note], size: int) -> list[list[Note]]:
    """Return the notes in batches of one thread, in order of seq.

    A note that failed before goes alone, so that it cannot fail others again.
    """
    by_thread = sorted(notes, key=lambda note: (note.thread or "", note.attempts > 0, note.seq))
    made: list[list[Note]] = []
    for (_, retried), group in groupby(by_thread, key=lambda n: (n.thread or "", n.attempts > 0)):
        ordered = list(group)
        step = 1 if retried else size
        made += [ordered[i : i + step] for i in range(0, len(ordered), step)]
    return sorted(made, key=lambda batch: batch[0].seq)


async def construct_batch(
    runtime: Runtime, namespace: Namespace, batch: Sequence[Note]
) -> EvolutionReport:
    """Give the notes of a batch their attributes; a note without a usable answer is marked failed."""
    before = await turns_before(runtime, namespace, batch[0])
    op, at = new_operation(), now()
    try:
        attributes = await construct.ask_attributes(runtime, batch, before)
    except ModelReplyError as error:
        return await mark_failed(runtime, namespace, {n.id: str(error) for n in batch}, op)
    seen = construct.seen_by(batch, before)
    attributed = {
        note.id: construct.apply(
            attributes[note.id], note, seen[note.id], model=runtime.model_name, op=op, at=at
        )
        for note in batch
        if note.id in attributes
    }
    _, made = await rewrite(runtime, namespace, op, attributed)
    missing = {note.id: "the model left it out" for note in batch if note.id not in attributes}
    failed = await mark_failed(runtime, namespace, missing, op)
    return failed + EvolutionReport(constructed=tuple(change.note_id for change in made))


async def turns_before(runtime: Runtime, namespace: Namespace, note: Note) -> list[Note]:
    """Return the turns just before a note in its thread, oldest first."""
    if note.thread is None:
        return []
    where = (Condition("thread", "$eq", note.thread), Condition("seq", "$lt", note.seq))
    turns = await resolve(
        runtime.store.scan(namespace, where=where, limit=construct.TURNS_BEFORE, newest_first=True)
    )
    return turns[::-1]


async def propose_batch(
    runtime: Runtime, namespace: Namespace, op: str, batch: Sequence[Note]
) -> Plan:
    """Return what is to be linked and updated for a batch; nothing is written."""
    offer = await candidates.find(runtime, namespace, batch)
    prompted = Prompted.of(batch, offer)
    try:
        evolutions = await ask_evolution(runtime, prompted)
    except ModelReplyError as error:
        return Plan(id=op, namespace=namespace, failed={note.id: str(error) for note in batch})
    plans = [
        planned(op, runtime.model_name, note, prompted, evolutions.get(prompted.alias[note.id]))
        for note in batch
    ]
    runtime.usage.count("evolve", dropped=sum(plan.dropped for plan in plans))
    judged = await _judge(runtime, plans, offer)
    return Plan(id=op, namespace=namespace, notes=tuple(judged))


async def _judge(
    runtime: Runtime, plans: Sequence[PlannedNote], offer: candidates.Offer
) -> list[PlannedNote]:
    """Put every update through the gate; with evolution off there is none."""
    if not runtime.config.evolve:
        return [replace(plan, updates=()) for plan in plans]
    entries = [update.context for plan in plans for update in plan.updates]
    vectors = dict(zip(entries, await embed(runtime, entries), strict=True))
    floor = runtime.config.min_gate_similarity

    def judged(update: PlannedUpdate) -> PlannedUpdate:
        target = offer.vectors.get(update.target)
        return gate.judge(update, vectors.get(update.context), target, floor)

    return [replace(plan, updates=tuple(map(judged, plan.updates))) for plan in plans]


async def commit_plan(
    runtime: Runtime, plan: Plan, decisions: Decisions | None = None
) -> EvolutionReport:
    """Write a plan, with a reviewer's decisions on its updates; doing it again changes nothing."""
    decided = decide(plan.notes, decisions or {})
    known = await _current(runtime, plan.namespace, decided)
    plans = [_still_possible(p, known) for p in decided if _is_current(p, plan.id, known)]
    most = runtime.config.max_links
    touched = planned_edits(plans, known, op=plan.id, at=now(), max_links=most)
    notes, changes = await rewrite(runtime, plan.namespace, plan.id, touched)
    await _unlink_other_ends(runtime, plan.namespace, plan.id, changes)
    await _take_back(runtime, plan, plans, touched)
    failed = await mark_failed(runtime, plan.namespace, plan.failed, f"{plan.id}:failed")
    pairs = {frozenset((c.note_id, c.cause)) for c in changes if c.kind == "link"}
    return failed + EvolutionReport(
        done=tuple(p.id for p in plans if p.id in notes),
        links=len(pairs),
        evolved=tuple(dict.fromkeys(c.note_id for c in changes if c.kind == "evolve")),
        proposals=tuple(change.id for change in changes if change.kind == "proposal"),
        dropped=sum(p.dropped for p in plans),
    )


async def _current(
    runtime: Runtime, namespace: Namespace, plans: Sequence[PlannedNote]
) -> dict[str, Note]:
    """Return the notes that plans are about, as they are now."""
    ids = dict.fromkeys(note_id for plan in plans for note_id in _touched(plan))
    return {note.id: note for note in await resolve(runtime.store.get(namespace, list(ids)))}


def _touched(plan: PlannedNote) -> list[str]:
    links = [link.target for link in plan.links]
    return [plan.id, *links, *(update.target for update in plan.updates)]


def _is_current(plan: PlannedNote, op: str, known: Mapping[str, Note]) -> bool:
    """Return whether a note is still what was planned for, and nobody else has finished it since."""
    source = known.get(plan.id)
    entry = source.own_entry if source is not None else None
    if source is None or entry is None or entry.change != plan.entry:
        return False
    return source.state != "done" or op in source.ops


def _still_possible(plan: PlannedNote, known: Mapping[str, Note]) -> PlannedNote:
    """Leave out what is about notes that are gone."""
    return replace(
        plan,
        links=tuple(link for link in plan.links if link.target in known),
        updates=tuple(update for update in plan.updates if update.target in known),
    )


async def _take_back(
    runtime: Runtime, plan: Plan, plans: Sequence[PlannedNote], touched: Collection[str]
) -> None:
    """Undo what a note left on others if it was corrected or deleted while the plan was written."""
    known = await _current(runtime, plan.namespace, plans)
    corrected = [p.id for p in plans if p.id in known and not _is_current(p, plan.id, known)]
    at, op = now(), f"{plan.id}:late"
    steps = [edits.forget(gone, op, at) for gone in touched if gone not in known]
    steps += [edits.withdraw(source, op, at) for source in corrected]
    if steps:
        everyone = {note_id: edits.chain(steps) for note_id in touched if note_id in known}
        await rewrite(runtime, plan.namespace, op, everyone)


async def _unlink_other_ends(
    runtime: Runtime, namespace: Namespace, op: str, changes: Sequence[Change]
) -> None:
    """A link that one note had to drop goes from the other end as well."""
    steps: defaultdict[str, list[edits.Edit]] = defaultdict(list)
    for change in changes:
        if change.kind == "unlink":
            drop = edits.drop_link(change.note_id, op, change.recorded_at)
            steps[change.data["target"]].append(drop)
    if steps:
        drops = {target: edits.chain(parts) for target, parts in steps.items()}
        await rewrite(runtime, namespace, f"{op}:unlink", drops)


async def mark_failed(
    runtime: Runtime, namespace: Namespace, reasons: Mapping[str, str], op: str
) -> EvolutionReport:
    """Record why notes could not be finished; what is known of them stays."""
    if not reasons:
        return EvolutionReport()
    at = now()
    for note_id, reason in reasons.items():
        log.warning("note %s could not be finished: %s", note_id, reason)
    failures = {note_id: edits.fail(reason, op, at) for note_id, reason in reasons.items()}
    await rewrite(runtime, namespace, op, failures)
    return EvolutionReport(failed=dict(reasons))
