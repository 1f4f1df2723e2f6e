"""Replies of models and vectors of embedders in a SQLite file, so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import numpy as np

from amem_integrations.errors import InvalidInputError
from amem_integrations.ports import ChatModel, Completion, Embedder, ModelRequest
from amem_integrations.runtime import resolve, run
from amem_integrations.stored_note import Vector

FILE = "cache.sqlite"
PROBE = "Seven grey herons stood in the shallow water that morning."

_TIMEOUT_S = 30.0  # to wait for another process that is writing
_TABLE = (
    "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
)
_SELECT = "SELECT key, value FROM entries WHERE key IN (SELECT value FROM json_each(?))"


def key_of(*parts: object) -> str:
    """Return a key of JSON values and times; equal for equal values, different for all others."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """Values under keys in one SQLite file; safe in many threads, and shared by several processes."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open the file in `folder`, or create it, or keep all in memory; one that is no cache is an `InvalidInputError`."""
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._path = folder / FILE if folder else ":memory:"
        with self._locked():
            self._file = sqlite3.connect(
                self._path, timeout=_TIMEOUT_S, isolation_level="IMMEDIATE", check_same_thread=False
            )
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute(_TABLE)

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values kept under some keys."""
        wanted = json.dumps(list(keys))  # one parameter, since SQLite limits their number
        with self._locked():
            return dict(self._file.execute(_SELECT, [wanted]).fetchall())

    def add(self, values: Mapping[str, bytes]) -> None:
        """Keep values, all or none; an earlier one under the same key stays."""
        with self._locked(), self._file:
            self._file.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", values.items())

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        with self._lock:
            self._file.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:  # it is damaged, read-only, or locked by another process
                raise InvalidInputError(
                    f"{str(self._path)!r} cannot be used ({error}); delete it to start again, or name "
                    "another --cache"
                ) from error


class CachedModel:
    """A chat model whose replies are kept; tokens of a kept reply count as if it had been asked for."""

    def __init__(self, model: ChatModel, cache: Cache, *, identity: str) -> None:
        """Keep replies apart from those of models of another `identity`: name, endpoint, temperature."""
        self.name = str(getattr(model, "name", type(model).__name__))
        self._model, self._cache, self._identity = model, cache, identity

    def generate(self, request: ModelRequest) -> Completion:
        """Return the kept reply, else the model's, if it gives one."""
        key = key_of(
            self._identity, request.system, request.prompt, request.reply.model_json_schema()
        )
        if not (known := self._cache.get([key])):
            reply = asdict(run(resolve(self._model.generate(request))))
            self._cache.add({key: json.dumps(reply).encode()})
            # Read again: two threads that asked at the same time must go on with the same reply.
            known = self._cache.get([key])
        return Completion(**json.loads(known[key]))


class CachedEmbedder:
    """An embedder that encodes each text once, in any number of runs."""

    def __init__(self, embedder: Embedder, cache: Cache) -> None:
        """Keep vectors apart from those of other embedders."""
        self.name, self.dimensions = embedder.name, embedder.dimensions
        self._embedder, self._cache = embedder, cache
        self._encoding = threading.Lock()
        if (limit := getattr(embedder, "max_tokens", None)) is not None:
            self.max_tokens = limit  # content is split by it

    @cached_property
    def identity(self) -> str:
        """What decides the vectors: the name and, as two may share it, the vectors of a fixed text."""
        vectors = np.stack([self._encoded(role, [PROBE]) for role in ("document", "query")])
        digits = (vectors.round(2) + 0.0).tolist()  # the last ones depend on the machine; no -0
        return key_of(self.name, self.dimensions, getattr(self, "max_tokens", None), digits)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        return self._vectors("document", texts)

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return np.asarray(self._vectors("query", [text])[0])

    def _encoded(self, role: str, texts: Sequence[str]) -> Vector:
        if role == "document":
            return run(resolve(self._embedder.embed_documents(texts)))
        return np.stack([run(resolve(self._embedder.embed_query(text))) for text in texts])

    def _vectors(self, role: str, texts: Sequence[str]) -> Vector:
        keys = {text: key_of("vector", self.identity, role, text) for text in texts}
        with self._encoding:  # two threads never encode the same text
            known = self._cache.get(list(keys.values()))
            if missing := [text for text, key in keys.items() if key not in known]:
                rows = np.asarray(self._encoded(role, missing), dtype=np.float32)
                made = {keys[text]: row.tobytes() for text, row in zip(missing, rows, strict=True)}
                self._cache.add(made)
                known |= made
        found = [np.frombuffer(known[keys[text]], dtype=np.float32) for text in texts]
        return np.stack(found) if found else np.empty((0, self.dimensions), dtype=np.float32)
