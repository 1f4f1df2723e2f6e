"""Gate: what of a plan may be written. What fails becomes a proposal, not a write; a reviewer decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..errors import InvalidInputError
from ..plans import (
    HELD,
    PlannedLink,
    PlannedNote,
    PlannedRelink,
    PlannedSupersession,
    PlannedUpdate,
)
from ..ports import Vector

MAX_WORDS = 60

# Id of an update, link, supersession or relink → True (approve), False (reject), or, of an update, {"context": …,
# "keywords": …, "tags": …} (edit).
Decisions = Mapping[str, bool | Mapping[str, Any]]
EDITABLE = {"context", "keywords", "tags"}
REJECTED = "rejected by a reviewer"
Planned = TypeVar("Planned", PlannedUpdate, PlannedLink, PlannedSupersession, PlannedRelink)


def judge(
    update: PlannedUpdate, entry: Vector | None, target: Vector | None, floor: float
) -> PlannedUpdate:
    """Return the update with its similarity to the target, and with the reason if it is rejected.

    The cosine of the new entry alone with the target note tells an update of the right note from one of a
    note that happened to be shown. A target without a vector cannot be judged and is not rejected for it.
    """
    near = float(entry @ target) if entry is not None and target is not None else None
    return replace(update, similarity=near, rejected=_reason(update, near, floor))


def hold(plan: PlannedNote) -> PlannedNote:
    """Return the plan with everything that a model proposed, and that passed, held back for a review."""

    def held(planned: Planned) -> Planned:
        by_order = isinstance(planned, PlannedLink) and planned.by_order
        return planned if by_order or planned.rejected else replace(planned, rejected=HELD)

    return replace(
        plan,
        updates=tuple(map(held, plan.updates)),
        links=tuple(map(held, plan.links)),
        supersessions=tuple(map(held, plan.supersessions)),
        relinks=tuple(map(held, plan.relinks)),
    )


def form_problem(context: str) -> str | None:
    """Return what is wrong with the text of an entry, whoever wrote it."""
    words = len(context.split())
    if not words:
        return "the entry is empty"
    return f"the entry has {words} words, more than {MAX_WORDS}" if words > MAX_WORDS else None


def decide(plans: Sequence[PlannedNote], decisions: Decisions) -> list[PlannedNote]:
    """Return the plans with a reviewer's decisions applied; the rest stays as the gate left it.

    Raises:
        InvalidInputError: A decision is about nothing in this plan, or is of no known form.
    """
    known = {update.id for plan in plans for update in plan.updates}
    known |= {link.id for plan in plans for link in plan.links}
    known |= {supersession.id for plan in plans for supersession in plan.supersessions}
    known |= {relink.id for plan in plans for relink in plan.relinks}
    unknown = sorted(set(decisions) - known)
    if unknown:
        raise InvalidInputError(f"decisions name nothing in this plan: {unknown!r}")
    return [
        replace(
            plan,
            updates=tuple(_decided_update(u, decisions.get(u.id)) for u in plan.updates),
            links=tuple(_decided(link, decisions.get(link.id)) for link in plan.links),
            supersessions=tuple(_decided(s, decisions.get(s.id)) for s in plan.supersessions),
            relinks=tuple(_decided(relink, decisions.get(relink.id)) for relink in plan.relinks),
        )
        for plan in plans
    ]


def _reason(update: PlannedUpdate, near: float | None, floor: float) -> str | None:
    if problem := form_problem(update.context):
        return problem
    if near is not None and near < floor:
        return f"similarity {near:.2f} to the note is under {floor:.2f}"
    return None


def _decided(planned: Planned, decision: object) -> Planned:
    if decision is None:
        return planned
    if not isinstance(decision, bool):
        raise InvalidInputError(f"decision {decision!r} about {planned.id!r} must be True or False")
    return replace(planned, rejected=None if decision else REJECTED)


def _decided_update(
    update: PlannedUpdate, decision: bool | Mapping[str, Any] | None
) -> PlannedUpdate:
    if decision is None or isinstance(decision, bool):
        return _decided(update, decision)
    edited = replace(update, rejected=None, **_edits(decision))
    reason = form_problem(edited.context)
    if reason is not None:
        raise InvalidInputError(f"the edit of update {update.id!r} cannot be written: {reason}")
    return edited


def _edits(decision: object) -> dict[str, Any]:
    """Return the fields that a reviewer changed."""
    if not isinstance(decision, Mapping) or not decision or not set(decision) <= EDITABLE:
        raise InvalidInputError(
            f"decision {decision!r} must be True, False, or a dict with {', '.join(sorted(EDITABLE))}"
        )
    if not isinstance(decision.get("context", ""), str):
        raise InvalidInputError(f"context={decision['context']!r} in a decision must be text")
    edits = dict(decision)
    for name in {"keywords", "tags"} & set(edits):
        value = edits[name]
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise InvalidInputError(f"{name}={value!r} in a decision must be a list of texts")
        edits[name] = tuple(value)
    return edits
