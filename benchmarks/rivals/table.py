"""The paper's Table 1 with the systems of a run: by category F1 and BLEU-1, mean rank, and what each system costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from ..data import CATEGORIES, Spent
from ..plots import HUES, INK, axes_in, reach
from ..report import PAIRED, SCORED, Row, Table, Values
from ..systems import MAIN

# F1 and BLEU-1 by category, tokens of a question: arXiv 2502.12110, version 11, Table 1, GPT-4o-mini.
PAPER: Mapping[str, Sequence[float]] = {
    "LoCoMo (full)": (25.02, 19.75, 18.41, 14.77, 12.04, 11.16, 40.36, 29.05, 69.23, 68.75, 16_910),
    "ReadAgent": (9.15, 6.48, 12.60, 8.87, 5.31, 5.12, 9.67, 7.66, 9.81, 9.02, 643),
    "MemoryBank": (5.00, 4.77, 9.68, 6.99, 5.56, 5.94, 6.61, 5.16, 7.36, 6.48, 432),
    "MemGPT": (26.65, 17.72, 25.52, 19.44, 9.15, 7.44, 41.04, 34.34, 43.29, 42.73, 16_977),
    "A-Mem": (27.02, 20.09, 45.85, 36.67, 12.14, 12.00, 44.65, 37.06, 50.03, 49.47, 2_520),
}

Both = Mapping[str, Sequence[float | None]]  # F1 and BLEU-1, by category


def tables(report: Values) -> Iterator[Table]:
    """Yield the table in each scoring, that of costs and of differences, and the paper's own; nothing without answers."""
    answers: Values = report.get("answers", {})
    if not answers:
        return
    for scoring, words in SCORED.items():
        found = {name: _both(one["by_category"], scoring) for name, one in answers.items()}
        about = f"F1 / BLEU-1 in hundredths, and the mean of the ranks by F1; {words}"
        yield Table(about, _rows(found))
    gains: Values = next((one["against"] for one in answers.values() if "against" in one), {})
    yield Table(
        f"By how much the memory's answers are better: official F1, {PAIRED}; no order is claimed where it includes 0",
        [gain_over(name, one["official@f1"]) for name, one in gains.items()],
    )
    yield Table(
        "What each system puts before a question, and costs",
        [{"system": name, **costs(report, name)} for name in answers],
    )
    yield Table(
        "The paper's own, with GPT-4o-mini on all of LoCoMo, in the second scoring. Beside ours: its prompt knows the category "
        "and shows the wrong answer of category 5 as a choice, and its number of hits is the best for each category",
        [{**one, "tokens a question": PAPER[str(one["system"])][-1]} for one in _rows(paper())],
    )


def _both(groups: Values, scoring: str) -> Both:
    return {
        number: [group[f"{scoring}@{name}"]["mean"] for name in ("f1", "bleu1")]
        for number, group in groups.items()
    }


def paper() -> dict[str, Both]:
    """Return the paper's own figures."""
    return {
        name: {str(n): [one / 100 for one in row[2 * n - 2 : 2 * n]] for n in CATEGORIES}
        for name, row in PAPER.items()
    }


def _rows(found: Mapping[str, Both]) -> list[Row]:
    rows: list[Row] = []
    for name, rank in ranks(found).items():
        row = {"system": name}
        for of, both in found[name].items():
            shown = (f"{100 * one:.2f}" for one in both if one is not None)
            row[CATEGORIES[int(of)]] = " / ".join(shown)
        rows.append({**row, "rank": f"{rank:.1f}"})
    return rows


def ranks(found: Mapping[str, Both]) -> dict[str, float]:
    """Return for each system the mean of its ranks by F1, as the paper has it; equal figures share the mean of their places."""
    places: dict[str, list[float]] = {name: [] for name in found}
    for number in next(iter(found.values())):
        by_f1 = {name: both[number][0] or 0.0 for name, both in found.items()}
        values = list(by_f1.values())
        for name, value in by_f1.items():
            above = sum(other > value for other in values)
            places[name].append(above + (values.count(value) + 1) / 2)
    return {name: fmean(some) for name, some in places.items()}


def gain_over(name: str, gain: Values) -> Row:
    """Return by how much ours is better than a system, over all questions and by category, and what that says."""
    so = "ours" if gain["low"] > 0 else name if gain["high"] < 0 else "no order"
    parts = {CATEGORIES[int(of)]: one for of, one in gain["by_category"].items()}
    return {"system": name, "all": gain, **parts, "so": so}


def costs(report: Values, name: str) -> dict[str, Any]:
    """Return what a system costs to build, and to answer a question from; a plain ranking or the whole is not built."""
    spent, one = report["costs"], report["answers"][name]
    own = "build" if name.startswith(MAIN) and f"build {name}" not in spent else f"build {name}"
    build, recall = (Spent(**spent.get(stage, {})) for stage in (own, f"recall {name}"))
    return {
        "tokens a question": one["context_tokens"],
        "saved": one["saved"],
        "unanswered": one["unanswered"],
        "calls a question": 1 + recall.calls / one["questions"],
        "tokens to recall": sum(recall[1:]) / one["questions"],
        "calls to build": build.calls,
        "tokens to build": sum(build[1:]),
    }


def figure(report: Values) -> Figure:
    """Return F1 over the tokens that a model reads and writes for it, building included; a point a system."""
    made, (axes,) = axes_in(1, 3.2)
    for number, (name, one) in enumerate(report["answers"].items()):
        cost, score = costs(report, name), one["official@f1"]
        each = cost["tokens a question"] + cost["tokens to recall"]
        x, hue = cost["tokens to build"] / one["questions"] + each, HUES[number % len(HUES)]
        axes.errorbar(x, score["mean"], reach(score), fmt="o", color=hue, ms=6, lw=1, capsize=2)
        place = (x, score["high"])
        axes.annotate(name, place, (0, 4), textcoords="offset points", color=INK, ha="center")
    axes.set(xscale="log", xlabel="tokens a question, with its share of building (log)")
    for axis in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        axis(lambda value, _: f"{value:,.0f}" if f"{value:.0f}"[0] in "125" else "")
    axes.set(ylabel="F1, LoCoMo's own scoring (95 %)", ylim=(0, 1.02))
    axes.margins(x=0.18)
    return made
