"""The embedded store: Qdrant's own engine, in a folder, inside this process.

::

    <path>/<collection>/amem.json    what it was made with, how many points it had when last closed
                        forgotten    how many bytes of deleted text lie in the files, about
                        notes/       the notes with their views
                        journal/     calls, decisions and leases, so that search never pays for them
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

try:
    import fcntl
except ImportError:  # on Windows, where nobody can shorten a file that another process has open
    fcntl = None  # type: ignore[assignment]

from ..errors import ConfigurationError, StoreClosedError, StoreError, StoreFullError
from ..stored_note import StoredNote
from .bm25 import Bm25
from .folder_collection import FolderCollection, is_open_already
from .payloads import Point, decode_note
from .sidecar import AS_MADE, Sidecar, boot_id
from .store import NOTE_INDEXES, RECORD_INDEXES, Store

Durability = Literal["interval", "always"]

MEMORY = ":memory:"
FLUSH_SECONDS = 5.0
FLUSH_EVERY = (
    512  # writes; what takes the place of a point is written beside it until the next flush
)
MIN_FREE_BYTES = 256 * 2**20  # the log grows by 32 MiB at a time, for each of the two shards
NEW_BYTES = 192 * 2**20  # of a new folder with one note in it, and a little more
OPEN_BYTES = 96 * 2**20  # the engine makes a new piece of log when it opens a shard
SHM, SHM_BYTES = Path("/dev/shm"), 2**30  # noqa: S108 - files in memory, if there is much room

_COLLECTION = re.compile(r"[\w-][\w.-]*")
_SHARDS = {"notes": NOTE_INDEXES, "journal": RECORD_INDEXES}

logger = logging.getLogger(__name__)


class FolderStore(Store):
    """Notes and records in a folder; no server, no daemon. Safe to use from several threads of one process.

    What a call has written survives a killed process. A power cut can take what was written since the
    last flush, which happens with the first write after `flush_seconds`, every 512 writes (each point that is
    replaced counts as one) and at close; with `durability="always"`, at every write (some milliseconds).

    The engine holds the GIL and answers in well under a millisecond, so asynchronous callers may call
    it inline. It does not survive a fork: open the store in the child.

    Args:
        path: The folder, made if it is not there, in which several collections can live; or `":memory:"`, for a
            temporary one that goes with the store.
        dimensions: Length of the dense vectors.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection, a folder within `path`.
        durability: `"interval"` or `"always"`, see above.
        flush_seconds: Seconds between flushes.
        min_free_bytes: With less than this free on the disk a write is refused.
        bm25: How text becomes a sparse vector.
        free_bytes: Returns how much is free for the folder; None asks the system.

    Attributes:
        power_was_cut: Whether the machine went down while the folder was open, as far as anybody can tell: each shard
            may have lost other writes, so nothing is to be believed until `recovered` is called.

    Raises:
        StoreLockedError: The collection is open already, in any process.
        EmbedderMismatchError: The collection was made with another embedder, or another `bm25`.
        StoreFullError: There is too little disk space to make or open the folder safely.
        StoreError: The folder is damaged, of an earlier schema, or holds something else.
        ConfigurationError: An argument is out of its range.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        dimensions: int,
        embedder: str = "",
        collection: str = "amem",
        durability: Durability = "interval",
        flush_seconds: float = FLUSH_SECONDS,
        min_free_bytes: int = MIN_FREE_BYTES,
        bm25: Bm25 | None = None,
        free_bytes: Callable[[Path], int] | None = None,
    ) -> None:
        if dimensions < 1 or durability not in get_args(Durability):
            raise ConfigurationError(
                f"a folder wants dimensions > 0, not {dimensions!r}, "
                f"and durability one of {get_args(Durability)}, not {durability!r}"
            )
        if not _COLLECTION.fullmatch(collection):
            raise ConfigurationError(
                f"a collection is named by letters, digits, '_', '-' and '.', not {collection!r}"
            )
        bm25 = bm25 or Bm25()
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        self._is_temporary = str(path) == MEMORY
        self._durability, self._flush_seconds = durability, flush_seconds
        self._min_free_bytes, self._free_bytes = min_free_bytes, free_bytes
        place = temporary_folder() if self._is_temporary else Path(path).expanduser().absolute()
        self._path = place / collection
        self._check_room()
        self._shards = Shards(self._path, wanted, is_temporary=self._is_temporary)
        self._finalizer = weakref.finalize(self, self._shards.close)  # at exit, or dropped unclosed
        self._unflushed, self._flushed_at = 0, time.monotonic()
        both = self._shards.notes, self._shards.journal
        super().__init__(*both, dimensions=self._shards.sidecar.dimensions, bm25=bm25)

    @property
    def made_with(self) -> Mapping[str, Any]:
        """The settings that the folder was made with: `embedder`, `dimensions`, `template`, `format`, `schema`.

        `deleted_bytes` says how many bytes of text that was deleted, corrected or redacted still lie in the files,
        about: they are counted when they go from a point, once, with the names and ids round them, and from zero after
        `compact`. The engine may have written others over some of them, and may have left more than one copy.
        """
        return {**self._shards.sidecar.described(), "deleted_bytes": self._shards.forgotten}

    @property
    def where(self) -> str:
        """The folder; `":memory:"` for a temporary one."""
        return MEMORY if self._is_temporary else str(self._path)

    @property
    def power_was_cut(self) -> bool:
        """Whether the machine went down while the folder was open, and nobody has put the memory right since."""
        return self._shards.power_was_cut

    def recovered(self) -> None:
        """Note that the memory was put right after a power cut."""
        self._check_open()
        self._shards.recovered()

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder: they are written when the folder is closed, off the event loop."""
        self._check_open()
        self._shards.sidecar = replace(self._shards.sidecar, cosines=dict(cosines))

    def optimize(self) -> bool:
        """Build the graph that finds neighbours among very many notes; return whether anything was done.

        It takes minutes (100,000 notes: about two), and Python stands still meanwhile, so nothing else
        should use this process. Worth it from about 200,000 notes; exact search is quick enough below.

        Raises:
            StoreFullError: There is no room for a second copy of the notes beside the first.
        """
        self._check_open()
        with self._shards.lock:
            wanted = self._min_free_bytes + used_bytes(self._path / "notes")
            self._check_space(wanted, "optimizing")
            return self._shards.notes.optimize()

    def compact(self) -> None:
        """Write the folder anew, without what was deleted: the engine only marks it as gone.

        The copy takes the folder's place at once, so a kill leaves one of the two. It takes about as long
        as an import, and a graph made by `optimize` is gone. Other threads wait meanwhile.

        Raises:
            StoreFullError: There is no room for a second copy beside the first.
            StoreError: The copy cannot be made; everything is as it was.
        """
        with self._writing():
            self._check_space_for_copy("compacting")
            self._shards.replace_by(self._shards.sidecar, lambda points: points)

    def rebuild(
        self,
        embedder: str,
        dimensions: int,
        embedded: Callable[[Sequence[StoredNote]], Sequence[StoredNote]],
    ) -> None:
        """Let a copy with the vectors of another embedder take the place of the folder, and close the store.

        Args:
            embedder: Its name.
            dimensions: Length of its vectors.
            embedded: Returns notes with its vectors.

        Raises:
            StoreFullError: There is no room for a second copy beside the first.
            StoreError: The copy cannot be made; everything is as it was.
        """
        sidecar = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=self._bm25)

        def change(points: Sequence[Point]) -> list[Point]:
            notes = embedded([decode_note(point) for point in points])
            return [self._point_of(note) for note in notes]

        with self._writing():
            self._check_space_for_copy("embedding the notes anew")
            self._dimensions = dimensions
            self._shards.replace_by(sidecar, change)

    def flush(self) -> None:
        """Make everything written so far survive a power cut as well."""
        self._check_open()
        self._flush()

    def close(self) -> None:
        """Flush and let go of the folder; calling it again does nothing."""
        self._finalizer()

    def _check_open(self) -> None:
        if os.getpid() != self._shards.pid:
            raise StoreClosedError(
                f"the memory in {self.where} was opened before this process was forked, and the engine "
                "would hang here; open the memory after the fork"
            )
        with self._shards.lock:  # `compact` lets go of the folder for a moment
            is_open = self._shards.is_open
        if not is_open:
            raise StoreClosedError(f"the memory in {self.where} is closed; open it again")

    def _check_room(self) -> None:
        if self._is_temporary:
            return
        is_new, path = not self._path.exists(), self._path
        wanted = max(NEW_BYTES, self._min_free_bytes) if is_new else OPEN_BYTES
        left = (self._free_bytes or free_bytes)(path)
        check_space(path, wanted, left, "a new memory" if is_new else "opening it")

    def _check_space(self, wanted: int, what: str) -> None:
        path, descriptor = self._path, self._shards.descriptor
        if self._free_bytes is None and descriptor is not None:
            disk = os.fstatvfs(descriptor)
            left = disk.f_bavail * disk.f_frsize
        else:
            left = (self._free_bytes or free_bytes)(path)
        check_space(path, wanted, left, what)

    def _check_space_for_copy(self, what: str) -> None:
        self._check_space(self._min_free_bytes + max(NEW_BYTES, used_bytes(self._path)), what)

    @contextmanager
    def _writing(self, replaced: int = 0) -> Iterator[None]:
        self._check_open()
        with self._shards.lock:
            self._check_space(self._min_free_bytes, "a write (min_free_bytes)")
            yield
            self._unflushed += replaced or 1
            waited = time.monotonic() - self._flushed_at
            is_due = self._unflushed >= FLUSH_EVERY or waited >= self._flush_seconds
            if self._durability == "always" or (is_due and not self._is_temporary):
                self._flush()

    def _flush(self) -> None:
        self._shards.flush()
        self._unflushed, self._flushed_at = 0, time.monotonic()


class Shards:
    """The two open shards of a folder, and the process they belong to.

    Args:
        path: The folder, made now if it is not there.
        wanted: What the caller would make it with.
        is_temporary: Whether the folder goes with its process.

    Raises:
        StoreLockedError: It is open already.
        EmbedderMismatchError: It was made with another embedder.
        StoreError: It is damaged, of an earlier schema, or no memory of ours.
    """

    def __init__(self, path: Path, wanted: Sidecar, *, is_temporary: bool) -> None:
        self.path, self.pid, self._is_temporary = path, os.getpid(), is_temporary
        self.lock = threading.RLock()
        self.is_open = False
        self.descriptor: int | None = None
        self.counter: int | None = None  # the open file that says how many bytes are forgotten
        self.notes, self.journal = _shards(path, self.lock, self._count)
        settle(path)
        if is_temporary:
            path.mkdir(parents=True)
            self.sidecar = wanted
            self.notes.create(dimensions=wanted.dimensions, is_temporary=True)
            self.journal.create(dimensions=None, is_temporary=True)
            self._open_descriptors()
        else:
            if not path.exists():
                if wanted.embedder == AS_MADE:
                    raise StoreError(f"there is no memory in {path}")
                _create(path, wanted)
            self.sidecar = Sidecar.read(path / "amem.json")
            self.sidecar.check(wanted, str(path))
            self._open_descriptors()
            self._load()
        self.power_was_cut = self.sidecar.power_was_cut and not is_temporary
        self.forgotten = _read_number(path / "forgotten")
        try:
            self._note_opening()
        except StoreError:
            self._let_go()
            raise

    def _load(self) -> None:
        try:
            self.notes.load()
            try:
                self.journal.load()
            except StoreError:
                self.notes.close()
                raise
        except StoreError:
            self._close_descriptors()
            raise
        self.is_open = True

    def _note_opening(self) -> None:
        """Compare the counts with those of the last close, and say in the folder that it is open."""
        self.is_open = True
        if self._is_temporary:
            return
        # Read again now that nobody else has it open: only now are the counts those of the last close.
        self.sidecar = Sidecar.read(self.path / "amem.json")
        recorded = self.sidecar.closed or {}
        for name, shard in self._named():
            if (found := shard.count()) < recorded.get(name, 0):
                logger.warning(
                    "%s: %d of %d points are missing in %s; restore a backup if they matter",
                    self.path, recorded[name] - found, recorded[name], name,
                )  # fmt: skip
        shutil.rmtree(_draft(self.path), ignore_errors=True)  # by a process that was killed
        boot = "" if self.power_was_cut else boot_id()
        self.notes.was_killed = self.sidecar.closed is None
        self.sidecar = replace(self.sidecar, closed=None, boot=boot)
        self.sidecar.write(self.path / "amem.json")

    def recovered(self) -> None:
        """Say in the folder that the memory was put right."""
        with self.lock:
            if self.power_was_cut:
                self.flush()
                self.sidecar = replace(self.sidecar, boot=boot_id())
                self.sidecar.write(self.path / "amem.json")
                self.power_was_cut = False

    def flush(self) -> None:
        """Make everything written so far survive a power cut."""
        for _, shard in self._named():
            shard.flush()

    def close(self) -> None:
        """Flush, note the counts, let go; nothing in a forked child, whose parent may go on writing.

        A folder that is to be put right after a power cut still is when it is opened again.
        """
        if os.getpid() != self.pid:
            return
        with self.lock:
            if not self.is_open:
                return
            if self._is_temporary:
                self._let_go()
                shutil.rmtree(self.path.parent, ignore_errors=True)
                return
            if not self.path.exists():
                logger.warning(
                    "%s was removed while it was open; what was in it is lost", self.path
                )
                self._let_go()
                return
            counts = {name: shard.count() for name, shard in self._named()}
            self._let_go(flush=True)
            closed = None if self.power_was_cut else counts
            replace(self.sidecar, closed=closed).write(self.path / "amem.json")

    def replace_by(
        self, sidecar: Sidecar, change: Callable[[Sequence[Point]], Sequence[Point]]
    ) -> None:
        """Let a copy without the bytes of what was deleted take the place of this folder, and open the copy.

        Args:
            sidecar: What the copy is made with.
            change: Returns the points of notes as they are to be in the copy.
        """
        draft = _draft(self.path)
        shutil.rmtree(draft, ignore_errors=True)
        counts = self._copy(draft, sidecar.dimensions, change)
        if not self._is_temporary:
            closed = None if self.power_was_cut else counts
            replace(sidecar, closed=closed).write(draft / "amem.json")
        self.flush()
        # Windows moves no open files; elsewhere nobody can open the old one before this process has let go of it.
        if os.name == "nt":
            self._let_go()
        try:
            put_in_place(draft, self.path)
        finally:
            self._let_go()
            self._open_descriptors()
            self._load()
            self._note_opening()
        self.forgotten = 0

    def _copy(
        self,
        draft: Path,
        dimensions: int,
        change: Callable[[Sequence[Point]], Sequence[Point]],
    ) -> dict[str, int]:
        """Write all points into a new folder, close that, and return how many there are."""
        notes, journal = _shards(draft, threading.RLock())
        counts = {}
        try:
            notes.create(dimensions=dimensions)
            journal.create(dimensions=None)
            for name, old, new, made in (
                ("notes", self.notes, notes, change),
                ("journal", self.journal, journal, list),
            ):
                for page in filter(None, old.pages(vectors=True)):
                    new.insert(made(page))
                counts[name] = new.count()
                new.close()
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return counts

    def _named(self) -> Iterator[tuple[str, FolderCollection]]:
        # Decisions cannot be made anew from anything else: they are flushed first.
        yield "journal", self.journal
        yield "notes", self.notes

    def _let_go(self, *, flush: bool = False) -> None:
        if self.is_open:
            self.is_open = False
            for _, shard in self._named():
                shard.close(flush=flush)
            self._close_descriptors()

    def _open_descriptors(self) -> None:
        """Open what every write looks at or writes: to look paths up would make an event loop wait for the disk.

        Raises:
            StoreLockedError: The folder is open already.
        """
        self.descriptor = locked(self.path)
        if self.descriptor is not None:
            self.counter = os.open(self.path / "forgotten", os.O_RDWR | os.O_CREAT, 0o600)

    def _close_descriptors(self) -> None:
        unlock(self.descriptor)
        if self.counter is not None:
            os.close(self.counter)
        self.descriptor = self.counter = None

    def _count(self, gone: int) -> None:
        if gone:
            self.forgotten += gone
            if self.counter is not None:
                with suppress(OSError):  # it is an estimate
                    os.pwrite(self.counter, f"{self.forgotten:<20}".encode(), 0)


def _shards(
    path: Path,
    lock: AbstractContextManager[bool],
    forgotten: Callable[[int], None] = lambda _: None,
) -> tuple[FolderCollection, FolderCollection]:
    """Return the shards of a folder, which are not open yet."""
    notes, journal = (
        FolderCollection(path / name, indexes, lock, forgotten) for name, indexes in _SHARDS.items()
    )
    return notes, journal


def point_counts(path: Path) -> dict[str, int]:
    """Return how many points a closed folder has in each shard, and how many `empty` ones a refused write left."""
    counts = {}
    descriptor = locked(path)
    try:
        for name, shard in zip(_SHARDS, _shards(path, threading.RLock()), strict=True):
            shard.load()
            counts[name] = shard.count()
            counts["empty"] = counts.get("empty", 0) + counts[name] - len(shard.scroll(None))
            shard.close()
    finally:
        unlock(descriptor)
    return counts


def locked(path: Path) -> int | None:
    """Return the descriptor of a folder that nobody else opens until `unlock`; None on Windows.

    The engine has a lock of its own, and looks at it when it has cut off already what it takes for the torn ends of files.

    Raises:
        StoreLockedError: The folder is open already.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise is_open_already(path) from error
    except OSError:  # a file system without such locks, as some in a network
        logger.debug("%s cannot be locked", path)
    return descriptor


def unlock(descriptor: int | None) -> None:
    """Let others open a folder, also where a forked child has the descriptor too."""
    if descriptor is None:
        return
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


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
    finally:
        settle(path)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}-compact")


def _before(path: Path) -> Path:
    return path.with_name(f".{path.name}-before")  # no collection has such a name


def _create(path: Path, sidecar: Sidecar) -> None:
    """Make a folder aside and move it into place whole: a half-made one is never seen."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise StoreError(f"cannot make a folder for the memory in {path}: {error}") from error
    try:
        notes, journal = _shards(draft, threading.RLock())
        notes.create(dimensions=sidecar.dimensions)
        journal.create(dimensions=None)
        notes.close()
        journal.close()
        replace(sidecar, closed={}).write(draft / "amem.json")
        draft.rename(path)
    except OSError as error:
        if not path.exists():  # else another process was faster
            raise StoreError(f"cannot make a folder for the memory in {path}: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def temporary_folder() -> Path:
    """Return a new folder for `":memory:"`, in memory if there is room; those of dead processes are removed first."""
    roomy = os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free > SHM_BYTES
    place = SHM if roomy else Path(tempfile.gettempdir())
    for old in place.glob("amem-memory-*"):
        pid = old.name.split("-")[2]
        if pid.isdigit() and not _is_running(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"amem-memory-{os.getpid()}-", dir=place))


def _is_running(pid: int) -> bool:
    if os.name == "nt":
        return True  # there a signal would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def check_space(path: Path, wanted: int, left: int, what: str) -> None:
    """Raise `StoreFullError` if less is `left` than `what` wants: a full disk would kill the process."""
    if left < wanted:
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
