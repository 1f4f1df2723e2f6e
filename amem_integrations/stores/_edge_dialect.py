"""Filters in the types of qdrant-edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import qdrant_edge as edge

from ._filters import Filter


class EdgeDialect:
    """Filters in the types of qdrant-edge."""

    def match(self, key: str, value: str | int | bool) -> Filter:
        """The field equals the value."""
        # The engine takes Python's True for the number 1, but not NumPy's.
        exact: Any = np.bool_(value) if isinstance(value, bool) else value
        return edge.FieldCondition(key, match=edge.MatchValue(exact))

    def any_of(self, key: str, values: Sequence[str]) -> Filter:
        """The field equals one of the strings."""
        return edge.FieldCondition(key, match=edge.MatchAny(list(values)))

    def between(self, key: str, bounds: Mapping[str, float]) -> Filter:
        """The number is within the bounds."""
        return edge.FieldCondition(key, range=edge.RangeFloat(**bounds))

    def during(self, key: str, bounds: Mapping[str, str]) -> Filter:
        """The time is within the bounds."""
        return edge.FieldCondition(key, range=edge.RangeDateTime(**bounds))

    def empty(self, key: str) -> Filter:
        """The field is missing, null or an empty list."""
        return edge.IsEmptyCondition(key)

    def ids(self, ids: Sequence[str]) -> Filter:
        """The point has one of these ids."""
        return edge.Filter(must=[edge.HasIdCondition(set(ids))])

    def every(self, conditions: Sequence[Filter], but: Sequence[Filter] = ()) -> Filter:
        """All conditions hold, and none of `but`."""
        return edge.Filter(must=list(conditions), must_not=list(but))

    def some(self, conditions: Sequence[Filter]) -> Filter:
        """At least one of the conditions holds."""
        return edge.Filter(should=list(conditions))
