"""Pure: how much of the evidence a ranking holds, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

SEED = 20_230_508
RESAMPLES = 2_000


def recall(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the share of the evidence that is among the first `k` found."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))


def all_evidence(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return 1 if all of the evidence is among the first `k` found, else 0."""
    return float(set(evidence) <= set(found[:k]))


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` per cent of the values do not exceed, or None of nothing."""
    return float(np.percentile(values, share)) if values else None


def interval(values: Sequence[float], *, seed: int = SEED) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the mean, the same in every run; None of nothing."""
    if not values:
        return None
    chosen = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.asarray(values)[chosen].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)
