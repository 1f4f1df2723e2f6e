"""What a section of the page is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from .. import labels
from ..bars import Estimate
from ..style import Look

Values = Mapping[str, Any]

BOOTSTRAP = "95 % bootstrap intervals over questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart: `name` is that of its file, `alt` what it shows in words, `draw` makes it."""

    name: str
    alt: str
    caption: str
    draw: Callable[[Look], Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text, of which the first cell names the row; the first `words` columns are no figures.

    What comes after a line's end in a cell is shown smaller, below. A table that is `folded` is opened by
    who wants to see it.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page; `about` says in a few sentences what was measured, and how."""

    title: str
    about: Sequence[str]
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


def with_interval(found: Mapping[str, float | None] | None) -> str:
    """Return a mean, and on a second line its interval, `.823 to .913`."""
    if found is None or found.get("mean") is None:
        return labels.share(None)
    bounds = labels.interval(found.get("low"), found.get("high"))
    return f"{labels.share(found['mean'])}\n{bounds}" if bounds else labels.share(found["mean"])


def difference(found: Mapping[str, float] | None) -> str:
    """Return a difference, and on a second line its interval, `+.021 to +.112`."""
    if found is None:
        return labels.share(None)
    bounds = labels.interval(found["low"], found["high"], labels.gain)
    return f"{labels.gain(found['difference'])}\n{bounds}"


def listed(values: Mapping[str, Estimate | None]) -> str:
    """Return the figures of systems in words, for who does not see the picture."""
    return ", ".join(
        f"{labels.system(name)} {labels.share(one.mean if one else None)}"
        for name, one in values.items()
    )


def counted(number: int, noun: str) -> str:
    """Return `1 note`, `2 notes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
