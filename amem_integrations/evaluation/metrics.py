"""Pure: how much of the evidence a ranking holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def recall(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the share of the evidence that is among the first `k` found."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))


def all_evidence(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return 1 if all of the evidence is among the first `k` found, else 0."""
    return float(set(evidence) <= set(found[:k]))
