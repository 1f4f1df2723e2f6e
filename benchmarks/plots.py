"""All figures, one function each, in one style, from the values of reports; without pyplot and global settings.

The colours are those of Okabe and Ito, which the colour-blind tell apart, and `viridis` for what has an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .report import joined
from .systems import KNOWN, MAIN

Values = Mapping[str, Any]

WIDTH = 7.2  # inches: the text width of a page
DPI = 200
SMALL, TEXT = 8.0, 9.0  # points
INK, SOFT, LINE = "#22211e", "#65625b", "#dedbd3"
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a766d", INK)
MARKERS = "o^sDPvX*h<>d"


def grid(rows: int, columns: int, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:  # noqa: ANN401
    """Return a figure of `height` inches with its axes, row by row; `shared` is that of `subplots`."""
    made = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    found = list(made.subplots(rows, columns, squeeze=False, **shared).flat)
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(LINE)
        axes.tick_params(which="both", colors=SOFT, labelsize=SMALL, length=0)
        axes.grid(color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
    return made, found


def name_axes(axes: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Write what is on the axes, with units."""
    axes.set_xlabel(x, fontsize=TEXT, color=SOFT, parse_math=False)
    axes.set_ylabel(y, fontsize=TEXT, color=SOFT, parse_math=False)
    axes.set_title(title, fontsize=TEXT, color=INK, loc="left", parse_math=False)


def legend(made: Figure, axes: Axes, columns: int = 4) -> None:
    """Put one legend above all axes, where it covers nothing."""
    drawn, labels = axes.get_legend_handles_labels()
    room: dict[str, Any] = {"handlelength": 1.6, "columnspacing": 1.4, "frameon": False}
    box = made.legend(
        drawn, labels, loc="outside upper left", ncols=columns, fontsize=SMALL, **room
    )
    for one in box.get_texts():
        one.set_parse_math(False)


def in_shares(axes: Axes) -> None:
    """Write the y axis in shares, `.85`."""
    axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))  # no steps of .025
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.2f}".replace("0.", ".", 1))


def look_of(system: str) -> dict[str, Any]:
    """Return the label, colour and marker that a system has in every figure."""
    place = KNOWN.index(system) if system in KNOWN else len(KNOWN) + len(system)
    return {
        "label": system,
        "color": HUES[place % len(HUES)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def reach(estimates: Sequence[Values]) -> Any:  # noqa: ANN401 - an array
    """Return the lengths of the error bars of some estimates, below and above."""
    ends = [(one["mean"] - one["low"], one["high"] - one["mean"]) for one in estimates]
    return np.maximum(np.array(ends, dtype=float).reshape(-1, 2).T, 0)


def bars(panels: Mapping[str, Mapping[str, Values]], x: str) -> Figure:
    """Return bars of systems, the first on top, from 0 to 1 with their intervals; a panel for each title."""
    systems = list(dict.fromkeys(name for found in panels.values() for name in found))
    made, axes = grid(1, len(panels), 0.27 * len(systems) + 0.8, sharey=True)
    for one, (title, found) in zip(axes, panels.items(), strict=True):
        name_axes(one, x=x, title=title)
        one.grid(visible=False, axis="y")
        for row, name in enumerate(systems):
            value, text = found.get(name, {"mean": None}), "-"
            place = 0.0
            if value["mean"] is not None:
                colour = (
                    HUES[0] if name == MAIN else HUES[5] if name.startswith(MAIN) else "#a39f95"
                )
                one.barh(row, value["mean"], height=0.62, color=colour)
                one.errorbar(value["mean"], row, xerr=reach([value]), color=INK, capsize=2, lw=1)
                place, text = value["high"], f"{value['mean']:.3f}".replace("0.", ".", 1)
            one.annotate(
                text, (place, row), (4, 0), textcoords="offset points", va="center", fontsize=SMALL
            )
        one.set(xlim=(0, 1.24), ylim=(len(systems) - 0.45, -0.55))  # room for the last figure
        one.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", ".5", "", "1"])
        one.set_yticks(range(len(systems)), systems, parse_math=False)
    return made


def recall(report: Values) -> Figure:
    """Return how often the first hit is right, and recall at the first numbers of hits, by system."""
    shown = [("hit", "1"), *(("recall", str(k)) for k in report["settings"]["k"][:3])]
    found = report["retrieval"].items()
    return bars(
        {
            f"{name}@{k}": {system: joined(one, name, k) for system, one in found}
            for name, k in shown
        },
        "share, over questions",
    )


def recall_over_k(report: Values) -> Figure:
    """Return the recall of each system over the number of notes that are put before a question."""
    made, (axes,) = grid(1, 1, 3.2)
    for index, (system, one) in enumerate(report["retrieval"].items()):
        ks = [int(k) for k in one["recall"]]
        shift = 1 + 0.012 * (index - (len(report["retrieval"]) - 1) / 2)  # or they cover each other
        every = [joined(one, "recall", k) for k in one["recall"]]
        xs, means = [k * shift for k in ks], [value["mean"] for value in every]
        axes.errorbar(xs, means, yerr=reach(every), ms=5, lw=1.4, capsize=2, **look_of(system))
    axes.set_xscale("log")
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
    name_axes(axes, "notes put before the question (k)", "recall of the evidence")
    in_shares(axes)
    legend(made, axes)
    return made


def answers(report: Values) -> Figure:
    """Return the answers of each system by F1, BLEU-1 and a judge's verdict, all in LoCoMo's own scoring."""
    found = report["answers"]
    measures = [
        name for name in ("f1", "bleu1", "judge") if name in next(iter(found.values()))["official"]
    ]
    return bars(
        {
            name: {system: one["official"][name] for system, one in found.items()}
            for name in measures
        },
        "mean over questions",
    )


def costs(report: Values) -> Figure:
    """Return the official F1 of each system over the tokens that are put before a question."""
    made, (axes,) = grid(1, 1, 3.2)
    for system, one in report["answers"].items():
        value = one["official"]["f1"]
        look: dict[str, Any] = {"ms": 7, "capsize": 2.5, "ls": "none", **look_of(system)}
        axes.errorbar(one["context_tokens"], value["mean"], yerr=reach([value]), **look)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.10g}")
    name_axes(axes, "tokens of context a question", "F1, official scoring")
    in_shares(axes)
    legend(made, axes)
    return made


def sweep(report: Values) -> Figure:
    """Return recall and answers over the number of hits, on both sides, with the choice marked."""
    found = report["sweep"]
    measures = ["recall", *found["choice"]]
    made, axes = grid(1, len(measures), 2.6)
    for one, measure in zip(axes, measures, strict=True):
        for side, hue, line in (("chosen_on", 1, "^--"), ("reported_on", 0, "o-")):
            given, answered = found[side]["retrieval"], found[side]["answers"]
            curve = (
                {k: joined(given, "recall", k) for k in given.get("recall", ())}
                if measure == "recall"
                else {k: by_k["official"][measure] for k, by_k in answered.items()}
            )
            ks, every = list(map(int, curve)), list(curve.values())
            means, low, high = ([one[end] for one in every] for end in ("mean", "low", "high"))
            label = ", ".join(found[side]["conversations"])
            one.plot(ks, means, line, color=HUES[hue], ms=4, lw=1.5, label=label)
            one.fill_between(ks, low, high, color=HUES[hue], alpha=0.14, linewidth=0)
        if measure in found["choice"]:
            one.axvline(found["choice"][measure]["k"], color=SOFT, lw=1, ls=":", label="the choice")
        name_axes(one, x="hits shown (k)", title=measure)
        in_shares(one)
    legend(made, axes[-1])
    return made


def notes(found: Values) -> Figure:
    """Return the views of the notes of a conversation side by side, by t-SNE: a point a note, coloured by session."""
    made, axes = grid(1, len(found["views"]), 2.85)
    order = list(dict.fromkeys(found["sessions"]))
    shades = colormaps["viridis"](
        [0.95 * order.index(name) / max(len(order) - 1, 1) for name in found["sessions"]]
    )
    for one, (name, view) in zip(axes, found["views"].items(), strict=True):
        points = np.array(view["points"], dtype=float).reshape(-1, 2)
        one.scatter(
            points[:, 0], points[:, 1], s=np.clip(3000 / len(points), 6, 30), c=shades, linewidths=0
        )
        one.grid(visible=False)
        one.spines[:].set_visible(False)
        one.set(xticks=[], yticks=[], box_aspect=1)
        one.margins(0.03)
        figures = (
            f"{measure} {view[measure]} (chance {view[chance]})"
            for measure, chance in (("purity", "chance"), ("silhouette", "silhouette_chance"))
        )
        name_axes(one, x="\n".join(figures), title=name)
    return made


def of_report(report: Values, found: Values) -> dict[str, Figure]:
    """Return the figures of `report.json` and `notes.json` by name, as far as there are values for them."""
    made = {"notes": notes(found)}
    if report["questions"]["used"]:
        made |= {"recall": recall(report), "recall-over-k": recall_over_k(report)}
    if "answers" in report:
        made |= {"answers": answers(report), "costs": costs(report)}
    return made | ({"sweep": sweep(report)} if "sweep" in report else {})
