"""The filter language of `where=`: a dict of field to a value or to operators.

``{"speaker": "Ann", "at": {"$gte": start}, "metadata.city": {"$in": ["Rome", "Oslo"]}}``. A field that
holds a list (tags, keywords) matches when any of its items does. All conditions must hold. `$nin` holds where no item
of the field is among the values, `$exists` where the field has a value (or none, with False). ``{"$or": [where, …]}``
holds where one of several filters does, ``{"$and": [where, …]}`` where all do, such as two conditions on one field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from operator import eq, ge, gt, le, lt
from typing import Any, Literal, cast, get_args

from .errors import AmemError, InvalidInputError
from .kinds import Kind
from .notes import ORIGINS, SOURCES, State, check_time

Operator = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in"]
MOST = 2**31  # what the engine can count to
MAX_DEPTH = 32  # of filters in each other
_RANGES = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
# By operator what its value has to be, in words and types, and what is of these types and not meant.
_WANTED: dict[str, tuple[str, tuple[type, ...], type | tuple[()]]] = {
    **dict.fromkeys(("$eq", "$ne"), ("", (object,), ())),
    **dict.fromkeys(_RANGES, ("a number or a datetime", (int, float, datetime), bool)),
    **dict.fromkeys(("$in", "$nin"), ("a list", (Sequence, set, frozenset), str)),
    "$exists": ("True or False", (bool,), ()),
}
FIELDS = (
    "id", "seq", "content", "speaker", "source", "kind", "origin", "thread", "key", "at", "when", "recorded_at",
    "keywords", "tags", "attributes_source", "state", "attempts", "superseded_by", "until", "expires_at",
)  # fmt: skip
# The values that these fields can have: a filter by another value means a name of the user's metadata.
VALUES: dict[str, tuple[str, ...]] = {
    "source": SOURCES, "origin": ORIGINS, "kind": get_args(Kind), "state": get_args(State),
}  # fmt: skip
# The times among the texts of metadata, as the engine reads them: fewer than Python does.
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?( ?([Zz]|[+-]\d\d(:?\d\d)?))?)?)?", re.ASCII
)
TIMES = ("recorded_at", "at", "until", "expires_at")  # the fields that hold a time
Scalar = str | int | float | bool | datetime | None


@dataclass(frozen=True, slots=True)
class Condition:
    """`field operator value`; `value` is a tuple for `$in`, a scalar otherwise."""

    field: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """All conditions of at least one of the alternatives hold."""

    alternatives: tuple[Conditions, ...]


Conditions = tuple[Condition | AnyOf, ...]
WITHOUT_VECTOR = Condition("vector", "$eq", None)  # not for callers: a vector is no field of a note


def parse(where: Mapping[str, Any], *, depth: int = 0) -> Conditions:
    """Return the conditions of a filter dict, which stands in so many others.

    Raises:
        InvalidInputError: An unknown field or operator, a value that cannot be compared, or filters too deep in each other.
    """
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"filters in where are nested more than {MAX_DEPTH} times")
    if not isinstance(where, Mapping):
        raise InvalidInputError(f"where={where!r} must be a dict of field to value or operators")
    conditions: list[Condition | AnyOf] = []
    for field, test in where.items():
        if field in ("$and", "$or"):
            filters = _filters(field, test, depth + 1)
            conditions += [AnyOf(filters)] if field == "$or" else chain.from_iterable(filters)
            continue
        is_metadata = isinstance(field, str) and field.startswith("metadata.")
        if field not in FIELDS and not (is_metadata and field != "metadata."):
            raise InvalidInputError(
                f"unknown field {field!r} in where; use one of {', '.join(FIELDS)}, 'metadata.<name>', $or or $and"
            )
        tests = test if isinstance(test, Mapping) else {"$eq": test}
        if not tests:
            raise InvalidInputError(
                f"{field!r} in where has no operator; give a value, or one of them"
            )
        for operator, value in tests.items():
            conditions += _conditions(field, operator, value)
    return tuple(conditions)


def _filters(operator: str, filters: object, depth: int) -> tuple[Conditions, ...]:
    if isinstance(filters, str) or not isinstance(filters, Sequence) or not all(filters):
        raise InvalidInputError(
            f"{operator} wants a list of filters that are not empty, not {filters!r}"
        )
    if operator == "$or" and not filters:
        raise InvalidInputError("$or wants at least one filter")
    return tuple(parse(one, depth=depth) for one in filters)


def _conditions(field: str, operator: str, value: object) -> Conditions:
    if operator not in _WANTED:
        known = " ".join(_WANTED)
        raise InvalidInputError(
            f"unknown operator {operator!r} for {field!r} in where; use one of {known}"
        )
    wanted, types, others = _WANTED[operator]
    if not isinstance(value, types) or isinstance(value, others):
        raise InvalidInputError(f"{operator} for {field!r} wants {wanted}, not {value!r}")
    if operator == "$exists":
        return (Condition(field, "$ne" if value else "$eq", _scalar(field, None)),)
    if operator not in ("$in", "$nin"):
        ordered = field in (*TIMES, "when", "seq", "attempts") or field.startswith("metadata.")
        if operator in _RANGES and not ordered:
            raise InvalidInputError(f"{field!r} in where has no order; {operator} cannot be used")
        return (Condition(field, cast("Operator", operator), _scalar(field, value)),)
    values = tuple(_scalar(field, item) for item in cast("Iterable[object]", value))
    if operator == "$in":
        return (Condition(field, "$in", values),)
    return tuple(Condition(field, "$ne", item) for item in values)


def _scalar(field: str, value: object) -> Scalar:
    known = VALUES.get(field)
    if known is not None and isinstance(value, str) and value not in known:
        message = f"{field!r} in where is never {value!r}; it is one of {', '.join(known)}"
        raise InvalidInputError(f"{message}; what you gave yourself is 'metadata.{field}'")
    if isinstance(value, datetime) and value.tzinfo is None:
        message = f"the time {value!r} for {field!r} in where has no time zone; add tzinfo"
        raise InvalidInputError(message)
    if value is None or isinstance(value, str | int | float | bool | datetime):
        fits = field.startswith("metadata.") or not isinstance(value, datetime)
        if field == "seq":
            fits = isinstance(value, int) and not isinstance(value, bool)
        elif field in (*TIMES, "when"):
            fits = value is None or isinstance(value, datetime)
        if not fits:  # it could only match by mistake
            raise InvalidInputError(f"{field!r} in where cannot be compared with {value!r}")
        return value
    message = f"{value!r} for {field!r} in where cannot be compared; use a string, number, bool or datetime"
    raise InvalidInputError(message)


def matches(note: object, conditions: Conditions) -> bool:
    """Return whether a note meets all conditions, as the store would judge it."""
    return all(
        any(matches(note, one) for one in condition.alternatives)
        if isinstance(condition, AnyOf)
        else _holds(_values(note, condition.field), condition)
        for condition in conditions
    )


def _values(note: Any, field: str) -> tuple[Any, ...]:  # noqa: ANN401 - any field of a note
    if field.startswith("metadata."):
        value = note.metadata
        for name in field.split(".")[1:]:  # a dot leads into an object, as it does in the store
            value = value.get(name) if isinstance(value, Mapping) else None
    else:
        value = getattr(note, field)
    values = value if isinstance(value, tuple | list) else [value]
    return tuple(one for one in values if one is not None) or (None,)


def _holds(values: tuple[Any, ...], condition: Condition) -> bool:
    operator, wanted = condition.operator, condition.value
    if operator == "$ne":
        return not any(_compare(eq, value, wanted) for value in values)
    if operator == "$in":
        return any(_compare(eq, value, one) for value in values for one in cast("Any", wanted))
    return any(_compare(_RANGES.get(operator, eq), value, wanted) for value in values)


def _compare(test: Callable[[Any, Any], Any], value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any scalars
    """Return whether a value of the same sort as the wanted one passes a test with it."""
    if isinstance(wanted, datetime):
        value = _as_time(value)
    sorts = ((bool,), (int, float), (datetime,), (str,), (type(None),))
    sort = next(types for types in sorts if isinstance(wanted, types))
    same = isinstance(value, sort) and isinstance(value, bool) == isinstance(wanted, bool)
    return same and bool(test(value, wanted))


def _as_time(value: Any) -> Any:  # noqa: ANN401 - any scalar
    """Return the time that a text of metadata is in RFC 3339 (in UTC without a zone), else the value."""
    if not (isinstance(value, str) and _TIME.fullmatch(value)):
        return value
    try:
        time = datetime.fromisoformat(value.upper())
    except ValueError:
        return value
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def conditions_of(
    where: Mapping[str, Any] | None, as_of: datetime | None = None, known_at: datetime | None = None
) -> Conditions:
    """Return the conditions of a filter dict, and that a note had happened by one time and was recorded by another.

    Raises:
        InvalidInputError: See `parse`; or a time is none, or has no zone.
    """
    check_time("as_of", as_of)
    check_time("known_at", known_at)
    limits = (("when", as_of), ("recorded_at", known_at))
    by_then = (Condition(name, "$lte", time) for name, time in limits if time is not None)
    return (*(() if where is None else parse(where)), *by_then)


def unexpired(time: datetime) -> AnyOf:
    """Return the condition that a note has not expired at a time."""
    lasting, later = Condition("expires_at", "$eq", None), Condition("expires_at", "$gt", time)
    return AnyOf(((lasting,), (later,)))


def check_names(metadata: Iterable[str], *names: str) -> None:
    """Check that a caller's metadata have none of the names under which a door keeps something of its own.

    Raises:
        InvalidInputError: They have one.
    """
    if taken := sorted({*names}.intersection(metadata)):
        raise InvalidInputError(
            f"metadata cannot be named {taken[0]!r}: the memory keeps its own there"
        )


def check_count(
    name: str, value: object, least: int = 1, error: type[AmemError] = InvalidInputError
) -> None:
    """Check a number of things; raise `error` if it is not a whole number from `least` to below `MOST`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < MOST:
        raise error(f"{name}={value!r} must be a whole number of at least {least}, below {MOST}")


def check_id(value: object) -> None:
    """Check an id of a note or of a change; what nothing has as its id is not found, and no error here.

    Raises:
        InvalidInputError: It holds the id, such as the note itself or a list.
    """
    if not isinstance(value, str | int | None):
        raise InvalidInputError(f"{value!r:.80} must be an id, a text such as note.id or change.id")


def unique_ids(ids: Sequence[str]) -> list[str]:
    """Return ids, each once.

    Raises:
        InvalidInputError: They are no list, but a single text for example; or one of them is no id.
    """
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInputError(f"{ids!r} must be a list of ids")
    given = list(ids)
    for one in given:
        check_id(one)
    return list(dict.fromkeys(given))


def check_similarity(value: object) -> None:
    """Check a threshold that may be None.

    Raises:
        InvalidInputError: It is no cosine.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise InvalidInputError(f"min_similarity={value!r} must be a cosine, from -1 to 1")
