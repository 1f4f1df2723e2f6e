"""One style for all figures.

The colours are those of Okabe and Ito, which the colour-blind tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Values = Mapping[str, Any]

WIDTH = 7.2  # inches: the text width of a page
INK, SOFT, LINE = "#22211e", "#65625b", "#dedbd3"
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a766d", INK)
STYLE: dict[str, Any] = {
    "figure.dpi": 200, "savefig.dpi": 200, "figure.constrained_layout.use": True, "font.size": 8,
    "axes.titlesize": 9, "axes.titlelocation": "left", "axes.labelcolor": SOFT, "axes.edgecolor": LINE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": LINE, "grid.linewidth": 0.6, "legend.frameon": False, "xtick.color": SOFT, "ytick.color": SOFT,
    "text.parse_math": False,  # names are in any script
}  # fmt: skip
mpl.rcParams.update(STYLE)  # type: ignore[arg-type]


def axes_in(columns: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of `height` inches with its axes, from left to right."""
    made = Figure(figsize=(WIDTH, height))
    return made, list(made.subplots(1, columns, squeeze=False).flat)


def reach(value: Values) -> list[list[float]]:
    """Return the lengths of an error bar, below and above; a mean may lie a rounding beside its interval."""
    below, above = value["mean"] - value["low"], value["high"] - value["mean"]
    return [[max(below, 0)], [max(above, 0)]]
