"""Gate: what of a model's proposals may be written. What fails waits as a proposal, and a reviewer decides.

An entry for an earlier note is judged by its text and vector; a new strength of a link, and what takes the place of an
earlier note, by who linked and who said it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..config import MemoryConfig
from ..current_facts import is_later
from ..errors import InvalidInputError
from ..journal.writer import Writer
from ..notes import RELATIONS, USER, Note, Relation
from ..plans import (
    HELD,
    LINK_CHANGES,
    MAX_REASON_CHARS,
    LinkChange,
    Planned,
    PlannedLink,
    PlannedNote,
    PlannedRelink,
    PlannedSupersession,
    PlannedUpdate,
)
from ..ports import RecordQuery
from ..prompts.replies import ProposedRelink, ProposedSupersession
from ..stored_note import Vector
from .show import Offer

MAX_WORDS = 60
MAX_CHARS = 1000  # in scripts without spaces

# Id of an update, link, supersession or relink → True (approve), False (reject), or, of an update, {"context": …,
# "keywords": …, "tags": …} (edit).
Answers = Mapping[str, bool | Mapping[str, Any]]
EDITABLE = {"context", "keywords", "tags"}
REJECTED = "rejected by a reviewer"
BY_A_PERSON = "a person approved this link or brought it back, so a person has to agree"
NOT_BY_USER = "what the {source} said takes the place of what a user said only if a person agrees"

# What models also write for the three changes.
_CHANGES: Mapping[str, LinkChange] = {
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
# What models also write for the four relations.
_RELATIONS: Mapping[str, Relation] = {
    "update": "updates",
    "updated": "updates",
    "replaces": "updates",
    "supersedes": "updates",
    "correct": "corrects",
    "corrected": "corrects",
    "correction": "corrects",
    "retract": "retracts",
    "retracted": "retracts",
    "cancels": "retracts",
    "contradict": "contradicts",
    "contradicted": "contradicts",
    **{relation: relation for relation in RELATIONS},
}


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
        planned.append(_planned_relink(one, other, item) if one and other else None)
    return planned


def _planned_relink(one: Note, other: Note, proposed: ProposedRelink) -> PlannedRelink | None:
    kind = _CHANGES.get(proposed.change.strip().strip(".").lower())
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
    # The notes' own decisions made the links; they come whatever `newest` says.
    query = RecordQuery(about=frozenset(parted), newest=1)
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


def planned_supersession(
    newer: Note, older: Note, proposed: ProposedSupersession, config: MemoryConfig
) -> PlannedSupersession | None:
    """Return what is planned for a proposal of a model, None if it makes no sense, or is about a part of the older note.

    Only a later note supersedes. Whether what was said by an assistant or a tool may take the place of a user's words
    is for the settings to say; without it, a person has to agree.
    """
    relation = _RELATIONS.get(proposed.relation.strip().strip(".").lower())
    if relation is None or proposed.still or not is_later(newer, older):
        return None
    return PlannedSupersession(
        id="",
        target=older.id,
        relation=relation,
        reason=" ".join(proposed.reason.split())[:MAX_REASON_CHARS],
        rejected=objection_to(newer, older, config),
    )


def objection_to(newer: Note, older: Note, config: MemoryConfig) -> str | None:
    """Return why a supersession has to wait for a person."""
    if config.assistant_supersedes or newer.source in ("user", "import"):
        return None
    if older.source in ("assistant", "tool"):
        return None
    return NOT_BY_USER.format(source=newer.source)
