"""Which notes this process is working on, so that no two evolutions take the same one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ..notes import Note


class Claims:
    """A set of note ids, taken and given back by threads and tasks alike."""

    def __init__(self) -> None:
        """Start with nothing claimed."""
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    @contextmanager
    def claiming(self, notes: Iterable[Note]) -> Iterator[Sequence[Note]]:
        """Yield those of the notes that nobody else is working on, and hold them meanwhile."""
        with self._lock:
            mine = [note for note in notes if note.id not in self._ids]
            self._ids.update(note.id for note in mine)
        try:
            yield mine
        finally:
            with self._lock:
                self._ids.difference_update(note.id for note in mine)
