"""The served note store: a Qdrant server by URL, and `":memory:"` for tests."""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from typing import Any

from qdrant_client import QdrantClient

from ..errors import ConfigurationError, StoreError
from ..ports import Query, Ranked
from ..runtime import run
from .bm25 import Bm25
from .claim_points import ClaimPoints
from .collection import CHANGE_INDEXES, NOTE_INDEXES, Fused, Nearest
from .conditions import IndexKind
from .connection import CONNECTIONS, Connection, connect
from .payloads import decode_note
from .qdrant_collection import QdrantCollection, client_dialect
from .qdrant_setup import Setup, ordered_paths
from .reads import found_lists, twin
from .sidecar import AS_MADE, Sidecar
from .writes import PointStore

log = logging.getLogger("amem_integrations")

MEMORY = ":memory:"

# Beside what conditions name: `swap` compares the revision.
SERVER_NOTE_INDEXES: Mapping[str, IndexKind] = {**NOTE_INDEXES, "revision": "integer"}


class QdrantStore(ClaimPoints):
    """Notes in two collections of a Qdrant server (1.19 or later), shared by any number of processes.

    Threads share its connections; each event loop that calls the asynchronous twins (`aget`, `asearch`, …) has
    connections of its own, which are closed with the loop, or by `aclose`. With `":memory:"` nothing leaves the
    process or outlives it.

    Args:
        location: `":memory:"`, or the URL of a server.
        dimensions: Length of the dense vectors.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection of notes; their history is in `<collection>_history`.
        bm25: How text becomes a sparse vector.
        api_key: Sent to the server; over plain http only to localhost, or with `allow_insecure`.
        allow_insecure: Send the key over plain http anyway.
        pauses: Seconds to wait before each repeat of a call when the server does not answer, is too
            busy or fails; a random part is added, and what the server asks for is kept to.
        connections: Most requests at once, by all threads, and by the tasks of each loop; others wait.
        metadata_indexes: The names of metadata fields that `where` compares by `$gt`, `$gte`, `$lt` or `$lte`,
            or with a datetime, each with `"integer"`, `"float"` or `"datetime"`. A server searches only
            by what has an index; equality and `$in` need none of these.
        collection_options: How the collections are made, if they are not there: what
            `QdrantClient.create_collection` takes (`shard_number`, `replication_factor`, `quantization_config`,
            `on_disk_payload`, …), and `on_disk` for the dense vectors.
        client_options: Passed on to `QdrantClient` (`timeout`, `prefix`, `https`, …).

    Attributes:
        settle_after: Seconds after which a write that a process began and did not finish is settled by the
            next one that opens the collections, or has them open. A write takes moments, with all its repeats
            some minutes.

    Raises:
        StoreUnavailableError: The server cannot be reached.
        EmbedderMismatchError: The collection was made with another embedder, or another `bm25`.
        StoreError: The server refuses, is too old, or the collection holds something else.
        ConfigurationError: An argument is out of its range, or would expose the key.
    """

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
        pauses: Sequence[float] = (0.2, 0.4, 0.8, 1.6, 3.2),
        connections: int = CONNECTIONS,
        metadata_indexes: Mapping[str, IndexKind] | None = None,
        collection_options: Mapping[str, Any] | None = None,
        **client_options: Any,  # noqa: ANN401 - of QdrantClient
    ) -> None:
        if dimensions < 1 or not collection or connections < 1:
            wrong = f"{dimensions!r}, {collection!r} and {connections!r}"
            raise ConfigurationError(
                f"QdrantStore wants dimensions > 0, a name and connections > 0, not {wrong}"
            )
        ordered, self._remote = ordered_paths(metadata_indexes or {}), location != MEMORY
        self._closed, self._name = False, collection
        lock: AbstractContextManager[object] = nullcontext() if self._remote else threading.RLock()
        self._connection = (
            connect(
                location,
                api_key,
                client_options,
                pauses=pauses,
                connections=connections,
                allow_insecure=allow_insecure,
            )
            if self._remote
            else _in_memory(lock)
        )
        bm25 = bm25 or Bm25()
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        try:
            notes, history, self._made = self._prepared(
                wanted, collection, collection_options or {}, ordered
            )
        except BaseException:
            self._connection.close()
            raise
        super().__init__(notes, history, dimensions=dimensions, bm25=bm25, lock=lock)
        # For the memory to finish, after other processes were killed.
        self.interrupted = run(self._settled()) if self._remote else ()

    def _prepared(
        self,
        wanted: Sidecar,
        collection: str,
        options: Mapping[str, Any],
        ordered: Mapping[str, IndexKind],
    ) -> tuple[QdrantCollection, QdrantCollection, Sidecar]:
        """Return the collections of notes and of their history, made if they are not there, and their fingerprint."""
        dialect = client_dialect(ordered if self._remote else None)
        setup = Setup(self._connection, wanted, options, dialect, remote=self._remote)
        history, _ = setup.prepare(f"{collection}_history", CHANGE_INDEXES, has_vectors=False)
        indexes = {**SERVER_NOTE_INDEXES, **ordered}
        notes, made = setup.prepare(collection, indexes, has_vectors=True)
        return notes, history, made

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder with the collection."""
        self._made = replace(self._made, cosines=dict(cosines))
        metadata, name = {"amem": asdict(self._made)}, self._name
        run(self._connection.call(lambda c: c.update_collection(name, metadata=metadata)))

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

    aget, aget_indexed = twin(PointStore.get), twin(PointStore.get_indexed)
    asearch, abacklinks = twin(PointStore.search), twin(PointStore.backlinks)
    ascan, acount = twin(PointStore.scan), twin(PointStore.count)
    anamespaces, alast_seq = twin(PointStore.namespaces), twin(PointStore.last_seq)
    achanges, amentions = twin(PointStore.changes), twin(PointStore.mentions)
    achanges_by_id = twin(PointStore.changes_by_id)
    achanges_by_op = twin(PointStore.changes_by_op)
    ainsert, areplace = twin(PointStore.insert), twin(PointStore.replace)
    arewrite_changes = twin(PointStore.rewrite_changes)
    adelete, aclear = twin(PointStore.delete), twin(PointStore.clear)
    aget_claims, aput_claims = twin(ClaimPoints.get_claims), twin(ClaimPoints.put_claims)
    aswap_claims, adrop_claims = twin(ClaimPoints.swap_claims), twin(ClaimPoints.drop_claims)

    @property
    def made_with(self) -> Mapping[str, Any]:
        """What the collection was made with: `embedder`, `dimensions`, `format`, `schema`."""
        return self._made.described()

    @property
    def remote(self) -> bool:
        """Whether a call waits for a network."""
        return self._remote

    @property
    def where(self) -> str:
        """The address of the server, without what is secret in it."""
        return self._connection.where

    def flush(self) -> None:
        """Do nothing: the server answers when it has written."""
        self._check_open()

    def close(self) -> None:
        """Close the connections; calling it again does nothing. Those of a loop are closed with the loop."""
        if not self._closed:
            self._closed = True
            with suppress(StoreError):  # what was to be written is
                run(self._take_announcements_away())
            self._connection.close()

    async def aclose(self) -> None:
        """Close the connections, and those of the running loop first."""
        await self._connection.aclose()
        await asyncio.to_thread(self.close)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the memory at {self.where} is closed; open it again")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_open()
        with self._lock:
            yield

    async def _ranked(
        self,
        queries: Sequence[Query],
        wanted: Sequence[Nearest],
        plan: Sequence[Mapping[str, int]],
    ) -> list[Ranked]:
        """Bring notes along, and the cosines of notes that only words find, by the same request.

        These cosines are one more list: the points that the lexical query finds, scored by the vector.
        """
        if not self._remote or not any(query.bring for query in queries):
            return await super()._ranked(queries, wanted, plan)
        asked, points = list(wanted), list[Fused]()
        sources: list[tuple[int | None, int | None]] = []
        for query, places in zip(queries, plan, strict=True):
            parts, fused, rescored = [wanted[place] for place in places.values()], None, None
            if query.bring is not None and parts:
                fused = len(points)
                points.append(Fused(parts, query.bring.limit, query.bring.k))
            if query.bring is not None and len(parts) > 1:
                dense, lexical = parts
                rescored = len(asked)
                asked.append(replace(dense, limit=lexical.limit, among=lexical))
            sources.append((fused, rescored))
        lists, found = await self._notes.nearest_and_points(asked, points)
        return [
            Ranked(
                **found_lists(places, lists),
                cosines={} if rescored is None else dict(lists[rescored]),
                brought={}
                if fused is None
                else {point.id: decode_note(point.id, point.payload) for point in found[fused]},
            )
            for places, (fused, rescored) in zip(plan, sources, strict=True)
        ]


def _in_memory(lock: AbstractContextManager[object]) -> Connection:
    """Return a connection to local mode."""
    # Advice to use a server or a folder; who chose ":memory:" knows.
    warnings.filterwarnings("ignore", message="Local mode is not recommended")
    return Connection(MEMORY, pauses=(), client=QdrantClient(MEMORY), guard=lock)
