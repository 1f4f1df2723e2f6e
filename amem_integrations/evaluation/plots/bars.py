"""Bars of systems with their intervals, one panel for each figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import document
from ..document import Estimate
from .style import SMALL, Look, family_of, grid, name_axes

_BAR = 0.62  # of the room for a system


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure, from 0 to 1, of every system."""

    title: str
    x: str
    values: Mapping[str, Estimate | None]


def draw(panels: Sequence[Panel], look: Look) -> Figure:
    """Return a chart of panels that share their systems, the first system on top."""
    systems = document.ordered(name for panel in panels for name in panel.values)
    made, axes = grid(look, 1, len(panels), height=0.27 * len(systems) + 0.8, sharey=True)
    for one, panel in zip(axes, panels, strict=True):
        name_axes(one, look, x=panel.x, title=panel.title)
        one.grid(visible=False, axis="y")
        for row, system in enumerate(systems):
            _bar(one, row, panel.values.get(system), family_of(system, look), look)
        one.set_xlim(0, 1.24)  # room for a figure beside the longest bar
        one.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", ".5", "", "1"])
    axes[0].set_yticks(range(len(systems)), [document.system(name) for name in systems])
    for text in axes[0].get_yticklabels():
        text.set_parse_math(False)
        text.set_color(look.ink)
    axes[0].set_ylim(len(systems) - 0.45, -0.55)
    return made


def _bar(axes: Axes, row: int, estimate: Estimate | None, colour: str, look: Look) -> None:
    if estimate is None:
        axes.text(0.02, row, "\N{EN DASH}", va="center", fontsize=SMALL, color=look.soft)
        return
    axes.barh(row, estimate.mean, height=_BAR, color=colour)
    if estimate.low is not None:
        axes.errorbar(
            estimate.mean, row, xerr=estimate.reach, color=look.ink, capsize=2, linewidth=1
        )
    axes.annotate(
        document.share(estimate.mean),
        (estimate.top, row),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        color=look.ink,
    )
