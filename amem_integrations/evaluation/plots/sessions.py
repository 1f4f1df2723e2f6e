"""The sessions of a conversation as colours, in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from .style import SMALL, TEXT, Look

_TICKS = 8  # sessions that are named beside the colours, at most


def colours(sessions: Sequence[str], look: Look) -> Any:  # noqa: ANN401 - an array of colours
    """Return the colour of each note, given the session of each."""
    numbers = {name: place for place, name in enumerate(dict.fromkeys(sessions))}
    places = np.array([numbers[name] for name in sessions], dtype=float)
    return look.ordered(places / max(len(numbers) - 1, 1))


def key(made: Figure, axes: Sequence[Axes], sessions: Sequence[str], look: Look) -> None:
    """Show beside the axes which colour is which session."""
    count = len(set(sessions))
    shades = look.ordered.resampled(max(count, 2))
    norm = BoundaryNorm(np.arange(max(count, 2) + 1) - 0.5, max(count, 2))
    ticks = list(range(0, count, -(-count // _TICKS)))
    bar = made.colorbar(
        ScalarMappable(norm, shades), ax=list(axes), ticks=ticks, aspect=40, pad=0.02
    )
    bar.set_ticklabels([str(place + 1) for place in ticks])
    bar.ax.tick_params(which="both", colors=look.soft, labelsize=SMALL, length=0)
    bar.set_label("session, in the order of time", fontsize=TEXT, color=look.soft)
    bar.ax.spines[:].set_visible(False)


def bare(axes: Axes) -> None:
    """Leave only what is drawn: places have no units, only distances do."""
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
