"""Pure: how much of the evidence each system found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from .. import metrics, statistics
from ..locomo import CATEGORIES
from ..results import Outcome, Result
from ..systems import MAIN
from .figures import Report, all_rounded, rounded

COUNTED = (1, 2, 3, 4)  # what is asked in category 5 was never said

Measure = Callable[[Sequence[str], Collection[str], int], float]

MEASURES: Mapping[str, Measure] = {
    "recall": metrics.recall,
    "all_evidence": metrics.all_evidence,
}


def retrieval(results: Sequence[Result], ks: Sequence[int]) -> Report:
    """Return the numbers of questions and, by system, the shares of evidence found."""
    outcomes = [outcome for result in results for outcome in result.outcomes]
    usable = [outcome for outcome in outcomes if outcome.question.evidence]
    systems = usable[0].found if usable else ()
    return {
        "questions": {
            "used": len(_of(usable, COUNTED)),
            "skipped": len(outcomes) - len(usable),
            "by_category": {
                str(category): len(_of(usable, (category,))) for category in CATEGORIES
            },
        },
        "retrieval": {system: _system(usable, system, ks) for system in systems},
        "retrieval_against": _against(usable, ks),
        "context": {system: _context(results, system, ks) for system in systems},
    }


def _system(outcomes: Sequence[Outcome], system: str, ks: Sequence[int]) -> Report:
    counted = _of(outcomes, COUNTED)
    intervals = {k: statistics.interval(_values(counted, system, k, metrics.recall)) for k in ks}
    return {
        **_measured(counted, system, ks),
        "recall_interval": {
            str(k): [rounded(bound) for bound in bounds] if bounds else None
            for k, bounds in intervals.items()
        },
        "by_category": {
            str(category): _measured(_of(outcomes, (category,)), system, ks)
            for category in CATEGORIES
        },
    }


def _context(results: Sequence[Result], system: str, ks: Sequence[int]) -> Report:
    """Return the mean tokens of what a system puts before a question, and the share of the whole saved."""
    asked = [(result.full_tokens, outcome) for result in results for outcome in result.outcomes]
    whole = sum(full for full, _ in asked)
    found: Report = {"tokens": {}, "saved": {}}
    for k in ks:
        shown = sum(outcome.shown.get(system, {}).get(k, 0) for _, outcome in asked)
        found["tokens"][str(k)] = round(shown / len(asked), 1)
        found["saved"][str(k)] = rounded(1 - shown / whole) if whole else None
    return found


def _against(outcomes: Sequence[Outcome], ks: Sequence[int]) -> Report:
    """Return by how much the memory finds more than each other system, by measure and `k`."""
    counted = _of(outcomes, COUNTED)
    if not counted:
        return {}
    categories = [outcome.question.category for outcome in counted]
    against: Report = {}
    for name, measure in MEASURES.items():
        for k in ks:
            compared = statistics.compare(
                {system: _values(counted, system, k, measure) for system in counted[0].found},
                categories,
                MAIN,
            )
            for other, gain in compared.items():
                against.setdefault(other, {}).setdefault(name, {})[str(k)] = all_rounded(gain)
    return against


def _measured(outcomes: Sequence[Outcome], system: str, ks: Sequence[int]) -> Report:
    return {
        name: {str(k): rounded(statistics.mean(_values(outcomes, system, k, measure))) for k in ks}
        for name, measure in MEASURES.items()
    }


def _values(outcomes: Sequence[Outcome], system: str, k: int, measure: Measure) -> list[float]:
    return [measure(one.found[system], one.question.evidence, k) for one in outcomes]


def _of(outcomes: Sequence[Outcome], categories: Collection[int]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.question.category in categories]
