"""All figures, one function each, in one style, from the values of reports.

The colours are those of Okabe and Ito, which the colour-blind tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .report import joined

Values = Mapping[str, Any]

WIDTH = 7.2  # inches: the text width of a page
INK, SOFT, LINE = "#22211e", "#65625b", "#dedbd3"
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a766d", INK)
STYLE = {
    "figure.dpi": 200, "savefig.dpi": 200, "figure.constrained_layout.use": True, "font.size": 8,
    "axes.titlesize": 9, "axes.titlelocation": "left", "axes.labelcolor": SOFT, "axes.edgecolor": LINE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": LINE, "grid.linewidth": 0.6, "legend.frameon": False, "xtick.color": SOFT, "ytick.color": SOFT,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "text.parse_math": False,  # names are in any script
}  # fmt: skip
mpl.rcParams.update(STYLE)


def grid(rows: int, columns: int, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:  # noqa: ANN401
    """Return a figure of `height` inches with its axes, row by row; `shared` is that of `subplots`."""
    made = Figure(figsize=(WIDTH, height))
    return made, list(made.subplots(rows, columns, squeeze=False, **shared).flat)


def bars(panels: Mapping[str, Mapping[str, Values]], x: str) -> Figure:
    """Return bars of systems, the first on top, from 0 to 1 with their intervals; a panel for each title."""
    systems = list(dict.fromkeys(name for found in panels.values() for name in found))
    made, axes = grid(1, len(panels), 0.27 * len(systems) + 0.8, sharey=True)
    for one, (title, found) in zip(axes, panels.items(), strict=True):
        one.set(xlabel=x, title=title)
        one.grid(visible=False, axis="y")
        for row, name in enumerate(systems):
            value, text = found.get(name, {"mean": None}), "-"
            place = 0.0
            if value["mean"] is not None:
                one.barh(row, value["mean"], height=0.62, color=HUES[row % len(HUES)])
                one.errorbar(value["mean"], row, xerr=reach(value), color=INK, capsize=2, lw=1)
                place, text = value["high"], f"{value['mean']:.3f}".replace("0.", ".", 1)
            one.annotate(text, (place, row), (4, 0), textcoords="offset points", va="center")
        one.set(xlim=(0, 1.24), ylim=(len(systems) - 0.45, -0.55))  # room for the last figure
        one.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", ".5", "", "1"])
        one.set_yticks(range(len(systems)), systems)
    return made


def reach(value: Values) -> list[list[float]]:
    """Return the lengths of an error bar, below and above; a mean may lie a rounding beside its interval."""
    below, above = value["mean"] - value["low"], value["high"] - value["mean"]
    return [[max(below, 0)], [max(above, 0)]]


def recall(report: Values) -> Figure:
    """Return how often the first hit is right, and recall at the first numbers of hits, by system."""
    shown = [("hit", "1"), *(("recall", str(k)) for k in report["settings"]["k"][:3])]
    found = report["retrieval"].items()
    panels = {f"{name}@{k}": {one: joined(of, name, k) for one, of in found} for name, k in shown}
    return bars(panels, "share, over questions")


def answers(report: Values) -> Figure:
    """Return the answers of each system by F1, BLEU-1 and a judge's verdict, all in LoCoMo's own scoring."""
    found = report["answers"]
    shown = {
        name: {system: one["official"][name] for system, one in found.items()}
        for name in ("f1", "bleu1", "judge")
        if all(name in one["official"] for one in found.values())
    }
    return bars(shown, "mean over questions")


def of_report(report: Values) -> dict[str, Figure]:
    """Return the figures of `report.json` by name, as far as there are values for them."""
    made = {"recall": recall(report)} if report["questions"]["used"] else {}
    if "answers" in report:
        made["answers"] = answers(report)
    return made
