"""What is left of writes that were not finished: in this process, and by processes that were killed.

The history is written before the notes. So each write puts an *intent* into the history collection, which
says what the write is about to do. It is read when a store is opened after a process was killed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ports import OPS_KEPT
from .collection import Point

Step = Callable[[], None]

INTENT = "intent"  # the kind of the point; no change has it
RECENT = 64  # operations; far more than there can be at once, of which each may take several writes


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to go: these notes of a namespace (its key) and their changes, or (None) all of it.

    `receipts` are the points to be kept. With `upto` nothing goes that was added after this `seq`.
    """

    namespace: str
    ids: Sequence[str] | None
    receipts: Sequence[str] = ()
    upto: int | None = None


class Unsettled:
    """Steps that wait until the store answers again, in order; safe to use from threads."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._lock = threading.RLock()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._steps)

    def add(self, step: Step) -> None:
        """Have a step taken by the next `settle`."""
        self._steps.append(step)

    def settle(self) -> None:
        """Take all steps; one that fails, and those after it, are left for the next time."""
        with self._lock:
            while self._steps:
                self._steps[0]()
                self._steps.popleft()


class Operations:
    """The operations that wrote last, and those of which only a part was written, by id."""

    def __init__(self) -> None:
        self._recent: dict[str, None] = {}
        self._partial: dict[str, None] = {}

    @property
    def partial(self) -> bool:
        """Whether there are operations of which only a part was written."""
        return bool(self._partial)

    def ids(self) -> list[str]:
        """Return what a process that opens the store after a kill has to look at."""
        return list(self._partial | self._recent)

    def begin(self, ops: Iterable[str]) -> None:
        """These operations are about to write."""
        for op in ops:
            self._recent.pop(op, None)
            self._recent[op] = None
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def end(self, ops: Iterable[str], *, complete: bool) -> None:
        """These operations have written all that they were given, or only a part of it."""
        for op in ops:
            if complete:
                self._partial.pop(op, None)
            elif op in self._recent:  # else it has written nothing at all
                self._partial[op] = None


def intended(records: Sequence[Point], notes: Sequence[Point]) -> list[list[Any]]:
    """Return which change is made true by which version of a note, known by revision and operation."""
    versions = {
        note.id: (note.payload["revision"], (note.payload["ops"] or [None])[-1]) for note in notes
    }
    return [
        [record.id, record.payload["note_id"], *versions[record.payload["note_id"]]]
        for record in records
        if record.payload["note_id"] in versions
    ]


def is_made(note: Point | None, revision: int, op: str | None) -> bool:
    """Return whether a version was written, as far as the note remembers; in doubt it was."""
    if note is None or note.payload["revision"] < revision:
        return False
    forgotten = note.payload["revision"] - revision >= OPS_KEPT
    return forgotten or op is None or op in note.payload["ops"]
