"""The served store: a Qdrant server by URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from http import HTTPStatus
from inspect import signature
from typing import Any

from qdrant_client import QdrantClient, models

from ..errors import ConfigurationError, StoreClosedError, StoreError
from .bm25 import Bm25
from .conditions import IndexKind, json_path
from .connection import CONNECTIONS, Connection, connect, is_status
from .payloads import DENSE, LEXICAL, is_metadata_name
from .server_collection import ServerCollection, client_dialect
from .sidecar import AS_MADE, Sidecar
from .store import NOTE_INDEXES, RECORD_INDEXES, Store

TOKEN: Mapping[str, IndexKind] = {"token": "keyword"}  # a swap compares the tokens
OLDEST_SERVER = (1, 19)  # older ones do not weigh words by the notes of one namespace
AT_ONCE = 8  # requests that make indexes
ORDERED = ("integer", "float", "datetime")  # kinds of `metadata_indexes`

# Parameters of `create_collection` that are not the user's; a custom `sharding_method` would need shard keys.
_OURS = {
    "self", "kwargs", "collection_name", "vectors_config", "sparse_vectors_config", "metadata", "sharding_method",
}  # fmt: skip


class ServerStore(Store):
    """Notes and records in two collections of a Qdrant server (1.19 or later), shared by any number of processes.

    Threads share its connections. Writes return when they are applied; on replicas they wait for the majority, in one
    order, and reads ask the majority.

    Args:
        location: The URL of a server.
        dimensions: Length of the dense vectors.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection of notes; the records are in `<collection>-journal`.
        bm25: How text becomes a sparse vector.
        api_key: Sent to the server; over plain http only to localhost, or with `allow_insecure`.
        allow_insecure: Send the key over plain http anyway.
        pauses: Seconds to wait before each repeat of a call when the server does not answer, is too
            busy or fails; a random part is added, and what the server asks for is kept to.
        connections: Most requests at once, by all threads; others wait.
        metadata_indexes: The names of metadata fields that `where` compares by `$gt`, `$gte`, `$lt` or `$lte`,
            or with a datetime, each with `"integer"`, `"float"` or `"datetime"`. A server searches only
            by what has an index; equality and `$in` need none of these.
        collection_options: How the collections are made, if they are not there: what
            `QdrantClient.create_collection` takes (`shard_number`, `replication_factor`, `quantization_config`,
            `on_disk_payload`, …), and `on_disk` for the dense vectors.
        client_options: Passed on to `QdrantClient` (`timeout`, `prefix`, `https`, …).

    Raises:
        StoreUnavailableError: The server cannot be reached.
        EmbedderMismatchError: The collection was made with another embedder, or another `bm25`.
        StoreError: The server refuses, is too old, or the collection is of an earlier schema or holds something else.
        ConfigurationError: An argument is out of its range, or would expose the key.
    """

    remote = True

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
                f"a server wants dimensions > 0, a name and connections > 0, not {wrong}"
            )
        ordered, bm25 = ordered_paths(metadata_indexes or {}), bm25 or Bm25()
        self._is_closed, self._name = False, collection
        self._connection = connect(
            location,
            api_key,
            client_options,
            pauses=pauses,
            connections=connections,
            allow_insecure=allow_insecure,
        )
        wanted = Sidecar.new(embedder=embedder, dimensions=dimensions, bm25=bm25)
        try:
            setup = _Setup(self._connection, wanted, collection_options or {}, ordered)
            indexes = {**NOTE_INDEXES, **TOKEN, **ordered}
            notes, self._made = setup.prepare(collection, indexes, has_vectors=True)
            # Only now: a memory of another schema or embedder is left as it is.
            of_records = {**RECORD_INDEXES, **TOKEN}
            records, _ = setup.prepare(f"{collection}-journal", of_records, has_vectors=False)
        except BaseException:
            self._connection.close()
            raise
        super().__init__(notes, records, dimensions=self._made.dimensions, bm25=bm25)

    @property
    def made_with(self) -> Mapping[str, Any]:
        """The settings that the collection was made with: `embedder`, `dimensions`, `format`, `schema`."""
        return self._made.described()

    @property
    def where(self) -> str:
        """The address of the server, without what is secret in it."""
        return self._connection.where

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder with the collection."""
        self._made = replace(self._made, cosines=dict(cosines))
        metadata, name = {"amem": asdict(self._made)}, self._name
        self._connection.call(lambda client: client.update_collection(name, metadata=metadata))

    def close(self) -> None:
        """Close the connections; calling it again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(f"the memory at {self.where} is closed; open it again")


class _Setup:
    """Makes the collections of one memory.

    Raises:
        ConfigurationError: An option of the collections is unknown.
        StoreError: The server is too old.
    """

    def __init__(
        self,
        connection: Connection,
        wanted: Sidecar,
        options: Mapping[str, Any],
        ordered: Mapping[str, IndexKind],
    ) -> None:
        self._connection, self._wanted = connection, wanted
        self._dialect = client_dialect(ordered)
        self._options = _checked_options(options)
        self._check_version()

    def prepare(
        self,
        name: str,
        indexes: Mapping[str, IndexKind],
        *,
        has_vectors: bool,
    ) -> tuple[ServerCollection, Sidecar]:
        """Return a collection and its fingerprint; it and its indexes are made if they are not there.

        Raises:
            StoreError: It holds something else.
            EmbedderMismatchError: It was made with another embedder.
        """
        where = f"collection {name!r} at {self._connection.where}"
        if not self._call(lambda client: client.collection_exists(name)):
            if self._wanted.embedder == AS_MADE:
                raise StoreError(f"there is no memory in {where}")
            self._create(name, has_vectors=has_vectors)
        info = self._call(lambda client: client.get_collection(name))
        made = Sidecar.parse((info.config.metadata or {}).get("amem"), where)
        made.check(self._wanted, where)
        missing = indexes.keys() - info.payload_schema.keys()
        self._make_indexes(name, {field: indexes[field] for field in missing})
        replicated = (info.config.params.replication_factor or 1) > 1
        consistency = models.ReadConsistencyType.MAJORITY if replicated else None
        return ServerCollection(self._connection, name, self._dialect, consistency), made

    def _create(self, name: str, *, has_vectors: bool) -> None:
        how = dict(self._options)
        on_disk, size = how.pop("on_disk", None), self._wanted.dimensions
        rows = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        dense = models.VectorParams(
            size=size, distance=models.Distance.COSINE, on_disk=on_disk, multivector_config=rows
        )
        lexical = {LEXICAL: models.SparseVectorParams(modifier=models.Modifier.IDF)}
        metadata = {"amem": asdict(self._wanted)}
        try:
            self._call(
                lambda client: client.create_collection(
                    name, {DENSE: dense} if has_vectors else {}, lexical, metadata=metadata, **how
                )
            )
        except StoreError as error:
            if not is_status(error.__cause__, HTTPStatus.CONFLICT):  # else another was faster
                raise

    def _make_indexes(self, name: str, indexes: Mapping[str, IndexKind]) -> None:
        def make(field: str) -> None:
            kind = self._dialect.index(indexes[field])
            self._call(lambda c: c.create_payload_index(name, field, kind, wait=True))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(make, indexes))

    def _check_version(self) -> None:
        version = self._call(lambda client: client.info()).version
        numbers = re.search(r"(\d+)\.(\d+)", version)
        if numbers is None or tuple(map(int, numbers.groups())) < OLDEST_SERVER:
            needed = ".".join(map(str, OLDEST_SERVER)) + " or later is needed"
            where = self._connection.where
            raise StoreError(f"the Qdrant server at {where} is version {version!r}; {needed}")

    def _call(self, do: Callable[[QdrantClient], Any]) -> Any:  # noqa: ANN401 - of the client
        return self._connection.call(do)


def _checked_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that collections are made with.

    One shard orders the hits of BM25 as a folder does. With replicas a write waits for the majority of them.

    Raises:
        ConfigurationError: An option is unknown.
    """
    known = {"on_disk", *signature(QdrantClient.create_collection).parameters} - _OURS
    if unknown := sorted(given.keys() - known):
        raise ConfigurationError(
            f"unknown collection_options {', '.join(map(repr, unknown))}; known are "
            f"{', '.join(sorted(known))}"
        )
    replicas = given.get("replication_factor") or 1
    majority = {"write_consistency_factor": replicas // 2 + 1} if replicas > 1 else {}
    return {"shard_number": 1, **majority, **given}


def ordered_paths(metadata_indexes: Mapping[str, IndexKind]) -> dict[str, IndexKind]:
    """Return the kinds of the indexes of metadata fields by their path in a payload.

    Raises:
        ConfigurationError: A name or a kind cannot be indexed.
    """
    for name, kind in metadata_indexes.items():
        if kind not in ORDERED or not is_metadata_name(name):
            raise ConfigurationError(
                f"metadata_indexes={{{name!r}: {kind!r}}} must give a name one of {ORDERED}"
            )
    return {json_path(f"metadata.{name}"): kind for name, kind in metadata_indexes.items()}
