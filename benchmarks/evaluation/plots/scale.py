"""Time and space over the number of notes, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from .. import document
from .style import COMMAS, SMALL, Look, grid, name_axes

# What is drawn: its name, hue, and marker with line.
_TIMES = {
    "search_ms": ("search", 0, "o-"),
    "without_links_ms": ("… without links", 5, "^-"),
    "engine_ms": ("its engine calls", 6, "v--"),
    "dense_scan_ms": ("numpy scan, dense", 1, "s:"),
}
_SPACES = {
    "memory_mb": ("process", 0, "o-"),
    "private_mb": ("… not of files", 5, "^-"),
    "disk_mb": ("folder", 2, "D--"),
    "vectors_mb": ("bare vectors", 1, "s:"),
}


def draw(rows: Sequence[Mapping[str, Any]], look: Look) -> Figure:
    """Return the medians of a search and of what it is compared with, and what the memory takes up."""
    made, (times, spaces) = grid(look, 1, 2, height=3.4)
    sizes = [row["notes"] for row in rows]
    for axes, styles in ((times, _TIMES), (spaces, _SPACES)):
        for name, (label, hue, line) in styles.items():
            values = [row[name]["p50"] if styles is _TIMES else row[name] for row in rows]
            if known := [(x, y) for x, y in zip(sizes, values, strict=True) if y and y > 0]:
                found = zip(*known, strict=True)
                axes.plot(*found, line, color=look.hues[hue], ms=5, lw=1.5, label=label)
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(sizes, [document.number(size) for size in sizes])
        axes.minorticks_off()
        axes.margins(0.1, 0.12)
        axes.yaxis.set_major_formatter(COMMAS)
        if axes.lines:
            box: dict[str, Any] = {"facecolor": look.paper, "edgecolor": "none", "framealpha": 0.9}
            axes.legend(loc="upper left", fontsize=SMALL, labelcolor=look.ink, **box)
    for row in rows:  # from the median to the 95th percentile
        ends = [row["search_ms"][share] for share in ("p50", "p95")]
        times.plot([row["notes"]] * 2, ends, color=look.hues[0], lw=1, marker="_", markersize=5)
    name_axes(times, look, x="notes", y="milliseconds a query", title="Time")
    name_axes(spaces, look, x="notes", y="MB (of 2²⁰ bytes)", title="Space")
    return made
