"""The served note store: a Qdrant server or cluster by URL, and `":memory:"` for tests."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from qdrant_client import QdrantClient, models

from ..errors import ConfigurationError, StoreError
from ..ids import clock
from ..notes import Change
from .bm25 import Bm25
from .checks import is_id
from .claim_points import ClaimPoints
from .collection import CHANGE_INDEXES, NOTE_INDEXES
from .conditions import IndexKind, json_path
from .payloads import DENSE, LEXICAL, Point, is_metadata_name
from .qdrant_collection import (
    Connection,
    QdrantCollection,
    checked_address,
    client_dialect,
    client_for,
    is_status,
)
from .sidecar import AS_MADE, Sidecar
from .writes import INTENT

log = logging.getLogger("amem_integrations")

MEMORY = ":memory:"
OLDEST_SERVER = (1, 19)  # older ones do not weigh words by the notes of one namespace
AT_ONCE = 8  # requests that make indexes

# Beside what conditions name: `swap` compares the revision.
SERVER_NOTE_INDEXES: Mapping[str, IndexKind] = {**NOTE_INDEXES, "revision": "integer"}
ORDERED: Sequence[IndexKind] = ("integer", "float", "datetime")  # kinds of `metadata_indexes`

_SCHEMAS: Mapping[IndexKind, Any] = {
    # Only the namespace takes part in the graph, which is quicker to build for it.
    "tenant": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "keyword": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False),
    "integer": models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=True, range=True, enable_hnsw=False
    ),
    "float": models.FloatIndexParams(type=models.FloatIndexType.FLOAT, enable_hnsw=False),
    "datetime": models.DatetimeIndexParams(
        type=models.DatetimeIndexType.DATETIME, enable_hnsw=False
    ),
    "uuid": models.UuidIndexParams(type=models.UuidIndexType.UUID, enable_hnsw=False),
}


class QdrantStore(ClaimPoints):
    """Notes in two collections of a Qdrant server (1.19 or later), shared by any number of processes.

    Calls are synchronous and wait for the server; `remote` says so, and asynchronous callers should run
    them in threads, which the client allows. With `":memory:"` nothing leaves the process or outlives it.

    Args:
        location: `":memory:"`, or the URL of a server.
        dimensions: Length of the dense vectors.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection of notes; their history is in `<collection>_history`.
        bm25: How text becomes a sparse vector.
        api_key: Sent to the server; over plain http only to localhost, or with `allow_insecure`.
        allow_insecure: Send the key over plain http anyway.
        pauses: Seconds to wait before each repeat of a call when the server does not answer, is too
            busy or fails; a random part is added.
        metadata_indexes: The names of metadata fields that `where` compares by `$gt`, `$gte`, `$lt` or `$lte`,
            or with a datetime, each with `"integer"`, `"float"` or `"datetime"`. A server searches only
            by what has an index; equality and `$in` need none of these.
        collection_options: Passed on when the collections are created (`replication_factor`, …).
        client_options: Passed on to `QdrantClient` (`timeout`, `prefix`, `https`, …).

    Attributes:
        settle_after: Seconds after which a write that a process began and did not finish is settled by the
            next one that opens the collections. A write takes moments, with all its repeats some minutes.

    Raises:
        StoreUnavailableError: The server cannot be reached.
        EmbedderMismatchError: The collection was made with another embedder, or another `bm25`.
        StoreError: The server refuses, is too old, or the collection holds something else.
        ConfigurationError: An argument is out of its range, or would expose the key.
    """

    settle_after: float = 15 * 60

    def __init__(  # noqa: PLR0913 - settings
        self,
        location: str,
        *,
        dimensions: int,
        embedder: str = "",
        collection: str = "amem",
        bm25: Bm25 | None = None,
        api_key: str | None = None,
        allow_insecure: bool = False,
        pauses: Sequence[float] = (0.2, 0.4, 0.8, 1.6),
        metadata_indexes: Mapping[str, IndexKind] | None = None,
        collection_options: Mapping[str, Any] | None = None,
        **client_options: Any,  # noqa: ANN401 - of QdrantClient
    ) -> None:
        if dimensions < 1 or not collection:
            wrong = f"{dimensions!r} and {collection!r}"
            raise ConfigurationError(f"QdrantStore wants dimensions > 0 and a name, not {wrong}")
        ordered, self._remote = _ordered(metadata_indexes or {}), location != MEMORY
        lock: AbstractContextManager[object] = nullcontext() if self._remote else threading.RLock()
        self._where, self._closed = MEMORY, False
        if self._remote:
            self._where = checked_address(location, api_key, allow_insecure=allow_insecure)
            client = client_for(location, api_key, client_options)
        else:
            # Advice to use a server or a folder; who chose ":memory:" knows.
            warnings.filterwarnings("ignore", message="Local mode is not recommended")
            client = QdrantClient(MEMORY)
        self._connection = Connection(client, self._where, pauses=pauses, guard=lock)
        bm25 = bm25 or Bm25()
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        names = (collection, f"{collection}_history")
        try:
            self._check_version()
            options = collection_options or {}
            self._prepare(names[1], CHANGE_INDEXES, wanted, {}, options)
            dense = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
            indexes = {**SERVER_NOTE_INDEXES, **ordered}
            self._prepare(names[0], indexes, wanted, {DENSE: dense}, options)
        except BaseException:
            self._connection.close()
            raise
        dialect = client_dialect(ordered if self._remote else None)
        both = (QdrantCollection(self._connection, name, dialect) for name in names)
        super().__init__(*both, dimensions=dimensions, bm25=bm25, lock=lock)
        self._partial: dict[str, list[Point]] = {}  # intents of operations written in part
        # For the memory to finish, after other processes were killed.
        self.interrupted: Sequence[Change] = self._recover() if self._remote else ()

    @classmethod
    def as_made(
        cls,
        location: str,
        collection: str = "amem",
        **options: Any,  # noqa: ANN401 - of this class
    ) -> tuple[QdrantStore, str, int]:
        """Return the store on a server whatever it was made with, its embedder's name and dimensions.

        Raises:
            StoreError: There is no memory.
        """
        store = cls(location, dimensions=1, embedder=AS_MADE, collection=collection, **options)
        store._dimensions = store._made.dimensions
        return store, store._made.embedder, store._made.dimensions

    @property
    def made_with(self) -> Mapping[str, Any]:
        """What the collection was made with: `embedder`, `dimensions`, `format`, `schema`."""
        return self._made.described()

    @property
    def remote(self) -> bool:
        """Whether a call waits for a network."""
        return self._remote

    def flush(self) -> None:
        """Do nothing: the server answers when it has written."""
        self._check_open()

    def close(self) -> None:
        """Close the connections; calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self._connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the memory at {self._where} is closed; open it again")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_open()
        with self._lock:
            yield

    def _intent(self, records: Sequence[Point], what: Mapping[str, Any]) -> Point | None:
        """Return a point without a namespace, so that nothing that reads a history finds it."""
        if not self._remote or not any(what.values()):
            return None
        if removal := what.get("removal"):
            what = {"removal": {**removal, "upto": self._newest(removal["ids"] or ())}}
        ops = sorted({record.payload["op"] for record in records})
        return Point(str(uuid4()), {"kind": INTENT, "at": time.time(), "ops": ops, **what})

    def _newest(self, ids: Sequence[str]) -> int:
        """Return a `seq` that none of these notes exceeds: the clock of who added them may be ahead."""
        notes = self._notes.retrieve([note_id for note_id in ids if is_id(note_id)], ("seq",))
        return max([clock.tick(), *(int(note.payload["seq"]) for note in notes.values())])

    def _ended(self, intent: Point, records: Sequence[Point], *, complete: bool) -> None:
        if records and time.time() - intent.payload["at"] > self.settle_after / 2:
            # This process stood still; another may have taken it for dead, and its changes back.
            self._history.upsert(records)
        if not complete:
            for op in intent.payload["ops"]:
                self._partial.setdefault(op, []).append(intent)
            return
        left = [each for op in intent.payload["ops"] for each in self._partial.pop(op, ())]
        with suppress(StoreError):  # what was to be written is; the rest is tried again
            self._drop(intent, *left)

    def _drop(self, *intents: Point) -> None:
        step = partial(self._erase, [intent.id for intent in intents])
        try:
            step()
        except StoreError:
            self._unsettled.append(step)
            raise

    def _recover(self) -> list[Change]:
        """Settle what killed processes have left, and return the changes of their operations."""
        ops: list[str] = []
        try:
            left = self._dialect.every([self._dialect.any_of("kind", [INTENT])])
            for intent in self._history.scroll(left):
                if time.time() - intent.payload["at"] < self.settle_after:
                    continue  # that process may just be at it
                self._finish_intent(intent.payload)
                self._erase([intent.id])
                ops += intent.payload["ops"]
            return self._changes_of(ops)
        except StoreError as error:  # a key that may only read, for example
            log.warning("what a killed process left half done could not be settled: %s", error)
            return []

    def _check_version(self) -> None:
        if not self._remote:
            return
        version = self._connection.call(lambda client: client.info()).version
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
            needed = ".".join(map(str, OLDEST_SERVER)) + " or later is needed"
            raise StoreError(f"the Qdrant server at {self._where} is version {version}; {needed}")

    def _prepare(
        self,
        name: str,
        indexes: Mapping[str, IndexKind],
        wanted: Sidecar,
        vectors: dict[str, models.VectorParams],
        options: Mapping[str, Any],
    ) -> None:
        """Make a collection and its indexes if they are not there; check its fingerprint if they are."""
        lexical = {LEXICAL: models.SparseVectorParams(modifier=models.Modifier.IDF)}

        def create(client: QdrantClient) -> None:
            if client.collection_exists(name):
                return
            if wanted.embedder == AS_MADE:
                raise StoreError(f"there is no memory in collection {name!r} at {self._where}")
            metadata = {"amem": asdict(wanted)}
            client.create_collection(name, vectors, lexical, metadata=metadata, **options)

        try:
            self._connection.call(create)
        except StoreError as error:
            if not is_status(error.__cause__, HTTPStatus.CONFLICT):  # else another was faster
                raise
        info = self._connection.call(lambda client: client.get_collection(name))
        where = f"collection {name!r} at {self._where}"
        self._made = Sidecar.parse((info.config.metadata or {}).get("amem"), where)
        self._made.check(wanted, where)
        if self._remote:
            missing = indexes.keys() - info.payload_schema.keys()
            self._make_indexes(name, {field: indexes[field] for field in missing})

    def _make_indexes(self, name: str, indexes: Mapping[str, IndexKind]) -> None:
        def make(field: str) -> None:
            kind = _SCHEMAS[indexes[field]]
            self._connection.call(lambda c: c.create_payload_index(name, field, kind, wait=True))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(make, indexes))


def _ordered(metadata_indexes: Mapping[str, IndexKind]) -> dict[str, IndexKind]:
    """Return the kinds of the indexes of metadata fields by their path in a payload."""
    for name, kind in metadata_indexes.items():
        if kind not in ORDERED or not is_metadata_name(name):
            raise ConfigurationError(
                f"metadata_indexes={{{name!r}: {kind!r}}} must give a name one of {ORDERED}"
            )
    return {json_path(f"metadata.{name}"): kind for name, kind in metadata_indexes.items()}
