"""An embedder that reads each text once, however often and in however many runs it is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from ..._sync import resolve, run
from ...ports import Embedder, Vector
from .kept import Kept, key_of

T = TypeVar("T")

PROBE = "Seven grey herons stood in the shallow water that morning."


class KeptEmbedder:
    """Hands texts to `embedder` in one batch and keeps the vectors.

    Attributes:
        query_ms: What the encoding of each query took when it was encoded, in milliseconds; one
            value for each call of `embed_query`.
        waited_ms: The time spent in `embed_query` so far, kept vectors included.
    """

    def __init__(self, embedder: Embedder, kept: Kept) -> None:
        """Keep vectors in `kept`, apart from those of other embedders."""
        self.query_ms: list[float] = []
        self.waited_ms = 0.0
        self._embedder = embedder
        self._kept = kept
        self._turn = threading.Lock()
        if (limit := getattr(embedder, "max_tokens", None)) is not None:
            self.max_tokens = limit  # content is split by it, so it has to be known here too

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    @cached_property
    def identity(self) -> str:
        """What decides the vectors: the name and, as others may have it too, what it makes of a text."""
        vectors = (
            run(resolve(self._embedder.embed_documents([PROBE])))[0],
            run(resolve(self._embedder.embed_query(PROBE))),
        )
        # Rounded: the last digits depend on the machine.
        seen = [[f"{value:.2f}".replace("-0.00", "0.00") for value in one] for one in vectors]
        return key_of(self.name, self.dimensions, getattr(self, "max_tokens", None), seen)

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._embedder.dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors = self._vectors(
            "document", texts, lambda some: run(resolve(self._embedder.embed_documents(some)))
        )
        return np.stack([vectors[text][0] for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        start = time.perf_counter()
        found = self._vectors(
            "query", [text], lambda some: run(resolve(self._embedder.embed_query(some[0])))[None]
        )
        vector, ms = found[text]
        self.query_ms.append(ms)
        self.waited_ms += (time.perf_counter() - start) * 1000
        return vector

    def timed(self, search: Callable[[], T]) -> tuple[T, float, float]:
        """Return what a search finds, and the milliseconds it took with, and those of, the encoding.

        A query that was encoded before, in this run or an earlier one, counts with what it took then.
        """
        start, waited, encoded = time.perf_counter(), self.waited_ms, len(self.query_ms)
        found = search()
        alone = (time.perf_counter() - start) * 1000 - (self.waited_ms - waited)
        encoding = sum(self.query_ms[encoded:])
        return found, alone + encoding, encoding

    def _vectors(
        self, role: str, texts: Sequence[str], encode: Callable[[Sequence[str]], Vector]
    ) -> dict[str, tuple[Vector, float]]:
        keys = {text: key_of(self.identity, role, text) for text in texts}
        known = self._kept.vectors(list(keys.values()))
        if len(known) < len(keys):
            with self._turn:  # what one thread encodes, another waits for
                self._encode_missing(keys, encode)
            known = self._kept.vectors(list(keys.values()))
        return {text: known[key] for text, key in keys.items()}

    def _encode_missing(
        self, keys: dict[str, str], encode: Callable[[Sequence[str]], Vector]
    ) -> None:
        known = self._kept.vectors(list(keys.values()))
        missing = [text for text, key in keys.items() if key not in known]
        if missing:
            start = time.perf_counter()
            rows = encode(missing)
            ms = (time.perf_counter() - start) * 1000 / len(missing)
            self._kept.keep_vectors(
                {keys[text]: row for text, row in zip(missing, rows, strict=True)}, ms
            )
