"""How sure a mean is, and whether one system is better than another: a bootstrap over questions."""

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
DIGITS = 4  # of every figure that is returned

Values = Sequence[float | None]


def rounded(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a figure, or figures by name at any depth, rounded as reports show them."""
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def estimate(values: Values) -> dict[str, float | None]:
    """Return the `mean` of the values that are not None, and the bounds `low` and `high` of its 95 % interval.

    Without values all three are None.
    """
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "low": None, "high": None}
    return {**rounded({"mean": float(np.mean(known)), **_bounds(_resampled(known))})}


def difference(first: Values, second: Values) -> dict[str, Any] | None:
    """Return by how much `first` exceeds `second`, question by question, where both have a value.

    Resamples draw pairs, so a question that is hard for both does not widen the interval.

    Returns:
        The mean `difference`, the bounds `low` and `high` of its 95 % interval, and the number of `questions`; None
        without a question that both have a value for.

    Raises:
        InvalidInputError: The two sequences differ in length.
    """
    if len(first) != len(second):
        raise InvalidInputError(
            f"only values of the same questions can be compared, not {len(first)} with {len(second)}"
        )
    pairs = zip(first, second, strict=True)
    gains = [a - b for a, b in pairs if a is not None and b is not None]
    if not gains:
        return None
    found = {"difference": float(np.mean(gains)), **_bounds(_resampled(gains))}
    return {**rounded(found), "questions": len(gains)}


def compare(
    values: Mapping[str, Values], categories: Sequence[int], main: str
) -> dict[str, dict[str, Any]]:
    """Return by how much the system `main` is better than each other one, as far as they have questions in common.

    Returns:
        By system the `difference` over all questions, with those over each category in `by_category`.
    """
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


def _bounds(resampled: NDArray[np.float64]) -> dict[str, float]:
    low, high = np.percentile(resampled, (2.5, 97.5))
    return {"low": float(low), "high": float(high)}
