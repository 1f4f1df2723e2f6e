"""The served note store: a Qdrant server or cluster by URL, and `":memory:"` for tests."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from qdrant_client import QdrantClient, models

from ..errors import ConfigurationError, StoreError
from ..notes import Change
from ._collection import CHANGE_INDEXES, DENSE, LEXICAL, SERVER_NOTE_INDEXES, IndexKind
from ._connection import Connection, checked_address, client_for, is_status
from ._qdrant_collection import QdrantCollection
from ._shared import SharedStore
from ._sidecar import AS_MADE, Sidecar
from .bm25 import Bm25

MEMORY = ":memory:"
OLDEST_SERVER = (1, 17)  # has update modes, conditional upserts and collection metadata

_SCHEMAS: Mapping[IndexKind, Any] = {
    # Only the namespace takes part in the graph, which is quicker to build for it.
    "tenant": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "keyword": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False),
    "integer": models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=True, range=True, enable_hnsw=False
    ),
    "datetime": models.DatetimeIndexParams(
        type=models.DatetimeIndexType.DATETIME, enable_hnsw=False
    ),
    "uuid": models.UuidIndexParams(type=models.UuidIndexType.UUID, enable_hnsw=False),
}


class QdrantStore(SharedStore):
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

    def __init__(
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
        collection_options: Mapping[str, Any] | None = None,
        **client_options: Any,  # noqa: ANN401 - of QdrantClient
    ) -> None:
        if dimensions < 1 or not collection:
            message = f"QdrantStore wants dimensions > 0 and a collection name, not {dimensions!r} and {collection!r}"
            raise ConfigurationError(message)
        self._remote = location != MEMORY
        self._lock: AbstractContextManager[object] = (
            nullcontext() if self._remote else threading.RLock()
        )
        self._where, self._closed = MEMORY, False
        if self._remote:
            self._where = checked_address(location, api_key, allow_insecure=allow_insecure)
            client = client_for(location, api_key, client_options)
        else:
            # Advice to use a server or a folder; who chose ":memory:" knows.
            warnings.filterwarnings("ignore", message="Local mode is not recommended")
            client = QdrantClient(MEMORY)
        self._connection = Connection(client, self._where, pauses=pauses, guard=self._lock)
        bm25 = bm25 or Bm25()
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        notes, history = collection, f"{collection}_history"
        try:
            self._check_version()
            options = dict(collection_options or {})
            self._prepare(history, CHANGE_INDEXES, wanted, {}, options)
            dense = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
            self._prepare(notes, SERVER_NOTE_INDEXES, wanted, {DENSE: dense}, options)
        except BaseException:
            self._connection.close()
            raise
        super().__init__(
            QdrantCollection(self._connection, notes),
            QdrantCollection(self._connection, history),
            dimensions=dimensions,
            bm25=bm25,
        )
        # For the memory to look at, after other processes were killed.
        self.interrupted: Sequence[Change] = ()
        if self._remote:
            self._patience = self.settle_after
            self.interrupted = self._settle_others()

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
            message = f"the memory at {self._where} is closed; open it again"
            raise StoreError(message)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_open()
        with self._lock:
            yield

    def _check_version(self) -> None:
        if not self._remote:
            return
        version = self._connection.call(lambda client: client.info()).version
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            message = f"the Qdrant server at {self._where} is version {version}; {oldest} or later is needed"
            raise StoreError(message)

    def _prepare(
        self,
        name: str,
        indexes: Mapping[str, IndexKind],
        wanted: Sidecar,
        vectors: dict[str, models.VectorParams],
        options: dict[str, Any],
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
        for field in indexes.keys() - info.payload_schema.keys() if self._remote else ():
            self._index(name, field, _SCHEMAS[indexes[field]])

    def _index(self, name: str, field: str, schema: Any) -> None:  # noqa: ANN401 - one of a union
        self._connection.call(
            lambda client: client.create_payload_index(name, field, schema, wait=True)
        )
