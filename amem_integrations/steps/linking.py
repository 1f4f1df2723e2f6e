"""Pure: from a plan to edits of the notes that it touches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..notes import Change, ContextEntry, Direction, Link, Note
from ..plans import PlannedLink, PlannedNote, PlannedUpdate
from .edits import Edit, chain, finish, unlinked
from .fields import ENTRY, entry_json, link_json
from .history import change, entry_data


def planned_edits(
    plans: Sequence[PlannedNote],
    sources: Mapping[str, Note],
    *,
    op: str,
    at: datetime,
    max_links: int,
) -> dict[str, Edit]:
    """Return by note id what a plan does to each note that it touches."""
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for plan in plans:
        source = sources[plan.id]
        for link in plan.links:
            steps[plan.id].append(_link(link, link.target, "out", plan, op, at, max_links))
            steps[link.target].append(_link(link, plan.id, "in", plan, op, at, max_links))
        for update in plan.updates:
            step = _append(update, source, plan.model, op, at)
            steps[update.target].append(step)
        steps[plan.id].append(finish(plan.entry))
    return {note_id: chain(parts) for note_id, parts in steps.items()}


def _link(
    planned: PlannedLink,
    other: str,
    direction: Direction,
    plan: PlannedNote,
    op: str,
    at: datetime,
    max_links: int,
) -> Edit:
    link = Link(
        relation=planned.relation,
        reason=planned.reason,
        strength=planned.strength,
        direction=direction,
        created=at,
        reinforced=at,
    )

    def edit(note: Note) -> tuple[Note, list[Change]]:
        if other in note.links:
            return note, []
        data = {"target": other, **link_json(link)}
        made = change(op, "link", note, cause=other, model=plan.model, recorded_at=at, data=data)
        links, dropped = _cap({**note.links, other: link}, max_links)
        gone = [unlinked(note, target, old, op, at) for target, old in dropped.items()]
        return note.revised(links=links), [made, *gone]

    return edit


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


def _append(update: PlannedUpdate, source: Note, model: str, op: str, at: datetime) -> Edit:
    entry = ContextEntry(
        text=update.context,
        keywords=update.keywords,
        tags=update.tags,
        cause=source.id,
        model=model,
        change=update.id,
        at=source.when,
        recorded_at=at,
    )

    def edit(note: Note) -> tuple[Note, list[Change]]:
        data: dict[str, Any] = {"entry": entry_data(entry), "similarity": update.similarity}
        if update.rejected is not None:
            data["rejected"] = update.rejected
            record = change(
                op, "proposal", note, cause=source.id, model=model, recorded_at=at, data=data
            )
            return note, [record]
        # A note that is read anew says what it has to say anew: its entry takes the place of its last one.
        old = [kept for kept in note.contexts if kept.cause == source.id]
        if any(kept.text == entry.text for kept in old):
            return note, []
        if old:
            gone = {f"{ENTRY}{kept.change}": _step(kept, None) for kept in old}
            data["fields"] = {**gone, f"{ENTRY}{entry.change}": _step(None, entry)}
        record = change(op, "evolve", note, cause=source.id, model=model, recorded_at=at, data=data)
        contexts = (*(kept for kept in note.contexts if kept not in old), entry)
        return note.revised(contexts=contexts), [record]

    return edit


def _step(before: ContextEntry | None, after: ContextEntry | None) -> dict[str, Any]:
    return {"before": entry_json(before), "after": entry_json(after)}
