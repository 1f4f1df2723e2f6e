"""Identity and order: deterministic ids, and for each memory a strictly increasing clock."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4, uuid5

from .errors import InvalidInputError
from .notes import Namespace, NoteInput

ROOT = UUID("9c4a6f3e-2a1d-5b7e-8f60-1d2b3c4a5e6f")
SPELLING = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # of an id, as a pattern
_as_json = json.JSONEncoder(separators=(",", ":")).encode
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def derive(*parts: object) -> str:
    """Return the UUID that these JSON values stand for; the same values give the same UUID."""
    return str(uuid5(ROOT, _as_json(parts)))


def note_id(namespace: Namespace, item: NoteInput) -> str:
    """Return the id of a note that was checked: from its key, else from thread, speaker, content and event time."""
    if item.key is not None:
        return derive("key", namespace, item.key)
    at = item.at.astimezone(UTC).isoformat() if item.at else None
    return derive("text", namespace, item.thread, item.speaker, item.content, at)


def new_token() -> str:
    """Return a token that tells one write of a point from all others."""
    return os.urandom(8).hex()


def new_operation() -> str:
    """Return a fresh operation id."""
    return str(uuid4())


class Clock:
    """Gives nanoseconds since the epoch, each greater than the one before, and greater than any in the memory."""

    def __init__(self) -> None:
        """Start at the present."""
        self._last = 0
        self._lock = threading.Lock()

    def tick(self) -> int:
        """Return the next instant."""
        with self._lock:
            self._last = max(time.time_ns(), self._last + 1)
            return self._last

    def start_above(self, seq: int) -> None:
        """Give only instants after `seq` from now on: a memory may hold some that the system's clock is behind."""
        with self._lock:
            self._last = max(self._last, seq)

    def now(self) -> datetime:
        """Return the present, in UTC; never before the time of anything recorded in the memory so far."""
        return time_of(self.tick())


def time_of(seq: int) -> datetime:
    """Return the time, in UTC, that an instant of the clock stands for; it rises with the instants."""
    return datetime.fromtimestamp(seq // 1000 / 1e6, UTC)


def first_seq(time: datetime) -> int:
    """Return the first instant of the clock that a time, with a zone, stands for."""
    return (time - EPOCH) // timedelta(microseconds=1) * 1000


def now() -> datetime:
    """Return the present, in UTC, by the clock of the system."""
    return time_of(time.time_ns())


def parse_time(text: str) -> datetime:
    """Return the time that an ISO 8601 text stands for; without a zone it is taken as UTC.

    Raises:
        InvalidInputError: It is no time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is not a time; give one such as 2026-05-08 or 2026-05-08T18:30Z"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def end_of(text: str, when: datetime) -> datetime | None:
    """Return the end of the day, or the moment, until which a note holds, as a model named it.

    None where it named none, nothing that can be read, one before the note itself, or the end of the calendar.
    """
    try:
        end = datetime.fromisoformat(text.strip())
        if len(text.strip()) <= len("2024-05-31"):
            end += timedelta(days=1)
        end = end if end.tzinfo else end.replace(tzinfo=when.tzinfo)
        return end if end.astimezone(UTC) > when else None
    except (ValueError, OverflowError):
        return None
