"""What a reader sees of `report.json`: the evidence that was found, the answers, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from . import document
from .data import CATEGORIES
from .document import BOOTSTRAP, Estimate, Picture, Section, System, Table, Values
from .plots import bars, curves, scatter
from .systems import FULL, MAIN, RANKINGS, WITHOUT_LINKS

_SCORED = {
    "official": "LoCoMo's own scoring; in category 5 an answer is right that refuses, and nothing but F1 "
    "is measured there",
    "amem": "scoring of the authors of A-MEM, for comparison with published figures only: in category 5 a "
    "high figure is of answers that fell for the wrong premise",
}
_SAME_QUESTIONS = (
    "the same questions, with its 95 % bootstrap interval; where it holds 0, there may be none"
)
_OfCategory = tuple[str, str, int, list[Any]]  # system, category, questions, figures
_DRAWN = ("f1", "bleu1", "judge")  # in the chart, as far as there are


def sections(report: Values) -> Iterator[Section]:
    """Yield the sections of a report, as far as it has figures for them."""
    found = report.get("retrieval", {})
    known = [name for name, one in found.items() if None not in one["recall"].values()]
    if systems := [name for name in document.ordered(known) if name != FULL]:
        yield Section(
            title="Evidence found",
            about=list(_about(report)),
            pictures=list(_found_pictures(report, systems)),
            tables=[
                *_found_tables(report, systems),
                *_told_tables(report),
                *_within_tables(report.get("within", {})),
            ],
        )
    if answers := report.get("answers"):
        yield Section(
            title="Answers",
            about=[
                (
                    f"A model answered each question from the first {report.get('answered_from', 'k')} notes of "
                    "each system, from what the memory recalls in a budget of tokens, or from the whole conversation. The figures are by LoCoMo's own scoring "
                    f"unless another is named; shown are {BOOTSTRAP}."
                )
            ],
            pictures=list(_answer_pictures(answers)),
            tables=[*_digest_tables(report.get("by_digests")), *_answer_tables(answers)],
        )
    if tables := [*_answer_costs(report.get("answers", {})), *document.cost_tables(report)]:
        yield Section(title=document.COSTS, tables=tables)


def _about(report: Values) -> Iterator[str]:
    used, skipped = report["questions"]["used"], report["questions"]["skipped"]
    yield (
        "Recall is the share of the turns that answer a question which are among the first k notes found, "
        f"averaged over {document.counted(used, 'question')} of categories 1 to 4; no model is called for a question. "
        f"{document.counted(skipped, 'question')} without a turn named as evidence are left out."
    )
    if report.get("retrieval_against"):
        yield (
            f"The {BOOTSTRAP} are of each system alone. The table of differences shows whether two "
            "differ: it compares them question by question."
        )


def _recall(found: Values, k: int) -> Values:
    return document.joined(found["recall"][str(k)], found["recall_interval"][str(k)])


def _found_pictures(report: Values, systems: Sequence[str]) -> Iterator[Picture]:
    ks: list[int] = report["settings"]["k"]
    found = {
        k: {name: Estimate.of(_recall(report["retrieval"][name], k)) for name in systems}
        for k in ks
    }
    yield bars.picture(
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
    if any(each for each, _ in points.values()):
        yield from _over_costs(
            "recall-over-calls",
            points,
            ("model calls a note, to build the memory", f"recall, k = {k}"),
            0.1,
            ("Points of recall over model calls a note.", "calls, recall"),
            f"What is found by what building costs: recall among the first {k} over the model calls "
            f"for a note (a scale that is logarithmic but has a 0), with {BOOTSTRAP}. The plain rankings need "
            "none.",
        )


def _over_costs(
    name: str,
    points: Mapping[str, scatter.Point],
    axes: tuple[str, str],
    linear: float,
    words: tuple[str, str],
    caption: str,
) -> Iterator[Picture]:
    if len(points) > 1:
        draw = partial(scatter.draw, points, x=axes[0], y=axes[1], linear=linear)
        figures = "; ".join(
            f"{document.system(each)}: {document.number(cost)} {words[1]} {document.share(one.mean)}"
            for each, (cost, one) in points.items()
        )
        caption += " Systems of about equal cost are drawn a little apart."
        yield Picture(name=name, alt=f"{words[0]} {figures}.", caption=caption, draw=draw)


def _found_tables(report: Values, systems: Sequence[str]) -> Iterator[Table]:
    ks = list(map(str, report["settings"]["k"]))
    found = {name: report["retrieval"][name] for name in systems}
    against = {n: one for n, one in report.get("retrieval_against", {}).items() if n in systems}
    recalls, alls = _head("recall", ks), _head("all", ks)
    yield document.system_table(
        f"Recall with {BOOTSTRAP}, and the share of questions of which all evidence was found",
        [*recalls, *alls],
        found,
        lambda one: [*(_recall(one, int(k)) for k in ks), *_at(one["all_evidence"], ks)],
    )
    if against:
        yield document.system_table(
            f"By how much this memory finds more: mean difference over {_SAME_QUESTIONS}",
            recalls,
            against,
            lambda one: _at(one["recall"], ks),
        )
    yield _by_category(
        "Recall by category of the question; category 5 asks about what was never said, and its "
        "evidence is where it sounds as if it was",
        [*recalls, *alls],
        (
            (name, one, count, [*_at(of["recall"], ks), *_at(of["all_evidence"], ks)])
            for one, count in report["questions"]["by_category"].items()
            for name in systems
            for of in [found[name]["by_category"][one]]
        ),
    )
    if context := report.get("context"):
        yield document.system_table(
            "What is put before a question: tokens of the first k notes, and how much less that is than the whole "
            "conversation",
            [*_head("tokens", ks), *_head("less", ks)],
            context,
            lambda of: [
                *map(document.number, _at(of["tokens"], ks)),
                *map(document.percent, _at(of["saved"], ks)),
            ],
            folded=True,
        )
    if conversations := report.get("conversations"):
        yield document.table(
            "Recall of this memory by conversation, and how many of the links in its annotations led "
            "to one of the candidates",
            ["written by", "notes", "questions", *_head("recall", ks), "candidate recall"],
            (_conversation(name, one, ks) for name, one in conversations.items()),
            words=2,
            folded=True,
        )


def _told_tables(report: Values) -> Iterator[Table]:
    """Yield what is found where a digest counts as its sources, if any was found."""
    ks = list(map(str, report["settings"]["k"]))
    told = {name: one for name, one in report["retrieval"].items() if "with_digests" in one}
    if told:
        yield document.system_table(
            "Recall of the same: of the notes alone, as above, and where a digest counts as all its sources",
            [*_head("notes", ks), *_head("with digests", ks)],
            told,
            lambda one: [*_at(one["recall"], ks), *_at(one["with_digests"]["recall"], ks)],
        )


def _within_tables(within: Values) -> Iterator[Table]:
    """Yield what is in a budget of tokens, if there are any."""
    if not within:
        return
    budgets = list(within)
    yield document.table(
        "What this memory recalls in a budget of tokens: recall of the evidence, and the share of questions of "
        f"which all evidence is there, with {BOOTSTRAP}",
        [*_head("recall", budgets), *_head("all", budgets)],
        (
            [
                document.category(of),
                *(within[b][of]["recall"] for b in budgets),
                *(within[b][of]["all_evidence"] for b in budgets),
            ]
            for of in within[budgets[0]]
        ),
        first="category",
    )
    if "with_digests" in within[budgets[0]]["all"]:
        yield document.table(
            "Recall in a budget of tokens: of the notes alone, as above, and where a digest counts as all its sources",
            [*_head("notes", budgets), *_head("with digests", budgets)],
            (
                [
                    document.category(of),
                    *(within[b][of]["recall"] for b in budgets),
                    *(within[b][of]["with_digests"]["recall"] for b in budgets),
                ]
                for of in within[budgets[0]]
            ),
            first="category",
        )


def _conversation(name: str, one: Values, ks: Sequence[str]) -> list[object]:
    recall = one["retrieval"].get(MAIN, {}).get("recall", {})
    counts = (one["notes"], one["questions"]["used"])
    return [
        name,
        one["written_by"],
        *counts,
        *_at(recall, ks),
        one["builds"][MAIN]["candidate_recall"],
    ]


def _by_category(caption: str, head: Iterable[str], found: Iterable[_OfCategory]) -> Table:
    rows = (
        [System(name), document.category(of), count, *cells] for name, of, count, cells in found
    )
    return document.table(caption, ["category", "questions", *head], rows, words=2, folded=True)


def _head(name: str, ks: Iterable[str]) -> list[str]:
    return [f"{name}@{k}" for k in ks]


def _at(values: Values, names: Iterable[str]) -> list[Any]:
    return [values.get(name) for name in names]


def _official(found: Values, name: str) -> Estimate | None:
    return Estimate.of(found.get("official", {}).get(name))


def _answer_pictures(answers: Values) -> Iterator[Picture]:
    systems = document.ordered(answers)
    yield bars.picture(
        "answers",
        "Bars of answers.",
        f"Answers by what was put before the question, official scoring, with {BOOTSTRAP}.",
        {
            document.measure(one): {name: _official(answers[name], one) for name in systems}
            for one in _DRAWN
            if one in answers[systems[0]]["official"]
        },
        "mean over questions",
    )
    yield bars.picture(
        "answers-by-category",
        "Bars of F1 by category.",
        f"Official F1 by category of the question, with {BOOTSTRAP}. Category 5 is the share of answers "
        "that refuse.",
        {
            document.category(one): {
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
    yield from _over_costs(
        "answers-over-tokens",
        points,
        ("tokens of context a question", "F1, official scoring"),
        1.0,
        ("Points of F1 over tokens of context.", "tokens, F1"),
        "Official F1 by the context that was put before a question, on a logarithmic scale, with "
        f"{BOOTSTRAP}. A token is taken as four bytes.",
    )


def _digest_tables(gains: Values | None) -> Iterator[Table]:
    if gains:
        categories = list(map(str, CATEGORIES))
        yield document.system_table(
            "By how much answers with digests are better than from the same memory without them: mean difference of "
            f"official F1 over {_SAME_QUESTIONS}",
            ["all", *map(document.category, categories)],
            gains,
            lambda f1: [f1, *_at(f1["by_category"], categories)],
        )


def _answer_tables(answers: Values) -> Iterator[Table]:
    systems = document.ordered(answers)
    against = next((one["against"] for one in answers.values() if "against" in one), None)
    for scoring, about in _SCORED.items():
        measures, official = list(answers[systems[0]][scoring]), scoring == "official"
        head = list(map(document.measure, measures))
        yield document.system_table(
            f"Answers with {BOOTSTRAP}: {about}",
            head,
            answers,
            lambda one: _at(one[scoring], measures),  # noqa: B023 - used at once
            folded=not official,
        )
        if official and against:
            categories = list(map(str, CATEGORIES))
            yield document.system_table(
                "By how much this memory's answers are better: mean difference of official F1 over "
                f"{_SAME_QUESTIONS}",
                ["all", *map(document.category, categories)],
                {name: one["official"]["f1"] for name, one in against.items()},
                lambda f1: [f1, *_at(f1["by_category"], categories)],  # noqa: B023 - used at once
            )
        yield _by_category(
            f"Answers by category of the question: {scoring} scoring",
            head,
            (
                (name, of, found["questions"], _at(found[scoring], measures))
                for of in _categories(answers)
                for name in systems
                if (found := answers[name]["by_category"].get(of))
            ),
        )


def _answer_costs(answers: Values) -> Iterator[Table]:
    if answers:
        yield document.system_table(
            "What was put before a question",
            ["tokens of context", "less than the whole conversation", "without an answer"],
            answers,
            lambda of: [
                document.number(of["context_tokens"]),
                document.percent(of["saved"]),
                of["unanswered"],
            ],
        )


def _categories(answers: Values) -> list[str]:
    return sorted({name for one in answers.values() for name in one["by_category"]})
