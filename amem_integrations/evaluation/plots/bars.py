"""Bars of systems with their intervals, one panel for each figure."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import document
from ..document import Bars, Estimate
from .style import SMALL, Look, family_of, grid, name_axes

_BAR = 0.62  # of the room for a system


def draw(panels: Bars, x: str, look: Look) -> Figure:
    """Return a chart of panels, with figures from 0 to 1 of the same systems, the first one on top."""
    systems = document.ordered(name for values in panels.values() for name in values)
    made, axes = grid(look, 1, len(panels), height=0.27 * len(systems) + 0.8, sharey=True)
    for one, (title, values) in zip(axes, panels.items(), strict=True):
        name_axes(one, look, x=x, title=title)
        one.grid(visible=False, axis="y")
        for row, system in enumerate(systems):
            _bar(one, row, values.get(system), family_of(system, look), look)
        one.set_xlim(0, 1.24)  # room for a figure beside the longest bar
        one.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", ".5", "", "1"])
    axes[0].set_yticks(range(len(systems)), [document.system(name) for name in systems])
    for text in axes[0].get_yticklabels():
        text.set_parse_math(False)
        text.set_color(look.ink)
    axes[0].set_ylim(len(systems) - 0.45, -0.55)
    return made


def _bar(axes: Axes, row: int, one: Estimate | None, colour: str, look: Look) -> None:
    where = (0.02, row)
    if one is not None:
        axes.barh(row, one.mean, height=_BAR, color=colour)
        axes.errorbar(one.mean, row, xerr=one.reach, color=look.ink, capsize=2, linewidth=1)
        where = (one.high, row)
    axes.annotate(
        document.share(one.mean if one else None),
        where,
        xytext=(4 if one else 0, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        color=look.ink if one else look.soft,
    )
