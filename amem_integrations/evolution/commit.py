"""Commit: a plan is written, in one batch and for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..changes.edits import (
    ENTRY,
    Edit,
    chain,
    change,
    drop_link,
    entry_data,
    entry_json,
    finish,
    link_json,
    prompt_records,
    stated,
    unlinked,
)
from ..changes.rewrite import rewrite
from ..changes.traces import Gone, Traces, texts_of
from ..ids import now
from ..notes import Change, ChangeKind, ContextEntry, Direction, Link, Namespace, Note
from ..plans import EvolutionReport, Plan, PlannedLink, PlannedNote, PlannedUpdate
from ..runtime import Runtime, resolve
from .construct import mark_failed
from .supersede import supersede


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Makes the edits of one operation."""

    op: str
    at: datetime
    max_links: int

    def edits(self, plans: Sequence[PlannedNote], sources: Mapping[str, Note]) -> dict[str, Edit]:
        """Return by note id what plans do to each note that they touch."""
        steps: defaultdict[str, list[Edit]] = defaultdict(list)
        for plan in plans:
            for link in plan.links:
                steps[plan.id].append(self._link(link, link.target, "out", plan))
                steps[link.target].append(self._link(link, plan.id, "in", plan))
            for update in plan.updates:
                steps[update.target].append(self.append(update, sources[plan.id], plan.model))
            for one in plan.supersessions:
                edit = supersede(one, sources[plan.id], model=plan.model, op=self.op, at=self.at)
                steps[one.target].append(edit)
            steps[plan.id].append(finish(plan.entry))
        return {note_id: chain(parts) for note_id, parts in steps.items()}

    def other_ends(self, changes: Sequence[Change]) -> dict[str, Edit]:
        """Return the edits that drop links from the other end as well, where a note had too many."""
        steps: defaultdict[str, list[Edit]] = defaultdict(list)
        for made in changes:
            if made.kind == "unlink":
                steps[made.data["target"]].append(drop_link(made.note_id, self.op, self.at))
        return {target: chain(parts) for target, parts in steps.items()}

    def append(self, update: PlannedUpdate, source: Note, model: str) -> Edit:
        """Return the edit that appends a context entry to a note; a rejected one is only recorded.

        The entry replaces an earlier one of the same cause: that note was constructed again.
        """
        entry = ContextEntry(
            text=update.context,
            keywords=update.keywords,
            tags=update.tags,
            cause=source.id,
            model=model,
            change=update.id,
            at=source.when,
            recorded_at=self.at,
        )

        def edit(note: Note) -> tuple[Note, list[Change]]:
            data: dict[str, Any] = {"entry": entry_data(entry), "similarity": update.similarity}
            if update.rejected is not None:
                data["rejected"] = update.rejected
                return note, [self._record("proposal", note, source.id, model, data)]
            old = [e for e in note.contexts if e.cause == source.id and not e.causes]
            if any(kept.text == entry.text for kept in old):
                return note, []
            if old:
                gone = {f"{ENTRY}{kept.change}": _step(kept, None) for kept in old}
                data["fields"] = {**gone, f"{ENTRY}{entry.change}": _step(None, entry)}
            contexts = (*(kept for kept in note.contexts if kept not in old), entry)
            made = self._record("evolve", note, source.id, model, data)
            return note.revised(contexts=contexts), [made]

        return edit

    def _link(
        self, planned: PlannedLink, other: str, direction: Direction, plan: PlannedNote
    ) -> Edit:
        link = Link(
            relation=planned.relation,
            reason=planned.reason,
            strength=planned.strength,
            direction=direction,
            created=self.at,
            reinforced=self.at,
        )

        def edit(note: Note) -> tuple[Note, list[Change]]:
            if other in note.links:
                return note, []
            made = self._record(
                "link", note, other, plan.model, {"target": other, **link_json(link)}
            )
            links, dropped = _cap({**note.links, other: link}, self.max_links)
            gone = [unlinked(note, t, old, self.op, self.at) for t, old in dropped.items()]
            return note.revised(links=links), [made, *gone]

        return edit

    def _record(
        self, kind: ChangeKind, note: Note, cause: str, model: str, data: dict[str, Any]
    ) -> Change:
        return change(self.op, kind, note, cause=cause, model=model, recorded_at=self.at, data=data)


def _cap(links: dict[str, Link], most: int) -> tuple[dict[str, Link], dict[str, Link]]:
    """Return the links kept and the links dropped: the weakest go, of equal ones the oldest."""
    if len(links) <= most:
        return links, {}
    ranked = sorted(links, key=lambda t: (links[t].strength, links[t].reinforced, t), reverse=True)
    kept = set(ranked[:most])
    return (
        {target: link for target, link in links.items() if target in kept},
        {target: link for target, link in links.items() if target not in kept},
    )


def _step(before: ContextEntry | None, after: ContextEntry | None) -> dict[str, Any]:
    return {"before": entry_json(before), "after": entry_json(after)}


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
    wrote = any(one.links or one.updates or one.supersessions for one in plans)
    shown = sorted({i for one in decided for i in _shown(one)}) if wrote else []
    done = await rewrite(
        runtime,
        space,
        plan.id,
        planner.edits(plans, known),
        base=known,
        records=prompt_records(plan.id, space, shown, at),
        follow=planner.other_ends,
        again=again,
    )
    await mark_failed(runtime, space, plan.failed, plan.id, base=known)
    pairs = {frozenset((c.note_id, c.cause)) for c in done.changes if c.kind == "link"}
    return EvolutionReport(
        done=tuple(one.id for one in plans if one.id in done.notes),
        links=len(pairs),
        evolved=tuple(dict.fromkeys(c.note_id for c in done.changes if c.kind == "evolve")),
        superseded=tuple(dict.fromkeys(c.note_id for c in done.changes if c.kind == "supersede")),
        proposals=tuple(made.id for made in done.changes if made.kind == "proposal"),
        failed=dict(plan.failed),
        dropped=sum(one.dropped for one in plans),
    )


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
        supersessions=tuple(one for one in plan.supersessions if one.target in ids),
    )
