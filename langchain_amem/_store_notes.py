"""Keeps the items of a LangGraph store in a memory, a note each."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

from langgraph.store.base import PutOp

from amem_integrations import AgenticMemory, Note, NoteInput, NoteNotFoundError

from ._store_items import (
    KEY,
    Namespace,
    alive,
    apart,
    indexed_text,
    is_item,
    metadata_of,
    prolonged,
    shown,
)

PAGES = (32, 256)  # the first pages of a listing are small: most callers want a few items

# An item is read and then written. All stores over one memory share these, each key has its own of them.
LOCKS = 64
_locks: WeakKeyDictionary[AgenticMemory, list[threading.Lock]] = WeakKeyDictionary()
_making = threading.Lock()


class Items:
    """The items in a memory.

    What is indexed is a note of its namespace, among all others there. What is not has a namespace of its
    own beside that, so that no search of notes finds it, and nothing is linked to it or evolves by it.
    """

    def __init__(self, memory: AgenticMemory, fields: Sequence[str]) -> None:
        """Take the memory, and the paths that are indexed if an operation names none."""
        self.memory = memory
        self._fields = fields
        with _making:
            self._locks = _locks.setdefault(memory, [threading.Lock() for _ in range(LOCKS)])

    def find(self, namespace: Namespace, key: str) -> Note | None:
        """Return the note of an item, if there is one that has not expired."""
        return next((note for note in self._kept(namespace, key) if alive(note)), None)

    def put(self, op: PutOp) -> bool:
        """Write an item, or remove it; return whether its note may now be evolved.

        Raises:
            InvalidInputError: The value is not JSON.
        """
        with self._lock(op.namespace, op.key):
            before = self._kept(op.namespace, op.key)
            text = indexed_text(op, self._fields)
            place = op.namespace if text else apart(op.namespace)
            if op.value is not None:
                self._write(op, place, text or f"{KEY}{op.key}", before)
            for note in before:
                if op.value is None or note.namespace != place:
                    self._remove(note)
        return bool(text)

    def places(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces of the memory that may hold items under a prefix."""
        return [s for s in self.memory.namespaces() if shown(s)[: len(prefix)] == prefix]

    def scan(self, place: Namespace) -> Iterator[Note]:
        """Return the items of a place, expired or not, in the order in which they were first put."""
        after, limit = -1, PAGES[0]
        while True:
            where = {"seq": {"$gt": after}}
            page = self.memory.get_all(namespace=place, where=where, limit=limit)
            yield from filter(is_item, page)
            if len(page) < limit:
                return
            after, limit = page[-1].seq, PAGES[1]

    def refresh(self, notes: Iterable[Note]) -> None:
        """Give items that were read their time to live again, with a write only if it is needed."""
        now = datetime.now(UTC)
        for note in notes:
            if prolonged(note, now) is None:
                continue
            with self._held(note) as current:
                for item in current:
                    if metadata := prolonged(item, now):
                        self.memory.update(item.id, namespace=item.namespace, metadata=metadata)

    def sweep(self) -> int:
        """Delete what has expired, and return how much that was."""
        swept = 0
        for note in [n for place in self.places(()) for n in self.scan(place) if not alive(n)]:
            with self._held(note) as current:
                gone = [item for item in current if item.id == note.id and not alive(item)]
                for item in gone:
                    self._remove(item)
                swept += len(gone)
        return swept

    @contextmanager
    def _held(self, note: Note) -> Iterator[list[Note]]:
        """Yield an item as it is now; another thread may have put it again since it was read."""
        namespace, key = shown(note.namespace), (note.key or "").removeprefix(KEY)
        with self._lock(namespace, key):
            yield self._kept(namespace, key)

    def _kept(self, namespace: Namespace, key: str) -> list[Note]:
        """Return the note of an item, in a list; the newer one first if a crash left two of them."""
        places, where = (namespace, apart(namespace)), {"key": f"{KEY}{key}"}
        found = [n for s in places for n in self.memory.get_all(namespace=s, where=where, limit=1)]
        return sorted(found, key=lambda note: str(note.metadata["updated_at"]), reverse=True)

    def _write(self, op: PutOp, place: Namespace, content: str, before: Sequence[Note]) -> None:
        now = datetime.now(UTC)
        metadata = metadata_of(op, before=before[0] if before else None, now=now)
        for note in before:
            if note.namespace == place:
                self.memory.update(note.id, namespace=place, content=content, metadata=metadata)
                return
        item = NoteInput(content=content, key=f"{KEY}{op.key}", metadata=metadata, split=False)
        self.memory.add_many([item], namespace=place, evolve=False)

    def _remove(self, note: Note) -> None:
        with suppress(NoteNotFoundError):  # somebody else was faster
            self.memory.delete(note.id, namespace=note.namespace)

    def _lock(self, namespace: Namespace, key: str) -> threading.Lock:
        return self._locks[hash((namespace, key)) % LOCKS]
