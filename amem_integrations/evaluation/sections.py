"""What a reader sees of `report.json`: the evidence that was found, the answers, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

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
    difference,
    listed,
    measure,
    number,
    ordered,
    percent,
    share,
    system,
    system_table,
    with_interval,
)
from .plots import bars, curves, scatter
from .plots.bars import Panel
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
            f"The {BOOTSTRAP} are of each system alone. Whether two differ is told by the table of "
            "differences, which compares them question by question."
        )


def _recall(found: Values, k: int) -> dict[str, float | None]:
    low, high = found["recall_interval"][str(k)] or (None, None)
    return {"mean": found["recall"][str(k)], "low": low, "high": high}


def _found_pictures(report: Values, systems: Sequence[str]) -> Iterator[Picture]:
    ks: list[int] = report["settings"]["k"]
    found = {
        k: {name: Estimate.of(_recall(report["retrieval"][name], k)) for name in systems}
        for k in ks
    }
    yield _bars(
        "recall",
        "Bars of recall.",
        f"Recall of the evidence by system, with {BOOTSTRAP}. “… without links” searches the same memory "
        "without following links; the other variants are built anew. The plain rankings read the same turns "
        "with their speakers, without what a model wrote about them."
        if len(systems) > 1
        else f"Recall of the evidence, with {BOOTSTRAP}.",
        [Panel(f"k = {k}", "recall of the evidence", found[k]) for k in ks[:3]],
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
    k = sorted(ks)[len(ks) // 2]
    yield from _recall_over_calls(report.get("builds", {}), k, found[k])


def _recall_over_calls(
    builds: Values, k: int, found: Mapping[str, Estimate | None]
) -> Iterator[Picture]:
    """Yield the chart of recall over model calls, if any were made and systems differ."""
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
        words = "; ".join(
            f"{system(name)}: {number(each)} calls, recall {share(one.mean)}"
            for name, (each, one) in points.items()
        )
        yield Picture(
            name="recall-over-calls",
            alt=f"Points of recall over model calls a note. {words}.",
            caption=f"What is found by what building costs: recall among the first {k} over the model calls "
            f"for a note (a scale that is logarithmic but has a 0), with {BOOTSTRAP}. The plain rankings need "
            "none. Systems of about equal cost are drawn a little apart.",
            draw=partial(scatter.calls, points, quality=f"recall, k = {k}"),
        )


def _found_tables(report: Values, systems: Sequence[str]) -> Iterator[Table]:
    ks: list[int] = report["settings"]["k"]
    found, context = report["retrieval"], report.get("context", {})
    against = {n: one for n, one in report.get("retrieval_against", {}).items() if n in systems}
    recall_and_all = [*(f"recall@{k}" for k in ks), *(f"all@{k}" for k in ks)]

    def shares(one: Values, *names: str) -> list[str]:
        return [share(one[name][str(k)]) for name in names for k in ks]

    yield system_table(
        f"Recall with {BOOTSTRAP}, and the share of questions of which all evidence was found",
        recall_and_all,
        systems,
        lambda name: (
            *(with_interval(_recall(found[name], k)) for k in ks),
            *shares(found[name], "all_evidence"),
        ),
    )
    if against:
        yield system_table(
            "By how much this memory finds more: mean difference over the same questions, with its 95 % "
            "bootstrap interval; where it holds 0, there may be none",
            recall_and_all[: len(ks)],
            against,
            lambda name: (difference(against[name]["recall"].get(str(k))) for k in ks),
        )
    counts = report["questions"]["by_category"]
    yield Table(
        caption="Recall by category of the question; category 5 asks about what was never said, and its "
        "evidence is where it sounds as if it was",
        head=["", "category", "questions", *recall_and_all],
        rows=[
            [
                System(name),
                category(one),
                str(counts[one]),
                *shares(found[name]["by_category"][one], "recall", "all_evidence"),
            ]
            for one in map(str, CATEGORIES)
            for name in systems
        ],
        words=2,
        folded=True,
    )
    if context:
        yield _contexts(context, ks)
    yield from _by_conversation(report.get("conversations", {}), ks)


def _contexts(context: Values, ks: Sequence[int]) -> Table:
    return system_table(
        "What is put before a question: tokens of the first k notes, and how much less that is than the whole "
        "conversation",
        [*(f"tokens@{k}" for k in ks), *(f"less@{k}" for k in ks)],
        context,
        lambda name: (
            *(number(context[name]["tokens"][str(k)]) for k in ks),
            *(percent(context[name]["saved"][str(k)]) for k in ks),
        ),
        folded=True,
    )


def _by_conversation(conversations: Values, ks: Sequence[int]) -> Iterator[Table]:
    def row(name: str, one: Values) -> list[str]:
        recall = one["retrieval"].get(MAIN, {}).get("recall", {})
        candidates = one.get("builds", {}).get(MAIN, {}).get("candidate_recall")
        counts = (str(one["notes"]), str(one["questions"]["used"]))
        writer = str(one.get("written_by", share(None)))
        return [name, writer, *counts, *(share(recall.get(str(k))) for k in ks), share(candidates)]

    if conversations:
        head = [
            "written by",
            "notes",
            "questions",
            *(f"recall@{k}" for k in ks),
            "candidate recall",
        ]
        yield Table(
            caption="Recall of this memory by conversation, and how many of the links in its annotations led "
            "to one of the candidates",
            head=["", *head],
            rows=[row(name, one) for name, one in conversations.items()],
            words=2,
            folded=True,
        )


def _official(found: Values, name: str) -> Estimate | None:
    return Estimate.of(found.get("official", {}).get(name))


def _answer_pictures(answers: Values) -> Iterator[Picture]:
    systems = ordered(answers)
    yield _bars(
        "answers",
        "Bars of answers.",
        f"Answers by what was put before the question, official scoring, with {BOOTSTRAP}.",
        [
            Panel(
                measure(one),
                "mean over questions",
                {name: _official(answers[name], one) for name in systems},
            )
            for one in _DRAWN
            if one in answers[systems[0]]["official"]
        ],
    )
    yield _bars(
        "answers-by-category",
        "Bars of F1 by category.",
        f"Official F1 by category of the question, with {BOOTSTRAP}. Category 5 is the share of answers "
        "that refuse.",
        [
            Panel(
                category(one),
                "F1",
                {
                    name: _official(answers[name]["by_category"].get(one, {}), "f1")
                    for name in systems
                },
            )
            for one in _categories(answers)
        ],
    )
    yield from _f1_over_tokens(answers)


def _f1_over_tokens(answers: Values) -> Iterator[Picture]:
    points = {
        name: (float(answers[name]["context_tokens"]), one)
        for name in ordered(answers)
        if (one := _official(answers[name], "f1"))
    }
    if len(points) > 1:
        words = "; ".join(
            f"{system(name)}: {number(tokens)} tokens, F1 {share(one.mean)}"
            for name, (tokens, one) in points.items()
        )
        yield Picture(
            name="answers-over-tokens",
            alt=f"Points of F1 over tokens of context. {words}.",
            caption="Official F1 by the context that was put before a question, on a logarithmic scale, with "
            f"{BOOTSTRAP}. A token is taken as four bytes. Systems of about equal cost are drawn a little "
            "apart.",
            draw=partial(scatter.tokens, points, quality="F1, official scoring"),
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
            systems,
            lambda name: (with_interval(answers[name][scoring][one]) for one in measures),  # noqa: B023 - used at once
            folded=not official,
        )
        if official and against:
            yield _answer_differences(against)
        yield Table(
            caption=f"Answers by category of the question: {scoring} scoring",
            head=["", "category", "questions", *head],
            rows=[
                [
                    System(name),
                    category(of),
                    str(found["questions"]),
                    *(with_interval(found[scoring][one]) for one in measures),
                ]
                for of in _categories(answers)
                for name in systems
                if (found := answers[name]["by_category"].get(of))
            ],
            words=2,
            folded=True,
        )


def _answer_differences(against: Values) -> Table:
    def cells(name: str) -> Iterator[str]:
        found = against[name]["official"]["f1"] or {}
        yield difference(found or None)
        for one in CATEGORIES:
            yield difference(found.get("by_category", {}).get(str(one)))

    return system_table(
        "By how much this memory's answers are better: mean difference of official F1 over the same questions, "
        "with its 95 % bootstrap interval; where it holds 0, there may be none",
        ["all", *(category(str(one)) for one in CATEGORIES)],
        against,
        cells,
    )


def _answer_costs(answers: Values) -> Iterator[Table]:
    if answers:
        yield system_table(
            "What was put before a question",
            ["tokens of context", "less than the whole conversation", "without an answer"],
            answers,
            lambda name: (
                number(answers[name]["context_tokens"]),
                percent(answers[name]["saved"]),
                number(answers[name].get("unanswered")),
            ),
        )


def _bars(name: str, alt: str, caption: str, panels: Sequence[Panel]) -> Picture:
    words = " ".join(f"{panel.title}: {listed(panel.values)}." for panel in panels)
    return Picture(
        name=name, alt=f"{alt} {words}", caption=caption, draw=partial(bars.draw, panels)
    )


def _categories(answers: Values) -> list[str]:
    return sorted({name for one in answers.values() for name in one["by_category"]})
