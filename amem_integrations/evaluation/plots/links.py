"""The links between the notes of a conversation, as a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx  # type: ignore[import-untyped,unused-ignore]
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..statistics import SEED
from .style import TEXT, Look, bare, figure, session_colours, session_key

Places = NDArray[np.float64]

_ROUNDS = 300  # of the forces; two seconds for 400 notes
_ROW = 60  # notes in a row below
_BELOW, _ROOM = 0.06, 0.04  # of the height: from the graph to the first row, and from row to row


def draw(notes: Mapping[str, Any], places: Places, look: Look) -> Figure:
    """Return the notes with their links; a note is larger the more it has, coloured by session.

    Args:
        notes: The values of `notes.json`.
        places: Where the notes are, from `layout`.
        look: Of light or of dark paper.
    """
    made = figure(look, 6.0)
    axes = made.add_subplot()
    axes.set_facecolor(look.paper)
    bare(axes)
    lines = [places[pair] for pair in notes["links"]]
    axes.add_collection(LineCollection(lines, colors=look.soft, linewidths=0.6, alpha=0.5))
    degrees = np.bincount(np.array(notes["links"], dtype=int).ravel(), minlength=len(places))
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=9 + 6 * degrees,
        c=session_colours(notes["sessions"], look),
        edgecolors=look.paper,
        linewidths=0.5,
        zorder=2,
    )
    axes.margins(0.02)
    if apart := int(np.count_nonzero(places[:, 1] < 0)):
        axes.set_xlabel(
            f"below: {apart} notes that no link joins to the others", fontsize=TEXT, color=look.soft
        )
    session_key(made, [axes], notes["sessions"], look)
    return made


def layout(notes: Mapping[str, Any]) -> Places:
    """Return a position for each note, the same in every run.

    The largest group of linked notes is within the unit square; the others, which forces would drive far
    away, stand in rows below it.
    """
    count = len(notes["sessions"])
    linked = nx.Graph([tuple(pair) for pair in notes["links"]])
    linked.add_nodes_from(range(count))
    parts = sorted(nx.connected_components(linked), key=lambda part: (-len(part), min(part)))
    main = sorted(parts[0]) if parts and len(parts[0]) > 1 else []
    places = np.zeros((count, 2))
    places[main] = _joined(linked.subgraph(main), main)
    rest = [place for part in parts if not set(part) & set(main) for place in sorted(part)]
    for number, place in enumerate(rest):
        row, column = divmod(number, _ROW)
        places[place] = (column / _ROW, -_BELOW - _ROOM * row)
    return places


def _joined(linked: Any, main: list[int]) -> Places:  # noqa: ANN401 - a graph of networkx
    if not main:
        return np.zeros((0, 2))
    ordered = nx.Graph()
    ordered.add_nodes_from(main)  # the order decides where they start
    ordered.add_edges_from(sorted(tuple(sorted(pair)) for pair in linked.edges))
    with np.errstate(invalid="ignore"):  # a note's distance from itself
        found = nx.forceatlas2_layout(
            ordered, seed=SEED, max_iter=_ROUNDS, linlog=True, scaling_ratio=10, gravity=6
        )
    xy = np.array([found[place] for place in main], dtype=float)
    low, reach = xy.min(axis=0), np.maximum(np.ptp(xy, axis=0), 1e-9)
    scaled: Places = (xy - low) / reach
    return scaled
