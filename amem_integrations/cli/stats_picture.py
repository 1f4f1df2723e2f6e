"""The picture of `amem stats`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .graph_picture import INK, PAPER, SOFT, import_matplotlib, save

# Colours of Okabe and Ito, which the colour-blind tell apart.
GOOD, OPEN, BAD, OTHER = "#0072b2", "#e69f00", "#d55e00", "#56b4e9"
STATES = {"done": GOOD, "constructed": OTHER, "pending": OPEN, "failed": BAD}
LOOKS = {"superseded": OTHER, "duplicates": OPEN, "without links": BAD}
GRID = "#e2dfd6"
LONGEST = 22  # characters of a model's name

Bars = Sequence[tuple[str, float, str, str]]  # name, length, colour, label


def draw_stats(stats: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Write a picture of what `AgenticMemory.stats` returned, in the format that the file's suffix names.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    matplotlib = import_matplotlib()
    figure = matplotlib.figure.Figure(
        figsize=(9, 5.6), dpi=160, facecolor=PAPER, layout="constrained"
    )
    (states, looks), (degrees, models) = figure.subplots(2, 2)
    _bars(states, "Notes by state", _states(stats))
    _bars(looks, "Notes that may need a look", _looks(stats))
    _histogram(degrees, stats["degree"])
    _bars(models, "By model", _models(stats))
    notes, links = f"{stats['notes']:,} notes", f"{stats['links']:,} links"
    heading = ", ".join([f"{title}: {notes}", links, *_cost(stats["cost"])])
    figure.suptitle(heading, x=0.012, ha="left", color=INK, fontsize=12, parse_math=False)
    save(figure, path)


def _states(stats: Mapping[str, Any]) -> Bars:
    counts = {name: stats["states"].get(name, 0) for name in STATES}
    return [(name, count, STATES[name], f"{count:,}") for name, count in counts.items()]


def _looks(stats: Mapping[str, Any]) -> Bars:
    notes = max(stats["notes"], 1)
    counts = {name: stats[name.replace(" ", "_")] for name in LOOKS}
    return [
        (name, count, LOOKS[name], f"{count:,} ({count / notes:.1%})")
        for name, count in counts.items()
    ]


def _models(stats: Mapping[str, Any]) -> Bars:
    """Return what waits and what was rejected, for each model that has any of it."""
    bars: list[tuple[str, float, str, str]] = []
    for key, what, colour in (
        ("proposals", "proposals wait", OPEN),
        ("rejected_replies", "replies rejected", BAD),
    ):
        for model, count in stats[key].items():
            name = model if len(model) <= LONGEST else f"{model[:LONGEST]}…"
            bars.append((name, count, colour, f"{count:,} {what}"))
    return bars


def _cost(cost: Mapping[str, Any]) -> list[str]:
    return [f"{cost['tokens_per_note']:,} tokens a note"] if cost["calls"] else []


def _bars(axes: Any, title: str, bars: Bars) -> None:  # noqa: ANN401 - of matplotlib
    """Draw bars with their names before and their labels behind them, the first one on top."""
    _plain(axes, title)
    axes.set_xticks([])
    if not bars:
        axes.set_yticks([])
        axes.text(0, 0.5, "nothing waits, no reply was rejected", color=SOFT, fontsize=9)
        axes.spines["left"].set_visible(False)
        return
    most = max(length for _, length, _, _ in bars) or 1
    axes.set_xlim(0, most * 1.6)  # room for the label of the longest
    axes.set_ylim(max(len(bars), 3) - 0.4, -0.6)
    axes.set_yticks(range(len(bars)), [name for name, _, _, _ in bars])
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    for row, (_, length, colour, label) in enumerate(bars):
        axes.barh(row, length, height=0.6, color=colour)
        axes.annotate(
            label, (length, row), xytext=(5, 0), textcoords="offset points", va="center",
            fontsize=9, color=INK, parse_math=False,
        )  # fmt: skip


def _histogram(axes: Any, degree: Mapping[str, Any]) -> None:  # noqa: ANN401 - of matplotlib
    """Draw how many notes have how many links, with the middle and the nine in ten."""
    _plain(axes, "Notes by number of links")
    counts = degree["histogram"] or [0]
    axes.bar(range(len(counts)), counts, width=0.8, color=GOOD)
    axes.set_xlim(-0.7, max(len(counts), 8) - 0.3)
    axes.set_ylim(0, max(*counts, 1) * 1.1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(color=GRID, linewidth=0.6, axis="y")
    figures = (
        f"median {degree['median']}, nine of ten at most {degree['p90']}, most {degree['max']}"
    )
    axes.set_xlabel(f"links ({figures})", fontsize=9, color=SOFT)


def _plain(axes: Any, title: str) -> None:  # noqa: ANN401 - of matplotlib
    axes.set_facecolor(PAPER)
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(GRID)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    axes.set_axisbelow(True)
