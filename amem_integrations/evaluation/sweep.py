"""How many hits to show: chosen on some conversations, and reported on the others.

The authors' tables take the best number for each category on the very questions that are reported. Here
the conversations that choose and those that are reported are different ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidInputError
from ..ports import Embedder
from .locomo import CATEGORIES, Conversation
from .report.answers import scored
from .report.figures import Report, estimated
from .report.retrieval import COUNTED, MEASURES, Measure
from .results import Outcome, Result
from .systems import MAIN

ANSWERS = ("f1", "bleu1")
CHOSEN_ON, REPORTED_ON = "chosen_on", "reported_on"

Values = dict[
    int, list[tuple[int, float | None]]
]  # by number of hits: category and value of a question


def split(
    conversations: Sequence[Conversation], choose: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the ids of the conversations that choose and of those that are reported.

    Without names in `choose` the first half of them choose.

    Raises:
        InvalidInputError: An unknown name, or nothing left on one side.
    """
    ids = [one.id for one in conversations]
    for name in choose:
        if name not in ids:
            raise InvalidInputError(
                f"there is no conversation {name!r}; there are {', '.join(ids)}"
            )
    chosen = [name for name in ids if name in choose] if choose else ids[: len(ids) // 2]
    rest = [name for name in ids if name not in chosen]
    if not chosen or not rest:
        raise InvalidInputError(
            "a sweep needs at least one conversation to choose on and one other to report on"
        )
    return chosen, rest


def curves(
    results: Sequence[Result],
    ks: Sequence[int],
    sides: tuple[Sequence[str], Sequence[str]],
    settings: Mapping[str, Any],
    *,
    embedder: Embedder | None = None,
) -> Report:
    """Return each measure over the number of hits, and what the choice on one side gives on the other."""
    found = {
        side: _curves([one for one in results if one.conversation in names], ks, embedder)
        for side, names in zip((CHOSEN_ON, REPORTED_ON), sides, strict=True)
    }
    return {
        "ks": list(ks),
        CHOSEN_ON: list(sides[0]),
        REPORTED_ON: list(sides[1]),
        "curves": found,
        "choice": {
            measure: _choice(by_category["all"], found[REPORTED_ON][measure]["all"])
            for measure, by_category in found[CHOSEN_ON].items()
            if measure in ANSWERS  # more hits always hold more of the evidence
        },
        "settings": dict(settings),
    }


def _curves(results: Sequence[Result], ks: Sequence[int], embedder: Embedder | None) -> Report:
    outcomes = [outcome for result in results for outcome in result.outcomes]
    measured = {name: _retrieved(outcomes, ks, measure) for name, measure in MEASURES.items()}
    if embedder is not None and any(result.answers for result in results):
        table = scored(results, embedder)
        for measure in ANSWERS:
            measured[measure] = {
                k: [
                    (one.category, one.scores["official"][measure])
                    for one in table.get((MAIN, k), ())
                ]
                for k in ks
            }
    return {name: _by_category(values) for name, values in measured.items()}


def _retrieved(outcomes: Sequence[Outcome], ks: Sequence[int], measure: Measure) -> Values:
    usable = [one for one in outcomes if one.question.evidence and one.question.category in COUNTED]
    return {
        k: [
            (one.question.category, measure(one.found[MAIN], one.question.evidence, k))
            for one in usable
        ]
        for k in ks
    }


def _by_category(values: Values) -> Report:
    """Return the estimates over all questions and for each category that has any."""
    groups = {"all": tuple(CATEGORIES), **{str(one): (one,) for one in CATEGORIES}}
    return {
        name: {
            str(k): estimated([value for category, value in some if category in group])
            for k, some in values.items()
        }
        for name, group in groups.items()
    }


def _choice(chosen: Mapping[str, Any], reported: Mapping[str, Any]) -> Report:
    """Return the best number of hits, the smallest of equals, and what it gives elsewhere."""
    if all(chosen[k]["mean"] is None for k in chosen):
        return {"k": None, "reported": None}  # nothing to choose by
    best = max(chosen, key=lambda k: (chosen[k]["mean"] or 0.0, -int(k)))
    return {"k": int(best), "reported": reported[best]}
