"""Fields of JSON that other programs wrote; an error names the place in the file (`where`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..errors import InvalidInputError
from ..ids import parse_time

TIMES = ("at", "timestamp", "created_at", "date")


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """Return a value that is a JSON object.

    Raises:
        InvalidInputError: It is something else.
    """
    if isinstance(value, Mapping):
        return value
    raise InvalidInputError(f"{where}: expected a JSON object, not {value!r:.60}")


def mapping_in(text: object, where: str) -> Mapping[str, Any]:
    """Return a JSON object that may be written in a text.

    Raises:
        InvalidInputError: It is something else.
    """
    if not isinstance(text, str | bytes):
        return mapping(text, where)
    try:
        return mapping(json.loads(text), where)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is not JSON: {error}") from error


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the JSON objects in a list; nothing if it is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def metadata_of(item: Mapping[str, Any], known: Iterable[str], where: str) -> dict[str, Any]:
    """Return the metadata of an item, and every field that a note has no place for."""
    given = mapping(item.get("metadata") or {}, f"{where}: metadata")
    return {**{name: item[name] for name in item if name not in known}, **given}


def first_text(item: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of these fields that holds text, stripped."""
    values = (item.get(name) for name in names)
    return next((text.strip() for text in values if isinstance(text, str) and text.strip()), None)


def label(value: object) -> str | None:
    """Return an id as text, or None if there is none."""
    return None if value is None or not str(value).strip() else str(value)


def first_time(
    item: Mapping[str, Any], where: str, names: Iterable[str] = TIMES
) -> datetime | None:
    """Return the first of these fields that is there, as a time.

    Raises:
        InvalidInputError: It is not a time.
    """
    return next((time_of(item[name], where) for name in names if item.get(name)), None)


def time_of(value: object, where: str) -> datetime | None:
    """Return a time given as ISO 8601 text, or as seconds since 1970; None if there is none.

    Raises:
        InvalidInputError: It is neither.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        return parse_time(str(value))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"{where}: {value!r} is not a time such as 2026-05-08T18:30Z"
        ) from error
