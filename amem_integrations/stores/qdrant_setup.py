"""A collection on a Qdrant server is made with its indexes, or checked to be the one that is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http import HTTPStatus
from inspect import signature
from typing import Any

from qdrant_client import QdrantClient, models

from ..errors import ConfigurationError, StoreError
from ..runtime import run
from .conditions import Dialect, IndexKind, json_path
from .connection import Connection, is_status
from .payloads import DENSE, LEXICAL, is_metadata_name
from .qdrant_collection import QdrantCollection
from .sidecar import AS_MADE, Sidecar

OLDEST_SERVER = (1, 19)  # older ones do not weigh words by the notes of one namespace
AT_ONCE = 8  # requests that make indexes
ORDERED = ("integer", "float", "datetime")  # kinds of `metadata_indexes`

# Parameters of `create_collection` that are not the user's; a custom `sharding_method` would need shard keys.
_OURS = {
    "self", "kwargs", "collection_name", "vectors_config", "sparse_vectors_config", "metadata", "sharding_method",
}  # fmt: skip

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


class Setup:
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
        dialect: Dialect,
        *,
        remote: bool,
    ) -> None:
        self._connection, self._wanted, self._remote = connection, wanted, remote
        self._dialect = dialect
        self._options = _checked_options(options)
        if remote:
            self._check_version()

    def prepare(
        self,
        name: str,
        indexes: Mapping[str, IndexKind],
        *,
        has_vectors: bool,
    ) -> tuple[QdrantCollection, Sidecar]:
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
        if self._remote:
            missing = indexes.keys() - info.payload_schema.keys()
            self._make_indexes(name, {field: indexes[field] for field in missing})
        replicated = (info.config.params.replication_factor or 1) > 1
        consistency = models.ReadConsistencyType.MAJORITY if replicated else None
        return QdrantCollection(self._connection, name, self._dialect, consistency), made

    def _create(self, name: str, *, has_vectors: bool) -> None:
        how = dict(self._options)
        on_disk, size = how.pop("on_disk", None), self._wanted.dimensions
        dense = models.VectorParams(size=size, distance=models.Distance.COSINE, on_disk=on_disk)
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
            kind = _SCHEMAS[indexes[field]]
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
        return run(self._connection.call(do))


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
