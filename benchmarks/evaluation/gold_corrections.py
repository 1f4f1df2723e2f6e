"""Corrections of gold answers, some of which are wrong: applied to conversations before anything is scored.

A file of corrections is a JSON list, or JSON lines, of

- `{"conversation": "conv-26", "question": "<exact text>", "answer": "…", "evidence": ["D1:14"]}`: `answer`, `evidence`
  or both; with `index` (from 0) instead of `question`, or beside it where a text is asked twice;
- the entries of `errors.json` of dial481/locomo-audit. Where only the citation was wrong, the evidence alone is taken.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, model_validator

from amem_integrations.errors import InvalidInputError

from .data import Conversation, Question
from .locomo import checked, evidence_ids, turn_ids

# The conversations of locomo10.json in its order, by which the audit counts them.
LOCOMO10 = tuple(f"conv-{number}" for number in (26, 30, 41, 42, 43, 44, 47, 48, 49, 50))

_AUDITED = re.compile(r"locomo_(\d)_qa(\d+)")


class Correction(BaseModel):
    """What a gold should be; where `answer` or `evidence` is missing, it stays as it is."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    conversation: str
    question: str | None = None
    index: NonNegativeInt | None = None
    answer: str | None = None
    evidence: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """Return what it is about."""
        return f"question {self.question or self.index!r} of {self.conversation!r}"

    @model_validator(mode="before")
    @classmethod
    def _from_audit(cls, data: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(data, dict) or "question_id" not in data:
            return data
        found = _AUDITED.fullmatch(str(data["question_id"]))
        if found is None:
            raise ValueError("question_id is not written as 'locomo_0_qa1'")
        right = data.get("error_type") == "WRONG_CITATION"
        return {
            "conversation": LOCOMO10[int(found[1])],
            "question": data.get("question"),
            "index": int(found[2]),
            "answer": None if right else data.get("correct_answer"),
            "evidence": data.get("correct_evidence"),
        }

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.question is None and self.index is None:
            raise ValueError("no question is named: give 'question' or 'index'")
        if self.answer is None and self.evidence is None:
            raise ValueError("nothing is corrected: give 'answer' or 'evidence'")
        return self


def load(path: str | PathLike[str]) -> list[Correction]:
    """Return the corrections of a file, in its order; one of something else is an `InvalidInputError`."""
    raw = Path(path).read_bytes()
    try:
        whole = json.loads(raw)
        kind, items = "entry", whole if isinstance(whole, list) else [whole]
        validate: Callable[[Any], Correction] = Correction.model_validate
    except (ValueError, RecursionError):  # then it is lines, or nothing that can be read
        kind, items, validate = "line", raw.splitlines(), Correction.model_validate_json
    found = []
    for place, item in enumerate(items, 1):
        if kind == "entry" or item.strip():
            with checked(f"{kind} {place} of {str(path)!r} is no correction of a gold answer"):
                found.append(validate(item))
    if not found:
        raise InvalidInputError(f"{str(path)!r} holds no corrections")
    return found


def apply(
    conversations: Sequence[Conversation], corrections: Sequence[Correction]
) -> list[Conversation]:
    """Return the conversations with corrected golds; give all of the dataset, before some are selected.

    Corrections of other conversations of locomo10.json are left out; those that fit nothing are an `InvalidInputError`.
    """
    known = {conversation.id for conversation in conversations}
    grouped: defaultdict[str, list[Correction]] = defaultdict(list)
    for correction in corrections:
        if correction.conversation not in known.union(LOCOMO10):
            raise InvalidInputError(
                f"gold of {correction}: there is no such conversation; there are {', '.join(sorted(known))}"
            )
        grouped[correction.conversation].append(correction)
    return [_corrected(one, grouped[one.id]) for one in conversations]


def count(
    corrections: Sequence[Correction], before: Sequence[Conversation], after: Sequence[Conversation]
) -> dict[str, int]:
    """Return how many corrections there were, how many are of other conversations, and what they changed."""
    here = {conversation.id for conversation in before}
    old_and_new = ([q for one in side for q in one.questions] for side in (before, after))
    pairs = list(zip(*old_and_new, strict=True))
    return {
        "corrections": len(corrections),
        "elsewhere": sum(one.conversation not in here for one in corrections),
        "answers": sum(old.answer != new.answer for old, new in pairs),
        "evidence": sum(old.evidence != new.evidence for old, new in pairs),
    }


def _corrected(conversation: Conversation, corrections: Sequence[Correction]) -> Conversation:
    questions = dict(enumerate(conversation.questions))
    corrected: dict[int, Question] = {}
    for correction in corrections:
        place = _place(correction, questions)
        if place in corrected:
            raise InvalidInputError(f"gold of {correction} is corrected twice; keep one of the two")
        corrected[place] = _with(questions[place], correction, turn_ids(conversation.turns))
    return replace(conversation, questions=tuple((questions | corrected).values()))


def _place(correction: Correction, questions: dict[int, Question]) -> int:
    asked = correction.question
    places = [
        place
        for place, question in questions.items()
        if correction.index in {None, place}
        and (asked is None or asked.split() == question.text.split())
    ]
    if not places:
        raise InvalidInputError(
            f"gold of {correction}: there is no such question"
            + (f" at index {correction.index}" if asked and correction.index is not None else "")
        )
    if len(places) > 1:
        raise InvalidInputError(
            f"gold of {correction}: this is asked more than once; add 'index', one of {places}"
        )
    return places[0]


def _with(question: Question, correction: Correction, turns: dict[str, str]) -> Question:
    for text in correction.evidence or ():
        if not evidence_ids([text], turns):
            raise InvalidInputError(
                f"gold of {correction}: evidence {text!r} names no turn of the conversation"
            )
    if correction.evidence is not None:
        question = replace(question, evidence=evidence_ids(correction.evidence, turns))
    return question if correction.answer is None else replace(question, answer=correction.answer)
