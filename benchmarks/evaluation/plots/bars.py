"""Bars of systems with their intervals, one panel for each figure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import document
from ..document import Estimate, Picture
from ..systems import MAIN
from .style import SMALL, Look, grid, name_axes

_BAR = 0.62  # of the room for a system

Panels = Mapping[str, Mapping[str, Estimate | None]]  # by title, then by system


def picture(name: str, about: str, caption: str, panels: Panels, x: str) -> Picture:
    """Return a chart of bars, a panel beside the other, with the figures in its description."""
    listed = {
        title: ", ".join(
            f"{document.system(name)} {document.share(one.mean if one else None)}"
            for name, one in values.items()
        )
        for title, values in panels.items()
    }
    alt = " ".join([about, *(f"{title}: {figures}." for title, figures in listed.items())])
    return Picture(name=name, alt=alt, caption=caption, draw=partial(draw, panels, x))


def draw(panels: Panels, x: str, look: Look) -> Figure:
    """Return a chart of panels, with figures from 0 to 1 of the same systems, the first one on top."""
    systems = document.ordered(name for values in panels.values() for name in values)
    made, axes = grid(look, 1, len(panels), height=0.27 * len(systems) + 0.8, sharey=True)
    for one, (title, values) in zip(axes, panels.items(), strict=True):
        name_axes(one, look, x=x, title=title)
        one.grid(visible=False, axis="y")
        for row, system in enumerate(systems):
            own, variant, other = look.bars
            colour = variant if system.startswith(f"{MAIN}_") else other
            _bar(one, row, values.get(system), own if system == MAIN else colour, look)
        one.set_xlim(0, 1.24)  # room for a figure beside the longest bar
        one.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", ".5", "", "1"])
    axes[0].set_yticks(range(len(systems)), [document.system(name) for name in systems])
    for text in axes[0].get_yticklabels():
        text.set_parse_math(False)
        text.set_color(look.ink)
    axes[0].set_ylim(len(systems) - 0.45, -0.55)
    return made


def _bar(axes: Axes, row: int, one: Estimate | None, colour: str, look: Look) -> None:
    text: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
    if one is None:
        axes.annotate(document.share(None), (0.02, row), (0, 0), color=look.soft, **text)
        return
    axes.barh(row, one.mean, height=_BAR, color=colour)
    axes.errorbar(one.mean, row, xerr=one.reach, color=look.ink, capsize=2, linewidth=1)
    axes.annotate(document.share(one.mean), (one.high, row), (4, 0), color=look.ink, **text)
