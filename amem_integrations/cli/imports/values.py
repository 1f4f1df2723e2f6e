"""Reading fields of JSON that others wrote: what is wrong is said with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ...errors import InvalidInputError


def first_text(item: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of these fields that holds text, without white space round it."""
    found = (item.get(name) for name in names)
    return next((text.strip() for text in found if isinstance(text, str) and text.strip()), None)


def label(value: object) -> str | None:
    """Return an id as text; None if there is none."""
    return None if value is None or not str(value).strip() else str(value)


def time(value: object, where: str) -> datetime | None:
    """Return a time: ISO 8601 text (taken as UTC without a zone), or seconds since 1970.

    Raises:
        InvalidInputError: It is neither.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        read = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"{where}: {value!r} is no time such as 2026-05-08T18:30Z"
        ) from error
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """Return the value, a JSON object.

    Raises:
        InvalidInputError: It is something else.
    """
    if isinstance(value, Mapping):
        return value
    raise InvalidInputError(f"{where}: expected a JSON object, not {value!r:.60}")
