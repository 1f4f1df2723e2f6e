"""A file of replies and vectors under keys."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...errors import InvalidInputError
from ...ports import Completion, Vector

FILE = "kept.sqlite"
WAIT_S = 30.0  # for another process that is writing
_AT_ONCE = 500  # keys in one query; SQLite takes at least 999

_TABLES = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, ms REAL NOT NULL) WITHOUT ROWID;
"""


def key_of(*parts: object) -> str:
    """Return a key of JSON values and times: the same for the same values, and only for these."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Kept:
    """Replies and vectors in one SQLite file, each kept before it is used; safe in many threads.

    A killed process loses nothing that was kept. Several processes may share a file.
    """

    def __init__(self, folder: Path) -> None:
        """Open the file in `folder`, or make it.

        Raises:
            InvalidInputError: What is there is no such file.
            OSError: The folder cannot be made.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        file = folder / FILE
        try:
            self._file = sqlite3.connect(
                file, timeout=WAIT_S, isolation_level=None, check_same_thread=False
            )
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise _unusable(file, error) from error
        self._path = file

    def reply(self, key: str) -> Completion | None:
        """Return the reply kept under a key, if there is one."""
        with self._used():
            row = self._file.execute(
                "SELECT text, input_tokens, output_tokens FROM replies WHERE key = ?", (key,)
            ).fetchone()
        return Completion(text=row[0], input_tokens=row[1], output_tokens=row[2]) if row else None

    def keep_reply(self, key: str, reply: Completion) -> None:
        """Keep a reply; one that is there already stays."""
        with self._used():
            self._file.execute(
                "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?)",
                (key, reply.text, reply.input_tokens, reply.output_tokens),
            )

    def vectors(self, keys: Sequence[str]) -> dict[str, tuple[Vector, float]]:
        """Return the vectors kept under some keys, each with the milliseconds it once took."""
        return dict(self._vectors(keys))

    def _vectors(self, keys: Sequence[str]) -> Iterator[tuple[str, tuple[Vector, float]]]:
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            query = f"SELECT key, vector, ms FROM vectors WHERE key IN ({marks})"  # noqa: S608 - marks only
            with self._used():
                rows = self._file.execute(query, list(some)).fetchall()
            for key, vector, ms in rows:
                yield key, (np.frombuffer(vector, dtype=np.float32), ms)

    def keep_vectors(self, vectors: Mapping[str, Vector], ms: float) -> None:
        """Keep vectors that took `ms` milliseconds each."""
        rows: Iterable[tuple[str, bytes, float]] = (
            (key, np.asarray(vector, dtype=np.float32).tobytes(), ms)
            for key, vector in vectors.items()
        )
        with self._used(), self._transaction():
            self._file.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        with self._lock:
            self._file.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Let one thread at a time use the file.

        Raises:
            InvalidInputError: It is damaged, cannot be written, or another process holds it for long.
        """
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise _unusable(self._path, error) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")


def _unusable(file: Path, error: sqlite3.Error) -> InvalidInputError:
    return InvalidInputError(
        f"{str(file)!r} cannot be used ({error}); delete it to start anew, or name another --cache"
    )
