"""Ids, vectors and times are checked here before the engine sees a write; JSON values by `notes.plain`.

A write the engine refuses stays in its log and may come back as an empty point; what it accepts may still be
unreadable.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from ..errors import InvalidInputError
from ..stored_note import Vector

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
