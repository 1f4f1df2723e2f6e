"""The paper's Table 1 with the systems of a run: by category F1 and BLEU-1, mean rank, and what each system costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from ..data import CATEGORIES
from ..plots import HUES, INK, reach, row
from ..report import SCORED, Row, Table, Values, cell
from ..systems import MAIN

MEASURES = ("f1", "bleu1")
# F1 and BLEU-1 by category, tokens of a question: arXiv 2502.12110, version 11, Table 1, GPT-4o-mini.
PAPER: Mapping[str, Sequence[float]] = {
    "LoCoMo (full)": (25.02, 19.75, 18.41, 14.77, 12.04, 11.16, 40.36, 29.05, 69.23, 68.75, 16_910),
    "ReadAgent": (9.15, 6.48, 12.60, 8.87, 5.31, 5.12, 9.67, 7.66, 9.81, 9.02, 643),
    "MemoryBank": (5.00, 4.77, 9.68, 6.99, 5.56, 5.94, 6.61, 5.16, 7.36, 6.48, 432),
    "MemGPT": (26.65, 17.72, 25.52, 19.44, 9.15, 7.44, 41.04, 34.34, 43.29, 42.73, 16_977),
    "A-Mem": (27.02, 20.09, 45.85, 36.67, 12.14, 12.00, 44.65, 37.06, 50.03, 49.47, 2_520),
}

Figures = Mapping[str, Mapping[int, Sequence[float | None]]]  # by system and category: F1, BLEU-1


def tables(report: Values) -> Iterator[Table]:
    """Yield the table in each scoring, that of costs, and the paper's own; nothing without answers to compare."""
    answers: Values = report.get("answers", {})
    if len(answers) < 2:  # noqa: PLR2004 - a system and another
        return
    for scoring, words in SCORED.items():
        found = {name: _both(one["by_category"], scoring) for name, one in answers.items()}
        about = f"F1 / BLEU-1 in hundredths, and the mean of the ranks by F1; {words}"
        yield Table(about, _rows(found))
    yield Table(
        "What each system costs, and by how much ours answers better (official F1, paired 95 % interval); no order is "
        "claimed where the interval includes 0",
        [{"system": name, **costs(report, name), **_verdict(answers, name)} for name in answers],
    )
    yield Table(
        "The paper's own, with GPT-4o-mini on all of LoCoMo, in the second scoring. Beside ours: its prompt knows the category "
        "and shows the wrong answer of category 5 as a choice, and its number of hits is the best for each category",
        [
            {**row, "tokens a question": int(PAPER[str(row["system"])][-1])}
            for row in _rows(paper())
        ],
    )


def _both(groups: Values, scoring: str) -> dict[int, list[float | None]]:
    return {
        int(number): [group[scoring][measure]["mean"] for measure in MEASURES]
        for number, group in groups.items()
    }


def paper() -> Figures:
    """Return the paper's own figures."""
    found = {name: [one / 100 for one in row] for name, row in PAPER.items()}
    return {name: {n: row[2 * n - 2 : 2 * n] for n in CATEGORIES} for name, row in found.items()}


def _rows(found: Figures) -> list[Row]:
    rows: list[Row] = []
    for name, rank in ranks(found).items():
        row = {"system": name}
        for number, both in found[name].items():
            texts = (f"{100 * one:.2f}" for one in both if one is not None)
            row[CATEGORIES[number]] = " / ".join(texts)
        rows.append({**row, "rank": f"{rank:.1f}"})
    return rows


def ranks(found: Figures) -> dict[str, float]:
    """Return for each system the mean of its ranks by F1, as the paper has it; equal figures share the mean of their places."""
    places: dict[str, list[float]] = {name: [] for name in found}
    for number in next(iter(found.values())):
        by_f1 = {name: by_category[number][0] or 0.0 for name, by_category in found.items()}
        values = list(by_f1.values())
        for name, value in by_f1.items():
            above = sum(other > value for other in values)
            places[name].append(above + (values.count(value) + 1) / 2)
    return {name: fmean(some) for name, some in places.items()}


def costs(report: Values, name: str) -> dict[str, Any]:
    """Return what a system costs to build, and to answer a question from; a plain ranking or the whole is not built."""
    spent, one = report["costs"], report["answers"][name]
    own = MAIN if name.startswith(MAIN) and f"build {name}" not in spent else name
    build = spent.get("build" if own == MAIN else f"build {name}") or {}
    recall, questions = spent.get(f"recall {name}") or {}, one["questions"]
    return {
        "tokens a question": one["context_tokens"],
        "calls a question": 1 + recall.get("calls", 0) / questions,
        "tokens to recall": _tokens(recall) / questions,
        "calls to build": build.get("calls", 0),
        "tokens to build": _tokens(build),
    }


def _tokens(spent: Values) -> int:
    return int(spent.get("input_tokens", 0) + spent.get("output_tokens", 0))


def _verdict(answers: Values, name: str) -> dict[str, Any]:
    against: Values = next(one["against"] for one in answers.values() if "against" in one)
    if name not in against:
        return {"ours is better by": None, "so": "ours"}
    gain = against[name]["official"]["f1"]
    so = "ours" if gain["low"] > 0 else name if gain["high"] < 0 else "no order"
    return {"ours is better by": gain, "so": so}


def latex(found: Sequence[Table]) -> str:
    """Return tables in LaTeX, for the package `booktabs`."""
    return "\n\n".join(_tabular(table) for table in found if table.rows) + "\n"


def _tabular(table: Table) -> str:
    def line(cells: Sequence[object]) -> str:
        texts = (cell(one).replace("\\|", "|") for one in cells)
        return " & ".join("".join(f"\\{c}" if c in "&%_#$" else c for c in text) for text in texts) + r" \\"  # fmt: skip

    heads = list(table.rows[0])
    body = [line(list(row.values())) for row in table.rows]
    return "\n".join([
        f"% {table.caption}", f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule",
        line(heads), r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
    ])  # fmt: skip


def figure(report: Values) -> Figure:
    """Return F1 over the tokens that a model reads and writes for it, building included; a point a system."""
    made, (axes,) = row(1, 3.2)
    for number, (name, one) in enumerate(report["answers"].items()):
        cost, score = costs(report, name), one["official"]["f1"]
        each = cost["tokens a question"] + cost["tokens to recall"]
        x = cost["tokens to build"] / one["questions"] + each
        shown = {"fmt": "o", "color": HUES[number % len(HUES)], "ms": 6, "lw": 1, "capsize": 2}
        axes.errorbar(x, score["mean"], yerr=reach(score), **shown)
        place = (x, score["high"])
        axes.annotate(name, place, (0, 4), textcoords="offset points", color=INK, ha="center")
    axes.set(xscale="log", xlabel="tokens a question, with its share of building (log)")
    for axis in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        axis(lambda value, _: f"{value:,.0f}" if f"{value:.0f}"[0] in "125" else "")
    axes.set(ylabel="F1, LoCoMo's own scoring (95 %)", ylim=(0, 1.02))
    axes.margins(x=0.18)
    return made
