"""The style of all charts, on light and on dark paper, without pyplot and global settings of matplotlib.

The colours are those of Okabe and Ito, which the colour-blind tell apart, and `viridis` for what has an order.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from PIL import Image

from ..systems import SHOWN

WIDTH = 7.2  # inches: the text width of a page
DPI = 200
SMALL, TEXT, HEAD = 8.0, 9.0, 9.5  # points
COMMAS = "{x:,.10g}"  # counts and sizes on an axis in full, not as powers of ten

_TICKS = 8  # sessions that are numbered beside the colours, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Colours of the paper and of what is on it.

    `hues` are for different things, in this order; `bars` for the memory, its variants and others.
    """

    name: str
    paper: str
    ink: str
    soft: str
    line: str
    hues: tuple[str, ...]
    bars: tuple[str, str, str]
    order: tuple[float, float]  # which part of the colour map can be seen on the paper

    @property
    def ordered(self) -> Colormap:
        """Return the colours of things that have an order."""
        shades = colormaps["viridis"](np.linspace(*self.order, 256))
        return LinearSegmentedColormap.from_list("sessions", shades)


LIGHT = Look(
    name="light",
    paper="#ffffff",
    ink="#22211e",
    soft="#65625b",
    line="#dedbd3",
    hues=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a766d", "#22211e"),
    bars=("#0072b2", "#79c1ea", "#a39f95"),
    order=(0.0, 0.95),
)
DARK = Look(
    name="dark",
    paper="#1d1f25",
    ink="#e9e7e1",
    soft="#a5a298",
    line="#363a43",
    hues=("#4aa8e8", "#f08a45", "#35c79b", "#e39cc5", "#f0b73e", "#a5d8f6", "#a5a298", "#f4f2ec"),
    bars=("#3f9bdb", "#2a648c", "#625f59"),
    order=(0.22, 1.0),
)
LOOKS = (LIGHT, DARK)

_OTHERS = ("<", ">", "p", "d")


def look_of(system: str, index: int, look: Look) -> tuple[str, str]:
    """Return the colour and the marker of a system; an unknown one has those of its index."""
    _, hue, marker = SHOWN.get(system, (system, 4, _OTHERS[index % len(_OTHERS)]))
    return look.hues[hue], marker


def grid(
    look: Look,
    rows: int,
    columns: int,
    *,
    height: float,
    **shared: Any,  # noqa: ANN401
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `height` inches with its axes, row by row; `shared` is that of `subplots`."""
    made = Figure(figsize=(WIDTH, height), facecolor=look.paper, layout="constrained")
    FigureCanvasAgg(made)  # draws without a display
    found = list(made.subplots(rows, columns, squeeze=False, **shared).flat)
    for axes in found:
        axes.set_facecolor(look.paper)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(look.line)
        axes.tick_params(which="both", colors=look.soft, labelsize=SMALL, length=0)
        axes.grid(color=look.line, linewidth=0.6)
        axes.set_axisbelow(True)
    return made, found


def name_axes(axes: Axes, look: Look, *, x: str = "", y: str = "", title: str = "") -> None:
    """Write what is on the axes, with units."""
    axes.set_xlabel(x, fontsize=TEXT, color=look.soft, parse_math=False)
    axes.set_ylabel(y, fontsize=TEXT, color=look.soft, parse_math=False)
    if title:
        axes.set_title(title, fontsize=HEAD, color=look.ink, loc="left", parse_math=False)


def legend(made: Figure, look: Look, entries: Sequence[tuple[str, Line2D]], columns: int) -> None:
    """Put one legend above all axes, where it covers nothing."""
    labels, lines = zip(*entries, strict=True)
    room: dict[str, Any] = {
        "handlelength": 1.6,
        "columnspacing": 1.4,
        "borderaxespad": 0.2,
        "frameon": False,
    }
    text: dict[str, Any] = {"fontsize": SMALL, "labelcolor": look.ink}
    box = made.legend(lines, labels, loc="outside upper left", ncols=columns, **room, **text)
    for one in box.get_texts():
        one.set_parse_math(False)


def in_shares(axes: Axes) -> None:
    """Write the y axis in shares, `.85`."""
    axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))  # no steps of .025
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.2f}".replace("0.", ".", 1))


def session_colours(sessions: Sequence[str], look: Look) -> Any:  # noqa: ANN401 - an array of colours
    """Return the colour of each note, given the session of each, in the order of time."""
    order = list(dict.fromkeys(sessions))
    return look.ordered(np.array([order.index(name) for name in sessions]) / max(len(order) - 1, 1))


def session_key(made: Figure, axes: Sequence[Axes], sessions: Sequence[str], look: Look) -> None:
    """Show beside the axes which colour is which session."""
    count = len(set(sessions))
    shades = look.ordered.resampled(max(count, 2))
    norm = BoundaryNorm(np.arange(max(count, 2) + 1) - 0.5, max(count, 2))
    ticks = list(range(0, count, -(-count // _TICKS)))
    scale = ScalarMappable(norm, shades)
    bar = made.colorbar(scale, ax=list(axes), ticks=ticks, aspect=40, pad=0.02)
    bar.set_ticklabels([str(tick + 1) for tick in ticks])
    bar.ax.tick_params(which="both", colors=look.soft, labelsize=SMALL, length=0)
    bar.set_label("session, in the order of time", fontsize=TEXT, color=look.soft)
    bar.ax.spines[:].set_visible(False)


def bare(axes: Axes) -> None:
    """Remove ticks, grid and frame, where positions have no units."""
    axes.grid(visible=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def png(made: Figure) -> bytes:
    """Return a figure as PNG of at most 256 colours, which makes it a third of the size."""
    held = BytesIO()
    with warnings.catch_warnings():
        # Names are in any script; what the font does not have is drawn as a box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        made.savefig(held, format="raw", dpi=DPI)
    width, height = (round(inches * DPI) for inches in made.get_size_inches())
    image = Image.frombytes("RGBA", (width, height), held.getvalue()).convert("RGB")
    small = BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()
