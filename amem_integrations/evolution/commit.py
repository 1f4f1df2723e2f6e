"""Commit: a plan is written, in one batch and for good."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .._sync import resolve
from ..changes import record
from ..changes.fields import stated
from ..changes.rewrite import rewrite
from ..changes.traces import Gone, Traces, texts_of
from ..ids import now
from ..notes import Namespace, Note
from ..plans import EvolutionReport, Plan, PlannedNote
from ..runtime import Runtime
from .apply_plan import Planner
from .unfinished import mark_failed


async def commit_plan(
    runtime: Runtime,
    plan: Plan,
    *,
    known: Mapping[str, Note],
    again: bool = False,
) -> EvolutionReport:
    """Write a plan; doing it again changes nothing.

    Args:
        runtime: The ports.
        plan: What `propose_all` gave.
        known: The notes of the plan as they were when it was made, or are now.
        again: Doing it again changes nothing however long ago it was done first (see `rewrite`).
    """
    space, at = plan.namespace, now()
    decided = [_only_shown(one) for one in plan.notes]
    plans = [_only_known(one, known) for one in decided if _is_current(one, plan.id, known)]
    planner = Planner(op=plan.id, at=at, max_links=runtime.config.max_links)
    wrote = any(one.links or one.updates for one in plans)
    shown = sorted({i for one in decided for i in _shown(one)}) if wrote else []
    done = await rewrite(
        runtime,
        space,
        plan.id,
        planner.edits(plans, known),
        base=known,
        records=record.prompts(plan.id, space, shown, at),
        follow=planner.other_ends,
        again=again,
    )
    failed = await mark_failed(runtime, space, plan.failed, plan.id, base=known)
    pairs = {frozenset((c.note_id, c.cause)) for c in done.changes if c.kind == "link"}
    report = EvolutionReport(
        done=tuple(one.id for one in plans if one.id in done.notes),
        links=len(pairs),
        evolved=tuple(dict.fromkeys(c.note_id for c in done.changes if c.kind == "evolve")),
        proposals=tuple(made.id for made in done.changes if made.kind == "proposal"),
        dropped=sum(one.dropped for one in plans),
    )
    return failed + report


async def remove_what_is_gone(
    runtime: Runtime, namespace: Namespace, shown: Mapping[str, Note]
) -> dict[str, Note]:
    """Return the notes that were shown to a model as they are now.

    Those that were deleted or corrected while it answered may have been quoted by it, or linked to: what was
    written of them meanwhile is removed.
    """
    current = await _read(runtime, namespace, list(shown))
    gone = [
        Gone(note_id=note_id, texts=texts_of(note))
        for note_id, note in shown.items()
        if note_id not in current
    ]
    corrected = [
        Gone(
            note_id=note_id,
            texts=(note.content, note.speaker or ""),
            kept=(current[note_id].content, current[note_id].speaker or ""),
            corrected_at=now(),
        )
        for note_id, note in shown.items()
        if note_id in current and stated(current[note_id]) != stated(note)
    ]
    for parts, deleted in ((gone, True), (corrected, False)):
        if parts:
            op = f"{parts[0].note_id}:{now().isoformat()}"
            await Traces(runtime, namespace, op, parts).remove(deleted=deleted)
    return await _read(runtime, namespace, list(current)) if gone or corrected else current


async def _read(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> dict[str, Note]:
    stored = await resolve(runtime.store.get(namespace, list(dict.fromkeys(ids))))
    return {note.id: note for note in stored}


def _shown(plan: PlannedNote) -> list[str]:
    return [plan.id, *(candidate.id for candidate in plan.candidates)]


def _is_current(plan: PlannedNote, op: str, known: Mapping[str, Note]) -> bool:
    """Return whether a note is still what was planned for, and nobody else has finished it since."""
    source = known.get(plan.id)
    entry = source.own_entry if source is not None else None
    if source is None or entry is None or entry.change != plan.entry:
        return False
    return source.state != "done" or op in source.ops


def _only_shown(plan: PlannedNote) -> PlannedNote:
    """Leave out what is about notes that were not shown: a plan may have been changed on its way."""
    shown = {candidate.id for candidate in plan.candidates}
    return _restricted(plan, shown)


def _only_known(plan: PlannedNote, known: Mapping[str, Note]) -> PlannedNote:
    """Leave out what is about notes that are gone."""
    return _restricted(plan, known.keys())


def _restricted(plan: PlannedNote, ids: Collection[str]) -> PlannedNote:
    return replace(
        plan,
        links=tuple(link for link in plan.links if link.target in ids),
        updates=tuple(update for update in plan.updates if update.target in ids),
    )
