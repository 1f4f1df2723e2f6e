"""Pure: from results to the figures of a report, as plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from . import metrics
from .locomo import CATEGORIES
from .results import Outcome, Result

# Category 5 asks about what was never said; its evidence is where it sounds as if.
COUNTED = (1, 2, 3, 4)
DIGITS = 4

Report = dict[str, Any]
Measure = Callable[[Sequence[str], Collection[str], int], float]

MEASURES: Mapping[str, Measure] = {
    "recall": metrics.recall,
    "all_evidence": metrics.all_evidence,
}


def build(results: Sequence[Result], ks: Sequence[int], settings: Mapping[str, Any]) -> Report:
    """Return the report on some conversations: over all of them, and of each."""
    return {
        **_figures(results, ks),
        "settings": dict(settings),
        "conversations": {
            result.conversation: {"annotated": result.annotated, **_figures([result], ks)}
            for result in results
        },
    }


def _figures(results: Sequence[Result], ks: Sequence[int]) -> Report:
    outcomes = [outcome for result in results for outcome in result.outcomes]
    usable = [outcome for outcome in outcomes if outcome.question.evidence]
    systems = usable[0].found if usable else ()
    return {
        "notes": sum(result.notes for result in results),
        "questions": {
            "used": len(_of(usable, COUNTED)),
            "skipped": len(outcomes) - len(usable),
            "by_category": {
                str(category): len(_of(usable, (category,))) for category in CATEGORIES
            },
        },
        "retrieval": {system: _retrieval(usable, system, ks) for system in systems},
        "writes": _writes(results),
        "latency_ms": _latency(results),
    }


def _retrieval(outcomes: Sequence[Outcome], system: str, ks: Sequence[int]) -> Report:
    counted = _of(outcomes, COUNTED)
    return {
        **_measured(counted, system, ks),
        "recall_interval": {
            str(k): _rounded(metrics.interval(_values(counted, system, k, metrics.recall)))
            for k in ks
        },
        "by_category": {
            str(category): _measured(_of(outcomes, (category,)), system, ks)
            for category in CATEGORIES
        },
    }


def _measured(outcomes: Sequence[Outcome], system: str, ks: Sequence[int]) -> Report:
    return {
        name: {str(k): _rounded(metrics.mean(_values(outcomes, system, k, measure))) for k in ks}
        for name, measure in MEASURES.items()
    }


def _values(outcomes: Sequence[Outcome], system: str, k: int, measure: Measure) -> list[float]:
    return [measure(one.found[system], one.question.evidence, k) for one in outcomes]


def _writes(results: Sequence[Result]) -> Report:
    """Return the sums over all conversations."""
    counts = [asdict(result.writes) for result in results]
    total = {name: sum(one[name] for one in counts) for name in (counts[0] if counts else ())}
    offered, annotated = total.pop("offered_links", 0), total.pop("annotated_links", 0)
    return {
        **{name: round(value, 1) for name, value in total.items()},
        "candidate_recall": _rounded(offered / annotated if annotated else None),
    }


def _latency(results: Sequence[Result]) -> Report:
    search = [time for result in results for time in result.search_ms]
    embed = [time for result in results for time in result.embed_query_ms]
    return {
        "search_p50": _rounded(metrics.percentile(search, 50)),
        "search_p95": _rounded(metrics.percentile(search, 95)),
        "embed_query_p50": _rounded(metrics.percentile(embed, 50)),
    }


def _of(outcomes: Sequence[Outcome], categories: Collection[int]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.question.category in categories]


def _rounded(value: Any) -> Any:  # noqa: ANN401 - a number, several, or None
    if isinstance(value, tuple):
        return [round(one, DIGITS) for one in value]
    return None if value is None else round(value, DIGITS)
