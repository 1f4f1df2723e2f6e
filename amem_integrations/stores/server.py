"""The served store: a Qdrant server by URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from http import HTTPStatus
from inspect import signature
from typing import Any

from qdrant_client import QdrantClient, models

from ..errors import ConfigurationError, StoreClosedError, StoreError, status_of
from .conditions import INDEXES, Filters, IndexKind, json_path
from .connection import Connection
from .payloads import DENSE, LEXICAL, is_metadata_name
from .server_collection import ServerCollection
from .sidecar import Sidecar
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
        dimensions: Length of the dense vectors; None to open what is there, whatever it was made with.
        embedder: Name of the embedder they come from; empty to accept whatever is there.
        collection: Name of the collection of notes; the records are in `<collection>-journal`.
        metadata_indexes: The names of metadata fields that `where` compares by `$gt`, `$gte`, `$lt` or `$lte`,
            or with a datetime, each with `"integer"`, `"float"` or `"datetime"`. A server searches only
            by what has an index; equality and `$in` need none of these.
        collection_options: How the collections are made, if they are not there: what
            `QdrantClient.create_collection` takes (`shard_number`, `replication_factor`, `quantization_config`,
            `on_disk_payload`, …), and `on_disk` for the dense vectors.
        connection: Options of the `Connection`.

    Raises:
        StoreUnavailableError: The server cannot be reached.
        EmbedderMismatchError: The collection was made with another embedder, or weighs words otherwise.
        StoreError: The server refuses, is too old, or the collection is of an earlier schema or holds something else.
        ConfigurationError: An argument is out of its range, or would expose the key.
    """

    remote = True

    def __init__(
        self,
        location: str,
        *,
        dimensions: int | None = None,
        embedder: str = "",
        collection: str = "amem",
        metadata_indexes: Mapping[str, IndexKind] | None = None,
        collection_options: Mapping[str, Any] | None = None,
        **connection: Any,  # noqa: ANN401 - of `Connection`
    ) -> None:
        if (dimensions is not None and dimensions < 1) or not collection:
            raise ConfigurationError(
                f"a server wants dimensions > 0, not {dimensions!r}, and a name, not {collection!r}"
            )
        ordered = ordered_paths(metadata_indexes or {})
        self._is_closed, self._name = False, collection
        self._options = _checked_options(collection_options or {})
        self._connection = Connection(location, **connection)
        wanted = None if dimensions is None else Sidecar.made(embedder, dimensions)
        try:
            self._check_version()
            indexes = {**NOTE_INDEXES, **TOKEN, **ordered}
            notes, self._made = self._prepared(collection, indexes, wanted)
            # Only now: a memory of another schema or embedder is left as it is.
            indexes = {**RECORD_INDEXES, **TOKEN}
            records, _ = self._prepared(f"{collection}-journal", indexes, wanted)
        except BaseException:
            self._connection.close()
            raise
        size = self._made.dimensions
        super().__init__(notes, records, dimensions=size, filters=Filters(ordered))

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
        self._is_closed = True
        self._connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(f"the memory at {self.where} is closed; open it again")

    def _check_version(self) -> None:
        version = self._connection.call(lambda client: client.info()).version
        numbers = re.search(r"(\d+)\.(\d+)", version)
        if numbers is None or tuple(map(int, numbers.groups())) < OLDEST_SERVER:
            needed = ".".join(map(str, OLDEST_SERVER)) + " or later is needed"
            raise StoreError(f"the Qdrant server at {self.where} is version {version!r}; {needed}")

    def _prepared(
        self, name: str, indexes: Mapping[str, IndexKind], wanted: Sidecar | None
    ) -> tuple[ServerCollection, Sidecar]:
        """Return a collection and its fingerprint; it and its indexes are made if they are not there.

        Raises:
            StoreError: It holds something else, or is not there and not wanted.
            EmbedderMismatchError: It was made with another embedder.
        """
        call, where = self._connection.call, f"collection {name!r} at {self.where}"
        if not call(lambda client: client.collection_exists(name)):
            if wanted is None:
                raise StoreError(f"there is no memory in {where}")
            self._create(name, wanted)
        info = call(lambda client: client.get_collection(name))
        made = Sidecar.parse((info.config.metadata or {}).get("amem"), where)
        if wanted is not None:
            made.check(wanted, where)

        def make(field: str) -> None:
            body = {"field_name": field, "field_schema": INDEXES[indexes[field]]}
            self._connection.request("PUT", name, "/index", body, {"wait": "true"})

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(make, indexes.keys() - info.payload_schema.keys()))
        replicated = (info.config.params.replication_factor or 1) > 1
        return ServerCollection(self._connection, name, replicated=replicated), made

    def _create(self, name: str, wanted: Sidecar) -> None:
        how = {**self._options, "metadata": {"amem": asdict(wanted)}}
        size, on_disk = wanted.dimensions, how.pop("on_disk", None)
        best = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        dense = models.VectorParams(
            size=size, distance=models.Distance.COSINE, on_disk=on_disk, multivector_config=best
        )
        vectors = {DENSE: dense} if name == self._name else {}  # records have none
        words = {LEXICAL: models.SparseVectorParams(modifier=models.Modifier.IDF)}
        try:
            self._connection.call(
                lambda client: client.create_collection(name, vectors, words, **how)
            )
        except StoreError as error:
            if status_of(error) != HTTPStatus.CONFLICT:  # else another was faster
                raise


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
