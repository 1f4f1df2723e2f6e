"""Commit: a plan is written, in one batch and for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..changes import proposals
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
    unlinked,
    usage_records,
)
from ..changes.rewrite import MAX_TRIES, Rewritten, conflict, rewrite
from ..claims import ClaimLost
from ..errors import InvalidInputError
from ..ids import derive, now, time_of
from ..notes import Change, ChangeKind, ContextEntry, Direction, Link, Namespace, Note
from ..plans import EvolutionReport, Plan, PlannedLink, PlannedNote, PlannedRelink, PlannedUpdate
from ..runtime import Runtime, resolve
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words
from .construct import mark_failed
from .relink import Relinker
from .supersede import supersede


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Makes the edits of one operation."""

    op: str
    at: datetime
    max_links: int

    @classmethod
    def of(cls, runtime: Runtime, op: str, at: datetime) -> Planner:
        """Return the planner of an operation, by the settings."""
        return cls(op=op, at=at, max_links=runtime.config.max_links)

    def edits(self, plans: Sequence[PlannedNote], sources: Mapping[str, Note]) -> dict[str, Edit]:
        """Return by note id what plans do to each note that they touch."""
        steps: defaultdict[str, list[Edit]] = defaultdict(list)
        seen: set[frozenset[str]] = set()
        for plan in plans:
            for link in plan.links:
                for end, edit in self.link(link, plan.id, plan.model).items():
                    steps[end].append(edit)
            for end, edit in self._relinks(plan, seen):
                steps[end].append(edit)
            for update in plan.updates:
                source = sources[update.source or plan.id]
                steps[update.target].append(self.append(update, source, plan.model))
            for one in plan.supersessions:
                # The id of its record is none of the plan's choosing: it may have been changed on its way.
                own = replace(one, id=derive("change", self.op, "supersede", one.target, plan.id))
                edit = supersede(own, sources[plan.id], model=plan.model, op=self.op, at=self.at)
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
            text=" ".join(update.context.split()),
            keywords=clean_words(update.keywords, MAX_KEYWORDS),
            tags=clean_words(update.tags, MAX_TAGS),
            cause=source.id,
            model=model,
            change=derive("change", self.op, "evolve", update.target, source.id),
            at=source.when,
            recorded_at=self.at,
        )

        def edit(note: Note) -> tuple[Note, list[Change]]:
            data: dict[str, Any] = {"entry": entry_data(entry), "similarity": update.similarity}
            if update.rejected is not None:
                return note, [self._proposal(note, source.id, model, data, update.rejected)]
            old = [e for e in note.contexts if e.cause == source.id]
            if not entry.text or any(kept.text == entry.text for kept in old):
                return note, []
            if old:
                gone = {f"{ENTRY}{kept.change}": _step(kept, None) for kept in old}
                data["fields"] = {**gone, f"{ENTRY}{entry.change}": _step(None, entry)}
            contexts = (*(kept for kept in note.contexts if kept not in old), entry)
            made = self._record("evolve", note, source.id, model, data)
            return note.revised(contexts=contexts), [made]

        return edit

    def link(
        self, planned: PlannedLink, source: str, model: str, *, proposal: str | None = None
    ) -> dict[str, Edit]:
        """Return by note id the edits that link a note to another; a rejected link is only recorded.

        `proposal` is the id of the proposal that is answered by it.
        """
        if planned.rejected is not None:
            return {planned.target: self._propose_link(planned, source, model)}
        return {
            source: self._link(planned, planned.target, "out", model, proposal),
            planned.target: self._link(planned, source, "in", model, proposal),
        }

    def _relinks(self, plan: PlannedNote, seen: set[frozenset[str]]) -> Iterator[tuple[str, Edit]]:
        """Yield by note id the edits that change links; of several changes of one link the first counts."""
        for relink in plan.relinks:
            relinker = Relinker(op=self.op, at=self.at)
            pair = frozenset((relink.source, relink.target))
            if pair not in seen:
                seen.add(pair)
                yield from relinker.edits(relink, plan.id, plan.model).items()

    def _propose_link(self, planned: PlannedLink, source: str, model: str) -> Edit:
        wanted = {name: getattr(planned, name) for name in ("relation", "reason", "strength")}

        def edit(note: Note) -> tuple[Note, list[Change]]:
            if source in note.links:
                return note, []
            why = planned.rejected or ""
            return note, [self._proposal(note, source, model, {"link": wanted}, why)]

        return edit

    def _link(
        self,
        planned: PlannedLink,
        other: str,
        direction: Direction,
        model: str,
        proposal: str | None,
    ) -> Edit:
        answers = {} if proposal is None else {"proposal": proposal}
        link = Link(
            relation=planned.relation,
            reason=planned.reason,
            strength=planned.strength,
            direction=direction,
            created=self.at,
        )

        def edit(note: Note) -> tuple[Note, list[Change]]:
            if other in note.links:
                return note, []
            data = {"target": other, **link_json(link), **answers}
            made = self._record("link", note, other, model, data)
            links, dropped = self._cap({**note.links, other: link})
            gone = [unlinked(note, t, old, self.op, self.at) for t, old in dropped.items()]
            return note.revised(links=links), [made, *gone]

        return edit

    def _cap(self, links: dict[str, Link]) -> tuple[dict[str, Link], dict[str, Link]]:
        """Return the links kept and the links dropped: the weakest go, of equal ones the oldest."""
        if len(links) <= self.max_links:
            return links, {}

        def rank(target: str) -> tuple[float, datetime, str]:
            link = links[target]
            return link.strength, link.created, target

        kept = set(sorted(links, key=rank, reverse=True)[: self.max_links])
        return (
            {target: link for target, link in links.items() if target in kept},
            {target: link for target, link in links.items() if target not in kept},
        )

    def _proposal(
        self, note: Note, cause: str, model: str, wanted: dict[str, Any], why: str
    ) -> Change:
        return proposals.proposal(
            self.op, note, cause, model=model, at=self.at, wanted=wanted, why=why
        )

    def _record(
        self, kind: ChangeKind, note: Note, cause: str, model: str, data: dict[str, Any]
    ) -> Change:
        return change(self.op, kind, note, cause=cause, model=model, recorded_at=self.at, data=data)


def _step(before: ContextEntry | None, after: ContextEntry | None) -> dict[str, Any]:
    return {"before": entry_json(before), "after": entry_json(after)}


async def commit_plan(
    runtime: Runtime,
    plan: Plan,
    *,
    known: Mapping[str, Note],
    again: bool = False,
    since: int | None = None,
) -> EvolutionReport:
    """Write a plan; doing it again changes nothing, with `again` however long ago it was done first.

    `known` are the notes of the plan as they were when it was made, or are now. `since` is the instant at which it is
    known to quote nothing that is gone (None: when it was made).

    Raises:
        InvalidInputError: It has the id of another operation.
    """
    if again and not all(_has_id_of(plan.id, one) for one in plan.notes if one.id in known):
        raise InvalidInputError(f"this plan was made under another id than {plan.id!r}")
    space, at = plan.namespace, now()
    try:
        await runtime.confirm_hold()
    except ClaimLost:
        await write_cost(runtime, plan)
        raise
    # A plan may have been changed on its way: what is about notes that were not shown, or are gone, is left out.
    plans = [
        _restricted(one, (_shown(one) & known.keys()) - {one.id})
        for one in plan.notes
        if _is_current(one, plan.id, known)
    ]
    shown = {i for one in plan.notes for i in (one.id, *_shown(one))}
    sources = {*plan.sources, *shown} if any(one.proposed for one in plans) else ()
    shown_at = plan.since if since is None else since
    prompts = prompt_records(plan.id, space, sorted(sources), at, since=shown_at, stale=plan.stale)
    cost = usage_records(plan.id, space, plan.cost, time_of(plan.since))
    planner, records = Planner.of(runtime, plan.id, at), [*prompts, *cost]
    done, plans = await _write(runtime, space, planner, plans, known, records, again)
    left = [] if plans else cost
    await mark_failed(runtime, space, plan.failed, plan.id, base=known, records=left)
    return _report(plan, plans, done)


def _report(plan: Plan, plans: Sequence[PlannedNote], done: Rewritten) -> EvolutionReport:
    """Return what was done by a plan; `plans` are what was still to be done of it."""
    written = {note_id for note_id, note in done.notes.items() if plan.id in note.ops}
    return EvolutionReport(
        done=tuple(one.id for one in plans if one.id in written),
        links=_count_pairs(done.changes, "link"),
        relinked=_count_pairs(done.changes, "relink"),
        evolved=tuple(dict.fromkeys(c.note_id for c in done.changes if c.kind == "evolve")),
        superseded=tuple(dict.fromkeys(c.note_id for c in done.changes if c.kind == "supersede")),
        proposals=tuple(made.id for made in done.changes if made.kind == "proposal"),
        failed=dict(plan.failed),
        dropped=sum(one.dropped for one in plans),
    )


async def _write(
    runtime: Runtime,
    space: Namespace,
    planner: Planner,
    plans: list[PlannedNote],
    known: Mapping[str, Note],
    records: Sequence[Change],
    again: bool,
) -> tuple[Rewritten, list[PlannedNote]]:
    """Write plans, the planned notes before what they touch; return what was done, and the plans it was by.

    Of several that evolve one note the first to write it wins: the others find it changed, and write nothing.
    """
    done, sources = Rewritten(), dict(known)
    for _ in range(MAX_TRIES):
        if not plans:
            return done, plans
        part = await rewrite(
            runtime,
            space,
            planner.op,
            planner.edits(plans, sources),
            base=known,
            records=records,
            follow=planner.other_ends,
            again=again,
            first={one.id for one in plans},
        )
        done.notes |= part.notes
        done.changes += part.changes
        if not part.stale:
            return done, plans
        known = {n.id: n for n in await resolve(runtime.store.get(space, [p.id for p in plans]))}
        sources |= known
        plans = list(_still_to_do(plans, planner.op, known, done.notes))
    raise conflict([one.id for one in plans])


async def write_cost(runtime: Runtime, plan: Plan) -> None:
    """Write to the ledger what a plan cost that is not committed."""
    if records := usage_records(plan.id, plan.namespace, plan.cost, time_of(plan.since)):
        await resolve(runtime.store.replace(plan.namespace, [], records))


def _count_pairs(changes: Sequence[Change], kind: ChangeKind) -> int:
    return len({frozenset((made.note_id, made.cause)) for made in changes if made.kind == kind})


def _has_id_of(op: str, plan: PlannedNote) -> bool:
    """Return whether an operation proposed some of what is planned for a note, if anything; its ids tell.

    A note that remembers another operation under this id would be taken for written.
    """
    ends = [(plan.id, shown) for shown in _shown(plan)]
    kinds = ("link", "evolve", "supersede")
    own = {
        derive("change", op, kind, *pair[::way])
        for kind in kinds
        for pair in ends
        for way in (1, -1)
    }
    ids = {one.id for one in plan.proposed if not isinstance(one, PlannedRelink)}
    return not ids or not own.isdisjoint(ids)


def _shown(plan: PlannedNote) -> set[str]:
    return {candidate.id for candidate in plan.candidates}


def _is_current(plan: PlannedNote, op: str, known: Mapping[str, Note]) -> bool:
    """Return whether a note is still what was planned for, and nobody else has finished it since."""
    source = known.get(plan.id)
    entry = source.own_entry if source is not None else None
    if source is None or entry is None or entry.change != plan.entry:
        return False
    return source.state != "done" or op in source.ops


def _still_to_do(
    plans: Sequence[PlannedNote], op: str, known: Mapping[str, Note], written: Collection[str]
) -> Iterator[PlannedNote]:
    """Yield what is to be done yet of plans that were written in part, by the notes as they are now.

    A note that somebody else has finished meanwhile, or corrected, is left to him; but what other notes of the
    batch have by its plan already, such as one end of a link, is completed.
    """
    for one in plans:
        if _is_current(one, op, known):
            yield one
        elif one.id in known:
            left = _restricted(one, written)
            if left.links or left.relinks:
                yield left


def _restricted(plan: PlannedNote, ids: Collection[str]) -> PlannedNote:
    """Leave out what is about other notes than these."""
    known = {*ids, plan.id}
    return replace(
        plan,
        links=tuple(link for link in plan.links if link.target in ids),
        updates=tuple(one for one in plan.updates if {one.target, one.source or plan.id} <= known),
        supersessions=tuple(one for one in plan.supersessions if one.target in ids),
        relinks=tuple(one for one in plan.relinks if {one.source, one.target} <= known),
    )
