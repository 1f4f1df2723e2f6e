"""Items of a LangGraph store, as `Item.dict()` gives them: a list, bare or under `items`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidInputError
from ...notes import NoteInput
from . import values

TEXTS = ("content", "text", "memory", "data")


def read(data: Any, where: str) -> list[tuple[tuple[str, ...], NoteInput]]:  # noqa: ANN401 - JSON
    """Return each item with its namespace.

    Raises:
        InvalidInputError: An item has no namespace, no key, or no value.
    """
    if isinstance(data, Mapping):
        data = data.get("items")
    if not isinstance(data, list):
        raise InvalidInputError(f"{where} holds no list of store items")
    return [_item(item, f"{where}, item {n}") for n, item in enumerate(data, start=1)]


def _item(given: object, where: str) -> tuple[tuple[str, ...], NoteInput]:
    item = values.mapping(given, where)
    space, key = item.get("namespace"), values.label(item.get("key"))
    if not isinstance(space, list) or not space or not all(isinstance(s, str) and s for s in space):
        raise InvalidInputError(f"{where}: namespace {space!r} is no list of labels")
    if key is None:
        raise InvalidInputError(f"{where} has no key")
    value = values.mapping(item.get("value"), f"{where}: value")
    content = _content(value)
    return tuple(space), NoteInput(
        content=content or json.dumps(value, ensure_ascii=False, sort_keys=True),
        at=values.time(item.get("created_at"), where),
        key=key,
        source="import",
        # What is more than text is kept, so that nothing of the value is lost.
        metadata={} if content in value.values() and len(value) == 1 else {"value": dict(value)},
    )


def _content(value: Mapping[str, Any]) -> str | None:
    """Return the text of a value; langmem keeps it one level deeper, under a `kind`."""
    inner = value.get("content")
    return values.first_text(inner if isinstance(inner, Mapping) else value, TEXTS)
