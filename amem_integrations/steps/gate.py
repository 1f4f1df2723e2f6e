"""Gate: which proposed updates may be written. What fails becomes a proposal, not a write."""

from __future__ import annotations

from dataclasses import replace

from ..plans import PlannedUpdate
from ..ports import Vector

MAX_WORDS = 60


def judge(
    update: PlannedUpdate, entry: Vector | None, target: Vector | None, floor: float
) -> PlannedUpdate:
    """Return the update with its similarity to the target, and with the reason if it is rejected.

    The cosine of the new entry alone with the target note tells an update of the right note from one of a
    note that happened to be shown. A target without a vector cannot be judged and is not rejected for it.
    """
    near = float(entry @ target) if entry is not None and target is not None else None
    return replace(update, similarity=near, rejected=_reason(update, near, floor))


def form_problem(context: str) -> str | None:
    """Return what is wrong with the text of an entry, whoever wrote it."""
    words = len(context.split())
    if not words:
        return "the entry is empty"
    return f"the entry has {words} words, more than {MAX_WORDS}" if words > MAX_WORDS else None


def _reason(update: PlannedUpdate, near: float | None, floor: float) -> str | None:
    if problem := form_problem(update.context):
        return problem
    if near is not None and near < floor:
        return f"similarity {near:.2f} to the note is under {floor:.2f}"
    return None
