"""What a Qdrant server in strict mode refuses: to filter, order or count by what has no index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_ANY = ("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid")
_RANGES = ("integer", "float", "datetime")


def missing_index(made: Mapping[str, Any], body: Any, rest: list[str]) -> str | None:
    """Return what a server in strict mode says of a request by a field without an index."""
    for key, kinds in _needed_indexes(body):
        if made.get(key) not in kinds:
            return (
                f'Index required but not found for "{key}" of one of the following types: '
                f"[{', '.join(kinds)}]. Help: Create an index for this key or use a different filter."
            )
    for search in body.get("searches", ()) if isinstance(body, Mapping) else ():
        query = search.get("query")
        order = query.get("order_by") if isinstance(query, Mapping) else None
        if order and made.get(key := order["key"]) not in _RANGES:
            return (
                f"No range index for `order_by` key: `{key}`. Please create one to use `order_by`"
            )
    if rest == ["facet"] and made.get(body["key"]) not in _ANY:
        return f"No appropriate index for faceting: `{body['key']}`. Please create one to facet"
    return None


def _needed_indexes(body: Any) -> Iterator[tuple[str, Iterable[str]]]:
    """Return the fields of all conditions in a request, and which types of index each may have."""
    if isinstance(body, list):
        for item in body:
            yield from _needed_indexes(item)
    if not isinstance(body, Mapping):
        return
    if isinstance(body.get("key"), str) and (body.get("match") or body.get("range")):
        yield body["key"], _kinds(body)
    for empty in (body.get("is_empty"), body.get("is_null")):
        if empty:
            yield empty["key"], _ANY
    for name, value in body.items():
        if name != "payload":  # what is stored is no condition
            yield from _needed_indexes(value)


def _kinds(condition: Mapping[str, Any]) -> Iterable[str]:
    if bounds := condition.get("range"):
        texts = any(isinstance(bound, str) for bound in bounds.values())
        return ("datetime",) if texts else ("float", "integer")
    match = condition["match"]
    values = match.get("any") or match.get("except") or [match.get("value")]
    if all(isinstance(value, bool) for value in values):
        return ("bool",)
    return ("keyword", "uuid") if isinstance(values[0], str) else ("integer",)
