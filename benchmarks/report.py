"""From what was found and answered to the figures of a report: JSON values, and the same as Markdown tables and plots."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tabulate import tabulate

from amem_integrations.ports import Embedder
from amem_integrations.texts import count_tokens

from .data import ADVERSARIAL, CATEGORIES, Found, Question, Result, Spent
from .scoring import refuses, score
from .statistics import compare, estimate, rounded
from .systems import MAIN, in_budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Report = dict[str, Any]
Values = Mapping[str, Any]
Row = Mapping[str, object]  # cells by the heads of their columns
# Of what was found for a question, by measure such as `recall@5`.
Marks = Mapping[str, float | None]
# Is given what was found, and what is evidence.
Measure = Callable[[Sequence[str], Collection[str]], float]

COUNTED = tuple(one for one in CATEGORIES if one != ADVERSARIAL)  # what 5 asks about was never said
SCORED = {
    "official": "LoCoMo's own scoring; in category 5 an answer is right that refuses",
    "amem": "scoring of the authors of A-MEM; in category 5 an answer scores that fell for the question",
}
PAIRED = "mean difference over the same questions, with its 95 % bootstrap interval"


class Asked(NamedTuple):
    """A question of a conversation, and what a system found for it, with its marks."""

    result: Result
    question: Question
    found: Found
    marks: Marks


def build(
    results: Sequence[Result],
    ks: Sequence[int],
    settings: Values,
    *,
    embedder: Embedder,
    budgets: Sequence[int] = (),
) -> Report:
    """Return the report on some conversations: over all of them, and of each.

    Args:
        results: The conversations.
        ks: How many of the first hits count, for each figure.
        settings: What the figures depend on.
        embedder: Compares answers with gold answers.
        budgets: Tokens in which the memory showed what it recalls.
    """
    return {
        **_evidence(results, ks, budgets),
        "context": {name: _context(some, ks) for name, some in _searched(results, budgets).items()},
        **_answered(scored(results, embedder)),
        "costs": costs(results),
        "settings": dict(settings),
        "conversations": {
            one.conversation.id: {"written_by": one.written_by, **_evidence([one], ks, budgets)}
            for one in results
        },
    }


def recall(found: Sequence[str], evidence: Collection[str], k: int | None = None) -> float:
    """Return the share of the evidence that is among the first `k` found, by default among all."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))


def all_evidence(found: Sequence[str], evidence: Collection[str], k: int | None = None) -> float:
    """Return 1 if all of the evidence is among the first `k` found, by default among all, else 0."""
    return float(set(evidence) <= set(found[:k]))


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """Return 1 over the rank of the first piece of evidence that was found, or 0 if none was."""
    return next((1 / rank for rank, one in enumerate(found, 1) if one in evidence), 0.0)


def _first_hit(found: Sequence[str], evidence: Collection[str]) -> float:
    return float(not set(found[:1]).isdisjoint(evidence))


def _asked(results: Iterable[Result]) -> dict[str, list[Asked]]:
    """Return what each system found for all questions, always in the same order."""
    every: defaultdict[str, list[Asked]] = defaultdict(list)
    for result in results:
        for system, some in result.found.items():
            pairs = zip(result.conversation.questions, some, strict=True)
            every[system] += [Asked(result, question, found, {}) for question, found in pairs]
    return every


def _searched(results: Sequence[Result], budgets: Iterable[int]) -> dict[str, list[Asked]]:
    """Return what was found by the systems that find notes, those in budgets aside."""
    every, aside = _asked(results), set(map(in_budget, budgets))
    notes = {name: some for name, some in every.items() if some and some[0].found.ids is not None}
    return {name: some for name, some in notes.items() if name not in aside}


def _evidence(results: Sequence[Result], ks: Sequence[int], budgets: Sequence[int]) -> Report:
    """Return the recall of evidence, and the costs and products of building the memories."""
    measures: dict[str, Measure] = {"hit@1": _first_hit, "mrr": reciprocal_rank}
    measures |= {f"recall@{k}": partial(recall, k=k) for k in ks}
    measures |= {f"all_evidence@{k}": partial(all_evidence, k=k) for k in ks}
    whole: dict[str, Measure] = {"recall": recall, "all_evidence": all_evidence}
    every, questions = _asked(results), [q for one in results for q in one.conversation.questions]
    due = Counter(question.category for question in questions if question.evidence)
    found = {name: _marked(some, measures) for name, some in _searched(results, budgets).items()}
    return {
        "notes": sum(result.notes for result in results),
        "questions": {
            "used": sum(due[one] for one in COUNTED),
            "skipped": len(questions) - due.total(),
            "by_category": {str(one): due[one] for one in CATEGORIES},
        },
        "retrieval": {name: _grouped(some, COUNTED) for name, some in found.items()},
        "retrieval_against": _against({n: _of(some, COUNTED) for n, some in found.items()}),
        "within": {
            str(one): _grouped(_marked(every[in_budget(one)], whole), COUNTED) for one in budgets
        },
        "builds": builds(results),
    }


def _marked(some: Iterable[Asked], measures: Mapping[str, Measure]) -> list[Asked]:
    """Return the questions that have usable evidence, with the marks of what was found."""
    return [
        one._replace(
            marks={
                name: measure(one.found.ids or (), one.question.evidence)
                for name, measure in measures.items()
            }
        )
        for one in some
        if one.question.evidence
    ]


def _of(some: Iterable[Asked], categories: Collection[int]) -> list[Asked]:
    return [one for one in some if one.question.category in categories]


def _grouped(some: Sequence[Asked], counted: Collection[int]) -> Report:
    """Return the figures over all questions that count, and by category as far as there are any."""
    groups = {str(one): _of(some, (one,)) for one in CATEGORIES}
    parts = {name: _figures(group) for name, group in groups.items() if group}
    return {**_figures(_of(some, counted)), "by_category": parts}


def _figures(some: Sequence[Asked]) -> Report:
    """Return the number of questions, and the means of their marks with intervals."""
    names = some[0].marks if some else ()
    means = {name: estimate([one.marks[name] for one in some]) for name in names}
    return {"questions": len(some), **means}


def _against(found: Mapping[str, Sequence[Asked]], main: str = MAIN) -> Report:
    """Return by how much one system is better than each other one, by measure and category."""
    gains: defaultdict[str, Report] = defaultdict(dict)
    ours = found.get(main) or ()
    for name in ours[0].marks if ours else ():
        values = {system: [one.marks[name] for one in some] for system, some in found.items()}
        categories = [one.question.category for one in ours]
        for other, gain in compare(values, categories, main).items():
            gains[other][name] = gain
    return dict(gains)


def _context(some: Sequence[Asked], ks: Sequence[int]) -> Report:
    """Return the tokens that a system puts before a question, and how much less that is than the conversation."""
    whole = sum(one.result.full_tokens for one in some)
    shown = {k: sum(count_tokens(one.found.context(k)) for one in some) for k in ks}
    return {
        **{f"tokens@{k}": round(tokens / len(some), 1) for k, tokens in shown.items()},
        **{f"saved@{k}": rounded(1 - one / whole) if whole else None for k, one in shown.items()},
    }


def scored(results: Sequence[Result], embedder: Embedder) -> dict[str, list[Asked]]:
    """Return all answers by system, marked by scoring and measure, such as `official@f1`; a verdict is 0 or 1."""
    answered = [
        (system, one, one.found.answer)
        for system, some in _asked(results).items()
        for one in some
        if one.found.answer is not None
    ]
    scores = score([(one.question, answer) for _, one, answer in answered], embedder=embedder)
    judged = any(one.found.correct is not None for _, one, _ in answered)
    table: defaultdict[str, list[Asked]] = defaultdict(list)
    for (system, one, _), marks in zip(answered, scores, strict=True):
        if judged:
            correct = one.found.correct
            marks["official@judge"] = None if correct is None else float(correct)
        table[system].append(one._replace(marks=marks))
    return table


def _answered(by_system: Mapping[str, Sequence[Asked]]) -> Report:
    if not by_system:
        return {}
    main = MAIN if MAIN in by_system else next(iter(by_system))
    figures = {}
    for system, some in by_system.items():
        shown = sum(one.found.context_tokens for one in some)
        figures[system] = {
            "unanswered": sum(not one.found.answer for one in some),
            "context_tokens": round(shown / len(some), 1),
            "saved": rounded(1 - shown / sum(one.result.full_tokens for one in some)),
            **_grouped(some, CATEGORIES),
        }
    figures[main]["against"] = _against(by_system, main)
    return {"answers": figures}


def by_type(results: Sequence[Result], ks: Sequence[int], embedder: Embedder) -> dict[str, Report]:
    """Return recall of evidence by turn and session, and answers by a judge and F1: of all questions, and by their type.

    What no question has, such as evidence or a verdict, is left out.
    """
    types: defaultdict[str, list[Asked]] = defaultdict(list)
    for one in scored(results, embedder).get(MAIN) or _asked(results)[MAIN]:
        turns = one.found.ids or ()
        sessions = list(dict.fromkeys(key.rpartition("#")[0] for key in turns))
        due = {"turns": one.question.evidence, "sessions": one.question.sessions}
        marks: dict[str, float | None] = {
            f"{name}@{k}": recall(found, due[name], k) if due[name] else None
            for name, found in (("turns", turns), ("sessions", sessions))
            for k in ks
        }
        if one.found.answer is not None:
            marks |= {name: one.marks.get(f"official@{name}") for name in ("judge", "f1")}
            marks["refused"] = float(refuses(one.found.answer))
        for name in ("all", *one.question.types):
            types[name].append(one._replace(marks=marks))
    figures = {name: _figures(some) for name, some in types.items()}
    nothing = {name for name, one in figures["all"].items() if one == estimate([])}
    return {
        name: {measure: one for measure, one in some.items() if measure not in nothing}
        for name, some in figures.items()
    }


def builds(results: Sequence[Result]) -> Report:
    """Return for each variant of the memory what building it took and gave, over all conversations."""
    found: Report = {}
    for variant in results[0].writes if results else ():
        total = Counter[str]()
        for one in results:
            total.update(one.writes[variant])
        offered, annotated = total.pop("offered_links"), total.pop("annotated_links")
        found[variant] = {
            **total,
            "calls_per_note": rounded(total["model_calls"] / (total["notes"] or 1)),
            "candidate_recall": rounded(offered / annotated if annotated else None),
        }
    return found


def costs(results: Sequence[Result]) -> Report:
    """Return calls and tokens by stage; each variant of the memory is one, with what it costs alone."""
    stages: defaultdict[str, list[Spent]] = defaultdict(list)
    for result in results:
        for variant, one in result.writes.items():
            spent = Spent(one["model_calls"], one["input_tokens"], one["output_tokens"])
            stages["build" if variant == MAIN else f"build {variant}"].append(spent)
        for stage, spent in result.spent.items():
            stages[stage].append(spent)
    return {stage: Spent.total(parts)._asdict() for stage, parts in stages.items()}


class Table(NamedTuple):
    """Rows of JSON values, which have their columns by name in the first of them."""

    caption: str
    rows: Sequence[Row]

    def __str__(self) -> str:
        """Return the table in Markdown."""
        return f"{self.caption}:\n\n{self._drawn('github', 'left')}"

    def latex(self) -> str:
        """Return the table in LaTeX, for the package `booktabs`."""
        return f"% {self.caption}\n{self._drawn('latex_booktabs', 'right')}"

    def _drawn(self, form: str, side: str) -> str:
        rows = [{head: cell(one) for head, one in row.items()} for row in self.rows]
        sides = ["left", *[side] * (len(rows[0]) - 1)]
        return str(tabulate(rows, "keys", form, disable_numparse=True, colalign=sides))


def cell(value: object) -> str:
    """Return a JSON value as a reader sees it: shares as papers write them (`.870`), estimates with their intervals."""
    match value:
        case {"mean": float(found), "low": low, "high": high}:
            return f"{cell(found)} ({cell(low)} to {cell(high)})"
        case {"difference": found, "low": low, "high": high}:
            signed = (f"{'' if one < 0 else '+'}{cell(float(one))}" for one in (found, low, high))
            return "{} ({} to {})".format(*signed)
        case {"p50": median, "p95": most}:
            return f"{cell(median)} ({cell(most)})"
        case None | {"mean": None}:
            return "-"
        case float() | int():
            whole = isinstance(value, int)
            digits = next((3 - n for n in range(3) if abs(value) <= 10**n and not whole), 0)
            return re.sub(r"^(-?)0\.", r"\1.", f"{value + 0.0:,.{digits}f}")
        case _:
            return " ".join(str(value).split()).replace("|", "/")


def cells(figures: Values, of: str = "") -> Report:
    """Return figures as cells of a row, or those whose names begin with a word."""
    names = [name for name in figures if name.startswith(of) and name != "by_category"]
    return {name.removeprefix(of): figures[name] for name in names}


def _rows(head: str, found: Values, of: str = "") -> list[Row]:
    """Return rows of figures, or of those whose names begin with a word: over all questions, and by category."""
    return [
        {
            head: name,
            "category": f"{group} {CATEGORIES[int(group)]}" if group.isdigit() else group,
            "questions": one["questions"],
            **cells(one, of),
        }
        for name, whole in found.items()
        for group, one in {"all": whole, **whole["by_category"]}.items()
    ]


def tables(report: Values) -> Iterator[Table]:
    """Yield the tables of `report.json`, some of them without rows; see docs/evaluation.md for what they show."""
    counted, answers = report["questions"], report.get("answers", {})
    yield Table(
        f"Evidence found for {counted['used']} questions of categories 1 to 4 ({counted['skipped']} have no usable "
        "evidence): first hit right, mean reciprocal rank, recall, and all of it found; 95 % bootstrap intervals",
        _rows("system", report["retrieval"]),
    )
    yield Table(
        f"By how much the memory finds more: {PAIRED}",
        [{"system": name, **cells(one)} for name, one in report["retrieval_against"].items()],
    )
    yield Table(
        "Evidence that the memory recalls in a budget of tokens", _rows("tokens", report["within"])
    )
    yield Table(
        "Tokens of the first k notes, and by which share that is less than the whole conversation",
        [{"system": name, **cells(one)} for name, one in report["context"].items()],
    )
    yield Table(
        "The memory by conversation",
        [
            {
                "conversation": name,
                "written by": one["written_by"],
                **cells(one["retrieval"].get(MAIN, {})),
            }
            for name, one in report["conversations"].items()
        ],
    )
    for name, words in SCORED.items():
        about = f"Answers from the first notes, a budget, or the whole conversation: {words}"
        yield Table(about, _rows("system", answers, f"{name}@"))
    yield from cost_tables(report)


def cost_tables(report: Values) -> Iterator[Table]:
    """Yield what building and the language models took, in a report on any data set."""
    yield Table(
        "Building each memory (a memory that is searched in two ways is built once)",
        [{"memory": name, **one} for name, one in report["builds"].items()],
    )
    yield Table(
        "What the language models were asked, by stage",
        [{"stage": name, **one} for name, one in report["costs"].items() if one["calls"]],
    )


def write(
    out: Path,
    name: str,
    report: Values,
    found: Iterable[Table],
    figures: Mapping[str, Figure],
) -> None:
    """Write a report as JSON, and as Markdown with its tables, its plots (PNG) and all settings; print a part.

    Args:
        out: The folder.
        name: The name of the files, and the title.
        report: JSON values, with everything the figures depend on in `settings`.
        found: Tables of the same values; those without rows are left out.
        figures: Plots of the same values by name.
    """
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=2) + "\n"
    (out / f"{name}.json").write_text(text, encoding="utf-8")
    blocks = [str(table) for table in found if table.rows]
    with warnings.catch_warnings():
        # Names are in any script; a character that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        for title, figure in figures.items():
            figure.savefig(out / f"{name}-{title}.png")
    pictures = [f"![{title}]({name}-{title}.png)" for title in figures]
    settings = json.dumps(report["settings"], indent=2)
    page = [f"# {name}", *blocks, *pictures, f"## Settings\n\n```json\n{settings}\n```"]
    (out / f"{name}.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")
    print("\n\n".join([*blocks[:2], str(out / f"{name}.md")]))
