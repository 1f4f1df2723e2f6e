"""Pure: what a reviewer decided about the updates of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InvalidInputError
from ..plans import PlannedNote, PlannedUpdate
from ..steps import gate

# Update id → True (approve), False (reject), or {"context": …, "keywords": …, "tags": …} (edit).
Decisions = Mapping[str, bool | Mapping[str, Any]]
EDITABLE = {"context", "keywords", "tags"}
REJECTED = "rejected by a reviewer"


def decide(plans: Sequence[PlannedNote], decisions: Decisions) -> list[PlannedNote]:
    """Return the plans with the decisions applied; what is not decided stays as the gate left it.

    Raises:
        InvalidInputError: A decision is about no update of this plan, or is of no known form.
    """
    known = {update.id for plan in plans for update in plan.updates}
    unknown = sorted(set(decisions) - known)
    if unknown:
        raise InvalidInputError(f"decisions name no update of this plan: {unknown!r}")
    return [
        replace(plan, updates=tuple(_decided(u, decisions.get(u.id)) for u in plan.updates))
        for plan in plans
    ]


def _decided(update: PlannedUpdate, decision: bool | Mapping[str, Any] | None) -> PlannedUpdate:
    if decision is None:
        return update
    if isinstance(decision, bool):
        return replace(update, rejected=None if decision else REJECTED)
    edited = replace(update, rejected=None, **_edits(decision))
    reason = gate.form_problem(edited.context)
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
