"""Time and space over the number of notes, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import document
from .style import SMALL, Look, grid, name_axes, with_commas

# What is drawn: its name, hue, marker and line.
_TIMES = {
    "search_ms": ("search", 0, "o", "-"),
    "without_links_ms": ("… without links", 5, "^", "-"),
    "engine_ms": ("its engine calls", 6, "v", "--"),
    "dense_scan_ms": ("numpy scan, dense", 1, "s", ":"),
}
_SPACES = {
    "memory_mb": ("process", 0, "o", "-"),
    "private_mb": ("… not of files", 5, "^", "-"),
    "disk_mb": ("folder", 2, "D", "--"),
    "vectors_mb": ("bare vectors", 1, "s", ":"),
}


def draw(rows: Sequence[Mapping[str, Any]], look: Look) -> Figure:
    """Return the medians of a search and of what it is compared with, and what the memory takes up."""
    made, (times, spaces) = grid(look, 1, 2, height=3.4)
    for name, style in _TIMES.items():
        found = [(row["notes"], row[name]["p50"]) for row in rows if name in row]
        _line(times, found, style, look)
    _tail(times, rows, look)
    for name, style in _SPACES.items():
        sizes = [(row["notes"], row[name]) for row in rows if row.get(name) is not None]
        _line(spaces, sizes, style, look)
    name_axes(times, look, x="notes", y="milliseconds a query", title="Time")
    name_axes(spaces, look, x="notes", y="MB (of 2²⁰ bytes)", title="Space")
    for axes in (times, spaces):
        _logarithmic(axes, [row["notes"] for row in rows], look)
    return made


def _line(
    axes: Axes, found: Sequence[tuple[float, float]], style: tuple[str, int, str, str], look: Look
) -> None:
    label, hue, marker, dashes = style
    if positive := [(x, y) for x, y in found if y > 0]:
        xs, ys = zip(*positive, strict=True)
        axes.plot(
            xs, ys, color=look.hues[hue], marker=marker, linestyle=dashes, markersize=5,
            linewidth=1.5, label=label,
        )  # fmt: skip


def _tail(axes: Axes, rows: Sequence[Mapping[str, Any]], look: Look) -> None:
    """Show from the median to the 95th percentile of a search."""
    for row in rows:
        ends = (row["search_ms"]["p50"], row["search_ms"]["p95"])
        axes.plot(
            [row["notes"]] * 2, ends, color=look.hues[0], linewidth=1, marker="_", markersize=5
        )


def _logarithmic(axes: Axes, sizes: Sequence[int], look: Look) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [document.number(size) for size in sizes])
    axes.minorticks_off()
    axes.margins(0.1, 0.12)
    with_commas(axes.yaxis)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            facecolor=look.paper, edgecolor="none", framealpha=0.9, fontsize=SMALL,
            labelcolor=look.ink, loc="upper left",
        )  # fmt: skip
