"""What an evaluation has paid for is kept, so that a run that was stopped goes on where it was.

Replies of models and vectors of embedders are kept one by one in a SQLite file, each before it is used.
(`building` keeps whole memories in folders beside it.)
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..errors import InvalidInputError
from ..ports import ChatModel, Completion, Embedder, ModelRequest, Vector
from .core_access import result_of

T = TypeVar("T")

FILE = "cache.sqlite"
PROBE = "Seven grey herons stood in the shallow water that morning."

_TIMEOUT_S = 30.0  # to wait for another process that is writing
_KEYS_PER_QUERY = 500  # SQLite allows at least 999
_TABLES = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, ms REAL NOT NULL) WITHOUT ROWID;
"""


def key_of(*parts: object) -> str:
    """Return a key of JSON values and times; equal for equal values, different for all others."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """Replies and vectors in one SQLite file; safe in many threads, and shared by several processes."""

    def __init__(self, folder: Path) -> None:
        """Open the file in `folder`, or create it.

        Raises:
            InvalidInputError: The file is not a cache.
            OSError: The folder cannot be created.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._path = folder / FILE
        try:
            self._file = sqlite3.connect(
                self._path, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def reply(self, key: str) -> Completion | None:
        """Return the reply kept under a key, or None."""
        with self._locked():
            row = self._file.execute(
                "SELECT text, input_tokens, output_tokens FROM replies WHERE key = ?", (key,)
            ).fetchone()
        return Completion(text=row[0], input_tokens=row[1], output_tokens=row[2]) if row else None

    def add_reply(self, key: str, reply: Completion) -> None:
        """Keep a reply; an earlier one under the same key stays."""
        with self._locked():
            self._file.execute(
                "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?)",
                (key, reply.text, reply.input_tokens, reply.output_tokens),
            )

    def vectors(self, keys: Sequence[str]) -> dict[str, tuple[Vector, float]]:
        """Return the vectors kept under some keys, each with the milliseconds it took to encode."""
        found: dict[str, tuple[Vector, float]] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            marks = ", ".join("?" * len(some))
            query = f"SELECT key, vector, ms FROM vectors WHERE key IN ({marks})"  # noqa: S608 - marks only
            with self._locked():
                rows = self._file.execute(query, list(some)).fetchall()
            found |= {key: (np.frombuffer(row, dtype=np.float32), ms) for key, row, ms in rows}
        return found

    def add_vectors(self, vectors: Mapping[str, Vector], ms: float) -> None:
        """Keep vectors that took `ms` milliseconds each."""
        rows = [
            (key, np.asarray(vector, dtype=np.float32).tobytes(), ms)
            for key, vector in vectors.items()
        ]
        with self._locked():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                self._file.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        with self._lock:
            self._file.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one thread at a time use the file.

        Raises:
            InvalidInputError: It is damaged, cannot be written, or another process keeps it locked.
        """
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error) -> InvalidInputError:
        return InvalidInputError(
            f"{str(self._path)!r} cannot be used ({error}); delete it to start again, or name another "
            "--cache"
        )


class CachedModel:
    """A chat model whose replies are kept; tokens of a kept reply count as if it had been asked for.

    Attributes:
        name: The model's name.
    """

    def __init__(self, model: ChatModel, cache: Cache, *, identity: str) -> None:
        """Keep replies apart from those of models of another `identity`: name, endpoint, temperature."""
        self.name = str(getattr(model, "name", type(model).__name__))
        self._model = model
        self._cache = cache
        self._identity = identity

    def generate(self, request: ModelRequest) -> Completion:
        """Return the kept reply, else the model's.

        Raises:
            ModelUnavailableError: Nothing is kept, and the model gave no answer.
        """
        key = key_of(
            self._identity, request.system, request.prompt, request.reply.model_json_schema()
        )
        known = self._cache.reply(key)
        if known is not None:
            return known
        self._cache.add_reply(key, result_of(self._model.generate(request)))
        # Read again: two threads that asked at the same time must go on with the same reply.
        return self._cache.reply(key) or Completion(text="")


class CachedEmbedder:
    """An embedder that encodes each text once, in whatever number of runs.

    Attributes:
        query_ms: For each call of `embed_query`, what encoding that query took when it was encoded,
            in milliseconds.
        waited_ms: The time spent in `embed_query` so far, kept vectors included.
    """

    def __init__(self, embedder: Embedder, cache: Cache) -> None:
        """Keep vectors apart from those of other embedders."""
        self.query_ms: list[float] = []
        self.waited_ms = 0.0
        self._embedder = embedder
        self._cache = cache
        self._encoding = threading.Lock()
        if (limit := getattr(embedder, "max_tokens", None)) is not None:
            self.max_tokens = limit  # content is split by it

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._embedder.dimensions

    @cached_property
    def identity(self) -> str:
        """What decides the vectors: the name and, as two may share it, the vectors of a fixed text."""
        vectors = (
            result_of(self._embedder.embed_documents([PROBE]))[0],
            result_of(self._embedder.embed_query(PROBE)),
        )
        # Rounded: the last digits depend on the machine.
        digits = [[f"{value:.2f}".replace("-0.00", "0.00") for value in one] for one in vectors]
        return key_of(self.name, self.dimensions, getattr(self, "max_tokens", None), digits)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors = self._vectors(
            "document", texts, lambda some: result_of(self._embedder.embed_documents(some))
        )
        return np.stack([vectors[text][0] for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        start = time.perf_counter()
        vectors = self._vectors(
            "query", [text], lambda some: result_of(self._embedder.embed_query(some[0]))[None]
        )
        vector, ms = vectors[text]
        self.query_ms.append(ms)
        self.waited_ms += (time.perf_counter() - start) * 1000
        return vector

    def timed(self, search: Callable[[], T]) -> tuple[T, float, float]:
        """Return what a search returns, the milliseconds it took, and those of them spent on encoding.

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
        known = self._cache.vectors(list(keys.values()))
        if len(known) < len(keys):
            with self._encoding:  # two threads never encode the same text
                self._encode_missing(keys, encode)
            known = self._cache.vectors(list(keys.values()))
        return {text: known[key] for text, key in keys.items()}

    def _encode_missing(
        self, keys: Mapping[str, str], encode: Callable[[Sequence[str]], Vector]
    ) -> None:
        known = self._cache.vectors(list(keys.values()))
        missing = [text for text, key in keys.items() if key not in known]
        if missing:
            start = time.perf_counter()
            rows = encode(missing)
            ms = (time.perf_counter() - start) * 1000 / len(missing)
            self._cache.add_vectors(
                {keys[text]: row for text, row in zip(missing, rows, strict=True)}, ms
            )
