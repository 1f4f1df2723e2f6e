"""How a memory is laid out on a server: shards by user, replicas, and what is kept in memory or on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from qdrant_client import models

from ..errors import ConfigurationError

SHARDS_PER_NODE, LEAST_SHARDS = 2, 4
GRAPH_EDGES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLayout:
    """What a memory's collections are made with; ignored for those that are there.

    Attributes:
        shards: On a cluster, how many shard keys namespaces are spread over, for good; None: two for each node,
            at least four. 0 leaves it to the server, which spreads the notes of one namespace over all shards.
        replicas: Copies of each shard, on different nodes. With more than one a write waits for the majority.
        quantized: `"int8"` searches by vectors of a quarter of the size, held in memory, and looks up the best in
            the full ones. None searches by the full ones.
        vectors_on_disk: Full vectors are read from disk when they are needed.
        payload_on_disk: So are notes and changes.
        tenant_graph: A graph of neighbours for each namespace alone, and none over all of them: quicker to build, and
            smaller, where there are very many namespaces. Others that search these collections without a
            namespace then get a wrong answer.
    """

    shards: int | None = None
    replicas: int = 1
    quantized: Literal["int8"] | None = None
    vectors_on_disk: bool = False
    payload_on_disk: bool = False
    tenant_graph: bool = False

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ConfigurationError: One is out of its range.
        """
        if self.replicas < 1 or (self.shards is not None and self.shards < 0):
            raise ConfigurationError(
                f"replicas={self.replicas!r} must be 1 or more, and shards={self.shards!r} 0 or more"
            )
        if self.quantized not in (None, "int8"):
            raise ConfigurationError(f"quantized={self.quantized!r} must be 'int8' or None")

    def vectors(self, dimensions: int) -> models.VectorParams:
        """Return how dense vectors are kept."""
        return models.VectorParams(
            size=dimensions,
            distance=models.Distance.COSINE,
            on_disk=True if self.vectors_on_disk else None,
        )

    def options(self) -> dict[str, Any]:
        """Return the arguments for `create_collection`."""
        made: dict[str, Any] = {}
        if self.replicas > 1:
            made["replication_factor"] = self.replicas
            made["write_consistency_factor"] = self.replicas // 2 + 1
        if self.quantized:
            scalar = models.ScalarQuantizationConfig(
                type=models.ScalarType.INT8, quantile=0.99, always_ram=True
            )
            made["quantization_config"] = models.ScalarQuantization(scalar=scalar)
        if self.payload_on_disk:
            made["on_disk_payload"] = True
        if self.tenant_graph:
            made["hnsw_config"] = models.HnswConfigDiff(m=0, payload_m=GRAPH_EDGES)
        return made

    def shard_keys(self, nodes: int) -> ShardKeys | None:
        """Return the shard keys for a cluster of so many nodes; None: the server spreads points itself."""
        count = self.shards
        if count is None:
            count = max(LEAST_SHARDS, SHARDS_PER_NODE * nodes)
        return ShardKeys(tuple(f"amem-{number}" for number in range(count))) if count else None


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """Which shard the notes and changes of a namespace are in.

    It is the key whose number is blake2b(namespace as JSON, 8 bytes, big-endian) modulo the number of keys, or the
    one that `own` names for a large user.
    """

    keys: Sequence[str]
    own: Mapping[str, str] = field(default_factory=dict)

    def of(self, namespace: str) -> str:
        """Return the shard key of a namespace (its key)."""
        if namespace in self.own:
            return self.own[namespace]
        digest = blake2b(namespace.encode(), digest_size=8).digest()
        return self.keys[int.from_bytes(digest, "big") % len(self.keys)]

    @property
    def all(self) -> list[str]:
        """All keys, each once."""
        return list(dict.fromkeys([*self.keys, *self.own.values()]))

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> ShardKeys | None:
        """Return the keys that the metadata of a collection tell; None: it has none."""
        stored = metadata.get("amem_shards")
        return None if stored is None else cls(tuple(stored["keys"]), dict(stored.get("own", {})))

    def metadata(self) -> dict[str, Any]:
        """Return what `read` takes back."""
        return {"amem_shards": {"keys": list(self.keys), "own": dict(self.own)}}
