"""What every flow works with: the ports, in their synchronous or asynchronous form, and the settings."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ._sync import Mapper
from .config import MemoryConfig
from .notes import Note
from .ports import ChatModel, Embedder, NoteStore
from .usage import Usage
from .vector_cache import VectorCache


class Claims:
    """The notes that this process is working on, so that no two evolutions take the same one."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The ports as the caller's form of a flow sees them."""

    store: NoteStore
    embedder: Embedder
    model: ChatModel
    model_name: str
    config: MemoryConfig
    usage: Usage
    map: Mapper
    vectors: VectorCache = field(default_factory=VectorCache)
    claims: Claims = field(default_factory=Claims)
