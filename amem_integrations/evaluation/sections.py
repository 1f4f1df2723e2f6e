"""What a reader sees of `report.json`: the evidence that was found, the answers, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .data import CATEGORIES
from .document import (
    BOOTSTRAP,
    COSTS,
    Estimate,
    Picture,
    Section,
    System,
    Table,
    Values,
    category,
    cost_tables,
    counted,
    joined,
    measure,
    number,
    ordered,
    percent,
    share,
    system,
    system_table,
    table,
)
from .plots import curves, scatter
from .scoring import SCORINGS
from .systems import FULL, MAIN, RANKINGS, WITHOUT_LINKS

_SCORED = {
    "official": "LoCoMo's own scoring; in category 5 an answer is right that refuses, and nothing but F1 "
    "is measured there",
    "amem": "scoring of the authors of A-MEM, for comparison with published figures only: in category 5 a "
    "high figure is of answers that fell for the wrong premise",
}
_DRAWN = ("f1", "bleu1", "judge")  # in the chart, as far as there are


def sections(report: Values) -> Iterator[Section]:
    """Yield the sections of a report, as far as it has figures for them."""
    known = [
        name
        for name, one in report.get("retrieval", {}).items()
        if None not in one["recall"].values()
    ]
    if systems := [name for name in ordered(known) if name != FULL]:
        yield Section(
            title="Evidence found",
            about=list(_about(report)),
            pictures=list(_found_pictures(report, systems)),
            tables=list(_found_tables(report, systems)),
        )
    if answers := report.get("answers"):
        yield Section(
            title="Answers",
            about=[
                (
                    f"A model answered each question from the first {report.get('answered_from', 'k')} notes of "
                    "each system, or from the whole conversation. The figures are by LoCoMo's own scoring "
                    f"unless another is named; shown are {BOOTSTRAP}."
                )
            ],
            pictures=list(_answer_pictures(answers)),
            tables=list(_answer_tables(answers)),
        )
    if tables := [*_answer_costs(report.get("answers", {})), *cost_tables(report)]:
        yield Section(title=COSTS, tables=tables)


def _about(report: Values) -> Iterator[str]:
    used, skipped = report["questions"]["used"], report["questions"]["skipped"]
    yield (
        "Recall is the share of the turns that answer a question which are among the first k notes found, "
        f"averaged over {counted(used, 'question')} of categories 1 to 4; no model is called for a question. "
        f"{counted(skipped, 'question')} without a turn named as evidence are left out."
    )
    if report.get("retrieval_against"):
        yield (
            f"The {BOOTSTRAP} are of each system alone. The table of differences shows whether two "
            "differ: it compares them question by question."
        )


def _recall(found: Values, k: int) -> Values:
    return joined(found["recall"][str(k)], found["recall_interval"][str(k)])


def _found_pictures(report: Values, systems: Sequence[str]) -> Iterator[Picture]:
    ks: list[int] = report["settings"]["k"]
    found = {
        k: {name: Estimate.of(_recall(report["retrieval"][name], k)) for name in systems}
        for k in ks
    }
    yield Picture.bars(
        "recall",
        "Bars of recall.",
        f"Recall of the evidence by system, with {BOOTSTRAP}. “… without links” searches the same memory "
        "without following links; the other variants are built anew. The plain rankings read the same turns "
        "with their speakers, without what a model wrote about them."
        if len(systems) > 1
        else f"Recall of the evidence, with {BOOTSTRAP}.",
        {f"k = {k}": found[k] for k in ks[:3]},
        "recall of the evidence",
    )
    if len(ks) > 1:
        over = {name: {k: one for k in ks if (one := found[k][name])} for name in systems}
        yield Picture(
            name="recall-over-notes",
            alt="Lines of recall over the number of notes shown; the figures are in the table below.",
            caption="What is found by what is put before a question: recall over the number of notes, with "
            f"{BOOTSTRAP}; systems are drawn a little apart.",
            draw=partial(curves.systems, over),
        )
    middle = sorted(ks)[len(ks) // 2]
    yield from _recall_over_calls(report.get("builds", {}), middle, found[middle])


def _recall_over_calls(
    builds: Values, k: int, found: Mapping[str, Estimate | None]
) -> Iterator[Picture]:
    calls = {name: one["calls_per_note"] for name, one in builds.items()}
    if MAIN in calls:
        calls[WITHOUT_LINKS] = calls[MAIN]  # it is the same memory
    calls |= dict.fromkeys(RANKINGS, 0.0)
    points = {
        name: (float(calls[name]), one)
        for name, one in found.items()
        if one is not None and calls.get(name) is not None
    }
    if len(points) > 1 and any(each for each, _ in points.values()):
        yield Picture(
            name="recall-over-calls",
            alt=f"Points of recall over model calls a note. {_in_words(points, 'calls, recall')}.",
            caption=f"What is found by what building costs: recall among the first {k} over the model calls "
            f"for a note (a scale that is logarithmic but has a 0), with {BOOTSTRAP}. The plain rankings need "
            "none. Systems of about equal cost are drawn a little apart.",
            draw=partial(
                scatter.draw,
                points,
                x="model calls a note, to build the memory",
                y=f"recall, k = {k}",
                linear=0.1,
            ),
        )


def _in_words(points: Mapping[str, scatter.Point], unit: str) -> str:
    return "; ".join(
        f"{system(name)}: {number(cost)} {unit} {share(one.mean)}"
        for name, (cost, one) in points.items()
    )


def _found_tables(report: Values, systems: Sequence[str]) -> Iterator[Table]:
    ks = list(map(str, report["settings"]["k"]))
    found = report["retrieval"]
    against = {n: one for n, one in report.get("retrieval_against", {}).items() if n in systems}
    recalls, alls = _head("recall", ks), _head("all", ks)
    yield system_table(
        f"Recall with {BOOTSTRAP}, and the share of questions of which all evidence was found",
        [*recalls, *alls],
        {
            name: [
                *(_recall(found[name], int(k)) for k in ks),
                *_at(found[name]["all_evidence"], ks),
            ]
            for name in systems
        },
    )
    if against:
        yield system_table(
            "By how much this memory finds more: mean difference over the same questions, with its 95 % "
            "bootstrap interval; where it holds 0, there may be none",
            recalls,
            {name: _at(one["recall"], ks) for name, one in against.items()},
        )
    yield _by_category(
        "Recall by category of the question; category 5 asks about what was never said, and its "
        "evidence is where it sounds as if it was",
        [*recalls, *alls],
        (
            [
                System(name),
                category(one),
                count,
                *_at(of["recall"], ks),
                *_at(of["all_evidence"], ks),
            ]
            for one, count in report["questions"]["by_category"].items()
            for name in systems
            for of in [found[name]["by_category"][one]]
        ),
    )
    yield from _context_tables(report.get("context", {}), ks)
    yield from _conversation_tables(report.get("conversations", {}), ks)


def _context_tables(context: Values, ks: Sequence[str]) -> Iterator[Table]:
    if context:
        yield system_table(
            "What is put before a question: tokens of the first k notes, and how much less that is than the whole "
            "conversation",
            [*_head("tokens", ks), *_head("less", ks)],
            {
                name: [*map(number, _at(one["tokens"], ks)), *map(percent, _at(one["saved"], ks))]
                for name, one in context.items()
            },
            folded=True,
        )


def _conversation_tables(conversations: Values, ks: Sequence[str]) -> Iterator[Table]:
    if conversations:
        yield table(
            "Recall of this memory by conversation, and how many of the links in its annotations led "
            "to one of the candidates",
            ["written by", "notes", "questions", *_head("recall", ks), "candidate recall"],
            (_conversation(name, one, ks) for name, one in conversations.items()),
            words=2,
            folded=True,
        )


def _conversation(name: str, one: Values, ks: Sequence[str]) -> list[object]:
    recall = one["retrieval"].get(MAIN, {}).get("recall", {})
    candidates = one.get("builds", {}).get(MAIN, {}).get("candidate_recall")
    counts = (one["notes"], one["questions"]["used"])
    return [name, one.get("written_by"), *counts, *_at(recall, ks), candidates]


def _by_category(caption: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    return table(caption, ["category", "questions", *head], rows, words=2, folded=True)


def _head(name: str, ks: Iterable[str]) -> list[str]:
    return [f"{name}@{k}" for k in ks]


def _at(values: Values, names: Iterable[str]) -> list[Any]:
    return [values.get(name) for name in names]


def _official(found: Values, name: str) -> Estimate | None:
    return Estimate.of(found.get("official", {}).get(name))


def _answer_pictures(answers: Values) -> Iterator[Picture]:
    systems = ordered(answers)
    yield Picture.bars(
        "answers",
        "Bars of answers.",
        f"Answers by what was put before the question, official scoring, with {BOOTSTRAP}.",
        {
            measure(one): {name: _official(answers[name], one) for name in systems}
            for one in _DRAWN
            if one in answers[systems[0]]["official"]
        },
        "mean over questions",
    )
    yield Picture.bars(
        "answers-by-category",
        "Bars of F1 by category.",
        f"Official F1 by category of the question, with {BOOTSTRAP}. Category 5 is the share of answers "
        "that refuse.",
        {
            category(one): {
                name: _official(answers[name]["by_category"].get(one, {}), "f1") for name in systems
            }
            for one in _categories(answers)
        },
        "F1",
    )
    points = {
        name: (float(answers[name]["context_tokens"]), one)
        for name in systems
        if (one := _official(answers[name], "f1"))
    }
    if len(points) > 1:
        yield Picture(
            name="answers-over-tokens",
            alt=f"Points of F1 over tokens of context. {_in_words(points, 'tokens, F1')}.",
            caption="Official F1 by the context that was put before a question, on a logarithmic scale, with "
            f"{BOOTSTRAP}. A token is taken as four bytes. Systems of about equal cost are drawn a little "
            "apart.",
            draw=partial(
                scatter.draw,
                points,
                x="tokens of context a question",
                y="F1, official scoring",
                linear=1.0,
            ),
        )


def _answer_tables(answers: Values) -> Iterator[Table]:
    systems = ordered(answers)
    against = answers.get(MAIN, {}).get("against", {})
    for scoring in SCORINGS:
        measures = list(answers[systems[0]].get(scoring, {}))
        head, official = list(map(measure, measures)), scoring == "official"
        yield system_table(
            f"Answers with {BOOTSTRAP}: {_SCORED[scoring]}",
            head,
            {name: _at(answers[name][scoring], measures) for name in systems},
            folded=not official,
        )
        if official and against:
            yield _answer_differences(against)
        yield _by_category(
            f"Answers by category of the question: {scoring} scoring",
            head,
            (
                [System(name), category(of), found["questions"], *_at(found[scoring], measures)]
                for of in _categories(answers)
                for name in systems
                if (found := answers[name]["by_category"].get(of))
            ),
        )


def _answer_differences(against: Values) -> Table:
    categories = list(map(str, CATEGORIES))
    f1 = {name: one["official"]["f1"] or {} for name, one in against.items()}
    return system_table(
        "By how much this memory's answers are better: mean difference of official F1 over the same questions, "
        "with its 95 % bootstrap interval; where it holds 0, there may be none",
        ["all", *map(category, categories)],
        {name: [one, *_at(one.get("by_category", {}), categories)] for name, one in f1.items()},
    )


def _answer_costs(answers: Values) -> Iterator[Table]:
    if answers:
        yield system_table(
            "What was put before a question",
            ["tokens of context", "less than the whole conversation", "without an answer"],
            {
                name: [
                    number(one["context_tokens"]),
                    percent(one["saved"]),
                    one.get("unanswered"),
                ]
                for name, one in answers.items()
            },
        )


def _categories(answers: Values) -> list[str]:
    return sorted({name for one in answers.values() for name in one["by_category"]})
