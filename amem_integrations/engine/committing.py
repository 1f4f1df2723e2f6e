"""The third step of the write path: a plan is written, at once and for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .._sync import resolve
from ..ids import now
from ..notes import Change, Namespace, Note
from ..plans import EvolutionReport, Plan, PlannedNote
from ..runtime import Runtime
from ..steps import edits
from ..steps.linking import planned_edits
from .decisions import Decisions, decide
from .evolution import mark_failed
from .rewriting import rewrite


async def commit_plan(
    runtime: Runtime, plan: Plan, decisions: Decisions | None = None, *, again: bool = False
) -> EvolutionReport:
    """Write a plan, with a reviewer's decisions on its updates; doing it again changes nothing.

    With `again`, that holds however long ago it was done first (see `rewrite`).
    """
    decided = decide(plan.notes, decisions or {})
    known = await _current(runtime, plan.namespace, decided)
    plans = [_still_possible(p, known) for p in decided if _is_current(p, plan.id, known)]
    most = runtime.config.max_links
    touched = planned_edits(plans, known, op=plan.id, at=now(), max_links=most)
    notes, changes = await rewrite(runtime, plan.namespace, plan.id, touched, again=again)
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
        await rewrite(runtime, plan.namespace, op, everyone, removing=True)


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
