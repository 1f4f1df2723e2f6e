"""From what was found and answered to the figures of a report: JSON values, and the same as Markdown tables and plots."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amem_integrations.ports import Embedder

from .data import ADVERSARIAL, CATEGORIES, Answer, Outcome, Result, Spent
from .scoring import score
from .statistics import compare, estimate, rounded
from .systems import MAIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Report = dict[str, Any]
Values = Mapping[str, Any]
Row = Mapping[str, object]  # cells by the heads of their columns

COUNTED = tuple(one for one in CATEGORIES if one != ADVERSARIAL)  # what 5 asks about was never said
GROUPS = {"all": COUNTED, **{str(one): (one,) for one in CATEGORIES}}
SCORED = {
    "official": "LoCoMo's own scoring; in category 5 an answer is right that refuses",
    "amem": "scoring of the authors of A-MEM; in category 5 an answer scores that fell for the question",
}

_PAIRED = "mean difference over the same questions, with its 95 % bootstrap interval"


def build(
    results: Sequence[Result],
    ks: Sequence[int],
    settings: Values,
    *,
    embedder: Embedder,
) -> Report:
    """Return the report on some conversations: over all of them, and of each.

    Args:
        results: The conversations.
        ks: How many of the first hits count, for each figure.
        settings: What the figures depend on.
        embedder: Compares answers with gold answers.
    """
    return {
        **_evidence(results, ks),
        **_answered(scored(results, embedder)),
        "costs": costs(results),
        "settings": dict(settings),
        "conversations": {
            result.conversation: {"written_by": result.written_by, **_evidence([result], ks)}
            for result in results
        },
    }


def recall(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the share of the evidence that is among the first `k` found."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))


def all_evidence(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return 1 if all of the evidence is among the first `k` found, else 0."""
    return float(set(evidence) <= set(found[:k]))


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """Return 1 over the rank of the first piece of evidence that was found, or 0 if none was."""
    return next((1 / rank for rank, one in enumerate(found, 1) if one in evidence), 0.0)


def _measured(
    outcomes: Sequence[Outcome], system: str, ks: Sequence[int]
) -> dict[str, list[float]]:
    """Return what a system found for each question, by measure, such as `hit@1`, `mrr` and `recall@5`."""
    pairs = [(one.found[system], one.question.evidence) for one in outcomes]
    return {
        "hit@1": [float(found[0] in evidence if found else 0) for found, evidence in pairs],
        "mrr": [reciprocal_rank(found, evidence) for found, evidence in pairs],
        **{
            f"{measure.__name__}@{k}": [measure(found, evidence, k) for found, evidence in pairs]
            for measure in (recall, all_evidence)
            for k in ks
        },
    }


def _nested(figures: Iterable[tuple[str, object]]) -> Report:
    """Return figures by name, and those of names such as `recall@5` by what stands before the mark, then after it."""
    nested: Report = {}
    for name, figure in figures:
        measure, _, k = name.partition("@")
        if k:
            nested.setdefault(measure, {})[k] = figure
        else:
            nested[measure] = figure
    return nested


def _evidence(results: Sequence[Result], ks: Sequence[int]) -> Report:
    """Return the recall of evidence, and the costs and products of building the memories."""
    outcomes = [outcome for result in results for outcome in result.outcomes]
    usable = [outcome for outcome in outcomes if outcome.question.evidence]
    counted = _of(usable, COUNTED)
    by_category = {str(one): _of(usable, (one,)) for one in CATEGORIES}
    systems = list(usable[0].found) if usable else []
    values = {system: _measured(counted, system, ks) for system in systems}
    return {
        "notes": sum(result.notes for result in results),
        "questions": {
            "used": len(counted),
            "skipped": len(outcomes) - len(usable),
            "by_category": {name: len(some) for name, some in by_category.items()},
        },
        "retrieval": {
            system: {
                **_estimates(values[system]),
                "by_category": {
                    category: _estimates(_measured(some, system, ks))
                    for category, some in by_category.items()
                },
            }
            for system in systems
        },
        "retrieval_against": _against(values, [one.question.category for one in counted]),
        "within": {
            str(budget): {name: _within(_of(usable, of), budget) for name, of in GROUPS.items()}
            for budget in (usable[0].within if usable else ())
        },
        "context": {system: _context(results, system, ks) for system in systems},
        "builds": builds(results),
    }


def _of(outcomes: Sequence[Outcome], categories: Collection[int]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.question.category in categories]


def _estimates(values: Mapping[str, Sequence[float | None]]) -> Report:
    """Return the means of measures with their intervals."""
    return _nested((name, estimate(found)) for name, found in values.items())


def _against(
    values: Mapping[str, Mapping[str, Sequence[float | None]]],
    categories: Sequence[int],
    main: str = MAIN,
) -> Report:
    """Return by how much one system is better than each other, given the values by system and measure."""
    gains: dict[str, list[tuple[str, object]]] = {}
    for name in values[main] if values else ():
        by_system = {system: measured[name] for system, measured in values.items()}
        for other, gain in compare(by_system, categories, main).items():
            gains.setdefault(other, []).append((name, gain))
    return {other: _nested(figures) for other, figures in gains.items()}


def _within(outcomes: Sequence[Outcome], budget: int) -> Report:
    """Return the evidence that the memory shows in a budget of tokens."""
    shown = [(one.within[budget], one.question.evidence) for one in outcomes]
    return {
        measure.__name__: estimate([measure(ids, evidence, len(ids)) for ids, evidence in shown])
        for measure in (recall, all_evidence)
    }


def _context(results: Sequence[Result], system: str, ks: Sequence[int]) -> Report:
    """Return the tokens that a system puts before a question, and how much less that is than the conversation."""
    asked = [(result.full_tokens, outcome) for result in results for outcome in result.outcomes]
    whole = sum(full for full, _ in asked)
    shown = {str(k): sum(outcome.shown[system][k] for _, outcome in asked) for k in ks}
    return {
        "tokens": {k: round(tokens / len(asked), 1) for k, tokens in shown.items()},
        "saved": {k: rounded(1 - tokens / whole) if whole else None for k, tokens in shown.items()},
    }


@dataclass(frozen=True, slots=True)
class Scored:
    """One answer with its scores by scoring and measure, such as `official@f1`; a judge's verdict is 0 or 1."""

    category: int
    answer: Answer
    full_tokens: int
    scores: Mapping[str, float | None]


def scored(results: Sequence[Result], embedder: Embedder) -> dict[str, list[Scored]]:
    """Return all answers with their scores by system, always in the same order."""
    every = [
        (system, result, outcome.question, answer)
        for result in results
        for system, given in result.answers.items()
        for outcome, answer in zip(result.outcomes, given, strict=True)
    ]
    found = score([(question, answer.text) for _, _, question, answer in every], embedder=embedder)
    judged = any(answer.correct is not None for *_, answer in every)
    table: dict[str, list[Scored]] = {}
    for (system, result, question, answer), scores in zip(every, found, strict=True):
        marked = {
            f"{scoring}@{name}": value
            for scoring, measured in scores._asdict().items()
            for name, value in measured.items()
        }
        if judged:
            verdict = None if answer.correct is None else float(answer.correct)
            marked |= {"official@judge": verdict, "amem@judge": None}
        one = Scored(question.category, answer, result.full_tokens, marked)
        table.setdefault(system, []).append(one)
    return table


def _answered(by_system: Mapping[str, Sequence[Scored]]) -> Report:
    if not by_system:
        return {}
    main = MAIN if MAIN in by_system else next(iter(by_system))
    figures = {system: _figures(found) for system, found in by_system.items()}
    values = {system: _marks(found) for system, found in by_system.items()}
    figures[main]["against"] = _against(values, [one.category for one in by_system[main]], main)
    return {"answers": figures}


def _marks(found: Sequence[Scored]) -> dict[str, list[float | None]]:
    return {name: [one.scores[name] for one in found] for name in found[0].scores}


def _figures(found: Sequence[Scored]) -> Report:
    shown = sum(one.answer.context_tokens for one in found)
    by_category = {one: [s for s in found if s.category == one] for one in CATEGORIES}
    return {
        "questions": len(found),
        "unanswered": sum(not one.answer.text for one in found),
        "context_tokens": round(shown / len(found), 1),
        "saved": rounded(1 - shown / sum(one.full_tokens for one in found)),
        **_estimates(_marks(found)),
        "by_category": {
            str(category): {"questions": len(some), **_estimates(_marks(some))}
            for category, some in by_category.items()
            if some
        },
    }


def graded(found: Sequence[Scored]) -> Report:
    """Return answers by a judge, if there is one, and by F1, each with its interval."""
    names = ("judge", "f1")
    return {name: estimate([one.scores.get(f"official@{name}") for one in found]) for name in names}


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
    stages: dict[str, list[Spent]] = {}
    for result in results:
        for variant, one in result.writes.items():
            spent = Spent(
                *(int(one[name]) for name in ("model_calls", "input_tokens", "output_tokens"))
            )
            stages.setdefault("build" if variant == MAIN else f"build {variant}", []).append(spent)
        for stage, spent in result.spent.items():
            stages.setdefault(stage, []).append(spent)
    return {stage: Spent.total(parts)._asdict() for stage, parts in stages.items()}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of JSON values, which have their columns by name in the first of them."""

    caption: str
    rows: Sequence[Row]

    def __str__(self) -> str:
        """Return the table in Markdown, its columns aligned."""
        texts = [list(self.rows[0]), *([cell(one) for one in row.values()] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        texts.insert(1, ["-" * width for width in widths])
        padded = ([f"{one:{n}}" for one, n in zip(row, widths, strict=True)] for row in texts)
        return "\n".join([f"{self.caption}:", "", *(f"| {' | '.join(row)} |" for row in padded)])


def cell(value: object) -> str:
    """Return a JSON value as a reader sees it: shares as papers write them (`.870`), estimates with their intervals."""
    match value:
        case {"mean": float(found), "low": low, "high": high}:
            return f"{cell(found)} ({cell(low)} to {cell(high)})"
        case {"difference": found, "low": low, "high": high}:
            signed = (f"{'' if one < 0 else '+'}{cell(float(one))}" for one in (found, low, high))
            return "{} ({} to {})".format(*signed)
        case None | {"mean": None}:
            return "-"
        case float():
            digits = next((3 - n for n in range(3) if abs(value) <= 10**n), 0)
            return re.sub(r"^(-?)0\.", r"\1.", f"{value + 0.0:,.{digits}f}")
        case int():
            return f"{value:,}"
        case _:
            return " ".join(str(value).split()).replace("|", "\\|")


def cells(values: Values) -> Report:
    """Return figures as cells of a row: those by number of hits as `recall@5`."""
    row: Report = {}
    for name, found in values.items():
        if name != "by_category":
            by_k = isinstance(found, Mapping) and all(map(str.isdigit, found))
            row |= {f"{name}@{k}": one for k, one in found.items()} if by_k else {name: found}
    return row


def _category(name: str) -> str:
    return f"{name} {CATEGORIES[int(name)]}" if name.isdigit() else name


def _rows(found: Values, shown: Callable[[str, Values], Values]) -> list[Row]:
    """Return rows of the figures of systems: over all questions, and by category."""
    return [
        {"system": name, "category": _category(of), **shown(of, one)}
        for name, whole in found.items()
        for of, one in {"all": whole, **whole["by_category"]}.items()
    ]


def tables(report: Values) -> Iterator[Table]:
    """Yield the tables of `report.json`, some of them without rows; see docs/evaluation.md for what they show."""
    questions = report["questions"]
    counts = {"all": questions["used"], **questions["by_category"]}
    yield Table(
        f"Evidence found for {questions['used']} questions of categories 1 to 4 ({questions['skipped']} have no usable "
        "evidence): first hit right, mean reciprocal rank, recall, and all of it found; 95 % bootstrap intervals",
        _rows(report["retrieval"], lambda of, one: {"questions": counts[of], **cells(one)}),
    )
    yield Table(
        f"By how much the memory finds more: {_PAIRED}",
        [{"system": name, **cells(one)} for name, one in report["retrieval_against"].items()],
    )
    yield Table(
        "Evidence that the memory recalls in a budget of tokens",
        [
            {"tokens": int(budget), "category": _category(of), **one}
            for budget, groups in report["within"].items()
            for of, one in groups.items()
        ],
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
                "questions": one["questions"]["used"],
                **cells(one["retrieval"].get(MAIN, {})),
            }
            for name, one in report["conversations"].items()
        ],
    )
    answers = report.get("answers", {})
    for name, words in SCORED.items():
        rows = _rows(answers, lambda _, one: {"questions": one["questions"], **one[name]})  # noqa: B023 - used at once
        yield Table(
            f"Answers from the first notes, a budget, or the whole conversation: {words}",
            rows,
        )
    gains: Report = next((one["against"] for one in answers.values() if "against" in one), {})
    yield Table(
        f"By how much the memory's answers are better: official F1, {_PAIRED}",
        [
            {"system": name, **{_category(of): f1.get(of) for of in GROUPS}}
            for name, one in gains.items()
            for f1 in [{"all": one["official"]["f1"], **one["official"]["f1"]["by_category"]}]
        ],
    )
    names = ("context_tokens", "saved", "unanswered")
    yield Table(
        "Tokens put before a question, and by which share that is less than the whole conversation",
        [{"system": name, **{one: of[one] for one in names}} for name, of in answers.items()],
    )
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
