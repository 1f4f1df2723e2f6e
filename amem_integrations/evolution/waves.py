"""A wave: batches of several threads that are evolved together, and what is gone meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ids import clock
from ..notes import Namespace, Note
from ..plans import EvolutionReport
from ..runtime import RULES, Runtime
from .candidates import turns_before
from .commit import commit_plan
from .construct import TURNS_BEFORE, Batch, Outcome, construct_all
from .deleted_meanwhile import remove_what_is_gone
from .propose import propose_all
from .upgrade import upgrade_all


async def evolve_wave(runtime: Runtime, namespace: Namespace, wave: Sequence[Batch]) -> Outcome:
    """Construct what is raw, then link; return the notes as they are now, and what was done.

    Raises:
        ClaimLost: Another process has taken over a thread.
        ModelUnavailableError: The model did not answer.
    """
    raw = [
        replace(batch, notes=waiting)
        for batch in wave
        if (waiting := [note for note in batch.notes if note.own_entry is None])
    ]
    since = clock.tick()
    made = await construct_all(runtime, namespace, raw) if raw else Outcome()
    if raw and made.error is None and runtime.model_name != RULES:
        # The next call may take long: what is gone by now is not shown to it, and a kill then leaves nothing to look for.
        made = await _without_gone(runtime, namespace, raw, made, since)
    notes = {note.id: note for batch in wave for note in batch.notes}
    made = replace(made, notes=notes | made.notes)
    return await _then_link(runtime, namespace, wave, made, since)


async def upgrade_wave(runtime: Runtime, namespace: Namespace, wave: Sequence[Batch]) -> Outcome:
    """Construct anew what was made by rules, then link; as `evolve_wave`."""
    since = clock.tick()
    made = await upgrade_all(runtime, namespace, wave)
    if made.error is None:
        made = await _without_gone(runtime, namespace, wave, made, since)
    return await _then_link(runtime, namespace, wave, made, since)


async def _without_gone(
    runtime: Runtime,
    namespace: Namespace,
    batches: Sequence[Batch],
    made: Outcome,
    since: int,
) -> Outcome:
    shown = shown_notes(batches)
    current = await remove_what_is_gone(runtime, namespace, shown, since, ops=made.ops)
    return replace(made, notes={i: current[i] for i in made.notes if i in current})


async def _then_link(
    runtime: Runtime, namespace: Namespace, wave: Sequence[Batch], made: Outcome, since: int
) -> Outcome:
    """Propose and commit for those of the notes that are constructed; return all that were shown, as they are."""
    notes, ops, shown = made.notes, made.ops, shown_notes(wave)
    if made.error is not None:
        return replace(
            made, notes=await remove_what_is_gone(runtime, namespace, shown, since, ops=ops)
        )
    ready = [
        Batch(notes=found, before=batch.before)
        for batch in wave
        if (found := ready_notes([notes[note.id] for note in batch.notes if note.id in notes]))
    ]
    report, error = EvolutionReport(), None
    if ready:
        proposal = await propose_all(runtime, namespace, ready)
        known = {**proposal.notes, **{n.id: n for batch in ready for n in batch.notes}}
        shown, error = {**shown, **proposal.notes}, proposal.error
        ops = (*ops, proposal.plan.id)
        report = await commit_plan(runtime, proposal.plan, known=known)
    left = await remove_what_is_gone(runtime, namespace, shown, since, ops=ops)
    return Outcome(notes=left, report=made.report + report, error=error)


def ready_notes(notes: Sequence[Note]) -> list[Note]:
    """Return the notes that wait for their links."""
    return [note for note in notes if note.own_entry is not None and note.state != "done"]


def shown_notes(batches: Sequence[Batch]) -> dict[str, Note]:
    """Return the notes that a model is shown, as it is shown them."""
    return {n.id: n for batch in batches for n in (*batch.before, *batch.notes)}


async def batch_of(runtime: Runtime, namespace: Namespace, notes: Sequence[Note]) -> Batch:
    """Return some notes of one thread, with the turns before them."""
    count = max(TURNS_BEFORE, runtime.config.recent)
    return Batch(notes=notes, before=await turns_before(runtime, namespace, notes[0], count))
