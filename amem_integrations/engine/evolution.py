"""The first two steps of the write path, construct and propose, over many batches at once.

The batches are asked about together; what came of it is encoded by one call and written in one go.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from .._sync import resolve
from ..errors import ModelReplyError, ModelUnavailableError
from ..filters import Condition
from ..ids import new_operation, now
from ..notes import Namespace, Note
from ..plans import EvolutionReport, Plan, PlannedNote, PlannedUpdate
from ..ports import Vector
from ..runtime import Runtime
from ..steps import candidates, construct, edits, gate
from ..steps.evolve import ask_evolution
from ..steps.planning import planned
from ..steps.prompted import Prompted
from .embedding import embed
from .rewriting import rewrite

log = logging.getLogger("amem_integrations")

Work = Sequence[Sequence[Note]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a model said of a batch: an edit or a reason by note id; or that it said nothing."""

    edits: Mapping[str, edits.Edit] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """What a model proposes for a batch, not judged yet, and the vectors to judge it by."""

    notes: Sequence[PlannedNote] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    vectors: Mapping[str, Vector] = field(default_factory=dict)


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


async def construct_all(runtime: Runtime, namespace: Namespace, work: Work) -> EvolutionReport:
    """Give the notes of some batches their attributes; a note without a usable answer is marked failed.

    Raises:
        ModelUnavailableError: A batch got no answer; what was answered is written all the same.
    """
    op = new_operation()

    async def one(batch: Sequence[Note]) -> _Answer:
        return await _attributes(runtime, namespace, op, batch)

    answers = await runtime.map(one, work, runtime.config.max_concurrency)
    steps = {note_id: edit for answer in answers for note_id, edit in answer.edits.items()}
    _, made = await rewrite(runtime, namespace, op, steps)
    reasons = {note_id: why for answer in answers for note_id, why in answer.failed.items()}
    failed = await mark_failed(runtime, namespace, reasons, op)
    for answer in answers:
        if answer.error is not None:
            raise answer.error
    return failed + EvolutionReport(constructed=tuple(change.note_id for change in made))


async def _attributes(
    runtime: Runtime, namespace: Namespace, op: str, batch: Sequence[Note]
) -> _Answer:
    """Ask for the attributes of a batch."""
    before = await turns_before(runtime, namespace, batch[0])
    at = now()
    try:
        attributes = await construct.ask_attributes(runtime, batch, before)
    except ModelReplyError as error:
        return _Answer(failed={note.id: str(error) for note in batch})
    except ModelUnavailableError as error:
        return _Answer(error=error)
    seen = construct.seen_by(batch, before)
    return _Answer(
        edits={
            note.id: construct.apply(
                attributes[note.id], note, seen[note.id], model=runtime.model_name, op=op, at=at
            )
            for note in batch
            if note.id in attributes
        },
        failed={note.id: "the model left it out" for note in batch if note.id not in attributes},
    )


async def turns_before(runtime: Runtime, namespace: Namespace, note: Note) -> list[Note]:
    """Return the turns just before a note in its thread, oldest first."""
    if note.thread is None:
        return []
    where = (Condition("thread", "$eq", note.thread), Condition("seq", "$lt", note.seq))
    turns = await resolve(
        runtime.store.scan(namespace, where=where, limit=construct.TURNS_BEFORE, newest_first=True)
    )
    return turns[::-1]


async def propose_all(runtime: Runtime, namespace: Namespace, work: Work) -> Plan:
    """Return what is to be linked and updated for some batches; nothing is written."""
    op = new_operation()

    async def one(batch: Sequence[Note]) -> _Proposal:
        return await _proposal(runtime, namespace, op, batch)

    proposals = await runtime.map(one, work, runtime.config.max_concurrency)
    return Plan(
        id=op,
        namespace=namespace,
        notes=tuple(await _judged(runtime, proposals)),
        failed={note_id: why for made in proposals for note_id, why in made.failed.items()},
    )


async def _proposal(
    runtime: Runtime, namespace: Namespace, op: str, batch: Sequence[Note]
) -> _Proposal:
    """Ask for the links and updates of a batch."""
    offer = await candidates.find(runtime, namespace, batch)
    prompted = Prompted.of(batch, offer)
    try:
        evolutions = await ask_evolution(runtime, prompted)
    except ModelReplyError as error:
        return _Proposal(failed={note.id: str(error) for note in batch})
    plans = [
        planned(op, runtime.model_name, note, prompted, evolutions.get(prompted.alias[note.id]))
        for note in batch
    ]
    runtime.usage.count("evolve", dropped=sum(plan.dropped for plan in plans))
    targets = {update.target for plan in plans for update in plan.updates}
    vectors = {target: offer.vectors[target] for target in targets & offer.vectors.keys()}
    return _Proposal(notes=plans, vectors=vectors)


async def _judged(runtime: Runtime, proposals: Sequence[_Proposal]) -> list[PlannedNote]:
    """Put every update through the gate; with evolution off there is none."""
    plans = [plan for made in proposals for plan in made.notes]
    if not runtime.config.evolve:
        return [replace(plan, updates=()) for plan in plans]
    entries = list(dict.fromkeys(update.context for plan in plans for update in plan.updates))
    vectors = dict(zip(entries, await embed(runtime, entries), strict=True))
    targets = {target: row for made in proposals for target, row in made.vectors.items()}
    floor = runtime.config.min_gate_similarity

    def judged(update: PlannedUpdate) -> PlannedUpdate:
        row = vectors.get(update.context)
        return gate.judge(update, row, targets.get(update.target), floor)

    return [replace(plan, updates=tuple(map(judged, plan.updates))) for plan in plans]


async def mark_failed(
    runtime: Runtime, namespace: Namespace, reasons: Mapping[str, str], op: str
) -> EvolutionReport:
    """Record why notes could not be finished; what is known of them stays."""
    if not reasons:
        return EvolutionReport()
    at = now()
    failures = {note_id: edits.fail(reason, op, at) for note_id, reason in reasons.items()}
    notes, _ = await rewrite(runtime, namespace, op, failures)
    for note_id, reason in reasons.items():
        log.warning("note %s could not be finished: %s", note_id, reason)
        note = notes.get(note_id)
        if note is not None and note.attempts >= runtime.config.max_attempts:
            log.warning("it failed %d times; only evolve(retry=True) tries it again", note.attempts)
    return EvolutionReport(failed=dict(reasons))
