"""The notes of a conversation in the embedder's space, flattened by t-SNE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import document
from .style import SMALL, Look, bare, grid, name_axes, session_colours, session_key

TITLES = {"content": "content", "enriched": "+ keywords, tags, context", "evolved": "+ evolution"}


def draw(notes: Mapping[str, Any], look: Look) -> Figure:
    """Return the views side by side: a point a note, coloured by session in the order of time.

    Args:
        notes: The values of `notes.json`.
        look: Of light or of dark paper.
    """
    names = list(notes["views"])
    made, axes = grid(look, 1, len(names), height=2.85)
    shades = session_colours(notes["sessions"], look)
    for one, name in zip(axes, names, strict=True):
        view = notes["views"][name]
        points = np.array(view["points"], dtype=float).reshape(-1, 2)
        size = float(np.clip(3000 / max(len(points), 1), 6, 30))
        one.scatter(points[:, 0], points[:, 1], s=size, c=shades, linewidths=0)
        bare(one)
        _square(one, points)
        name_axes(one, look, title=TITLES.get(name, name))
        one.set_xlabel(_figures(view), fontsize=SMALL, color=look.ink, loc="left", linespacing=1.5)
    session_key(made, axes, notes["sessions"], look)
    return made


def _square(axes: Axes, points: NDArray[np.float64]) -> None:
    """Give every view a square of the same size, with all points in the middle of it."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, reach = (low + high) / 2, 0.53 * max(float((high - low).max()), 1.0)
    axes.set_xlim(middle[0] - reach, middle[0] + reach)
    axes.set_ylim(middle[1] - reach, middle[1] + reach)
    axes.set_box_aspect(1)


def _figures(view: Mapping[str, Any]) -> str:
    """Return the numbers of a view, each with what it is by chance."""
    pairs = (("purity", "chance"), ("silhouette", "silhouette_chance"))
    return "\n".join(
        f"{name} {document.share(view.get(name))} (chance {document.share(view.get(chance))})"
        for name, chance in pairs
    )
