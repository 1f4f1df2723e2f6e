"""The conditions of `where=` as filters of Qdrant, in the JSON of its REST interface.

What both stores and `filters.matches` agree on: a list matches when any item does; `$ne` holds for a missing
field too; None stands for missing, null and empty alike; 1 equals 1.0, but not true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from ..errors import InvalidInputError
from ..filters import WITHOUT_VECTOR, AnyOf, Condition, Conditions, Scalar
from ..notes import plain
from .payloads import ALWAYS, DENSE, TERMS, is_id, is_metadata_name, stamp, term

Filter = dict[str, Any]
IndexKind = Literal["tenant", "keyword", "number", "integer", "float", "datetime"]

NEVER_EMPTY = ALWAYS | {"id", "when", "recorded_at"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Only the namespace takes part in the graph: with all fields, building it takes 2.5 times as long.
INDEXES: Mapping[IndexKind, dict[str, Any]] = {
    "tenant": {"type": "keyword", "is_tenant": True, "enable_hnsw": True},
    "keyword": {"type": "keyword", "enable_hnsw": False},
    "integer": {"type": "integer", "lookup": True, "range": True, "enable_hnsw": False},
    "float": {"type": "float", "enable_hnsw": False},
    "datetime": {"type": "datetime", "enable_hnsw": False},
    "number": {"type": "integer", "lookup": True, "range": False, "enable_hnsw": False},
}


def any_of(key: str, values: Iterable[str | int]) -> Filter:
    """The field equals one of the values, or holds one of them."""
    return {"key": key, "match": {"any": list(values)}}


def within(key: str, bounds: Mapping[str, float | str]) -> Filter:
    """The number, or the time in RFC 3339, is within `gt`, `gte`, `lt`, `lte`."""
    return {"key": key, "range": dict(bounds)}


def one_of(ids: Iterable[str]) -> Filter:
    """The point has one of these ids; none has, if there are none."""
    return {"has_id": list(ids)}


def every(conditions: Iterable[Filter], but: Iterable[Filter] = ()) -> Filter:
    """All conditions hold, and none of `but`."""
    return {"must": list(conditions), "must_not": list(but)}


def some(conditions: Iterable[Filter]) -> Filter:
    """At least one of the conditions, of which there must be some, holds."""
    return {"should": list(conditions)}


class Filters:
    """Makes filters of notes.

    Args:
        ordered: The metadata fields that have an index for ranges, by their path; None where a range needs no index.
    """

    def __init__(self, ordered: Mapping[str, IndexKind] | None = None) -> None:
        self._ordered = ordered

    def filter(self, namespace: str | None, where: Conditions = ()) -> Filter:
        """Return the filter for the notes of a namespace (its key; None: of all) that meet all conditions."""
        must = [] if namespace is None else [any_of("namespace", [namespace])]
        must_not: list[Filter] = []
        for condition in where:
            if isinstance(condition, AnyOf):
                must.append(some(self.filter(None, one) for one in condition.alternatives))
            elif condition == WITHOUT_VECTOR:
                must_not.append({"has_vector": DENSE})
                if namespace is not None:  # such notes have an index, and are few
                    must.append(any_of("owing", [namespace]))
            else:
                clauses = must_not if condition.operator == "$ne" else must
                clauses.append(self._clause(condition))
        return every(must, must_not)

    def _clause(self, condition: Condition) -> Filter:
        field, operator, value = condition.field, condition.operator, condition.value
        name = plain(field.removeprefix("metadata."), "name in where")
        if name != field and not is_metadata_name(name):
            raise InvalidInputError(
                f"the metadata name {name!r} cannot be used in where: it has an empty part, a quote "
                "or a backslash"
            )
        values = value if isinstance(value, tuple) else (value,)
        for one in values:
            if not isinstance(one, datetime):
                plain(one, f"{field} in where")
        if operator in ("$eq", "$ne", "$in"):
            return self._equals(field, values)
        bound = operator.removeprefix("$")
        if isinstance(value, datetime):
            return self._during(field, {bound: stamp(value, field)})
        number: Any = value  # see `filters.parse`
        if field == "seq":
            return _seq_range(bound, int(number))
        return self._within(field, {bound: float(number)}, ("integer", "float"))

    def _equals(self, field: str, values: Sequence[Scalar]) -> Filter:
        """The field has one of the values."""
        if field == "id":
            return one_of(str(value) for value in values if is_id(value))
        terms, clauses = list[int](), list[Filter]()
        for value in values:
            if isinstance(value, datetime):
                time = stamp(value, field)
                clauses.append(self._during(field, {"gte": time, "lte": time}))
            elif field == "seq":
                clauses.append(any_of(field, [int(value or 0)]))
            elif value is not None:
                terms.append(term(field, value))
            elif field not in NEVER_EMPTY:
                clauses.append(every([], but=[any_of(TERMS, [term(field)])]))
        if terms:
            clauses.append(any_of(TERMS, terms))
        return some(clauses) if clauses else one_of(())

    def _during(self, field: str, bounds: Mapping[str, str]) -> Filter:
        """Compare a time; that of the event is when a note was recorded if nothing else is known."""
        if field != "when":
            return self._within(field, bounds, ("datetime",))
        without = [any_of(TERMS, [term("at")])]
        return some([within("at", bounds), every([within("recorded_at", bounds)], but=without)])

    def _within(
        self, field: str, bounds: Mapping[str, float | str], kinds: Sequence[IndexKind]
    ) -> Filter:
        path, name = json_path(field), field.removeprefix("metadata.")
        if self._ordered is not None and name != field and self._ordered.get(path) not in kinds:
            raise InvalidInputError(
                f"a range of {field!r} needs an index on the server: open the memory with "
                f"metadata_indexes={{{name!r}: {' or '.join(map(repr, kinds))}}}"
            )
        return within(path, bounds)


def _seq_range(bound: str, seq: int) -> Filter:
    """Compare by (microseconds, nanoseconds): a double cannot tell today's nanoseconds apart."""
    microseconds, nanoseconds = divmod(seq, 1000)
    same = within("seq_us", {"gte": microseconds, "lte": microseconds})
    outside = within("seq_us", {bound[:2]: microseconds})
    return some([outside, every([same, within("seq_ns", {bound: nanoseconds})])])


def json_path(field: str) -> str:
    """Return the path of a field in a payload, as an index and a filter name it."""
    names = field.split(".")
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else f'"{name}"' for name in names)
