"""How figures are written in a report: rounded, with their bootstrap interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import statistics

Report = dict[str, Any]

DIGITS = 4


def rounded(value: float | None) -> float | None:
    """Return a figure as it is reported."""
    return None if value is None else round(value, DIGITS)


def all_rounded(values: Mapping[str, Any] | None) -> Report | None:
    """Return figures by name as they are reported, at any depth."""
    if values is None:
        return None
    return {
        name: all_rounded(value)
        if isinstance(value, Mapping)
        else rounded(value)
        if isinstance(value, float)
        else value
        for name, value in values.items()
    }


def estimated(values: Sequence[float | None]) -> Report:
    """Return the mean of what is not None and its 95 % bootstrap interval; of nothing, None each."""
    found = statistics.estimate(values)
    return all_rounded(found) or {"mean": None, "low": None, "high": None}
