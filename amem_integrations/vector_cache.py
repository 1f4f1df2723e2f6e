"""Vectors of the texts that were embedded last, for texts that come again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b

from .ports import Vector

SIZE = 1024  # vectors; with 384 dimensions 1.5 MiB


class VectorCache:
    """Safe to use from threads. A text is known by a digest, so that nothing deleted lives on in here."""

    def __init__(self, size: int = SIZE) -> None:
        """Start empty; of more than `size` vectors the least recently used go first."""
        self._size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, role: str, text: str) -> Vector | None:
        """Return the vector of a text as a `"document"` or as a `"query"`, if it is known."""
        key = _key(role, text)
        with self._lock:
            if key in self._vectors:
                self._vectors.move_to_end(key)
            return self._vectors.get(key)

    def put(self, role: str, text: str, vector: Vector) -> None:
        """Keep a vector."""
        with self._lock:
            # A row is a view that would keep its whole batch in memory.
            self._vectors[_key(role, text)] = vector.copy()
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._vectors.clear()


def _key(role: str, text: str) -> bytes:
    return blake2b(f"{role}:{text}".encode(errors="surrogatepass"), digest_size=16).digest()
