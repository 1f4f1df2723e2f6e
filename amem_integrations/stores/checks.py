"""Values are checked here, and only here, before the engine sees a write.

A write the engine refuses stays in its log and may come back as an empty point; what it accepts may still be
unreadable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..errors import InvalidInputError
from ..stored_note import Vector

MAX_DEPTH = 32  # the engine cannot read back what is nested deeper than about 127
INTEGERS = range(-(2**63), 2**63)
UNIT_TOLERANCE = 1e-2  # of the squared length; float16 embedders are off by a few thousandths
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(value: object) -> bool:
    """Return whether this is a UUID in its usual spelling, as ids of points must be."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def check_id(value: str, where: str) -> str:
    """Return the id itself, or raise `InvalidInputError` if it is no UUID in its usual spelling."""
    if not is_id(value):
        raise InvalidInputError(f"{where} must be a UUID in lower case with hyphens, not {value!r}")
    return value


def check_vectors(vectors: Vector, dimensions: int, where: str) -> Vector:
    """Return vectors as rows of float32; raise `InvalidInputError` if their shape or a length (not 1) is wrong."""
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    if array.ndim != 2 or array.shape[1] != dimensions or not len(array):  # noqa: PLR2004 - rows
        raise InvalidInputError(
            f"{where} has shape {array.shape}; this store wants (passages, {dimensions})"
        )
    squared = [float(row @ row) for row in array]
    if not all(abs(one - 1) <= UNIT_TOLERANCE for one in squared):
        raise InvalidInputError(
            f"{where} must be finite and of length 1, not {np.sqrt(squared).tolist()!r:.200}"
        )
    return array


def stamp(time: datetime, where: str) -> str:
    """Return a time with a zone as RFC 3339 in UTC with microseconds, which sorts as text."""
    if time.tzinfo is None:
        raise InvalidInputError(f"{where} has no time zone: {time!r}; add tzinfo")
    try:
        return time.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    except OverflowError as error:
        raise InvalidInputError(f"{where} is outside the calendar in UTC: {time!r}") from error


def plain(value: object, where: str, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value as plain JSON values: a copy, with lists for tuples and dicts for mappings.

    Raises:
        InvalidInputError: It would not come back the same; the message names the place.
    """
    if isinstance(value, str):
        return _text(value, where)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value, where)
    if depth >= MAX_DEPTH:
        raise InvalidInputError(f"{where} is nested more than {MAX_DEPTH} deep; store it flatter")
    if isinstance(value, Mapping):
        return {
            _key(key, where): plain(item, f"{where}.{key}", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(item, where, depth + 1) for item in value]
    raise InvalidInputError(
        f"{where} is a {type(value).__name__}, which is no JSON value: {value!r}; store it as text"
    )


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise InvalidInputError(f"{where} has the key {key!r}; keys must be strings")
    return _text(key, where)


def _text(text: str, where: str) -> str:
    if "\0" in text:
        raise InvalidInputError(f"{where} contains a NUL character; remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{where} contains half of a surrogate pair ({error.reason}); decode it properly"
            ) from error
    return text


def _number(number: float, where: str) -> float:
    if isinstance(number, int):
        if number not in INTEGERS:
            raise InvalidInputError(
                f"{where} is an integer of more than 64 bits: {number}; store it as text"
            )
    elif not math.isfinite(number):
        raise InvalidInputError(f"{where} is {number!r}, which JSON cannot hold")
    return number
