"""Pure: the part of the page on answered questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..locomo import CATEGORIES
from ..scoring import SCORINGS
from .tables import estimate, figure, table

TITLES = {
    "official": "Answers, by LoCoMo's own scoring",
    "amem": "Answers, scored as the authors of A-MEM do",
}
NOTES = {
    "official": "Category 5 counts as right if the answer refuses; it has no other measure.",
    "amem": "Only for comparison with published figures: in category 5 an answer counts as right if it "
    "falls for the wrong premise.",
}


def answers(report: Mapping[str, Any]) -> Iterator[str]:
    """Return the headings and tables, or nothing if no questions were answered."""
    if "answers" not in report:
        return
    for scoring in SCORINGS:
        yield f"## {TITLES[scoring]}"
        yield f"From the first {report['answered_from']} hits. {NOTES[scoring]}"
        yield _overall(report["answers"], scoring)
        yield _by_category(report["answers"], scoring)
    yield "## Answers of the memory against each other system, official F1"
    yield _against(report["answers"]["amem"]["against"])
    yield "## What was put before a question"
    yield _contexts(report["answers"])


def _overall(systems: Mapping[str, Any], scoring: str) -> str:
    measures = list(next(iter(systems.values()))[scoring])
    rows = [
        [f"`{system}`", *(estimate(found[scoring][measure]) for measure in measures)]
        for system, found in systems.items()
    ]
    return table(["all categories", *measures], rows)


def _by_category(systems: Mapping[str, Any], scoring: str) -> str:
    measures = list(next(iter(systems.values()))[scoring])
    rows = [
        [
            f"`{system}`",
            f"{category} {CATEGORIES[int(category)]}",
            one["questions"],
            *(figure(one[scoring][measure]["mean"]) for measure in measures),
        ]
        for system, found in systems.items()
        for category, one in found["by_category"].items()
    ]
    return table(["", "category", "questions", *measures], rows)


def _against(against: Mapping[str, Any]) -> str:
    def gain(one: Mapping[str, float] | None) -> str:
        if one is None:
            return "-"
        return f"{one['difference']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f})"

    rows = [
        [
            f"`{other}`",
            gain(found["official"]["f1"]),
            *(gain(found["official"]["f1"]["by_category"].get(str(one))) for one in CATEGORIES),
        ]
        for other, found in against.items()
    ]
    return table(
        ["better than", "all", *(f"{one} {name}" for one, name in CATEGORIES.items())], rows
    )


def _contexts(systems: Mapping[str, Any]) -> str:
    rows = [
        [
            f"`{system}`",
            found["context_tokens"],
            f"{found['saved']:.1%}",
            found["unanswered"],
        ]
        for system, found in systems.items()
    ]
    return table(
        ["", "tokens a question", "less than the whole conversation", "without an answer"], rows
    )
