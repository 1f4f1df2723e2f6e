"""Conditions on notes as filters of Qdrant, whichever of its two Python interfaces is used.

The semantics both share: a list matches when any item does; `$ne` holds for a missing field too; None
stands for missing, null and empty alike; numbers compare as numbers (1 equals 1.0, but not true).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from ..errors import InvalidInputError
from ..filters import Condition, Conditions, Scalar
from ._checks import INTEGERS, is_id, plain, stamp
from ._points import seq_parts

Filter = Any  # a filter or a condition in the types of one interface

TIMES = frozenset({"at", "when", "recorded_at", "expires_at"})
EXACT_IN_DOUBLE = 2**53
_PLAIN_SEGMENT = re.compile(r"[A-Za-z0-9_-]+")
_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


class Dialect(Protocol):
    """Makes conditions and filters in the types of one interface to Qdrant."""

    def match(self, key: str, value: str | int | bool) -> Filter:
        """The field equals the value."""
        ...

    def any_of(self, key: str, values: Sequence[str]) -> Filter:
        """The field equals one of the strings."""
        ...

    def between(self, key: str, bounds: Mapping[str, float]) -> Filter:
        """The number is within `gt`, `gte`, `lt`, `lte`."""
        ...

    def during(self, key: str, bounds: Mapping[str, str]) -> Filter:
        """The time is within `gt`, `gte`, `lt`, `lte`, each in RFC 3339."""
        ...

    def empty(self, key: str) -> Filter:
        """The field is missing, null or an empty list."""
        ...

    def ids(self, ids: Sequence[str]) -> Filter:
        """The point has one of these ids; none has, if there are none."""
        ...

    def every(self, conditions: Sequence[Filter], but: Sequence[Filter] = ()) -> Filter:
        """All conditions hold, and none of `but`."""
        ...

    def some(self, conditions: Sequence[Filter]) -> Filter:
        """At least one of the conditions, of which there must be some, holds."""
        ...


def note_filter(dialect: Dialect, namespace: str | None, where: Conditions = ()) -> Filter:
    """Return the filter for the notes of a namespace (its key; None: of all) that meet all conditions.

    Raises:
        InvalidInputError: A condition compares a field with what it cannot be compared with.
    """
    must = [] if namespace is None else [dialect.match("namespace", namespace)]
    must_not: list[Filter] = []
    for condition in where:
        clauses = must_not if condition.operator == "$ne" else must
        clauses.append(_clause(dialect, condition))
    return dialect.every(must, must_not)


def _clause(dialect: Dialect, condition: Condition) -> Filter:
    field, value = condition.field, condition.value
    if isinstance(value, tuple):
        return _one_of(dialect, field, value)
    _check(field, value)
    if condition.operator not in _BOUNDS:
        return _equals(dialect, field, value)
    bound = _BOUNDS[condition.operator]
    if isinstance(value, datetime):
        return dialect.during(_path(field), {bound: stamp(value, field)})
    if isinstance(value, str | bool) or value is None:
        message = f"{condition.operator} for {field!r} wants a number or a datetime, not {value!r}"
        raise InvalidInputError(message)
    if field == "seq":
        return seq_range(dialect, bound, int(value))
    return dialect.between(_path(field), {bound: float(value)})


def _one_of(dialect: Dialect, field: str, values: tuple[Scalar, ...]) -> Filter:
    for value in values:
        _check(field, value)
    texts = [value for value in values if isinstance(value, str)]
    if field == "id" or not values:
        return dialect.ids([text for text in texts if is_id(text)])
    if len(texts) == len(values):
        return dialect.any_of(_path(field), texts)
    return dialect.some([_equals(dialect, field, value) for value in values])


def _equals(dialect: Dialect, field: str, value: Scalar) -> Filter:
    if field == "id":
        return dialect.ids([value] if isinstance(value, str) and is_id(value) else [])
    path = _path(field)
    if value is None:
        return dialect.empty(path)
    if isinstance(value, datetime):
        time = stamp(value, field)
        return dialect.during(path, {"gte": time, "lte": time})
    if isinstance(value, str) or (isinstance(value, int) and not _is_exact_double(field, value)):
        return dialect.match(path, value)
    return dialect.between(path, {"gte": float(value), "lte": float(value)})


def _is_exact_double(field: str, value: int) -> bool:
    return not isinstance(value, bool) and field != "seq" and abs(value) < EXACT_IN_DOUBLE


def seq_range(dialect: Dialect, bound: str, seq: int) -> Filter:
    """Compare by (microseconds, nanoseconds): a double cannot tell today's nanoseconds apart."""
    microseconds, nanoseconds = seq_parts(seq)
    same = dialect.between("seq_us", {"gte": microseconds, "lte": microseconds})
    return dialect.some(
        [
            dialect.between("seq_us", {bound[:2]: microseconds}),
            dialect.every([same, dialect.between("seq_ns", {bound: nanoseconds})]),
        ]
    )


def _check(field: str, value: Scalar) -> None:
    """Refuse what the engine would choke on or what could never match by mistake."""
    if isinstance(value, datetime) or value is None:
        wrong = field == "seq"
    elif isinstance(value, str):
        plain(value, field)
        wrong = field == "seq" or field in TIMES
    elif isinstance(value, bool) or field in TIMES:
        wrong = field == "seq" or field in TIMES
    elif isinstance(value, int):
        wrong = value not in INTEGERS
    else:
        wrong = field == "seq" or not math.isfinite(value)
    if wrong:
        message = f"{field!r} in where cannot be compared with {value!r}"
        raise InvalidInputError(message)


def _path(field: str) -> str:
    """Return the JSON path of a field; a dot in the name of a metadata field leads into an object."""
    if not field.startswith("metadata."):
        return field
    return ".".join(map(_segment, field.split(".")))


def _segment(name: str) -> str:
    if _PLAIN_SEGMENT.fullmatch(name):
        return name
    if not name or '"' in name or "\\" in name:
        message = (
            f"the metadata name {name!r} cannot be used in where; quotes, backslashes, empty names"
        )
        raise InvalidInputError(message)
    return f'"{plain(name, "name in where")}"'
