"""The conditions of `where=` as filters of Qdrant.

What both stores and `filters.matches` agree on: a list matches when any item does; `$ne` holds for a missing
field too; None stands for missing, null and empty alike; 1 equals 1.0, but not true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from ..errors import InvalidInputError
from ..filters import WITHOUT_VECTOR, AnyOf, Condition, Conditions, Scalar
from ..notes import INTEGERS, plain
from .checks import is_id, stamp
from .payloads import ALWAYS, DENSE, TERMS, is_metadata_name, seq_parts, term

Filter = Any  # a filter or a condition in the types of one interface to Qdrant
IndexKind = Literal["tenant", "keyword", "number", "integer", "float", "datetime"]

TIMES = frozenset({"at", "when", "recorded_at", "until", "expires_at"})
NUMBERS = frozenset({"seq", "attempts"})
NEVER_EMPTY = frozenset({"id", "seq", "when", "recorded_at", "attempts"})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Only the namespace takes part in the graph: with all fields, building it takes 2.5 times as long.
_INDEXES: Mapping[IndexKind, tuple[str, Mapping[str, bool]]] = {
    "tenant": ("Keyword", {"is_tenant": True, "enable_hnsw": True}),
    "keyword": ("Keyword", {"enable_hnsw": False}),
    "integer": ("Integer", {"lookup": True, "range": True, "enable_hnsw": False}),
    "float": ("Float", {"enable_hnsw": False}),
    "datetime": ("Datetime", {"enable_hnsw": False}),
    "number": ("Integer", {"lookup": True, "range": False, "enable_hnsw": False}),
}
_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Makes conditions and filters in the types of one interface to Qdrant.

    Both interfaces have the same types; `types` is their module, the next five are what is not named alike there: `typed` returns what
    else an index of a type wants to be told.
    `ordered` are the metadata fields that have an index for ranges, by their path; None where a range needs
    no index.
    """

    types: Any
    typed: Callable[[str], Mapping[str, str]]
    number_range: Callable[..., Any]
    time_range: Callable[..., Any]
    has_id: Callable[[Sequence[str]], Any]
    has_vector: Callable[[str], Any]
    ordered: Mapping[str, IndexKind] | None = None

    def index(self, kind: IndexKind) -> Any:  # noqa: ANN401 - in the types of the interface
        """Return the parameters of an index of a kind."""
        name, how = _INDEXES[kind]
        return getattr(self.types, f"{name}IndexParams")(**how, **self.typed(name))

    def any_of(self, key: str, values: Sequence[str] | Sequence[int]) -> Filter:
        """The field equals one of the values, or holds one of them."""
        return self.types.FieldCondition(key=key, match=self.types.MatchAny(any=list(values)))

    def integer(self, key: str, value: int) -> Filter:
        """The field equals the integer, exactly."""
        return self.types.FieldCondition(key=key, match=self.types.MatchValue(value=value))

    def between(self, key: str, bounds: Mapping[str, float]) -> Filter:
        """The number is within `gt`, `gte`, `lt`, `lte`."""
        self._check_ordered(key, ("integer", "float"))
        return self.types.FieldCondition(key=key, range=self.number_range(**bounds))

    def during(self, key: str, bounds: Mapping[str, str]) -> Filter:
        """The time is within `gt`, `gte`, `lt`, `lte`, each in RFC 3339."""
        self._check_ordered(key, ("datetime",))
        return self.types.FieldCondition(key=key, range=self.time_range(**bounds))

    def ids(self, ids: Sequence[str]) -> Filter:
        """The point has one of these ids; none has, if there are none."""
        return self.types.Filter(must=[self.has_id(ids)])

    def every(self, conditions: Sequence[Filter], but: Sequence[Filter] = ()) -> Filter:
        """All conditions hold, and none of `but`."""
        return self.types.Filter(must=list(conditions), must_not=list(but))

    def some(self, conditions: Sequence[Filter]) -> Filter:
        """At least one of the conditions, of which there must be some, holds."""
        return self.types.Filter(should=list(conditions))

    def _check_ordered(self, key: str, kinds: Sequence[IndexKind]) -> None:
        if self.ordered is None or not key.startswith("metadata."):
            return
        if self.ordered.get(key) not in kinds:
            name = key.removeprefix("metadata.")
            raise InvalidInputError(
                f"a range of {key!r} needs an index on the server: open the memory with "
                f"metadata_indexes={{{name!r}: {' or '.join(map(repr, kinds))}}}"
            )


def note_filter(dialect: Dialect, namespace: str | None, where: Conditions = ()) -> Filter:
    """Return the filter for the notes of a namespace (its key; None: of all) that meet all conditions.

    A field compared with what it cannot be compared with is an `InvalidInputError`.
    """
    must = [] if namespace is None else [dialect.any_of("namespace", [namespace])]
    must_not: list[Filter] = []
    for condition in where:
        if isinstance(condition, AnyOf):
            some = [note_filter(dialect, None, one) for one in condition.alternatives]
            must.append(dialect.some(some))
        else:
            if condition == WITHOUT_VECTOR and namespace is not None:
                must.append(
                    dialect.any_of("owing", [namespace])
                )  # which has an index, and few notes
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
    if condition == WITHOUT_VECTOR:
        return dialect.every([], but=[dialect.has_vector(DENSE)])
    field, value = condition.field, condition.value
    _check_name(field)
    if isinstance(value, tuple):
        return _one_of(dialect, field, value)
    _check(field, value)
    if condition.operator not in _BOUNDS:
        return _equals(dialect, field, value)
    bound = _BOUNDS[condition.operator]
    if isinstance(value, datetime):
        return _during(dialect, field, {bound: stamp(value, field)})
    if field not in NUMBERS and not field.startswith("metadata."):
        raise InvalidInputError(
            f"{field!r} in where has no order; {condition.operator} cannot be used"
        )
    number = cast("int | float", value)  # see `filters.parse`
    if field == "seq":
        return seq_range(dialect, bound, int(number))
    return dialect.between(json_path(field), {bound: float(number)})


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
        never = field in NEVER_EMPTY or field in ALWAYS
        return dialect.ids([]) if never else dialect.every([], but=[present])
    if isinstance(value, datetime):
        time = stamp(value, field)
        return _during(dialect, field, {"gte": time, "lte": time})
    if field == "seq":
        return dialect.integer(field, int(value))
    if field == "attempts":
        exact = isinstance(value, int | float) and not isinstance(value, bool)
        bounds = {"gte": float(value), "lte": float(value)} if exact else {"lt": 0.0}
        return dialect.between(field, bounds)
    return dialect.any_of(TERMS, [term(field, value)])


def _during(dialect: Dialect, field: str, bounds: Mapping[str, str]) -> Filter:
    """Compare a time; that of the event is when a note was recorded if nothing else is known."""
    if field != "when":
        return dialect.during(json_path(field), bounds)
    unknown = dialect.every(
        [dialect.during("recorded_at", bounds)], but=[dialect.any_of(TERMS, [term("at")])]
    )
    return dialect.some([dialect.during("at", bounds), unknown])


def _check_name(field: str) -> None:
    name = plain(field.removeprefix("metadata."), "name in where")
    if name != field and not is_metadata_name(name):
        raise InvalidInputError(
            f"the metadata name {name!r} cannot be used in where: it has an empty part, a quote "
            "or a backslash"
        )


def _check(field: str, value: Scalar) -> None:
    """Refuse what the engine does not take, and what could only match by mistake."""
    if isinstance(value, datetime):
        wrong = field not in TIMES and not field.startswith("metadata.")
    elif value is None:
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
        raise InvalidInputError(f"{field!r} in where cannot be compared with {value!r}")
