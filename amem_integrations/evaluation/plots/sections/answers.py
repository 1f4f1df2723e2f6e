"""What a model answered, and what that cost: from `report.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from ...systems import MAIN
from .. import bars, cost, labels
from ..bars import Estimate, Panel
from .parts import BOOTSTRAP, Picture, Section, Table, Values, difference, listed, with_interval

_SCORINGS = {
    "official": "LoCoMo's own scoring; in category 5 an answer is right that refuses, and nothing but F1 "
    "is measured there",
    "amem": "scoring of the authors of A-MEM, for comparison with published figures only: in category 5 a "
    "high figure is of answers that fell for the wrong premise",
}
_SHOWN = ("f1", "bleu1", "judge")  # in the picture, as far as there are


def sections(report: Values) -> Iterator[Section]:
    """Return the sections on answers and on costs, as far as the report has them."""
    if answers := report.get("answers"):
        yield Section(
            title="Answers",
            about=[
                (
                    f"A model answered each question from the first {report.get('answered_from', 'k')} notes "
                    "of each system, or from the whole conversation. The figures are by LoCoMo's own scoring "
                    f"unless another is named; shown are {BOOTSTRAP}."
                )
            ],
            pictures=list(_pictures(answers)),
            tables=list(_tables(answers)),
        )
    if tables := list(_costs(report)):
        yield Section(title="Costs", about=[], tables=tables)


def _pictures(answers: Values) -> Iterator[Picture]:
    systems = labels.ordered(answers)
    measures = [name for name in _SHOWN if name in answers[systems[0]]["official"]]
    panels = [
        Panel(
            labels.measure(measure),
            "mean over questions",
            {name: _estimate(answers[name], measure) for name in systems},
        )
        for measure in measures
    ]
    yield Picture(
        name="answers",
        alt=f"Bars of answers. {' '.join(f'{p.title}: {listed(p.values)}.' for p in panels)}",
        caption=f"Answers by what was put before the question, official scoring, with {BOOTSTRAP}.",
        draw=partial(bars.draw, panels),
    )
    yield _by_category(answers, systems)
    yield from _tokens(answers, systems)


def _by_category(answers: Values, systems: list[str]) -> Picture:
    categories = sorted({name for one in answers.values() for name in one["by_category"]})
    panels = [
        Panel(
            labels.category(category),
            "F1",
            {
                name: _estimate(answers[name]["by_category"].get(category, {}), "f1")
                for name in systems
            },
        )
        for category in categories
    ]
    return Picture(
        name="answers-by-category",
        alt=f"Bars of F1 by category. {' '.join(f'{p.title}: {listed(p.values)}.' for p in panels)}",
        caption=f"Official F1 by category of the question, with {BOOTSTRAP}. Category 5 is the share of "
        "answers that refuse.",
        draw=partial(bars.draw, panels),
    )


def _tokens(answers: Values, systems: list[str]) -> Iterator[Picture]:
    places = {
        name: (float(answers[name]["context_tokens"]), one)
        for name in systems
        if (one := _estimate(answers[name], "f1"))
    }
    if len(places) < 2:  # noqa: PLR2004 - there is nothing to compare
        return
    said = "; ".join(
        f"{labels.system(name)}: {labels.number(tokens)} tokens, F1 {labels.share(one.mean)}"
        for name, (tokens, one) in places.items()
    )
    yield Picture(
        name="answers-over-tokens",
        alt=f"Points of F1 over tokens of context. {said}.",
        caption=f"Official F1 by the context that was put before a question, on a logarithmic scale, with "
        f"{BOOTSTRAP}. A token is taken as four bytes. Systems of about equal cost are drawn a little apart.",
        draw=partial(cost.tokens, places, quality="F1, official scoring"),
    )


def _tables(answers: Values) -> Iterator[Table]:
    systems = labels.ordered(answers)
    for scoring, about in _SCORINGS.items():
        measures = list(answers[systems[0]].get(scoring, {}))
        yield Table(
            caption=f"Answers with {BOOTSTRAP}: {about}",
            head=["", *map(labels.measure, measures)],
            rows=[
                [
                    labels.system(name),
                    *(with_interval(answers[name][scoring][measure]) for measure in measures),
                ]
                for name in systems
            ],
            folded=scoring != "official",
        )
    against = answers.get(MAIN, {}).get("against", {})
    if against:
        yield _differences(against)
    yield Table(
        caption="Official F1 by category of the question",
        head=["", "category", "questions", "F1"],
        rows=[
            [
                labels.system(name),
                labels.category(category),
                str(one["questions"]),
                with_interval(one["official"]["f1"]),
            ]
            for category in sorted({c for one in answers.values() for c in one["by_category"]})
            for name in systems
            if (one := answers[name]["by_category"].get(category))
        ],
        words=2,
        folded=True,
    )


def _differences(against: Mapping[str, Values]) -> Table:
    categories = ("1", "2", "3", "4", "5")
    return Table(
        caption="By how much this memory's answers are better: mean difference of official F1 over the same "
        "questions, with its 95 % bootstrap interval; where it holds 0, there may be none",
        head=["than", "all", *map(labels.category, categories)],
        rows=[
            [
                labels.system(name),
                difference(found := against[name]["official"]["f1"]),
                *(difference((found or {}).get("by_category", {}).get(one)) for one in categories),
            ]
            for name in labels.ordered(against)
        ],
    )


def _costs(report: Values) -> Iterator[Table]:
    if answers := report.get("answers"):
        yield Table(
            caption="What was put before a question",
            head=["", "tokens of context", "less than the whole conversation"],
            rows=[
                [
                    labels.system(name),
                    labels.number(answers[name]["context_tokens"]),
                    f"{answers[name]['saved']:.1%}",
                ]
                for name in labels.ordered(answers)
            ],
        )
    if builds := report.get("builds"):
        columns = {
            "notes": "notes",
            "model_calls": "model calls",
            "calls_per_note": "calls a note",
            "input_tokens": "tokens in",
            "output_tokens": "tokens out",
            "rejected_replies": "rejected replies",
            "links": "links",
            "updates": "updates",
        }
        yield Table(
            caption="Building each memory; a memory that is searched in two ways is built once",
            head=["", *columns.values()],
            rows=[
                [labels.system(name), *(labels.number(builds[name].get(one)) for one in columns)]
                for name in labels.ordered(builds)
            ],
        )
    stages = {name: one for name, one in report.get("costs", {}).items() if one.get("calls")}
    if stages:
        columns = {
            "calls": "calls",
            "input_tokens": "tokens in",
            "output_tokens": "tokens out",
            "cost": "price",
        }
        yield Table(
            caption="What the language models were asked, by stage; a price only where prices were given",
            head=["", *columns.values()],
            rows=[
                [name, *(labels.number(one.get(column)) for column in columns)]
                for name, one in stages.items()
            ],
        )


def _estimate(found: Values, measure: str) -> Estimate | None:
    return Estimate.of(found.get("official", {}).get(measure) or {})
