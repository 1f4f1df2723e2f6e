"""An open folder with two shards in it: how it is made, opened, flushed and closed.

::

    <path>/<collection>/amem.json    what it was made with, how many points it had when last closed
                        notes/       the notes
                        history/     their changes, so that search never pays for them
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ..errors import StoreError, StoreFullError
from .collection import CHANGE_INDEXES, NOTE_INDEXES
from .edge_shard import EdgeShard
from .sidecar import Sidecar

Durability = Literal["interval", "always"]

FLUSH_EVERY = 256  # writes
REINDEXED = ".reindex"  # ends the name of a collection that `reindex` is building anew

logger = logging.getLogger(__name__)


class Folder:
    """Two open shards, the process they belong to, and when they were last flushed."""

    def __init__(self, path: Path, sidecar: Sidecar, notes: EdgeShard, history: EdgeShard) -> None:
        self.path, self.notes, self.history = path, notes, history
        self.was_closed = sidecar.closed is not None
        self.sidecar = sidecar
        self._pid = os.getpid()
        self._open = True
        self._unflushed = 0
        self._flushed_at = time.monotonic()

    @classmethod
    def open(cls, path: Path, wanted: Sidecar) -> Folder:
        """Return the folder, made now if it is not there.

        Raises:
            StoreLockedError: It is open already.
            EmbedderMismatchError: It was made with another embedder.
            StoreError: It is damaged, or no memory of ours.
        """
        settle(path)
        if not path.exists():
            _create(path, wanted)
        Sidecar.read(path / "amem.json").check(wanted, str(path))
        notes = EdgeShard.load(path / "notes", NOTE_INDEXES)
        try:
            history = EdgeShard.load(path / "history", CHANGE_INDEXES)
        except StoreError:
            notes.close()
            raise
        try:
            # Read again now that nobody else has it open: only now are the counts those of the last close.
            sidecar = Sidecar.read(path / "amem.json")
            folder = cls(path, sidecar, notes, history)
            folder._compare_counts()
            shutil.rmtree(_draft(path), ignore_errors=True)  # by a process that was killed
            sidecar.with_counts(None).write(path / "amem.json")
        except StoreError:
            history.close()
            notes.close()
            raise
        return folder

    def check(self) -> None:
        """Raise `StoreError` if the shards are closed, or belong to the process this one was forked from."""
        if os.getpid() != self._pid:
            raise StoreError(
                f"the memory in {self.path} was opened before this process was forked, and the engine "
                "would hang here; open the memory after the fork"
            )
        if not self._open:
            raise StoreError(f"the memory in {self.path} is closed; open it again")

    def wrote(self, durability: Durability, flush_seconds: float) -> None:
        """Note that something was written, and flush if it is time to."""
        self._unflushed += 1
        waited = time.monotonic() - self._flushed_at
        if durability == "always" or self._unflushed >= FLUSH_EVERY or waited >= flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Make what was written survive a power cut, the history first as in writing."""
        self.history.flush()
        self.notes.flush()
        self._unflushed = 0
        self._flushed_at = time.monotonic()

    def close(self, *, clean: Callable[[], bool] = lambda: True) -> None:
        """Flush, note the counts, let go; nothing in a forked child, whose parent may go on writing.

        Where it is not `clean`, it looks as if the process had been killed: the next one that opens it
        finishes what was left.
        """
        if not self._open or os.getpid() != self._pid:
            return
        if not self.path.exists():
            logger.warning("%s was removed while it was open; what was in it is lost", self.path)
            self._let_go()
            return
        self._open = False
        counts = {"notes": self.notes.count(), "history": self.history.count()}
        self.history.close()
        self.notes.close()
        if clean():
            self.sidecar.with_counts(counts).write(self.path / "amem.json")

    def compact(self) -> None:
        """Let a copy without the bytes of what was deleted take the place of this folder, and close this."""
        draft = _draft(self.path)
        self._copy_to(draft)
        self.flush()
        if os.name == "nt":  # moves no open files; elsewhere nobody can open the old one meanwhile
            self._let_go()
        try:
            put_in_place(draft, self.path)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            self.history.close(flush=False)
            self.notes.close(flush=False)

    def _copy_to(self, draft: Path) -> None:
        """Write all points into a new folder, and close that."""
        counts = {}
        copies = _create_shards(draft, self.sidecar.dimensions)
        for (name, copy), shard in zip(copies.items(), (self.notes, self.history), strict=True):
            for page in filter(None, shard.pages(vectors=True)):
                copy.upsert(page)
            counts[name] = copy.count()
            copy.close()
        self.sidecar.with_counts(counts).write(draft / "amem.json")

    def _compare_counts(self) -> None:
        recorded = self.sidecar.closed or {}
        for name, shard in (("notes", self.notes), ("history", self.history)):
            if (found := shard.count()) < recorded.get(name, 0):
                logger.warning(
                    "%s: %d of %d points are missing in %s; restore a backup if they matter",
                    self.path, recorded[name] - found, recorded[name], name,
                )  # fmt: skip


def settle(path: Path) -> None:
    """Finish or take back a replacement of this folder by `put_in_place` that was interrupted."""
    before = _before(path)
    if before.exists() and path.exists():
        shutil.rmtree(before, ignore_errors=True)
    elif before.exists():
        before.rename(path)


def put_in_place(draft: Path, path: Path) -> None:
    """Let a closed folder take the place of another, or raise `StoreError`.

    The old one is then still there, or will be when it is next opened.
    """
    try:
        path.rename(_before(path))
        draft.rename(path)
    except OSError as error:
        raise StoreError(f"{draft} cannot be moved to {path}: {error}") from error
    settle(path)


def has_draft(path: Path) -> bool:
    """Return whether an interrupted `reindex` has left its draft beside a collection."""
    return path.with_name(path.name + REINDEXED).exists()


def remove_draft(path: Path) -> None:
    """Remove what an interrupted `reindex` left beside a collection, or raise `StoreError`."""
    draft = path.with_name(path.name + REINDEXED)
    try:
        shutil.rmtree(draft)
    except OSError as error:
        raise StoreError(f"{draft} cannot be removed: {error}; remove it") from error


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}-compact")


def _before(path: Path) -> Path:
    return path.with_name(f".{path.name}-before")  # no collection has such a name


def check_space(path: Path, wanted: int, free: Callable[[Path], int], what: str) -> None:
    """Raise `StoreFullError` if less is free than `what` wants: a full disk would kill the process."""
    if (left := free(path)) < wanted:
        raise StoreFullError(
            f"only {left / 2**20:.0f} MiB are free for {path}, and {what} wants "
            f"{wanted / 2**20:.0f} MiB; nothing was written: make room"
        )


def free_bytes(path: Path) -> int:
    """Return how much can still be written to the disk of a folder, or to that where it is to be."""
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def used_bytes(path: Path) -> int:
    """Return how much of the disk the files in a folder take; they have holes."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def _create_shards(path: Path, dimensions: int) -> dict[str, EdgeShard]:
    notes = EdgeShard.create(path / "notes", NOTE_INDEXES, dimensions=dimensions)
    history = EdgeShard.create(path / "history", CHANGE_INDEXES, dimensions=None)
    return {"notes": notes, "history": history}


def _create(path: Path, sidecar: Sidecar) -> None:
    """Make a folder aside and move it into place whole: a half-made one is never seen."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise StoreError(f"cannot make a folder for the memory in {path}: {error}") from error
    try:
        for shard in _create_shards(draft, sidecar.dimensions).values():
            shard.close()
        sidecar.with_counts({}).write(draft / "amem.json")
        draft.rename(path)
    except OSError as error:
        if not path.exists():  # else another process was faster
            raise StoreError(f"cannot make a folder for the memory in {path}: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
