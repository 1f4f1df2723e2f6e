"""Gate: what of a plan may be written. What fails becomes a proposal, not a write; a reviewer decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InvalidInputError
from ..plans import HELD, Planned, PlannedLink, PlannedNote, PlannedUpdate
from ..stored_note import Vector

MAX_WORDS = 60
MAX_CHARS = 1000  # in scripts without spaces

# Id of an update, link, supersession or relink → True (approve), False (reject), or, of an update, {"context": …,
# "keywords": …, "tags": …} (edit).
Answers = Mapping[str, bool | Mapping[str, Any]]
EDITABLE = {"context", "keywords", "tags"}
REJECTED = "rejected by a reviewer"


def judge(
    update: PlannedUpdate, entry: Vector | None, target: Sequence[Vector], floor: float
) -> PlannedUpdate:
    """Return the update with its similarity to the target, and with the reason if it is rejected, now or before.

    The cosine of the new entry alone with the target note tells an update of the right note from one of a
    note that happened to be shown; of a long one the nearest passage counts. What has no vector cannot be judged and is not
    rejected for it.
    """
    near = (
        max((float(entry @ each) for each in target), default=None) if entry is not None else None
    )
    is_far = near is not None and near < floor
    far = f"similarity {near:.2f} to the note is under {floor:.2f}" if is_far else None
    rejected = update.rejected or form_problem(update.context) or far
    return replace(update, similarity=near, rejected=rejected)


def hold(plan: PlannedNote) -> PlannedNote:
    """Return the plan with everything that a model proposed, and that passed, held back for a review."""

    def held(planned: Planned) -> Planned:
        by_order = isinstance(planned, PlannedLink) and planned.by_order
        return planned if by_order or planned.rejected else replace(planned, rejected=HELD)

    return plan.with_each(held)


def form_problem(context: str) -> str | None:
    """Return what is wrong with the text of an entry, whoever wrote it."""
    words, characters = len(context.split()), len(context)
    if not words:
        return "the entry is empty"
    if words > MAX_WORDS:
        return f"the entry has {words} words, more than {MAX_WORDS}"
    too_long = characters > MAX_CHARS
    return f"the entry has {characters} characters, more than {MAX_CHARS}" if too_long else None


def decide(plans: Sequence[PlannedNote], answers: Answers) -> list[PlannedNote]:
    """Return the plans with a reviewer's answers applied; the rest stays as the gate left it.

    Raises:
        InvalidInputError: An answer is about nothing in this plan, or is of no known form.
    """
    if not isinstance(answers, Mapping):
        raise InvalidInputError(f"answers={answers!r} must be a dict by the ids of a plan")
    known = {one.id for plan in plans for one in plan.proposed}
    if unknown := answers.keys() - known:
        raise InvalidInputError(f"answers name nothing in this plan: {sorted(map(str, unknown))}")
    return [plan.with_each(lambda one: _decided(one, answers.get(one.id))) for plan in plans]


def _decided(planned: Planned, answer: object) -> Planned:
    if answer is None:
        return planned
    if isinstance(answer, bool):
        return replace(planned, rejected=None if answer else REJECTED)
    if not isinstance(planned, PlannedUpdate):
        raise InvalidInputError(f"answer {answer!r} about {planned.id!r} must be True or False")
    edited = replace(planned, rejected=None, **_edits(answer))
    if problem := form_problem(edited.context):
        raise InvalidInputError(f"the edit of update {planned.id!r} cannot be written: {problem}")
    return edited


def _edits(answer: object) -> dict[str, Any]:
    """Return the fields that a reviewer changed."""
    if not isinstance(answer, Mapping) or not answer or not set(answer) <= EDITABLE:
        raise InvalidInputError(
            f"answer {answer!r} must be True, False, or a dict with {', '.join(sorted(EDITABLE))}"
        )
    if not isinstance(answer.get("context", ""), str):
        raise InvalidInputError(f"context={answer['context']!r} in an answer must be text")
    edits = dict(answer)
    for name in {"keywords", "tags"} & set(edits):
        value = edits[name]
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise InvalidInputError(f"{name}={value!r} in an answer must be a list of texts")
        edits[name] = tuple(value)
    return edits
