"""Pure: LlamaIndex's `MetadataFilters` as the `where` of the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from amem_integrations import ConfigurationError
from amem_integrations.adapting import FIELDS

OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.CONTAINS: "$eq",  # a field that holds a list meets a condition if one of its items does
    FilterOperator.ANY: "$in",
}
RANGES = ("$gt", "$gte", "$lt", "$lte")
TIMES = ("at", "when", "recorded_at", "until", "expires_at")

Test = tuple[str, str, Any]


def where_of(
    filters: MetadataFilters | None, where: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the conditions of both; a key is a field of notes (`speaker`, `at`, …), else one of their `metadata`.

    Times are given as ISO 8601.

    Raises:
        ConfigurationError: The memory cannot be asked that: `not`, `or` between different keys, a part of a text,
            or the same operator twice for one key.
    """
    if filters is None:
        return None if where is None else dict(where)
    if not isinstance(filters, MetadataFilters):
        raise ConfigurationError(f"filters={filters!r} must be MetadataFilters")
    found: dict[str, Any] = {}
    for field, operator, value in _tests(filters):
        tests = found.setdefault(field, {})
        if tests.get(operator, value) != value:
            raise _unknown(f"{operator} twice for {field!r}")
        tests[operator] = value
    if twice := sorted(found.keys() & (where or {}).keys()):
        raise _unknown(f"{twice[0]!r} in both filters and where")
    return {**(where or {}), **found}


def _tests(filters: MetadataFilters) -> Iterator[Test]:
    """Return the conditions, all of which have to hold."""
    if filters.condition == FilterCondition.NOT:
        raise _unknown("'not'")
    if filters.condition == FilterCondition.OR and len(filters.filters) > 1:
        yield _any_of(filters)
        return
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            yield from _tests(one)
        else:
            yield _test(one)


def _any_of(filters: MetadataFilters) -> Test:
    """Return alternatives for one key as one condition."""
    singles = [one for one in filters.filters if isinstance(one, MetadataFilter)]
    tests = [_test(one) for one in singles]
    fields = {field for field, _, _ in tests}
    if len(tests) < len(filters.filters) or len(fields) > 1:
        raise _unknown("'or' between different keys")
    if not all(operator in ("$eq", "$in") for _, operator, _ in tests):
        raise _unknown("'or' between ranges")
    values = [value if operator == "$in" else [value] for _, operator, value in tests]
    return fields.pop(), "$in", [item for some in values for item in some]


def _test(one: MetadataFilter) -> Test:
    field = (
        one.key if one.key in FIELDS or one.key.startswith("metadata.") else f"metadata.{one.key}"
    )
    values = one.value if isinstance(one.value, list) else [one.value]
    operator = OPERATORS.get(one.operator)
    if one.operator == FilterOperator.IS_EMPTY:
        return field, "$eq", None
    if one.operator in (FilterOperator.NIN, FilterOperator.ALL) and len(values) == 1:
        operator = "$ne" if one.operator == FilterOperator.NIN else "$eq"
    if operator is None:
        raise _unknown(f"the operator {one.operator.value!r} for {one.key!r}")
    timely = operator in RANGES or field in TIMES
    read = [_time(value) if timely and isinstance(value, str) else value for value in values]
    return field, operator, read if operator == "$in" else read[0]


def _time(text: str) -> datetime | str:
    """Return the time that a text says, in UTC without a zone; another text as it is."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _unknown(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"filters: {what} cannot be asked of the memory; all conditions hold together, each by one of "
        "== != > >= < <= in, and where= takes the memory's own"
    )
