"""The embedded note store: Qdrant's own engine, in a folder, inside this process."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import ConfigurationError, StoreError, StoreFullError
from ..notes import Change
from ..runtime import resolve, run
from .bm25 import Bm25
from .folder import Folder, has_draft, remove_draft, settle
from .payloads import Point
from .sidecar import AS_MADE, Sidecar
from .writes import INTENT, PointStore

Durability = Literal["interval", "always"]

FLUSH_SECONDS = 5.0
FLUSH_EVERY = 256  # writes
MIN_FREE_BYTES = 256 * 2**20  # the log grows by 32 MiB at a time, for each of the two shards
NEW_BYTES = 192 * 2**20  # of a new folder with one note in it, and a little more
OPEN_BYTES = 96 * 2**20  # the engine makes a new piece of log when it opens a shard

# One writer at a time: one point for all intents.
INTENT_ID = "5f2d1f0e-7a43-5d0c-8a55-0c5f3c1f7a11"
RECENT = 64  # operations; far more than there can be at once, of which each may take several writes
REMOVING = ("update", "undo", "delete")  # after these, quotes are looked for in other notes
_COLLECTION = re.compile(r"[\w-][\w.-]*")


def _check_space(path: Path, wanted: int, left: int, what: str) -> None:
    """Raise `StoreFullError` if less is `left` than `what` wants: a full disk would kill the process."""
    if left < wanted:
        raise StoreFullError(
            f"only {left / 2**20:.0f} MiB are free for {path}, and {what} wants "
            f"{wanted / 2**20:.0f} MiB; nothing was written: make room"
        )


def free_bytes(path: Path) -> int:
    """Return how much can still be written to the disk of a folder, or to that where it is to be."""
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def _check_room(path: Path, least: int, free: Callable[[Path], int] | None) -> None:
    left = (free or free_bytes)(path)
    if path.exists():
        _check_space(path, OPEN_BYTES, left, "opening it")
    else:
        _check_space(path, max(NEW_BYTES, least), left, "a new memory")


def used_bytes(path: Path) -> int:
    """Return how much of the disk the files in a folder take; they have holes."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


class EdgeStore(PointStore):
    """Notes in a folder; no server, no daemon. Safe to use from several threads of one process.

    What a call has written survives a killed process. A power cut can take what was written since the
    last flush, which happens with the first write after `flush_seconds`, every 256 writes and at
    close; with `durability="always"`, at every write (some milliseconds).

    The engine holds the GIL and answers in well under a millisecond, so asynchronous callers may call
    it inline, but for `in_threads`. It does not survive a fork: open the store in the child.

    Args:
        path: The folder; made if it is not there. Several collections can live in it.
        dimensions: Length of the dense vectors.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection, a folder within `path`.
        durability: `"interval"` or `"always"`, see above.
        flush_seconds: Seconds between flushes.
        min_free_bytes: With less than this free on the disk a write is refused.
        bm25: How text becomes a sparse vector.
        free_bytes: Returns how much is free for the folder; None asks the system.

    Raises:
        StoreLockedError: The collection is open already, in any process.
        EmbedderMismatchError: The collection was made with another embedder, or another `bm25`.
        StoreFullError: There is too little disk space to make or open the folder safely.
        StoreError: The folder is damaged, or holds something else.
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
                f"EdgeStore wants dimensions > 0, not {dimensions!r}, "
                f"and durability one of {get_args(Durability)}, not {durability!r}"
            )
        if not _COLLECTION.fullmatch(collection):
            raise ConfigurationError(
                f"a collection is named by letters, digits, '_', '-' and '.', not {collection!r}"
            )
        bm25 = bm25 or Bm25()
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        place = Path(path).expanduser().absolute() / collection
        _check_room(place, min_free_bytes, free_bytes)
        # Only another process could make one, and it would need the lock of this folder.
        self._has_draft = has_draft(place)
        self._folder = Folder.open(place, wanted)
        self._durability, self._flush_seconds = durability, flush_seconds
        self._min_free_bytes, self._free_bytes = min_free_bytes, free_bytes
        self._unflushed, self._flushed_at = 0, time.monotonic()
        self._operations: dict[str, bool] = {}  # that wrote last; True: of which a part was written
        self._removing: deque[str] = deque(maxlen=RECENT)
        both = (self._folder.notes, self._folder.history)
        super().__init__(*both, dimensions=dimensions, bm25=bm25, lock=threading.RLock())
        self._interrupted: list[Change] = []
        self._finalizer = self._close_at_exit()
        try:
            self._recover()
        except BaseException:
            self._folder.close(clean=lambda: False)
            raise

    @classmethod
    def as_made(
        cls,
        path: str | PathLike[str],
        collection: str = "amem",
        **options: Any,  # noqa: ANN401 - of this class
    ) -> tuple[EdgeStore, str, int]:
        """Return the store in a folder whatever it was made with, its embedder's name and dimensions.

        It is for reading and maintenance: what is written to it must be of that embedder.

        Raises:
            StoreError: There is no memory.
        """
        place = Path(path).expanduser().absolute() / collection
        settle(place)
        made = Sidecar.read(place / "amem.json")
        options |= {"dimensions": made.dimensions, "embedder": AS_MADE, "collection": collection}
        return cls(path, **options), made.embedder, made.dimensions

    @property
    def made_with(self) -> Mapping[str, Any]:
        """What the folder was made with: `embedder`, `dimensions`, `template`, `format`, `schema`."""
        return self._folder.sidecar.described()

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder with the collection."""
        self._check_open()
        with self._lock:
            self._folder.keep_cosines(cosines)

    @property
    def interrupted(self) -> Sequence[Change]:
        """The changes of operations that a killed process may not have finished.

        Until the memory has, they stay on the list in the folder, whatever becomes of this process.
        """
        return tuple(self._interrupted)

    @interrupted.setter
    def interrupted(self, steps: Sequence[Change]) -> None:
        self._interrupted[:] = steps

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder.path)

    @property
    def in_threads(self) -> bool:
        """Whether asynchronous callers should call it in threads: a write may remove a whole folder first."""
        return self._has_draft

    def optimize(self) -> bool:
        """Build the graph that finds neighbours among very many notes; return whether anything was done.

        It takes minutes (100,000 notes: about two), and Python stands still meanwhile, so nothing else
        should use this process. Worth it from about 200,000 notes; exact search is quick enough below.

        Raises:
            StoreFullError: There is no room for a second copy of the notes beside the first.
        """
        self._check_open()
        with self._lock:
            wanted = self._min_free_bytes + used_bytes(self._folder.path / "notes")
            self._check_space(wanted, "optimizing")
            return self._folder.notes.optimize()

    def compact(self) -> None:
        """Write the folder anew, without what was deleted: the engine only marks it as gone.

        The copy takes the folder's place at once, so a kill leaves one of the two. It takes about as long
        as an import, and a graph made by `optimize` is gone. No other thread may use the store meanwhile.

        Raises:
            StoreFullError: There is no room for a second copy beside the first.
            StoreError: The copy cannot be made; everything is as it was.
        """
        with self._writing():
            run(self._settle())
            path, sidecar = self._folder.path, self._folder.sidecar
            wanted = self._min_free_bytes + max(NEW_BYTES, used_bytes(path))
            self._check_space(wanted, "compacting")
            try:
                self._folder.compact()
            finally:
                self._finalizer()
                self._folder = Folder.open(path, sidecar)
                self._notes, self._history = self._folder.notes, self._folder.history
                self._finalizer = self._close_at_exit()

    def flush(self) -> None:
        """Make everything written so far survive a power cut as well."""
        self._check_open()
        with self._lock:
            self._flush()

    def close(self) -> None:
        """Flush and let go of the folder; calling it again does nothing."""
        with self._lock:
            try:
                run(self._settle())
            finally:
                self._finalizer()

    def _close_at_exit(self) -> Callable[[], object]:
        """Return what closes the folder: also at exit, and when the store is dropped unclosed."""
        operations, left = self._operations, (self._unsettled, self._interrupted)

        def clean() -> bool:
            return not (any(operations.values()) or any(left))

        return weakref.finalize(self, self._folder.close, clean=clean)

    def _check_open(self) -> None:
        folder = self._folder
        if os.getpid() != folder.pid:
            raise StoreError(
                f"the memory in {folder.path} was opened before this process was forked, and the engine "
                "would hang here; open the memory after the fork"
            )
        if not folder.is_open:
            raise StoreError(f"the memory in {folder.path} is closed; open it again")

    def _check_space(self, wanted: int, what: str) -> None:
        path, descriptor = self._folder.path, self._folder.descriptor
        if self._free_bytes is None and descriptor is not None:
            disk = os.fstatvfs(descriptor)
            left = disk.f_bavail * disk.f_frsize
        else:
            left = (self._free_bytes or free_bytes)(path)
        _check_space(path, wanted, left, what)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_open()
        with self._lock:
            self._check_space(self._min_free_bytes, "a write (min_free_bytes)")
            yield
            self._unflushed += 1
            waited = time.monotonic() - self._flushed_at
            is_due = self._unflushed >= FLUSH_EVERY or waited >= self._flush_seconds
            if is_due or self._durability == "always":
                self._flush()

    def _flush(self) -> None:
        """Flush the history first, as in writing."""
        self._folder.history.flush()
        self._folder.notes.flush()
        self._unflushed, self._flushed_at = 0, time.monotonic()

    async def _intent(self, records: Sequence[Point], what: Mapping[str, Any]) -> Point:
        self._begin({record.payload["op"] for record in records})
        self._removing += {r.payload["op"] for r in records if r.payload["kind"] in REMOVING}
        return Point(INTENT_ID, {"kind": INTENT, **what, "ops": list(self._operations)})

    def _begin(self, ops: Iterable[str]) -> None:
        """Remember operations; of the earlier ones, those that were written in part and the latest.

        A removal may last longer than many other operations, so the latest removals are counted apart. What was
        interrupted stays until the memory has finished it all.
        """
        for op in ops:
            self._operations[op] = self._operations.pop(op, False)
        kept = {*self._removing, *(made.op for made in self._interrupted)}
        whole = [op for op, in_part in self._operations.items() if not in_part and op not in kept]
        for op in whole[:-RECENT]:
            del self._operations[op]

    async def _ended(
        self, intent: Point, records: Sequence[Point], *, complete: bool | None
    ) -> None:
        for record in records:
            self._operations[record.payload["op"]] = not complete
        if "removal" in intent.payload:
            await self._drop(intent)

    def _remove_copies(self) -> None:
        if self._has_draft:
            remove_draft(self._folder.path)
            self._has_draft = False

    async def _drop(self, *intents: Point) -> None:
        """Announce nothing: what is inserted after a removal would be taken for what was removed."""
        nothing = {"kind": INTENT, "ops": intents[-1].payload["ops"]}
        await resolve(self._history.upsert([Point(INTENT_ID, nothing)]))

    def _failed(self, ops: Collection[str]) -> None:
        for op in self._operations.keys() & ops:  # others have written nothing at all
            self._operations[op] = True

    def _recover(self) -> None:
        """Bring history and notes together after a process was killed, or could not finish.

        The operations that wrote last may take more writes, which only the memory knows: they are in
        `interrupted`.
        """
        if self._folder.was_closed or not (found := self._folder.history.retrieve([INTENT_ID])):
            return
        intent = found[INTENT_ID]
        # One writer at a time: the revision alone says whether a version was written.
        changes = [[*change[:3], None] for change in intent.payload.get("changes") or ()]
        run(self._finish_intent({**intent.payload, "changes": changes}))
        ops = intent.payload["ops"]
        self.interrupted = run(self._changes_of(ops))
        self._removing += {made.op for made in self._interrupted if made.kind in REMOVING}
        self._begin(ops)
        run(self._drop(intent))
