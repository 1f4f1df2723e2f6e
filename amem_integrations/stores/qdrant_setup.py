"""A collection on a Qdrant server is made with its indexes and shards, or checked to be the one that is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Any

from qdrant_client import QdrantClient, models

from ..errors import ConfigurationError, StoreError
from ..runtime import run
from .conditions import Dialect, IndexKind, json_path
from .connection import Connection, is_status
from .layout import ServerLayout, ShardKeys
from .payloads import LEXICAL, is_metadata_name
from .qdrant_collection import QdrantCollection
from .sidecar import AS_MADE, Sidecar

OLDEST_SERVER = (1, 19)  # older ones do not weigh words by the notes of one namespace
AT_ONCE = 8  # requests that make indexes
ORDERED = ("integer", "float", "datetime")  # kinds of `metadata_indexes`

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
        StoreError: The server is too old.
    """

    def __init__(
        self,
        connection: Connection,
        wanted: Sidecar,
        layout: ServerLayout,
        options: Mapping[str, Any],
        dialect: Dialect,
        *,
        remote: bool,
    ) -> None:
        self._connection, self._wanted, self._remote = connection, wanted, remote
        self._dialect = dialect
        self._layout, self._options = layout, {**layout.options(), **options}
        if remote:
            self._check_version()

    def prepare(
        self,
        name: str,
        indexes: Mapping[str, IndexKind],
        vectors: Mapping[str, models.VectorParams],
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
            self._create(name, vectors)
        info = self._call(lambda client: client.get_collection(name))
        metadata = info.config.metadata or {}
        made = Sidecar.parse(metadata.get("amem"), where)
        made.check(self._wanted, where)
        shards = ShardKeys.read(metadata)
        if shards is not None:
            self._make_shards(name, shards)
        if self._remote:
            missing = indexes.keys() - info.payload_schema.keys()
            self._make_indexes(name, {field: indexes[field] for field in missing})
        replicated = (info.config.params.replication_factor or 1) > 1
        consistency = models.ReadConsistencyType.MAJORITY if replicated else None
        it = QdrantCollection(self._connection, name, self._dialect, shards, consistency)
        return it, made

    def _create(self, name: str, vectors: Mapping[str, models.VectorParams]) -> None:
        shards = self._shard_keys()
        metadata: dict[str, Any] = {"amem": asdict(self._wanted)}
        how = dict(self._options)
        if shards is not None:
            how["sharding_method"] = models.ShardingMethod.CUSTOM
            metadata |= shards.metadata()
        lexical = {LEXICAL: models.SparseVectorParams(modifier=models.Modifier.IDF)}
        try:
            self._call(
                lambda client: client.create_collection(
                    name, dict(vectors), lexical, metadata=metadata, **how
                )
            )
        except StoreError as error:
            if not is_status(error.__cause__, HTTPStatus.CONFLICT):  # else another was faster
                raise

    def _shard_keys(self) -> ShardKeys | None:
        """Return the shard keys of a new collection; a server that is no cluster has none."""
        if not self._remote or "sharding_method" in self._options:
            return None
        status = self._call(lambda client: client.cluster_status())
        return self._layout.shard_keys(len(status.peers)) if status.status == "enabled" else None

    def _make_shards(self, name: str, shards: ShardKeys) -> None:
        """Make the shard keys that are missing, also after who created the collection was killed."""
        found = self._call(lambda client: client.collection_cluster_info(name))
        there = {shard.shard_key for shard in (*found.local_shards, *found.remote_shards)}
        for key in shards.all:
            if key not in there:
                try:
                    self._call(partial(_create_shard_key, name=name, key=key))
                except StoreError as error:
                    if "already exists" not in str(error):  # another was faster
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


def _create_shard_key(client: QdrantClient, *, name: str, key: str) -> bool:
    return client.create_shard_key(name, key)


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
