"""Relink: a new note shows that a link between two notes is to be stronger or weaker, or is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..journal.writer import Writer
from ..notes import USER, Note
from ..plans import LINK_CHANGES, MAX_REASON_CHARS, LinkChange, PlannedNote, PlannedRelink
from ..ports import RecordQuery
from ..prompts.replies import ProposedRelink
from .show import Offer

# What models also write for the three changes.
_SAME: Mapping[str, LinkChange] = {
    "stronger": "strengthen",
    "strengthened": "strengthen",
    "weaker": "weaken",
    "weakened": "weaken",
    "removed": "remove",
    "delete": "remove",
    "drop": "remove",
    "unlink": "remove",
    **{name: name for name in LINK_CHANGES},
}
BY_A_PERSON = "a person approved this link or brought it back, so a person has to agree"


def planned_relinks(
    note: Note, offer: Offer, proposed: Iterable[ProposedRelink]
) -> list[PlannedRelink | None]:
    """Return what is planned for each proposal of a model.

    None: it names a note that was not shown for this one, a link that is not there, or no known change.
    """
    planned = []
    for item in proposed:
        ends = [offer.end(note, alias) for alias in item.between]
        one, other = ends if len(ends) == 2 else (None, None)  # noqa: PLR2004 - a link has two ends
        planned.append(_planned(one, other, item) if one and other else None)
    return planned


def _planned(one: Note, other: Note, proposed: ProposedRelink) -> PlannedRelink | None:
    kind = _SAME.get(proposed.change.strip().strip(".").lower())
    link = one.links.get(other.id)
    if kind is None or link is None:
        return None
    source, target = (one, other) if link.direction == "out" else (other, one)
    return PlannedRelink(
        id="",
        source=source.id,
        target=target.id,
        change=kind,
        reason=" ".join(proposed.reason.split())[:MAX_REASON_CHARS],
        before=link.strength,
    )


async def with_relinks_judged(writer: Writer, plan: PlannedNote) -> PlannedNote:
    """Return the plan, in which a change says why a person has to agree: to part what a person has linked."""
    parted = {one.source for one in plan.relinks if one.change != "strengthen"}
    if not parted:
        return plan
    query = RecordQuery(
        about=frozenset(parted), newest=1
    )  # and their own decisions, which made the links
    kept = {
        (decision.note, item.to)
        for decision in (await writer.decisions(query)).values()
        for item in decision.items
        if item.kind == "link" and (item.by == USER or any(f.by == USER for f in item.log))
    }
    judged = (
        replace(one, rejected=BY_A_PERSON)
        if one.change != "strengthen" and (one.source, one.target) in kept
        else one
        for one in plan.relinks
    )
    return replace(plan, relinks=tuple(judged))


def strength_after(relink: PlannedRelink) -> float:
    """Return the strength that a link has then: half of it, half as far from the greatest, or none if the link goes."""
    if relink.change == "remove":
        return 0.0
    return relink.before / 2 if relink.change == "weaken" else (1 + relink.before) / 2
