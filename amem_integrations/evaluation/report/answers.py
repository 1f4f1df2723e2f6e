"""What was answered, scored: by system and category, and against each other system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ports import Embedder
from .. import statistics
from ..locomo import CATEGORIES
from ..results import Answer, Result
from ..scoring import MEASURES, SCORINGS, score
from ..systems import MAIN
from .figures import Report, all_rounded, estimated, rounded

JUDGE = "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One answer with its scores, by scoring and measure; a judge's verdict is 0 or 1 in each."""

    conversation: str
    category: int
    answer: Answer
    full_tokens: int
    scores: Mapping[str, Mapping[str, float | None]]


Table = dict[tuple[str, int], list[Scored]]  # by system and number of hits shown


def scored(results: Sequence[Result], embedder: Embedder) -> Table:
    """Return all answers with their scores, in the same order for every system and number of hits."""
    every = [
        ((system, k), result, outcome.question, answer)
        for result in results
        for system, by_k in result.answers.items()
        for k, given in by_k.items()
        for outcome, answer in zip(result.outcomes, given, strict=True)
    ]
    marks = score([(question, answer.text) for _, _, question, answer in every], embedder=embedder)
    table: Table = {}
    for (place, result, question, answer), mark in zip(every, marks, strict=True):
        verdict = {} if answer.correct is None else {JUDGE: float(answer.correct)}
        table.setdefault(place, []).append(
            Scored(
                conversation=result.conversation,
                category=question.category,
                answer=answer,
                full_tokens=result.full_tokens,
                scores={"official": {**mark.official, **verdict}, "amem": mark.amem},
            )
        )
    return table


def answers(results: Sequence[Result], embedder: Embedder | None) -> Report:
    """Return the part of the report on answers, or nothing if no questions were answered."""
    if embedder is None or not any(result.answers for result in results):
        return {}
    # One number of hits is reported; the sweep looks at others.
    table = scored(results, embedder)
    if not table:
        return {}  # there are no questions
    k = max(k for _, k in table)
    by_system = {system: found for (system, hits), found in table.items() if hits == k}
    return {
        "answers": {
            system: {
                **_system(found),
                **({"against": _against(by_system)} if system == MAIN else {}),
            }
            for system, found in by_system.items()
        },
        "answered_from": k,
    }


def values(found: Sequence[Scored], scoring: str, measure: str) -> list[float | None]:
    """Return one measure of answers; None where there is nothing to compare with."""
    return [one.scores[scoring].get(measure) for one in found]


def of_category(found: Sequence[Scored], category: int) -> list[Scored]:
    """Return the answers to questions of a category."""
    return [one for one in found if one.category == category]


def _system(found: Sequence[Scored]) -> Report:
    shown = sum(one.answer.context_tokens for one in found)
    whole = sum(one.full_tokens for one in found)
    measures = _measures(found)
    return {
        "questions": len(found),
        "unanswered": sum(not one.answer.text for one in found),
        "context_tokens": round(shown / len(found), 1),
        "saved": rounded(1 - shown / whole),
        **_marks(found, measures),
        "by_category": {
            str(category): {"questions": len(some), **_marks(some, measures)}
            for category in CATEGORIES
            if (some := of_category(found, category))
        },
    }


def _marks(found: Sequence[Scored], measures: Sequence[str]) -> dict[str, Any]:
    return {
        scoring: {measure: estimated(values(found, scoring, measure)) for measure in measures}
        for scoring in SCORINGS
    }


def _measures(found: Sequence[Scored]) -> tuple[str, ...]:
    judged = any(JUDGE in one.scores["official"] for one in found)
    return (*MEASURES, JUDGE) if judged else MEASURES


def _against(by_system: Mapping[str, Sequence[Scored]]) -> Report:
    """Return by how much the memory is better than each other system, by scoring and measure."""
    main = by_system[MAIN]
    categories = [one.category for one in main]
    against: Report = {}
    for scoring in SCORINGS:
        for measure in _measures(main):
            compared = statistics.compare(
                {name: values(found, scoring, measure) for name, found in by_system.items()},
                categories,
                MAIN,
            )
            for other, gain in compared.items():
                against.setdefault(other, {}).setdefault(scoring, {})[measure] = all_rounded(gain)
    return against
