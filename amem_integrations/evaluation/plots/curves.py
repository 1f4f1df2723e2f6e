"""Figures over the number of hits, with their intervals as bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import document
from ..document import Estimate
from .style import TEXT, Look, grid, in_shares, legend, look_of, name_axes

Dashes = Literal["-", "--"]

HITS = "hits shown (k)"
_SPLIT = ("recall", "f1", "all_evidence")  # the first two of these are shown by category
_SIDES: Mapping[str, tuple[int, Dashes, str]] = {
    "chosen_on": (1, "--", "^"),
    "reported_on": (0, "-", "o"),
}  # hue, line, marker


def sweep(values: Mapping[str, Any], look: Look) -> Figure:
    """Return the curves of a sweep over all questions, a panel for each measure, the choice marked."""
    measures = list(values["curves"]["reported_on"])
    columns = min(2, len(measures))
    rows = -(-len(measures) // columns)
    made, axes = grid(look, rows, columns, height=0.4 + 2.35 * rows)
    for one, measure in zip(axes, measures, strict=False):
        for side in _SIDES:
            _line(one, values["curves"][side][measure]["all"], side, look)
        if measure in values.get("choice", {}):
            _mark(one, values["choice"][measure], look)
        name_axes(one, look, x=HITS, title=document.measure(measure))
        one.set_xticks(values["ks"])
        in_shares(one)
    for unused in axes[len(measures) :]:
        unused.remove()
    legend(made, look, _sides(look, chosen=bool(values.get("choice"))), 3)
    return made


def by_category(values: Mapping[str, Any], look: Look) -> Figure:
    """Return the curves of the reported conversations, a row for each measure, a panel a category."""
    shown = [name for name in _SPLIT if name in values["curves"]["reported_on"]]
    curves = {
        measure: {name: one for name, one in found.items() if name != "all" and _known(one)}
        for measure, found in values["curves"]["reported_on"].items()
        if measure in shown[:2]
    }
    categories = sorted({name for found in curves.values() for name in found})
    made, axes = grid(
        look,
        len(curves),
        len(categories),
        height=0.3 + 1.6 * len(curves),
        sharex=True,
        sharey="row",
    )
    places = [(measure, name) for measure in curves for name in categories]
    for one, (measure, name) in zip(axes, places, strict=True):
        first_row, first_column = measure == next(iter(curves)), name == categories[0]
        last_row = measure == list(curves)[-1]
        name_axes(
            one,
            look,
            x="k" if last_row else "",
            y=document.measure(measure) if first_column else "",
            title=document.category(name) if first_row else "",
        )
        if name in curves[measure]:
            _line(one, curves[measure][name], "reported_on", look)
        else:
            one.text(
                0.5,
                0.5,
                "\N{EN DASH}",
                transform=one.transAxes,
                ha="center",
                color=look.soft,
                fontsize=TEXT,
            )
        in_shares(one)
    return made


def systems(curves: Mapping[str, Mapping[int, Estimate]], look: Look) -> Figure:
    """Return the recall of each system over the number of notes it puts before a model."""
    made, (axes,) = grid(look, 1, 1, height=3.2)
    entries = []
    for index, name in enumerate(document.ordered(curves)):
        colour, marker = look_of(name, index, look)
        shift = 1 + 0.012 * (index - (len(curves) - 1) / 2)  # or intervals would cover each other
        found = sorted(curves[name].items())
        ks = [k * shift for k, _ in found]
        means = [one.mean for _, one in found]
        (line,) = axes.plot(ks, means, color=colour, marker=marker, markersize=5, linewidth=1.4)
        for k, (_, one) in zip(ks, found, strict=True):
            axes.errorbar(k, one.mean, yerr=one.reach, color=colour, capsize=2, linewidth=0.9)
        entries.append((document.system(name), line))
    every = sorted({k for found in curves.values() for k in found})
    axes.set_xscale("log")
    axes.set_xticks(every, [str(k) for k in every])
    axes.minorticks_off()
    name_axes(axes, look, x="notes put before the question (k)", y="recall of the evidence")
    in_shares(axes)
    legend(made, look, entries, 4)
    return made


def _line(axes: Axes, found: Mapping[str, Mapping[str, Any]], side: str, look: Look) -> None:
    hue, dashes, marker = _SIDES[side]
    known = [(int(k), one) for k, value in found.items() if (one := Estimate.of(value))]
    ks, colour = [k for k, _ in known], look.hues[hue]
    axes.plot(
        ks,
        [one.mean for _, one in known],
        color=colour,
        linestyle=dashes,
        marker=marker,
        markersize=4,
        linewidth=1.5,
    )
    band = [(k, one.low, one.high) for k, one in known if None not in (one.low, one.high)]
    if band:
        where, low, high = zip(*band, strict=True)
        axes.fill_between(where, low, high, color=colour, alpha=0.14, linewidth=0)


def _mark(axes: Axes, choice: Mapping[str, Any], look: Look) -> None:
    """Mark the number that was chosen, and what it gives on the conversations it was not chosen on."""
    axes.axvline(choice["k"], color=look.soft, linewidth=1, linestyle=":")
    reported = Estimate.of(choice["reported"])
    if reported is None:
        return
    axes.errorbar(
        choice["k"], reported.mean, yerr=reported.reach, color=look.ink, capsize=3, linewidth=1.2,
        marker="o", markersize=7, markerfacecolor="none", zorder=4,
    )  # fmt: skip
    right = choice["k"] > sum(axes.get_xlim()) / 2
    axes.annotate(
        f"k = {choice['k']}: {document.share(reported.mean)}",
        (choice["k"], 0.03),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-5 if right else 5, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        fontsize=TEXT,
        color=look.ink,
        bbox={"facecolor": look.paper, "edgecolor": "none", "alpha": 0.8, "pad": 1},
    )


def _sides(look: Look, *, chosen: bool) -> list[tuple[str, Line2D]]:
    names = {"chosen_on": "conversations that choose k", "reported_on": "conversations reported"}
    entries = []
    for side, (hue, dashes, marker) in _SIDES.items():
        line = Line2D([], [], color=look.hues[hue], linestyle=dashes, marker=marker, markersize=4)
        entries.append((names[side], line))
    if chosen:
        ring = Line2D(
            [], [], color=look.ink, linestyle=":", marker="o", markersize=7, markerfacecolor="none"
        )
        entries.append(("the choice, and what it gives", ring))
    return entries


def _known(found: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(one.get("mean") is not None for one in found.values())
