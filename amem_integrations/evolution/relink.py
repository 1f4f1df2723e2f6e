"""Relink: a new note shows that a link between two notes is to be stronger or weaker, or is none.

The link is changed at both ends, and the history of each says how, so that it can be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..changes import proposals
from ..changes.edits import LINK, Edit, change, link_json
from ..changes.undo import fields_of
from ..fetch import all_changes
from ..ids import derive
from ..notes import Change, Link, Namespace, Note
from ..plans import LINK_CHANGES, MAX_REASON_CHARS, LinkChange, PlannedNote, PlannedRelink
from ..ports import NoteStore
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
    op: str, note: Note, offer: Offer, proposed: Iterable[ProposedRelink]
) -> list[PlannedRelink | None]:
    """Return what is planned for each proposal of a model.

    None: it names a note that was not shown for this one, a link that is not there, or no known change.
    """
    planned = []
    for item in proposed:
        ends = [offer.end(note, alias) for alias in item.between]
        one, other = ends if len(ends) == 2 else (None, None)  # noqa: PLR2004 - a link has two ends
        planned.append(_planned(op, one, other, item) if one and other else None)
    return planned


def _planned(op: str, one: Note, other: Note, proposed: ProposedRelink) -> PlannedRelink | None:
    kind = _SAME.get(proposed.change.strip().strip(".").lower())
    link = one.links.get(other.id)
    if kind is None or link is None:
        return None
    source, target = (one, other) if link.direction == "out" else (other, one)
    return PlannedRelink(
        id=derive("change", op, "relink", source.id, target.id),
        source=source.id,
        target=target.id,
        change=kind,
        reason=" ".join(proposed.reason.split())[:MAX_REASON_CHARS],
        before=link.strength,
    )


async def with_relinks_judged(
    store: NoteStore, plan: PlannedNote, namespace: Namespace
) -> PlannedNote:
    """Return the plan, in which a change says why a person has to agree: to part what a person has linked."""
    judged = [await _judged(store, namespace, one) for one in plan.relinks]
    return replace(plan, relinks=tuple(judged))


async def _judged(store: NoteStore, namespace: Namespace, relink: PlannedRelink) -> PlannedRelink:
    if relink.change == "strengthen":
        return relink
    name = f"{LINK}{relink.target}"
    history = await all_changes(
        store, namespace, relink.source, ("link", "unlink", "relink", "upgrade", "undo")
    )
    for made in reversed(history):
        if name not in (fields := fields_of(made)):
            continue
        brought_back = made.kind == "undo" and fields[name]["after"] is not None
        if brought_back or "proposal" in made.data:
            return replace(relink, rejected=BY_A_PERSON)
        if made.kind == "link":
            break
    return relink


@dataclass(frozen=True, slots=True, kw_only=True)
class Relinker:
    """Makes the edits that change links in one operation."""

    op: str
    at: datetime

    def edits(
        self, relink: PlannedRelink, because: str, model: str, *, proposal: str | None = None
    ) -> dict[str, Edit]:
        """Return by note id the edits that change a link at both ends; a rejected change is only recorded.

        `because` is the new note that shows it, `proposal` what a person agreed to.
        """
        about = {"change": relink.change, "reason": relink.reason, "because": because}
        if relink.rejected is not None:
            wanted = {"relink": {**about, "before": relink.before}}
            return {relink.target: self._propose(relink, wanted, model)}
        if proposal is not None:
            about["proposal"] = proposal
        return {
            relink.source: self._edit(relink.target, about, model),
            relink.target: self._edit(relink.source, about, model),
        }

    def _propose(self, relink: PlannedRelink, wanted: Mapping[str, Any], model: str) -> Edit:
        def edit(note: Note) -> tuple[Note, list[Change]]:
            if relink.source not in note.links:
                return note, []
            why = relink.rejected or ""
            made = proposals.proposal(
                self.op, note, relink.source, model=model, at=self.at, wanted=wanted, why=why
            )
            return note, [made]

        return edit

    def _edit(self, other: str, about: Mapping[str, Any], model: str) -> Edit:
        def edit(note: Note) -> tuple[Note, list[Change]]:
            old = note.links.get(other)
            if old is None or (new := self._changed(old, about["change"])) == old:
                return note, []
            links = {target: link for target, link in note.links.items() if target != other}
            if new is not None:
                links[other] = new
            step = {"before": link_json(old), "after": link_json(new)}
            data = {"target": other, **about, "fields": {f"{LINK}{other}": step}}
            made = change(
                self.op, "relink", note, cause=other, model=model, recorded_at=self.at, data=data
            )
            return note.revised(links=links), [made]

        return edit

    def _changed(self, link: Link, kind: LinkChange) -> Link | None:
        """Return the link half as strong, or half as far from the greatest strength, or None if it goes."""
        if kind == "remove":
            return None
        if kind == "weaken":
            return replace(link, strength=link.strength / 2)
        return replace(link, strength=(1 + link.strength) / 2)
