"""Pure: how sure a mean is, and whether one system is better than another on the same questions.

Everything is by the bootstrap, with one seed, so that every run gives the same. By default *questions* are
resampled: the interval covers which questions were asked about these conversations. Questions of one conversation
share its memory, though. To speak of conversations that were not measured, give the conversation of each question
as `groups`: then whole conversations are resampled, and intervals grow. That needs several: of one conversation it
says nothing (questions are resampled then), and of fewer than about ten the interval is still too narrow.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError

SEED = 20_230_508
RESAMPLES = 2_000

Groups = Sequence[Hashable]


class Estimate(TypedDict):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


class Difference(TypedDict):
    """How much better one system is than another: the mean difference, with its 95 % interval.

    `other_side` is the share of resamples in which the better one is not better: about the one-sided
    p-value, and 1 where they are equal. `questions` counts those that both have a value for.
    """

    difference: float
    low: float
    high: float
    other_side: float
    questions: int


class Against(Difference):
    """The difference over all questions, and over those of each category."""

    by_category: dict[str, Difference]


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` per cent of the values do not exceed, or None of nothing."""
    return float(np.percentile(values, share)) if values else None


def estimate(
    values: Sequence[float | None], *, groups: Groups | None = None, seed: int = SEED
) -> Estimate | None:
    """Return the mean of what is not None, with its 95 % bootstrap interval; None of nothing.

    Raises:
        InvalidInputError: There are not as many groups as values.
    """
    known, groups = _known(values, groups)
    if not known:
        return None
    low, high = _bounds(_resampled(known, groups, seed))
    return {"mean": float(np.mean(known)), "low": low, "high": high}


def difference(
    first: Sequence[float | None],
    second: Sequence[float | None],
    *,
    groups: Groups | None = None,
    seed: int = SEED,
) -> Difference | None:
    """Return how much `first` exceeds `second`, question by question, where both have a value.

    Resamples draw pairs, so what makes a question hard for both does not widen the interval.

    Raises:
        InvalidInputError: The values, or the groups, are not as many.
    """
    _same_length({"first": first, "second": second})
    pairs = zip(first, second, strict=True)
    gains = [None if a is None or b is None else a - b for a, b in pairs]
    known, groups = _known(gains, groups)
    if not known:
        return None
    resampled = _resampled(known, groups, seed)
    low, high = _bounds(resampled)
    gain = float(np.mean(known))
    return {
        "difference": gain,
        "low": low,
        "high": high,
        "other_side": float(np.mean(np.sign(gain) * resampled <= 0)),
        "questions": len(known),
    }


def compare(
    values: Mapping[str, Sequence[float | None]],
    categories: Sequence[int],
    main: str,
    *,
    groups: Groups | None = None,
    seed: int = SEED,
) -> dict[str, Against]:
    """Return how much better the system `main` is than each other one, by one measure.

    Args:
        values: The value of each question by system; None where there is none.
        categories: The category of each question.
        main: The system that the others are compared with.
        groups: The conversation of each question, to draw conversations instead of questions.
        seed: Of the bootstrap.

    Returns:
        By the other systems' names; those without a question in common are left out, and so are
        categories without one.

    Raises:
        InvalidInputError: There is no system `main`, or lengths differ.
    """
    if main not in values:
        raise InvalidInputError(f"there is no system {main!r}; there are {', '.join(values)}")
    _same_length({"categories": categories, **values})

    def over(other: str, places: Sequence[int]) -> Difference | None:
        return difference(
            [values[main][place] for place in places],
            [values[other][place] for place in places],
            groups=None if groups is None else [groups[place] for place in places],
            seed=seed,
        )

    by_category = {
        str(one): np.flatnonzero(np.equal(categories, one)).tolist()
        for one in sorted(set(categories))
    }
    found: dict[str, Against] = {}
    for other in values:
        whole = None if other == main else over(other, range(len(categories)))
        if whole is not None:
            parts = {name: over(other, places) for name, places in by_category.items()}
            kept = {name: part for name, part in parts.items() if part is not None}
            found[other] = {**whole, "by_category": kept}
    return found


def _known(
    values: Sequence[float | None], groups: Groups | None
) -> tuple[list[float], Groups | None]:
    """Return the values that are not None, and their groups."""
    if groups is None:
        return [value for value in values if value is not None], None
    _same_length({"values": values, "groups": groups})
    pairs = [(value, g) for value, g in zip(values, groups, strict=True) if value is not None]
    return [value for value, _ in pairs], [group for _, group in pairs]


def _resampled(values: Sequence[float], groups: Groups | None, seed: int) -> NDArray[np.float64]:
    """Return the mean of each resample: of drawn values, or of all values of drawn groups."""
    places = np.arange(len(values))
    if groups is not None and len(set(groups)) > 1:
        number = {group: place for place, group in enumerate(dict.fromkeys(groups))}
        places = np.array([number[group] for group in groups])
    sums_and_sizes = np.stack([np.bincount(places, weights=values), np.bincount(places)], axis=1)
    sums, sizes = (_draws(len(sums_and_sizes), seed) @ sums_and_sizes).T
    means: NDArray[np.float64] = sums / sizes
    return means


@lru_cache(maxsize=16)
def _draws(units: int, seed: int) -> NDArray[np.uint16]:
    """Return how often each unit is drawn in each resample, [RESAMPLES, units]."""
    chosen = np.random.default_rng(seed).integers(units, size=(RESAMPLES, units))
    rows = np.arange(RESAMPLES)[:, None] * units
    counts = np.bincount((chosen + rows).ravel(), minlength=RESAMPLES * units)
    return counts.reshape(RESAMPLES, units).astype(np.uint16)


def _bounds(resampled: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(resampled, (2.5, 97.5))
    return float(low), float(high)


def _same_length(sequences: Mapping[str, Sequence[object]]) -> None:
    lengths = {name: len(one) for name, one in sequences.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(
            f"these must be about the same questions, but have {lengths!r} values"
        )
