"""Pure: which items and namespaces a LangGraph store operation is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from typing import Any

from amem_integrations import MissingExtraError

try:
    from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

Namespace = tuple[str, ...]


def checked_labels(namespace: Sequence[str]) -> Namespace:
    """Return the namespace as a tuple.

    `batch` may be called with operations that LangGraph has not checked, and older versions of it export
    no check.

    Raises:
        InvalidNamespaceError: A label is no string, empty, or holds a period.
    """
    for label in namespace:
        if not isinstance(label, str) or not label or "." in label:
            raise InvalidNamespaceError(
                f"label {label!r} in {namespace!r} must be a non-empty string without a period"
            )
    return tuple(namespace)


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Return whether a value meets a filter; what is missing counts as None.

    Raises:
        ValueError: An unknown operator.
    """
    return all(_compare(value.get(key), wanted) for key, wanted in (conditions or {}).items())


def _compare(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(starmap(_compare, zip(value, wanted, strict=True)))
    return bool(value == wanted)


def _holds(value: Any, operator: str, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if operator == "$eq":
        return bool(value == wanted)
    if operator == "$ne":
        return bool(value != wanted)
    tests = {"$gt": "__gt__", "$gte": "__ge__", "$lt": "__lt__", "$lte": "__le__"}
    if operator not in tests:
        raise ValueError(f"Unsupported operator: {operator}; use $eq $ne $gt $gte $lt $lte")
    try:
        return bool(getattr(float(value), tests[operator])(float(wanted)))
    except (TypeError, ValueError):
        return False


def listed(namespaces: Collection[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """Return the namespaces that an operation asks for, sorted."""
    conditions = op.match_conditions or ()
    found = [space for space in namespaces if all(_fits(c, space) for c in conditions)]
    if op.max_depth is not None:
        found = list({space[: op.max_depth] for space in found})
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    if len(namespace) < len(path):
        return False
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=False))
