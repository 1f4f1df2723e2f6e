"""An open folder with two shards in it: how it is made, opened, copied and closed.

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
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ..errors import StoreError
from .collection import CHANGE_INDEXES, NOTE_INDEXES
from .edge_shard import EdgeShard
from .sidecar import Sidecar

REINDEXED = ".reindex"  # ends the name of a collection that `reindex` is building anew

logger = logging.getLogger(__name__)


class Folder:
    """Two open shards, and the process they belong to."""

    def __init__(self, path: Path, sidecar: Sidecar, notes: EdgeShard, history: EdgeShard) -> None:
        self.path, self.sidecar, self.notes, self.history = path, sidecar, notes, history
        self.pid = os.getpid()
        self.is_open = True
        # Looking up the path for every write would make an event loop wait for the disk.
        self.descriptor = os.open(path, os.O_RDONLY) if hasattr(os, "fstatvfs") else None

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
        sidecar = Sidecar.read(path / "amem.json")
        sidecar.check(wanted, str(path))
        notes = EdgeShard.load(path / "notes", NOTE_INDEXES)
        try:
            history = EdgeShard.load(path / "history", CHANGE_INDEXES)
        except StoreError:
            notes.close()
            raise
        folder = cls(path, sidecar, notes, history)
        try:
            # Read again now that nobody else has it open: only now are the counts those of the last close.
            folder.sidecar = Sidecar.read(path / "amem.json")
            folder._compare_counts()
            shutil.rmtree(_draft(path), ignore_errors=True)  # by a process that was killed
            replace(folder.sidecar, closed=None).write(path / "amem.json")
        except StoreError:
            folder._let_go()
            raise
        return folder

    @property
    def was_closed(self) -> bool:
        """Whether the process that had it open before closed it."""
        return self.sidecar.closed is not None

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder: they are written when the folder is closed, off the event loop."""
        self.sidecar = replace(self.sidecar, cosines=dict(cosines))

    def close(self, *, clean: Callable[[], bool] = lambda: True) -> None:
        """Flush, note the counts, let go; nothing in a forked child, whose parent may go on writing.

        Where it is not `clean`, it looks as if the process had been killed: the next one that opens it
        finishes what was left.
        """
        if not self.is_open or os.getpid() != self.pid:
            return
        if not self.path.exists():
            logger.warning("%s was removed while it was open; what was in it is lost", self.path)
            self._let_go()
            return
        counts = {"notes": self.notes.count(), "history": self.history.count()}
        self._let_go(flush=True)
        if clean():
            replace(self.sidecar, closed=counts).write(self.path / "amem.json")

    def compact(self) -> None:
        """Let a copy without the bytes of what was deleted take the place of this folder, and close this."""
        draft = _draft(self.path)
        self._copy_to(draft)
        self.history.flush()
        self.notes.flush()
        if os.name == "nt":  # moves no open files; elsewhere nobody can open the old one meanwhile
            self._let_go()
        try:
            put_in_place(draft, self.path)
        finally:
            self._let_go()

    def _let_go(self, *, flush: bool = False) -> None:
        if self.is_open:
            self.is_open = False
            if self.descriptor is not None:
                os.close(self.descriptor)
            self.history.close(flush=flush)
            self.notes.close(flush=flush)

    def _copy_to(self, draft: Path) -> None:
        """Write all points into a new folder, and close that."""
        counts = {}
        copies = _create_shards(draft, self.sidecar.dimensions)
        for (name, copy), shard in zip(copies.items(), (self.notes, self.history), strict=True):
            for page in filter(None, shard.pages(vectors=True)):
                copy.upsert(page)
            counts[name] = copy.count()
            copy.close()
        replace(self.sidecar, closed=counts).write(draft / "amem.json")

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
        replace(sidecar, closed={}).write(draft / "amem.json")
        draft.rename(path)
    except OSError as error:
        if not path.exists():  # else another process was faster
            raise StoreError(f"cannot make a folder for the memory in {path}: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
