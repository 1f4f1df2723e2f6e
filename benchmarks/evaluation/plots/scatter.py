"""Points of quality over what it costs: tokens of context a question, or model calls a note."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from .. import document
from ..document import Estimate
from .style import COMMAS, Look, grid, in_shares, legend, look_of, name_axes

Point = tuple[float, Estimate]  # what it costs, and how good it is

_APART = 0.014  # of the width


def draw(points: Mapping[str, Point], look: Look, *, x: str, y: str, linear: float) -> Figure:
    """Return the systems' points over an axis of costs that is logarithmic above `linear`, and has a 0."""
    made, (axes,) = grid(look, 1, 1, height=3.2)
    axes.set_xscale("asinh", linear_width=linear)
    entries = []
    costs = {name: points[name][0] for name in document.ordered(points)}
    moved = _moved(costs, linear)
    for index, name in enumerate(costs):
        estimate, (colour, marker) = points[name][1], look_of(name, index, look)
        style: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "ms": 7,
            "capsize": 2.5,
            "lw": 1,
            "ls": "none",
        }
        drawn = axes.errorbar(moved[name], estimate.mean, yerr=estimate.reach, **style)
        entries.append((document.system(name), drawn.lines[0]))
    axes.margins(x=0.08, y=0.1)
    axes.set_xticks(_ticks(costs.values(), linear))
    axes.minorticks_off()
    name_axes(axes, look, x=x, y=y)
    axes.xaxis.set_major_formatter(COMMAS)
    in_shares(axes)
    legend(made, look, entries, 4)
    return made


def _ticks(costs: Iterable[float], linear: float) -> list[float]:
    low, *_, high = sorted([*costs] * 2)
    steps = [round(linear * step * 10**power, 6) for power in range(8) for step in (1, 3)]
    within = [step for step in steps if low / 1.5 <= step <= high * 1.5]
    return [0.0, *within] if low <= 0 else within


def _moved(costs: Mapping[str, float], linear: float) -> dict[str, float]:
    names = sorted(costs, key=lambda name: costs[name])
    values = [math.asinh(costs[name] / linear) for name in names]
    moved = spread(values, _APART * (values[-1] - values[0] or 1.0))
    return {name: linear * math.sinh(value) for name, value in zip(names, moved, strict=True)}


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Return ascending values moved as little as leaves `gap` between them, in the same order."""
    groups: list[list[float]] = []
    for value in values:
        group = [value]
        while groups and fmean(group) - fmean(groups[-1]) < gap * (
            (len(group) + len(groups[-1])) / 2
        ):
            group = groups.pop() + group
        groups.append(group)
    return [
        fmean(group) + gap * (place - (len(group) - 1) / 2)
        for group in groups
        for place in range(len(group))
    ]
