"""Commit: what was made of a batch is written as decisions, with the call that made it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..decisions import Decision, Item, ItemKind, Source, Switch
from ..journal.commit import commit as write
from ..journal.writer import Writer
from ..notes import Note, storable
from ..plans import (
    EvolutionReport,
    Planned,
    PlannedLink,
    PlannedNote,
    PlannedRelink,
    PlannedSupersession,
    PlannedUpdate,
)
from ..texts import MAX_KEYWORDS, MAX_TAGS, clean_words
from .ask import OpenCall
from .gate import REJECTED, strength_after
from .sources import SourceFinder

log = logging.getLogger("amem_integrations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a commit: the report, and the notes that it shows on by id, as they stand."""

    report: EvolutionReport = field(default_factory=EvolutionReport)
    notes: Mapping[str, Note] = field(default_factory=dict)


async def commit(call: OpenCall, writer: Writer, decisions: Sequence[Decision]) -> Written:
    """Write what a call decided; what was decided before, or was made of a text that is gone, is left out."""
    if not decisions:
        await call.write_alone()
        return Written()
    call.is_written = True
    made = await write(writer, call.record(), decisions)
    notes = {i: one.note for i, one in made.notes.items() if one.note is not None}
    inserted = sorted(made.decisions.values(), key=lambda one: one.seq)
    standing = [one for one in inserted if not one.void]
    for one in standing:
        if one.stage == "failure":
            _warn(call, one.items[0].text, one.note, notes.get(one.note))
    return Written(report=_report(standing), notes=notes)


def _warn(call: OpenCall, reason: str, note_id: str, note: Note | None) -> None:
    log.warning("note %s could not be finished: %s", note_id, reason)
    if note is not None and note.attempts >= call.runtime.config.max_attempts:
        log.warning("it failed %d times; only evolve(retry=True) tries it again", note.attempts)


def _report(decisions: Sequence[Decision]) -> EvolutionReport:
    """Return what decisions have changed."""
    items = [(one, item) for one in decisions for item in one.items]
    on = [(one, item) for one, item in items if item.is_on]

    def targets(kind: str) -> list[str]:
        return [item.to for _, item in on if item.kind == kind]

    return EvolutionReport(
        constructed=tuple(one.note for one in decisions if one.stage == "construct"),
        done=tuple(one.note for one in decisions if one.stage == "link"),
        links=len(targets("link")),
        relinked=len(targets("relink")),
        evolved=tuple(dict.fromkeys(targets("sentence"))),
        superseded=tuple(dict.fromkeys(targets("supersession"))),
        proposals=tuple(f"{o.id}:{i.number}" for o, i in items if i.switch == "waiting"),
        failed={one.note: item.text for one, item in items if item.kind == "failure"},
    )


def failures(
    call: OpenCall, notes: Iterable[Note], reasons: Mapping[str, str], seen: SourceFinder
) -> list[Decision]:
    """Return the decisions that say why notes could not be finished; a reason may quote what was shown."""
    made = []
    for note in notes:
        if note.id in reasons:
            text = storable(reasons[note.id])
            sources = seen.sources_of([text], [note])
            by = call.runtime.model_name
            data = {"stage": "construct" if note.own_entry is None else "link"}
            item = Item(kind="failure", to=note.id, by=by, text=text, sources=sources, data=data)
            made.append(call.decide(note, "failure", note.next_attempts.failure, [item]))
    return made


def link_decisions(
    call: OpenCall, plans: Sequence[PlannedNote], notes: Mapping[str, Note]
) -> list[Decision]:
    """Return the decisions of plans, without what is about a note that is not among these or was not shown.

    Of several changes of one link the first counts.
    """
    relinked: set[frozenset[str]] = set()
    made = []
    for plan in plans:
        shown = {one.id for one in plan.candidates if one.id in notes} - {plan.id}
        items = []
        for number, one in enumerate(plan.proposed):
            if isinstance(one, PlannedRelink):
                pair = frozenset((one.source, one.target))
                if pair in relinked:
                    continue
                relinked.add(pair)
            if _is_about(one, plan.id, shown):
                items.append(_item(one, number, plan.model))
        made.append(call.decide(notes[plan.id], "link", plan.attempt, items))
    return made


def _is_about(planned: Planned, note_id: str, shown: Collection[str]) -> bool:
    """Return whether something is planned about notes that were shown, and says something."""
    if isinstance(planned, PlannedUpdate):
        says = planned.rejected is not None or bool(planned.context.strip())
        return says and planned.target in shown
    if isinstance(planned, PlannedRelink):
        return {planned.source, planned.target} <= {note_id, *shown}
    return planned.target in shown


def _item(planned: Planned, number: int, model: str) -> Item:
    data: dict[str, Any]
    kind: ItemKind
    if isinstance(planned, PlannedLink):
        kind, data = "link", {"relation": planned.relation, "strength": planned.strength}
    elif isinstance(planned, PlannedUpdate):
        kind = "sentence"
        data = {
            "keywords": list(clean_words(planned.keywords, MAX_KEYWORDS)),
            "tags": list(clean_words(planned.tags, MAX_TAGS)),
            "similarity": planned.similarity,
        }
    elif isinstance(planned, PlannedSupersession):
        kind, data = "supersession", {"relation": planned.relation}
    else:
        kind, strength = "relink", strength_after(planned)
        data = {"change": planned.change, "strength": strength, "before": planned.before}
    text = planned.context if isinstance(planned, PlannedUpdate) else planned.reason
    switch: Switch = "rejected" if planned.rejected == REJECTED else "waiting"
    return Item(
        kind=kind,
        to=planned.target,
        other=planned.source if isinstance(planned, PlannedRelink) else "",
        by=model,
        number=number,
        text=" ".join(text.split()),
        sources=tuple(Source(*each) for each in planned.sources),
        data={k: v for k, v in {**data, "why": planned.rejected}.items() if v not in (None, [])},
        switch="on" if planned.rejected is None else switch,
    )
