"""Figures over the number of hits, with their intervals as bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import document
from ..document import Estimate
from .style import TEXT, Look, grid, in_shares, legend, look_of, name_axes

_SPLIT = ("recall", "f1", "all_evidence")  # the first two of these are shown by category
_SIDES = {
    "chosen_on": ("conversations that choose k", 1, "^--"),
    "reported_on": ("conversations reported", 0, "o-"),
}  # label, hue, marker with line
_RING: dict[str, Any] = {"marker": "o", "markersize": 7, "markerfacecolor": "none"}


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
        name_axes(one, look, x="hits shown (k)", title=document.measure(measure))
        one.set_xticks(values["ks"])
        in_shares(one)
    for unused in axes[len(measures) :]:
        unused.remove()
    entries = [
        (label, axes[0].plot([], [], line, color=look.hues[hue], ms=4)[0])
        for label, hue, line in _SIDES.values()
    ]
    if values.get("choice"):
        ring = Line2D([], [], color=look.ink, linestyle=":", **_RING)
        entries.append(("the choice, and what it gives", ring))
    legend(made, look, entries, 3)
    return made


def by_category(values: Mapping[str, Any], look: Look) -> Figure:
    """Return the curves of the reported conversations, a row for each measure, a panel a category."""
    reported = values["curves"]["reported_on"]
    split = [one for one in _SPLIT if one in reported][:2]
    measures = [name for name in reported if name in split]
    curves = {
        (measure, name): found
        for measure in measures
        for name, found in reported[measure].items()
        if name != "all" and any(map(Estimate.of, found.values()))
    }
    categories = sorted({name for _, name in curves})
    rows, columns = len(measures), len(categories)
    made, axes = grid(look, rows, columns, height=0.3 + 1.6 * rows, sharex=True, sharey="row")
    places = [(measure, name) for measure in measures for name in categories]
    for one, (measure, name) in zip(axes, places, strict=True):
        x = "k" if measure == measures[-1] else ""
        y = document.measure(measure) if name == categories[0] else ""
        title = document.category(name) if measure == measures[0] else ""
        name_axes(one, look, x=x, y=y, title=title)
        if found := curves.get((measure, name)):
            _line(one, found, "reported_on", look)
        else:
            at: dict[str, Any] = {"transform": one.transAxes, "ha": "center", "fontsize": TEXT}
            one.text(0.5, 0.5, "\N{EN DASH}", color=look.soft, **at)
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
        means, reach = [one.mean for _, one in found], np.hstack([one.reach for _, one in found])
        style: dict[str, Any] = {"ms": 5, "lw": 1.4, "elinewidth": 0.9, "capsize": 2}
        drawn = axes.errorbar(ks, means, yerr=reach, color=colour, marker=marker, **style)
        entries.append((document.system(name), drawn.lines[0]))
    every = sorted({k for found in curves.values() for k in found})
    axes.set_xscale("log")
    axes.set_xticks(every, [str(k) for k in every])
    axes.minorticks_off()
    name_axes(axes, look, x="notes put before the question (k)", y="recall of the evidence")
    in_shares(axes)
    legend(made, look, entries, 4)
    return made


def _line(axes: Axes, found: Mapping[str, Mapping[str, Any]], side: str, look: Look) -> None:
    _, hue, line = _SIDES[side]
    known = {int(k): one for k, value in found.items() if (one := Estimate.of(value))}
    ks, every, colour = list(known), list(known.values()), look.hues[hue]
    axes.plot(ks, [one.mean for one in every], line, color=colour, ms=4, lw=1.5)
    low, high = [one.low for one in every], [one.high for one in every]
    axes.fill_between(ks, low, high, color=colour, alpha=0.14, linewidth=0)


def _mark(axes: Axes, choice: Mapping[str, Any], look: Look) -> None:
    k, reported = choice["k"], Estimate.of(choice["reported"])
    axes.axvline(k, color=look.soft, linewidth=1, linestyle=":")
    if reported is None:
        return
    axes.errorbar(
        k, reported.mean, yerr=reported.reach, color=look.ink, capsize=3, linewidth=1.2, zorder=4, **_RING
    )  # fmt: skip
    right = k > sum(axes.get_xlim()) / 2
    axes.annotate(
        f"k = {k}: {document.share(reported.mean)}", (k, 0.03),
        xycoords=axes.get_xaxis_transform(), xytext=(-5 if right else 5, 0),
        textcoords="offset points", ha="right" if right else "left", fontsize=TEXT, color=look.ink,
        bbox={"facecolor": look.paper, "edgecolor": "none", "alpha": 0.8, "pad": 1},
    )  # fmt: skip
