"""The notes of a conversation: in the embedder's space, flattened by t-SNE, and as a graph of their links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx  # type: ignore[import-untyped,unused-ignore]
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import document
from ..statistics import SEED
from .style import SMALL, Look, bare, grid, name_axes, session_colours, session_key

Places = NDArray[np.float64]

TITLES = {"content": "content", "enriched": "+ keywords, tags, context", "evolved": "+ evolution"}

_ROUNDS = 300  # of the forces; two seconds for 400 notes
_ROW = 60  # notes in a row below
_BELOW, _ROOM = 0.06, 0.04  # of the height: from the graph to the first row, and from row to row


def views(notes: Mapping[str, Any], look: Look) -> Figure:
    """Return the views of `notes.json` side by side: a point a note, coloured by session."""
    names = list(notes["views"])
    made, axes = grid(look, 1, len(names), height=2.85)
    shades = session_colours(notes["sessions"], look)
    for one, name in zip(axes, names, strict=True):
        view = notes["views"][name]
        points = np.array(view["points"], dtype=float).reshape(-1, 2)
        size = float(np.clip(3000 / max(len(points), 1), 6, 30))
        one.scatter(points[:, 0], points[:, 1], s=size, c=shades, linewidths=0)
        bare(one)
        low, high = points.min(axis=0), points.max(axis=0)
        middle, reach = (low + high) / 2, 0.53 * max(float((high - low).max()), 1.0)
        limits = np.array([middle - reach, middle + reach])  # a square around the points
        one.set(xlim=limits[:, 0], ylim=limits[:, 1], box_aspect=1)
        name_axes(one, look, title=TITLES.get(name, name))
        one.set_xlabel(_figures(view), fontsize=SMALL, color=look.ink, loc="left", linespacing=1.5)
    session_key(made, axes, notes["sessions"], look)
    return made


def _figures(view: Mapping[str, Any]) -> str:
    pairs = (("purity", "chance"), ("silhouette", "silhouette_chance"))
    return "\n".join(
        f"{name} {document.share(view.get(name))} (chance {document.share(view.get(chance))})"
        for name, chance in pairs
    )


def links(notes: Mapping[str, Any], places: Places, look: Look) -> Figure:
    """Return the notes with their links at the places of `layout`; a note is larger the more it has."""
    made, (axes,) = grid(look, 1, 1, height=6.0)
    bare(axes)
    lines = [places[pair] for pair in notes["links"]]
    axes.add_collection(LineCollection(lines, colors=look.soft, linewidths=0.6, alpha=0.5))
    degrees = np.bincount(np.array(notes["links"], dtype=int).ravel(), minlength=len(places))
    colours = session_colours(notes["sessions"], look)
    edges: dict[str, Any] = {"edgecolors": look.paper, "linewidths": 0.5}
    axes.scatter(places[:, 0], places[:, 1], s=9 + 6 * degrees, c=colours, zorder=2, **edges)
    axes.margins(0.02)
    if apart := int(np.count_nonzero(places[:, 1] < 0)):
        name_axes(axes, look, x=f"below: {apart} notes that no link joins to the others")
    session_key(made, [axes], notes["sessions"], look)
    return made


def layout(notes: Mapping[str, Any]) -> Places:
    """Return a position for each note: of the largest group in the unit square, of others in rows below."""
    count = len(notes["sessions"])
    linked = nx.Graph([tuple(pair) for pair in notes["links"]])
    linked.add_nodes_from(range(count))
    parts = sorted(nx.connected_components(linked), key=lambda part: (-len(part), min(part)))
    places = np.zeros((count, 2))
    if parts and len(parts[0]) > 1:
        main = sorted(parts.pop(0))
        places[main] = _joined(linked.subgraph(main), main)
    for number, place in enumerate(place for part in parts for place in sorted(part)):
        row, column = divmod(number, _ROW)
        places[place] = (column / _ROW, -_BELOW - _ROOM * row)
    return places


def _joined(linked: Any, main: list[int]) -> Places:  # noqa: ANN401 - a graph of networkx
    ordered = nx.Graph()
    ordered.add_nodes_from(main)  # the order decides where they start
    ordered.add_edges_from(sorted(tuple(sorted(pair)) for pair in linked.edges))
    with np.errstate(invalid="ignore"):  # a note's distance from itself
        found = nx.forceatlas2_layout(
            ordered, seed=SEED, max_iter=_ROUNDS, linlog=True, scaling_ratio=10, gravity=6
        )
    xy = np.array([found[place] for place in main], dtype=float)
    scaled: Places = (xy - xy.min(axis=0)) / np.maximum(np.ptp(xy, axis=0), 1e-9)
    return scaled
