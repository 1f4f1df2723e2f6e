"""The embedded store: Qdrant's own engine, in a folder, inside this process.

::

    <path>/<collection>/amem.json    what it was made with, how many points it had when last closed
                        forgotten    how many bytes of deleted text lie in the files, about
                        notes/       the notes with their views
                        journal/     calls, decisions and leases, so that search never pays for them
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
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
from .conditions import Filters
from .folder_collection import FolderCollection, is_open_already
from .payloads import Point, decode_note
from .sidecar import Sidecar, boot_id
from .store import NOTE_INDEXES, RECORD_INDEXES, Store

Durability = Literal["interval", "always"]

MEMORY = ":memory:"
FLUSH_SECONDS = 5.0
FLUSH_EVERY = 512  # writes; until then what takes the place of a point is written beside it
MIN_FREE_BYTES = 256 * 2**20  # the log grows by 32 MiB at a time, for each of the two shards
NEW_BYTES = 192 * 2**20  # of a new folder with one note in it, and a little more
TRIES, TRY_SECONDS = 200, 0.01  # for the moment in which a folder is opened, made or moved
OPEN_BYTES = 96 * 2**20  # the engine makes a new piece of log when it opens a shard
SHM, SHM_BYTES = Path("/dev/shm"), 2**30  # noqa: S108 - files in memory, if there is much room

_SHARDS = {"notes": NOTE_INDEXES, "journal": RECORD_INDEXES}

logger = logging.getLogger(__name__)


class FolderStore(Store):
    """Notes and records in a folder; no server, no daemon. Safe to use from several threads of one process.

    What a call has written survives a killed process. A power cut can take what was written since the
    last flush, which happens with the first write after five seconds, every 512 writes (each point that is
    replaced counts as one) and at close; with `durability="always"`, at every write (some milliseconds).

    The engine holds the GIL and answers in well under a millisecond, so asynchronous callers may call
    it inline. It does not survive a fork: open the store in the child.

    Args:
        path: The folder, made if it is not there, in which several collections can live; or `":memory:"`, for a
            temporary one that goes with the store.
        dimensions: Length of the dense vectors; None to open what is there, whatever it was made with: what is then
            written to it must be of that embedder.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection, a folder within `path`.
        durability: `"interval"` or `"always"`, see above.
        min_free_bytes: With less than this free on the disk a write is refused.

    Attributes:
        power_was_cut: Whether the machine went down while the folder was open, as far as anybody can tell: each shard
            may have lost other writes, so nothing is to be believed until `recovered` is called.

    Raises:
        StoreLockedError: The collection is open already, in any process.
        EmbedderMismatchError: The collection was made with another embedder, or weighs words otherwise.
        StoreFullError: There is too little disk space to make or open the folder safely.
        StoreError: The folder is damaged, of an earlier schema, or holds something else.
        ConfigurationError: An argument is out of its range.
    """

    _notes: FolderCollection
    _records: FolderCollection
    _is_open, _pid = False, 0  # until the folder is found to be ours
    _descriptor: int | None = None  # of the folder while it is open
    _counter: int | None = None  # of its file that says how many bytes are forgotten

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        dimensions: int | None = None,
        embedder: str = "",
        collection: str = "amem",
        durability: Durability = "interval",
        min_free_bytes: int = MIN_FREE_BYTES,
    ) -> None:
        if (dimensions is not None and dimensions < 1) or durability not in get_args(Durability):
            raise ConfigurationError(
                f"a folder wants dimensions > 0, not {dimensions!r}, "
                f"and durability one of {get_args(Durability)}, not {durability!r}"
            )
        if not re.fullmatch(r"[\w-][\w.-]*", collection):
            raise ConfigurationError(
                f"a collection is named by letters, digits, '_', '-' and '.', not {collection!r}"
            )
        wanted = None if dimensions is None else Sidecar.made(embedder, dimensions)
        self._durability, self._min_free_bytes = durability, min_free_bytes
        self._unflushed, self._flushed_at = 0, time.monotonic()
        self._is_temporary, self._pid = str(path) == MEMORY, os.getpid()
        place = temporary_folder() if self._is_temporary else Path(path).expanduser().absolute()
        self._path, self._lock, self._forgotten = place / collection, threading.RLock(), 0
        if self._path.is_symlink():
            # The files that are written anew take the place of the old ones, and not of the link to them.
            self._path = self._path.resolve()
        self._held = ExitStack()  # closes the shards
        shards = _closed_shards(self._path, self._lock)
        super().__init__(*shards, dimensions=dimensions or 0, filters=Filters())
        if self._is_temporary and wanted:
            self._sidecar = wanted
            for shard, size in zip(shards, (dimensions, None), strict=True):
                shard.create(dimensions=size, is_temporary=True)
                self._held.callback(shard.close)
            self._open_descriptors(self._held, locked(self._path))
            self._is_open = True
        else:
            self._find(wanted)
        _open_stores.add(self)

    def _find(self, wanted: Sidecar | None) -> None:
        """Open the folder; it is made as `wanted` if it is not there."""
        if self._path.exists():
            self._check_space(OPEN_BYTES, "opening it")
        elif wanted:
            self._check_space(max(NEW_BYTES, self._min_free_bytes), "a new memory")
        with placing(self._path):
            made = description(self._path, wanted)
            if wanted is not None:
                made.check(wanted, str(self._path))
            lock = locked(self._path)
        self._open(lock)
        self._dimensions = made.dimensions
        with suppress(OSError, ValueError):
            self._forgotten = int((self._path / "forgotten").read_text())

    def _open(self, lock: int | None) -> None:
        """Open the shards, compare their counts with those of the last close, and say in the folder that it is open."""
        with ExitStack() as opened:
            self._open_descriptors(opened, lock)
            for _, shard in self._shards():
                shard.load()
                opened.callback(shard.close)
            # Nobody else has it open: only now are the counts those of the last close.
            sidecar = Sidecar.read(self._path / "amem.json")
            for name, shard in self._shards():
                before, found = (sidecar.closed or {}).get(name, 0), shard.count()
                if found < before:
                    logger.warning(
                        "%s: %d of %d points are missing in %s; restore a backup if they matter",
                        self._path, before - found, before, name,
                    )  # fmt: skip
            shutil.rmtree(_draft(self._path), ignore_errors=True)  # by a process that was killed
            self.power_was_cut = sidecar.power_was_cut
            self._notes.was_killed = sidecar.closed is None
            boot = "" if self.power_was_cut else boot_id()
            self._sidecar = replace(sidecar, closed=None, boot=boot)
            self._sidecar.write(self._path / "amem.json")
            self._held = opened.pop_all()
        self._is_open = True

    def _open_descriptors(self, opened: ExitStack, lock: int | None) -> None:
        """Open what every write looks at or writes: to look paths up would make an event loop wait for the disk."""
        self._descriptor, self._counter = lock, None
        opened.callback(unlock, self._descriptor)
        if self._descriptor is not None:
            self._counter = os.open(self._path / "forgotten", os.O_RDWR | os.O_CREAT, 0o600)
            opened.callback(os.close, self._counter)

    @property
    def made_with(self) -> Mapping[str, Any]:
        """The settings that the folder was made with: `embedder`, `dimensions`, `template`, `format`, `schema`.

        `deleted_bytes` says how many bytes of text that was deleted, corrected or redacted still lie in the files,
        about: they are counted when they go from a point, once, with the names and ids round them, and from zero after
        `compact`. The engine may have written others over some of them, and may have left more than one copy.
        """
        return {**self._sidecar.described(), "deleted_bytes": self._forgotten}

    @property
    def where(self) -> str:
        """The folder; `":memory:"` for a temporary one."""
        return MEMORY if self._is_temporary else str(self._path)

    def recovered(self) -> None:
        """Note that the memory was put right after a power cut."""
        self._check_open()
        with self._lock:
            if self.power_was_cut:
                self._flush()
                self._sidecar = replace(self._sidecar, boot=boot_id())
                self._sidecar.write(self._path / "amem.json")
                self.power_was_cut = False

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder: they are written when the folder is closed, off the event loop."""
        self._check_open()
        self._sidecar = replace(self._sidecar, cosines=dict(cosines))

    def optimize(self) -> bool:
        """Build the graph that finds neighbours among very many notes; return whether anything was done.

        It takes minutes (100,000 notes: about two), and Python stands still meanwhile, so nothing else
        should use this process. Worth it from about 200,000 notes; exact search is quick enough below.

        Raises:
            StoreFullError: There is no room for a second copy of the notes beside the first.
        """
        self._check_open()
        with self._lock:
            self._check_space(self._min_free_bytes + used_bytes(self._path / "notes"), "optimizing")
            return self._notes.optimize()

    def compact(self) -> None:
        """Write the folder anew, without what was deleted: the engine only marks it as gone.

        The copy takes the folder's place at once, so a kill leaves one of the two. It takes about as long
        as an import, and a graph made by `optimize` is gone. Other threads wait meanwhile.

        Raises:
            StoreFullError: There is no room for a second copy beside the first.
            StoreError: The copy cannot be made; everything is as it was.
        """
        self._rewrite("compacting", self._sidecar, list)

    def rebuild(
        self,
        embedder: str,
        dimensions: int,
        embedded: Callable[[Sequence[StoredNote]], Sequence[StoredNote]],
    ) -> None:
        """Let a copy with the vectors of another embedder take the place of the folder.

        Args:
            embedder: Its name.
            dimensions: Length of its vectors.
            embedded: Returns notes with its vectors.

        Raises:
            StoreFullError: There is no room for a second copy beside the first.
            StoreError: The copy cannot be made; everything is as it was.
        """
        self._dimensions = dimensions

        def change(points: Sequence[Point]) -> list[Point]:
            return list(map(self._point_of, embedded(list(map(decode_note, points)))))

        sidecar = Sidecar.made(embedder, dimensions)
        self._rewrite("embedding the notes anew", sidecar, change)

    def _rewrite(
        self, what: str, sidecar: Sidecar, change: Callable[[Sequence[Point]], list[Point]]
    ) -> None:
        """Let a copy without the bytes of what was deleted take the place of this folder, and open the copy.

        Args:
            what: Why, for an error.
            sidecar: What the copy is made with.
            change: Returns the points of notes as they are to be in the copy.
        """
        with self._writing():
            room = max(NEW_BYTES, used_bytes(self._path))
            self._check_space(self._min_free_bytes + room, what)
            draft, notes = _draft(self._path), map(change, self._notes.pages(vectors=True))
            is_trusted = not self.power_was_cut
            _write(draft, sidecar, notes, self._records.pages(), is_trusted=is_trusted)
            shutil.copymode(self._path, draft)
            self._flush()
            # The copy is locked before anybody else can find it.
            lock = locked(draft)
            if os.name == "nt":  # Windows moves no open files
                self._let_go()
            try:
                with placing(self._path):
                    put_in_place(draft, self._path)
            finally:  # whatever ended it, Ctrl-C too: the copy is in place, or the folder is as it was
                if draft.exists():
                    unlock(lock)
                    shutil.rmtree(draft, ignore_errors=True)
                    if not self._is_open:
                        self._open(None)
                else:
                    self._let_go()
                    self._open(lock)
                    self._forgotten = 0

    def point_counts(self) -> dict[str, int]:
        """Return how many points there are in each shard."""
        return {name: shard.count() for name, shard in self._shards()}

    def empty_points(self) -> int:
        """Return how many points hold nothing, as a write that was refused may leave them."""
        return sum(shard.count() - len(shard.scroll(None)) for _, shard in self._shards())

    def flush(self) -> None:
        """Make everything written so far survive a power cut as well."""
        self._check_open()
        self._flush()

    def close(self) -> None:
        """Flush, note the counts, let go; nothing in a forked child, whose parent may go on writing.

        Calling it again does nothing. A folder that is to be put right after a power cut still is when it is opened again.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._is_open:
                return
            is_kept = not self._is_temporary and self._path.exists()
            if is_kept:
                counts = self.point_counts()
                self._flush()
            self._let_go()
            if is_kept:
                closed = None if self.power_was_cut else counts
                replace(self._sidecar, closed=closed).write(self._path / "amem.json")
            elif self._is_temporary:
                shutil.rmtree(self._path.parent, ignore_errors=True)
            else:
                logger.warning("%s was removed while it was open; its notes are lost", self._path)

    __del__ = close

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosedError(
                f"the memory in {self.where} was opened before this process was forked, and the engine "
                "would hang here; open the memory after the fork"
            )
        with self._lock:  # `compact` lets go of the folder for a moment
            is_open = self._is_open
        if not is_open:
            raise StoreClosedError(f"the memory in {self.where} is closed; open it again")

    def _check_space(self, wanted: int, what: str) -> None:
        """Raise `StoreFullError` if less is free than `what` wants: a full disk would kill the process."""
        left = free_space(self._path, self._descriptor if self._is_open else None)
        if left < wanted:
            raise StoreFullError(
                f"only {left / 2**20:.0f} MiB are free for {self._path}, and {what} wants "
                f"{wanted / 2**20:.0f} MiB; nothing was written: make room"
            )

    @contextmanager
    def _writing(self, replaced: int = 0) -> Iterator[None]:
        self._check_open()
        with self._lock:
            self._check_space(self._min_free_bytes, "a write (min_free_bytes)")
            yield
            self._count_forgotten()
            self._unflushed += replaced or 1
            waited = time.monotonic() - self._flushed_at
            is_due = self._unflushed >= FLUSH_EVERY or waited >= FLUSH_SECONDS
            if self._durability == "always" or (is_due and not self._is_temporary):
                self._flush()

    def _flush(self) -> None:
        for _, shard in self._shards():
            shard.flush()
        self._unflushed, self._flushed_at = 0, time.monotonic()

    def _shards(self) -> Iterator[tuple[str, FolderCollection]]:
        # Decisions cannot be made anew from anything else: they are flushed first.
        yield "journal", self._records
        yield "notes", self._notes

    def _let_go(self) -> None:
        self._is_open = False
        self._held.close()

    def _count_forgotten(self) -> None:
        if gone := self._notes.forgotten + self._records.forgotten:
            self._notes.forgotten = self._records.forgotten = 0
            self._forgotten += gone
            if self._counter is not None:
                with suppress(OSError):  # it is an estimate
                    os.pwrite(self._counter, f"{self._forgotten:<20}".encode(), 0)


_open_stores = weakref.WeakSet[FolderStore]()


@atexit.register
def _close_all() -> None:
    for store in list(_open_stores):
        store.close()


def _closed_shards(
    path: Path, lock: AbstractContextManager[bool]
) -> tuple[FolderCollection, FolderCollection]:
    """Return the shards of a folder, which are not open yet."""
    notes, journal = (FolderCollection(path / name, kinds, lock) for name, kinds in _SHARDS.items())
    return notes, journal


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


@contextmanager
def placing(path: Path) -> Iterator[None]:
    """Let nobody else look for a folder, or move one, where this one is or is to be."""
    with ExitStack() as held:
        if fcntl is not None:
            with suppress(OSError):  # there is no folder around it yet, or there are no such locks
                descriptor = os.open(path.parent, os.O_RDONLY)
                held.callback(unlock, descriptor)
                for _ in range(TRIES):  # that folder may be one of another memory, open for long
                    with suppress(BlockingIOError):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    time.sleep(TRY_SECONDS)
        yield


def description(path: Path, wanted: Sidecar | None = None) -> Sidecar:
    """Return the facts that a folder holds about the memory in it, which is made as `wanted` if it is not there.

    Raises:
        StoreError: There is no memory and none is wanted, or what it says cannot be read.
    """
    finish_replacement(path)
    if not path.exists():
        if wanted is None:
            raise StoreError(f"there is no memory in {path}; one is made when a note is added")
        _create(path, wanted)
    return Sidecar.read(path / "amem.json")


def finish_replacement(path: Path) -> None:
    """Finish or take back a replacement of this folder by `put_in_place` that was interrupted."""
    before = _before(path)
    if before.exists() and not path.exists():
        before.rename(path)
    shutil.rmtree(before, ignore_errors=True)


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
        finish_replacement(path)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}-compact")


def _before(path: Path) -> Path:
    return path.with_name(f".{path.name}-before")  # no collection has such a name


def _create(path: Path, sidecar: Sidecar) -> None:
    """Make a folder aside and move it into place whole: a half-made one is never seen."""
    place = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent)
        _write(Path(place, "new"), sidecar)
        Path(place, "new").rename(path)
    except OSError as error:
        if not path.exists():  # else another process was faster
            raise StoreError(f"cannot make a folder for the memory in {path}: {error}") from error
    finally:
        if place:
            shutil.rmtree(place, ignore_errors=True)


def _write(
    draft: Path,
    sidecar: Sidecar,
    notes: Iterable[list[Point]] = (),
    journal: Iterable[list[Point]] = (),
    *,
    is_trusted: bool = True,
) -> None:
    """Make a closed folder of some pages of points, for its owner alone; if that fails nothing is left of it."""
    shutil.rmtree(draft, ignore_errors=True)
    counts, sizes = dict[str, int](), (sidecar.dimensions, None)
    try:
        draft.mkdir(mode=0o700)
        shards = zip(_SHARDS, _closed_shards(draft, threading.RLock()), strict=True)
        for (name, shard), size, pages in zip(shards, sizes, (notes, journal), strict=True):
            shard.create(dimensions=size)
            for page in filter(None, pages):
                shard.insert(page)
            counts[name] = shard.count()
            shard.flush()
            shard.close()
        replace(sidecar, closed=counts if is_trusted else None).write(draft / "amem.json")
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def temporary_folder() -> Path:
    """Return a new folder for `":memory:"`, in memory if there is room; those of dead processes are removed first."""
    roomy = os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free > SHM_BYTES
    place = SHM if roomy else Path(tempfile.gettempdir())
    # On Windows a signal would end the process.
    left: Iterable[Path] = [] if os.name == "nt" else place.glob("amem-memory-*")
    for old in left:
        try:
            os.kill(int(old.name.split("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, ValueError):  # another user's, or not ours
            continue
    return Path(tempfile.mkdtemp(prefix=f"amem-memory-{os.getpid()}-", dir=place))


def free_space(path: Path, descriptor: int | None = None) -> int:
    """Return how much can still be written to the disk of a folder, or to that where it is to be.

    By the descriptor of an open folder no path is looked up.
    """
    if descriptor is not None:
        disk = os.fstatvfs(descriptor)
        return disk.f_bavail * disk.f_frsize
    for place in (path, *path.parents):
        with suppress(FileNotFoundError, NotADirectoryError):  # it may be moved in this moment
            return shutil.disk_usage(place).free
    raise StoreError(f"there is no disk for {path}")


def used_bytes(path: Path) -> int:
    """Return how much of the disk the files in a folder take; they have holes."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
