"""How sure a mean is, and whether a system is better than another, by a bootstrap over questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amem_integrations.errors import InvalidInputError

SEED = 20_230_508
RESAMPLES = 2_000

Values = Sequence[float | None]
Estimate = dict[str, float]  # `mean`, and the bounds `low` and `high` of its 95 % interval


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` per cent of the values do not exceed, or None of nothing."""
    return float(np.percentile(values, share)) if values else None


def estimate(values: Values) -> Estimate | None:
    """Return the mean of what is not None, with its 95 % bootstrap interval; None of nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": float(np.mean(known)), **_bounds(_resampled(known))}


def difference(first: Values, second: Values) -> dict[str, Any] | None:
    """Return how much `first` exceeds `second`, question by question, where both have a value.

    Resamples draw pairs, so what makes a question hard for both does not widen the interval.

    Returns:
        The mean `difference`, the bounds `low` and `high` of its 95 % interval, the number of `questions`, and
        `other_side`, the share of resamples in which the better one is not better (about the one-sided p-value).
        None without questions that both have a value for.

    Raises:
        InvalidInputError: The values are not as many.
    """
    _same_length({"first": first, "second": second})
    pairs = zip(first, second, strict=True)
    gains = [a - b for a, b in pairs if a is not None and b is not None]
    if not gains:
        return None
    gain, resampled = float(np.mean(gains)), _resampled(gains)
    other_side = float(np.mean(np.sign(gain) * resampled <= 0))
    sides = {"other_side": other_side, "questions": len(gains)}
    return {"difference": gain, **_bounds(resampled), **sides}


def compare(
    values: Mapping[str, Values], categories: Sequence[int], main: str
) -> dict[str, dict[str, Any]]:
    """Return how much better the system `main` is than each other one, by one measure.

    Returns:
        By system the difference over all questions, and in `by_category` over those of each category, as far as
        they have a question in common.

    Raises:
        InvalidInputError: There is no system `main`, or lengths differ.
    """
    if main not in values:
        raise InvalidInputError(f"there is no system {main!r}; there are {', '.join(values)}")
    _same_length({"categories": categories, **values})
    found: dict[str, dict[str, Any]] = {}
    for other in values:
        if other != main and (whole := difference(values[main], values[other])):
            parts = {}
            for one in sorted(set(categories)):
                inside = [of == one for of in categories]
                pair = (list(compress(values[name], inside)) for name in (main, other))
                if part := difference(*pair):
                    parts[str(one)] = part
            found[other] = {**whole, "by_category": parts}
    return found


def _resampled(values: Sequence[float]) -> NDArray[np.float64]:
    means: NDArray[np.float64] = _draws(len(values)) @ np.asarray(values) / len(values)
    return means


@lru_cache(maxsize=16)
def _draws(units: int) -> NDArray[np.uint16]:
    chosen = np.random.default_rng(SEED).integers(units, size=(RESAMPLES, units))
    rows = np.arange(RESAMPLES)[:, None] * units
    counts = np.bincount((chosen + rows).ravel(), minlength=RESAMPLES * units)
    return counts.reshape(RESAMPLES, units).astype(np.uint16)


def _bounds(resampled: NDArray[np.float64]) -> Estimate:
    low, high = np.percentile(resampled, (2.5, 97.5))
    return {"low": float(low), "high": float(high)}


def _same_length(sequences: Mapping[str, Sequence[object]]) -> None:
    lengths = {name: len(one) for name, one in sequences.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(
            f"these must be about the same questions, but have {lengths!r} values"
        )
