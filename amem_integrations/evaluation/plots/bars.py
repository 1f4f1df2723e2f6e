"""Systems side by side: a bar for each with its interval, in one panel for each figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import labels
from .style import SMALL, Look, family_of, grid, name_axes

_BAR = 0.62  # of the room for a system


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and, if it is known, its interval."""

    mean: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, found: Mapping[str, float | None]) -> Estimate | None:
        """Return the estimate that a report holds, or None if it is one of nothing."""
        mean = found.get("mean")
        return None if mean is None else cls(mean, found.get("low"), found.get("high"))

    @property
    def top(self) -> float:
        """The highest that is drawn of it."""
        return self.mean if self.high is None else self.high

    @property
    def reach(self) -> list[list[float]]:
        """The lengths of its error bar, below and above."""
        low = self.mean if self.low is None else self.low
        return [[max(0.0, self.mean - low)], [max(0.0, self.top - self.mean)]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure, from 0 to 1, of every system."""

    title: str
    x: str
    values: Mapping[str, Estimate | None]


def draw(panels: Sequence[Panel], look: Look) -> Figure:
    """Return a chart of panels that share their systems, the first system on top."""
    systems = labels.ordered(name for panel in panels for name in panel.values)
    made, axes = grid(look, 1, len(panels), height=0.27 * len(systems) + 0.8, sharey=True)
    for one, panel in zip(axes, panels, strict=True):
        name_axes(one, look, x=panel.x, title=panel.title)
        one.grid(visible=False, axis="y")
        for place, system in enumerate(systems):
            _bar(one, place, panel.values.get(system), family_of(system, look), look)
        one.set_xlim(0, 1.24)  # room for a figure beside the longest bar
        one.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", ".5", "", "1"])
    axes[0].set_yticks(range(len(systems)), [labels.system(name) for name in systems])
    for text in axes[0].get_yticklabels():
        text.set_parse_math(False)
        text.set_color(look.ink)
    axes[0].set_ylim(len(systems) - 0.45, -0.55)
    return made


def _bar(axes: Axes, place: int, estimate: Estimate | None, colour: str, look: Look) -> None:
    if estimate is None:
        axes.text(0.02, place, "\N{EN DASH}", va="center", fontsize=SMALL, color=look.soft)
        return
    axes.barh(place, estimate.mean, height=_BAR, color=colour)
    if estimate.low is not None:
        axes.errorbar(
            estimate.mean, place, xerr=estimate.reach, color=look.ink, capsize=2, linewidth=1
        )
    axes.annotate(
        labels.share(estimate.mean),
        (estimate.top, place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        color=look.ink,
    )
