"""How many hits to show: chosen on some conversations, and reported on others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from amem_integrations.errors import InvalidInputError
from amem_integrations.ports import Embedder

from .data import CATEGORIES, Conversation, Result
from .document import BOOTSTRAP, Picture, Section, Table, Values, category, measure, table
from .locomo import select
from .plots import curves as charts
from .report import COUNTED, FOUND_MEASURES, Report, estimated, scored
from .systems import MAIN

ANSWERS = ("f1", "bleu1")
CHOSEN_ON, REPORTED_ON = "chosen_on", "reported_on"

_Pair = tuple[int, float | None]  # category and value of a question


def split(
    conversations: Sequence[Conversation], choose: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the ids of the conversations that choose (by default the first half) and of the reported ones."""
    ids = [one.id for one in conversations]
    named = [one.id for one in select(conversations, names=choose)]
    chosen = named if choose else ids[: len(ids) // 2]
    rest = [name for name in ids if name not in chosen]
    if not chosen or not rest:
        raise InvalidInputError(
            "a sweep needs at least one conversation to choose on and one other to report on"
        )
    return chosen, rest


def build(
    results: Sequence[Result],
    ks: Sequence[int],
    sides: tuple[Sequence[str], Sequence[str]],
    settings: Mapping[str, Any],
    *,
    embedder: Embedder | None = None,
) -> Report:
    """Return each measure over the number of hits, and what the choice on one side gives on the other."""
    curves = {
        side: _curves([one for one in results if one.conversation in names], ks, embedder)
        for side, names in zip((CHOSEN_ON, REPORTED_ON), sides, strict=True)
    }
    return {
        "ks": list(ks),
        CHOSEN_ON: list(sides[0]),
        REPORTED_ON: list(sides[1]),
        "curves": curves,
        "choice": {
            name: _choice(by_category["all"], curves[REPORTED_ON][name]["all"])
            for name, by_category in curves[CHOSEN_ON].items()
            if name in ANSWERS  # more hits always hold more of the evidence
        },
        "settings": dict(settings),
    }


def _curves(results: Sequence[Result], ks: Sequence[int], embedder: Embedder | None) -> Report:
    asked = [(one.question, one.found[MAIN]) for result in results for one in result.outcomes]
    usable = [(q, found) for q, found in asked if q.evidence and q.category in COUNTED]
    values: dict[str, dict[int, list[_Pair]]] = {
        name: {k: [(q.category, value(found, q.evidence, k)) for q, found in usable] for k in ks}
        for name, value in FOUND_MEASURES.items()
    }
    if embedder is not None and any(result.answers for result in results):
        answered = scored(results, embedder)
        marks = {k: answered.get((MAIN, k), []) for k in ks}
        for name in ANSWERS:
            values[name] = {
                k: [(one.category, one.scores["official"][name]) for one in some]
                for k, some in marks.items()
            }
    return {name: _by_category(by_k) for name, by_k in values.items()}


def _by_category(by_k: Mapping[int, Sequence[_Pair]]) -> Report:
    groups = {"all": tuple(CATEGORIES), **{str(one): (one,) for one in CATEGORIES}}
    return {
        name: {
            str(k): estimated([value for of, value in pairs if of in group])
            for k, pairs in by_k.items()
        }
        for name, group in groups.items()
    }


def _choice(chosen: Mapping[str, Any], reported: Mapping[str, Any]) -> Report:
    """Return the best number of hits, the smallest of equals, and what it gives elsewhere."""
    if all(chosen[k]["mean"] is None for k in chosen):
        return {"k": None, "reported": None}  # nothing to choose by
    best = max(chosen, key=lambda k: (chosen[k]["mean"] or 0.0, -int(k)))
    return {"k": int(best), "reported": reported[best]}


def sections(report: Values) -> Iterator[Section]:
    """Yield the section on `sweep.json`."""
    chosen, reported = (", ".join(report[side]) for side in (CHOSEN_ON, REPORTED_ON))
    choice = report.get("choice")
    marks = (
        " The dotted line is the number that is best on the conversations that choose; the ring is what it "
        "gives on the others."
    )
    yield Section(
        title="How many hits to show",
        about=[
            f"The number of hits k is chosen on {chosen} and reported on {reported}: a number that is chosen "
            "on the questions it is reported on looks better than it is. More hits always hold more of the "
            "evidence, so a choice is made by answers alone."
            + ("" if choice else " None was made here, since no questions were answered.")
        ],
        pictures=[
            Picture(
                name="sweep",
                alt="Lines over the number of hits, one for the conversations that choose and one for those "
                "that are reported; the figures are in the table below.",
                caption=f"Over all questions, with {BOOTSTRAP} as bands.{marks if choice else ''}",
                draw=partial(charts.sweep, report),
            ),
            Picture(
                name="sweep-by-category",
                alt="Lines over the number of hits for each category of questions, on the conversations "
                "reported; the figures are in the table below.",
                caption=f"The conversations reported, by category of the question, with {BOOTSTRAP} as "
                "bands. A dash is where nothing is measured: category 5 asks about what was never said.",
                draw=partial(charts.by_category, report),
            ),
        ],
        tables=list(_tables(report)),
    )


def _tables(report: Values) -> Iterator[Table]:
    if choice := report.get("choice"):
        yield table(
            "The choice, and what it gives on the conversations it was not made on",
            ["k", "reported"],
            ([measure(name), one["k"], one["reported"]] for name, one in choice.items()),
        )
    for side, about in ((REPORTED_ON, "reported"), (CHOSEN_ON, "that choose")):
        yield table(
            f"All curves, on the conversations {about}",
            ["questions", *(f"k = {k}" for k in report["ks"])],
            (
                [measure(name), category(of), *(found.get(str(k)) for k in report["ks"])]
                for name, by_category in report["curves"][side].items()
                for of, found in by_category.items()
                if any(one.get("mean") is not None for one in found.values())
            ),
            words=2,
            folded=True,
        )
