"""The picture of `amem graph`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingExtraError
from ..notes import Note
from ..ports import Vector

PICTURES = (".png", ".svg", ".pdf")
_LABELLED = 24  # notes with a label: those with most links
PAPER, INK, SOFT = "#fbfaf7", "#22211e", "#8a867c"
_STEPS = 250


def draw(notes: Sequence[Note], path: Path, *, title: str) -> None:
    """Write a picture of the notes and their links, in the format that the file's suffix names.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    matplotlib = import_matplotlib()
    places = {note.id: place for place, note in enumerate(notes)}
    edges = [
        (places[note.id], places[target], link.strength)
        for note in notes
        for target, link in note.links.items()
        if target in places and link.direction == "out"
    ]
    xy = layout(len(notes), edges)
    figure = matplotlib.figure.Figure(
        figsize=(12, 9), dpi=150, facecolor=PAPER, layout="constrained"
    )
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.12, 0.06)
    lines = [(xy[a], xy[b]) for a, b, _ in edges]
    widths = [0.4 + strength for _, _, strength in edges]
    axes.add_collection(
        matplotlib.collections.LineCollection(lines, colors=SOFT, linewidths=widths, alpha=0.5)
    )
    sizes = [18 + 14 * len(note.links) for note in notes]
    colours = _colours(notes, matplotlib.colors)
    axes.scatter(xy[:, 0], xy[:, 1], s=sizes, c=colours, marker="o", edgecolors=PAPER, zorder=2)
    _label(axes, notes, xy, [matplotlib.patheffects.withStroke(linewidth=2.5, foreground=PAPER)])
    links = f"{len(notes)} notes, {len(edges)} links"
    axes.set_title(f"{title}  ({links})", loc="left", color=INK, fontsize=13, parse_math=False)
    save(figure, path)


def save(figure: Any, path: Path) -> None:  # noqa: ANN401 - a figure of matplotlib
    """Write a figure in the format that the file's suffix names."""
    with warnings.catch_warnings():
        # Notes are in any script; what the font does not have is drawn as a box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        write_whole(path, partial(figure.savefig, facecolor=PAPER))


def write_whole(out: Path, write: Callable[[Path], object]) -> None:
    """Write a draft and move it into place, so that the old file stays until the new one is complete."""
    draft = out.with_name(f".{os.getpid()}-{out.name}")
    try:
        write(draft)
        draft.replace(out)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(out)) from error
    finally:
        if draft.exists():
            draft.unlink()


def layout(count: int, edges: Sequence[tuple[int, int, float]]) -> Vector:
    """Return a place for each of `count` notes: linked ones near, all apart; always the same."""
    turn, far = np.arange(count) * 2.39996, np.sqrt(np.arange(count))
    xy = np.stack([far * np.cos(turn), far * np.sin(turn)], axis=1)
    ends = np.array([(a, b) for a, b, _ in edges], dtype=int).reshape(-1, 2)
    strengths = np.array([0.5 + strength for *_, strength in edges])
    for heat in np.linspace(1.0, 0.02, _STEPS):
        move = -0.02 * xy + _repulsion(xy)
        pull = (xy[ends[:, 1]] - xy[ends[:, 0]]) * strengths[:, None] * 0.3
        np.add.at(move, ends[:, 0], pull)
        np.add.at(move, ends[:, 1], -pull)
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        xy += move / length * np.minimum(length, heat)
    return xy.astype(np.float32)


def _repulsion(xy: Any) -> Any:  # noqa: ANN401 - arrays of float64
    """Return how each place is pushed away by all others, some rows at a time to spare memory."""
    pushed = np.empty_like(xy)
    for start in range(0, len(xy), 256):
        apart = xy[start : start + 256, None, :] - xy[None, :, :]
        square = np.maximum((apart**2).sum(axis=2), 1e-3)
        pushed[start : start + 256] = (apart / square[:, :, None]).sum(axis=1)
    return pushed


def _colours(notes: Sequence[Note], colors: Any) -> list[tuple[float, ...]]:  # noqa: ANN401
    """Return a colour for each note, the same for those of one thread."""
    groups = {
        pair: n for n, pair in enumerate(dict.fromkeys((n.namespace, n.thread) for n in notes))
    }
    turns = [(0.62 + groups[note.namespace, note.thread] * 0.381966) % 1 for note in notes]
    return [tuple(colors.hsv_to_rgb((turn, 0.62, 0.78))) for turn in turns]


def _label(axes: Any, notes: Sequence[Note], xy: Vector, effects: list[Any]) -> None:  # noqa: ANN401
    """Name the notes with most links, as long as the names do not cover each other."""
    ordered = sorted(range(len(notes)), key=lambda i: (-len(notes[i].links), i))
    wide, high = (np.ptp(xy, axis=0) * (0.2, 0.022)) if len(xy) else (0.0, 0.0)
    taken: list[Vector] = []
    for i in ordered:
        if len(taken) == _LABELLED:
            return
        if any(abs(xy[i][0] - x) < wide and abs(xy[i][1] - y) < high for x, y in taken):
            continue
        taken.append(xy[i])
        text = " ".join(notes[i].content.split())
        text = text if len(text) <= 36 else f"{text[:36].rstrip()}…"  # noqa: PLR2004 - a short line
        axes.annotate(
            text, xy[i], xytext=(0, 7), textcoords="offset points", ha="center",
            fontsize=7, color=INK, zorder=3,
            path_effects=effects, parse_math=False,
        )  # fmt: skip


def import_matplotlib() -> Any:  # noqa: ANN401 - ships no types for all of this
    """Return matplotlib with the modules that pictures need; none of them opens a window.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        for name in ("collections", "colors", "figure", "patheffects"):
            import_module(f"matplotlib.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "evaluation") from error
    return import_module("matplotlib")
