"""The conditions of `where=` as filters of Qdrant.

What both stores and `filters.matches` agree on: a list matches when any item does; `$ne` holds for a missing
field too; None stands for missing, null and empty alike; 1 equals 1.0, but not true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime

from ..errors import InvalidInputError
from ..filters import Condition, Conditions, Scalar
from .collection import Dialect, Filter
from .payloads import TERMS, is_metadata_name, seq_parts, term
from .validation import INTEGERS, is_id, plain, stamp

TIMES = frozenset({"at", "when", "recorded_at", "expires_at"})
NEVER_EMPTY = frozenset({"id", "seq", "when", "recorded_at", "attempts"})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def note_filter(dialect: Dialect, namespace: str | None, where: Conditions = ()) -> Filter:
    """Return the filter for the notes of a namespace (its key; None: of all) that meet all conditions.

    Raises:
        InvalidInputError: A condition compares a field with what it cannot be compared with.
    """
    must = [] if namespace is None else [dialect.any_of("namespace", [namespace])]
    must_not: list[Filter] = []
    for condition in where:
        clauses = must_not if condition.operator == "$ne" else must
        clauses.append(_clause(dialect, condition))
    return dialect.every(must, must_not)


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


def json_path(field: str) -> str:
    """Return the path of a field in a payload, as an index and a filter name it."""
    names = field.split(".")
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else f'"{name}"' for name in names)


def _clause(dialect: Dialect, condition: Condition) -> Filter:
    field, value = condition.field, condition.value
    _check_name(field)
    if isinstance(value, tuple):
        return _one_of(dialect, field, value)
    _check(field, value)
    if condition.operator not in _BOUNDS:
        return _equals(dialect, field, value)
    bound = _BOUNDS[condition.operator]
    if isinstance(value, datetime):
        return dialect.during(json_path(field), {bound: stamp(value, field)})
    if isinstance(value, str | bool) or value is None:
        message = f"{condition.operator} for {field!r} wants a number or a datetime, not {value!r}"
        raise InvalidInputError(message)
    if field == "seq":
        return seq_range(dialect, bound, int(value))
    return dialect.between(json_path(field), {bound: float(value)})


def _one_of(dialect: Dialect, field: str, values: Sequence[Scalar]) -> Filter:
    for value in values:
        _check(field, value)
    if field == "id" or not values:
        return dialect.ids([value for value in values if is_id(value)])  # type: ignore[misc]
    terms = [
        term(field, value)
        for value in values
        if not (value is None or isinstance(value, datetime) or field in NEVER_EMPTY)
    ]
    if len(terms) == len(values):
        return dialect.any_of(TERMS, terms)
    return dialect.some([_equals(dialect, field, value) for value in values])


def _equals(dialect: Dialect, field: str, value: Scalar) -> Filter:
    if field == "id":
        return dialect.ids([value] if isinstance(value, str) and is_id(value) else [])
    if value is None:
        present = dialect.any_of(TERMS, [term(field)])
        return dialect.ids([]) if field in NEVER_EMPTY else dialect.every([], but=[present])
    if isinstance(value, datetime):
        time = stamp(value, field)
        return dialect.during(json_path(field), {"gte": time, "lte": time})
    if field == "seq":
        return dialect.integer(field, int(value))
    if field == "attempts":
        exact = isinstance(value, int | float) and not isinstance(value, bool)
        bounds = {"gte": float(value), "lte": float(value)} if exact else {"lt": 0.0}
        return dialect.between(field, bounds)
    return dialect.any_of(TERMS, [term(field, value)])


def _check_name(field: str) -> None:
    name = field.removeprefix("metadata.")
    if name == field:
        return
    plain(name, "name in where")
    if not is_metadata_name(name):
        message = (
            f"the metadata name {name!r} cannot be used in where: it has an empty part, a quote "
            "or a backslash"
        )
        raise InvalidInputError(message)


def _check(field: str, value: Scalar) -> None:
    """Refuse what the engine does not take, and what could only match by mistake."""
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
