"""The embedded note store: Qdrant's own engine, in a folder, inside this process."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from ..errors import ConfigurationError
from ..notes import Change
from ._collection import Point
from ._folder import Durability, Folder, check_space, free_bytes, settle, used_bytes
from ._folder import put_in_place as put_folder_in_place
from ._points import decode_change
from ._sidecar import AS_MADE, Sidecar
from ._store import PointStore, Removal
from .bm25 import Bm25

FLUSH_SECONDS = 5.0
STEPS = 64  # changes looked at after a kill; one operation makes as many as a note may have links
MIN_FREE_BYTES = 256 * 2**20  # the log grows by 32 MiB at a time, for each of the two shards
NEW_BYTES = 192 * 2**20  # of a new folder with one note in it, and a little more
OPEN_BYTES = 96 * 2**20  # the engine makes a new piece of log when it opens a shard

INTENT = (
    "5f2d1f0e-7a43-5d0c-8a55-0c5f3c1f7a11"  # the point that says what was last meant to be written
)
_COLLECTION = re.compile(r"[\w-][\w.-]*")


class EdgeStore(PointStore):
    """Notes in a folder; no server, no daemon. Safe to use from several threads of one process.

    What a call has written survives a killed process. A power cut can take what was written since the
    last flush, which happens with the first write after `flush_seconds`, every 256 writes and at
    close; with `durability="always"`, at every write (some milliseconds).

    The engine holds the GIL and answers in well under a millisecond, so asynchronous callers may call
    it inline. It does not survive a fork: open the store in the child.

    Args:
        path: The folder; made if it is not there. Several collections can live in it.
        dimensions: Length of the dense vectors.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection, a folder within `path`.
        durability: `"interval"` or `"always"`, see above.
        flush_seconds: Seconds between flushes.
        min_free_bytes: With less than this free on the disk a write is refused.
        bm25: How text becomes a sparse vector.

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
        free_bytes: Callable[[Path], int] = free_bytes,
    ) -> None:
        if dimensions < 1 or durability not in get_args(Durability):
            message = f"EdgeStore wants dimensions > 0, not {dimensions!r}, and durability one of {get_args(Durability)}, not {durability!r}"
            raise ConfigurationError(message)
        if not _COLLECTION.fullmatch(collection):
            message = (
                f"a collection is named by letters, digits, '_', '-' and '.', not {collection!r}"
            )
            raise ConfigurationError(message)
        bm25 = bm25 or Bm25()
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        place = Path(path).expanduser().absolute() / collection
        if place.exists():
            check_space(place, OPEN_BYTES, free_bytes, "opening it")
        else:
            check_space(place, max(NEW_BYTES, min_free_bytes), free_bytes, "a new memory")
        self._folder = Folder.open(place, wanted)
        self._durability, self._flush_seconds = durability, flush_seconds
        self._min_free_bytes, self._free_bytes = min_free_bytes, free_bytes
        self._lock = threading.RLock()
        # Also at exit, and when the store is dropped without having been closed.
        self._finalizer = weakref.finalize(self, self._folder.close)
        # For the memory to look at, after a process was killed: it may have been in the middle of these.
        self.interrupted: Sequence[Change] = ()
        super().__init__(self._folder.notes, self._folder.history, dimensions=dimensions, bm25=bm25)
        if not self._folder.was_closed:
            self._reconcile()

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
        store = cls(
            path, dimensions=made.dimensions, embedder=AS_MADE, collection=collection, **options
        )
        return store, made.embedder, made.dimensions

    @property
    def made_with(self) -> Mapping[str, Any]:
        """What the folder was made with: `embedder`, `dimensions`, `template`, `format`, `schema`."""
        return self._folder.sidecar.described()

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
            check_space(self._folder.path, wanted, self._free_bytes, "optimizing")
            return self._folder.notes.optimize()

    def flush(self) -> None:
        """Make everything written so far survive a power cut as well."""
        self._check_open()
        with self._lock:
            self._folder.flush()

    def close(self) -> None:
        """Flush and let go of the folder; calling it again does nothing."""
        with self._lock:
            try:
                self._unsettled.settle()
            finally:
                self._finalizer()

    def _check_open(self) -> None:
        self._folder.check()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._folder.check()
        with self._lock:
            place, wanted = self._folder.path, self._min_free_bytes
            check_space(place, wanted, self._free_bytes, "a write (min_free_bytes)")
            yield
            self._folder.wrote(self._durability, self._flush_seconds)

    def _record(self, changes: Sequence[Point], notes: Sequence[Point]) -> None:
        """Write changes together with a reminder of the notes that are to make them true.

        Without notes the reminder is cleared, or notes deleted now would pass for unwritten ones later.
        """
        if notes and not changes:
            return
        revisions = {note.id: note.payload["revision"] for note in notes}
        intent = {
            change.id: [change.payload["note_id"], revisions[change.payload["note_id"]]]
            for change in changes
            if change.payload["note_id"] in revisions
        }
        self._history.upsert([*changes, Point(INTENT, {"intent": intent})])

    def _remove(self, removal: Removal, receipts: Sequence[Point]) -> None:
        """Write the receipts together with what is to go, so that a killed process leaves no half of it."""
        intent = {"intent": {}, "removal": asdict(removal)}
        self._history.upsert([*receipts, Point(INTENT, intent)])
        self._unsettled.surely(partial(self._finish_intended, removal))

    def _finish_intended(self, removal: Removal) -> None:
        self._finish_removal(removal)
        self._history.upsert([Point(INTENT, {"intent": {}})])

    def _reconcile(self) -> None:
        """Bring history and notes together after a process was killed.

        What was to be removed is removed; changes whose notes were not written are taken back.
        """
        if found := self._history.retrieve([INTENT]):
            if removal := found[INTENT].payload.get("removal"):
                self._finish_removal(Removal(**removal))
            self._take_back(found[INTENT].payload["intent"])
            self._history.upsert([Point(INTENT, {"intent": {}})])
        self.interrupted = [decode_change(point.payload) for point in self._last_steps()]

    def _last_steps(self) -> list[Point]:
        """Return the last changes that are steps of something longer, which may not have been finished."""
        kinds = ("forget", "unlink", "update")
        steps = self._dialect.every([self._dialect.any_of("kind", kinds)])
        return self._history.scroll(steps, limit=STEPS, newest_first=True)

    def _take_back(self, intent: Mapping[str, tuple[str, int]]) -> None:
        notes = self._notes.retrieve([note_id for note_id, _ in intent.values()], ("revision",))
        revisions = {note.id: note.payload["revision"] for note in notes.values()}
        undone = [
            change_id
            for change_id, (note_id, revision) in intent.items()
            if revisions.get(note_id, -1) < revision
        ]
        if undone:
            self._history.delete(self._dialect.ids(undone))


def put_in_place(path: Path, draft: str, collection: str) -> None:
    """Let one collection of a folder, closed, take the place of another.

    Raises:
        StoreError: It cannot be moved.
    """
    place = path.expanduser().absolute()
    put_folder_in_place(place / draft, place / collection)
