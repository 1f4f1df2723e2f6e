"""A collection of the stand-in server, in shards: each a collection of local mode, with word statistics of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from qdrant_client import QdrantClient, models


class BadRequestError(Exception):
    """The server answers 400 with this text."""


class ShardsFailedError(Exception):
    """The server answers 500 with this text: some shards did not take a write, others did."""


class ShardedCollection:
    """Points by shard key, or with automatic sharding by their id."""

    def __init__(
        self,
        client: QdrantClient,
        name: str,
        wanted: models.CreateCollection,
        down: set[Any],
        *,
        cluster: bool,
    ) -> None:
        self._client, self._name, self._wanted, self._down = client, name, wanted, down
        self.is_custom = wanted.sharding_method == models.ShardingMethod.CUSTOM
        if self.is_custom and not cluster:
            raise BadRequestError("Distributed mode disabled: custom sharding needs it")
        self.shards: dict[Any, str] = {}
        for number in range(0 if self.is_custom else wanted.shard_number or 1):
            self._add(number)

    @property
    def keys(self) -> list[Any]:
        """The shard keys that were made."""
        return list(self.shards) if self.is_custom else []

    def add_shard(self, key: Any) -> None:
        """Make a shard key."""
        if not self.is_custom:
            raise BadRequestError("Shard Key cannot be created with Auto sharding method")
        if key in self.shards:
            raise BadRequestError(f"Sharding key {key} already exists for collection {self._name}")
        self._add(key)

    def drop(self) -> None:
        """Remove all of it."""
        for place in self.shards.values():
            self._client.delete_collection(place)

    def info(self) -> dict[str, Any]:
        """Describe the collection as a server does."""
        if self.shards:
            info = self._client.get_collection(next(iter(self.shards.values())))
            described = info.model_dump(mode="json", exclude_none=True)
        else:
            described = {
                "status": "green",
                "optimizer_status": "ok",
                "segments_count": 0,
                "config": {},
            }
        asked = self._wanted.model_dump(mode="json", exclude_none=True)
        names = (
            "shard_number",
            "sharding_method",
            "replication_factor",
            "write_consistency_factor",
        )
        params = {
            name: asked[name] for name in ("vectors", "sparse_vectors", *names) if name in asked
        }
        config = {"hnsw_config": _HNSW, "optimizer_config": _OPTIMIZER, **described["config"]}
        config |= {"params": params, "metadata": asked.get("metadata")}
        for name in ("hnsw_config", "quantization_config"):
            if name in asked:
                config[name] = {**(config.get(name) or {}), **asked[name]}
        return {**described, "config": config}

    def update(self, kind: str, wanted: Any) -> None:
        """Do one operation; of its shards those that are up do it.

        Raises:
            ShardsFailedError: Not all were.
        """
        places = self._places(wanted.shard_key, writing=True)
        shares = self._split(wanted, places) if kind == "upsert" else dict.fromkeys(places, wanted)
        failed = [shard for shard in shares if shard in self._down]
        for shard, share in shares.items():
            if shard not in self._down:
                self._apply(kind, places[shard], share)
        if failed:
            raise ShardsFailedError(
                f"{len(failed)} out of {len(shares)} shards failed to apply operation. First error "
                "captured: Service internal error: The replica set for shard 1 on peer 1 has no active replica"
            )

    def retrieve(self, wanted: models.PointRequest) -> list[Any]:
        found = [
            self._client.retrieve(place, wanted.ids, wanted.with_payload, wanted.with_vector)
            for place in self._places(wanted.shard_key).values()
        ]
        return [record for records in found for record in records]

    def count(self, wanted: models.CountRequest) -> int:
        places = self._places(wanted.shard_key).values()
        return sum(self._client.count(place, wanted.filter, exact=True).count for place in places)

    def scroll(self, wanted: models.ScrollRequest) -> tuple[list[Any], Any]:
        options = (wanted.order_by, wanted.offset, wanted.with_payload, wanted.with_vector)
        limit, places = wanted.limit or 10, list(self._places(wanted.shard_key).values())
        pages = [self._client.scroll(p, wanted.filter, limit, *options) for p in places]
        if len(pages) == 1:
            return pages[0]
        points = [point for page, _ in pages for point in page]
        if wanted.order_by is not None:
            order = wanted.order_by
            key = order if isinstance(order, str) else order.key
            descending = not isinstance(order, str) and order.direction == models.Direction.DESC
            points.sort(key=lambda point: point.payload[key], reverse=descending)
            return points[:limit], None
        points.sort(key=lambda point: _number(point.id))
        left = [point.id for point in points[limit:]] + [offset for _, offset in pages if offset]
        return points[:limit], min(left, default=None)

    def query(self, wanted: models.QueryRequest) -> dict[str, Any]:
        places = list(self._places(wanted.shard_key).values())
        request = wanted.model_copy(update={"shard_key": None})
        found = [
            point
            for place in places
            for point in self._client.query_batch_points(place, [request])[0].points
        ]
        if len(places) > 1:
            found.sort(key=lambda point: -point.score)
        return {"points": [p.model_dump(mode="json") for p in found[: wanted.limit or 10]]}

    def facet(self, wanted: models.FacetRequest) -> list[dict[str, Any]]:
        counted: Counter[Any] = Counter()
        for place in self._places(wanted.shard_key).values():
            found = self._client.facet(place, wanted.key, wanted.filter, wanted.limit or 10, True)
            counted.update({hit.value: hit.count for hit in found.hits})
        hits = counted.most_common(wanted.limit or 10)
        return [{"value": value, "count": count} for value, count in hits]

    def _add(self, key: Any) -> None:
        place = f"{self._name} {key!r}"
        wanted = self._wanted
        self._client.create_collection(
            place, wanted.vectors, wanted.sparse_vectors, metadata=wanted.metadata
        )
        self.shards[key] = place

    def _places(self, selector: Any, *, writing: bool = False) -> dict[Any, str]:
        """Return the chosen shards: of a custom sharded collection those that are named."""
        if selector is None or not self.is_custom:
            if writing and self.is_custom:
                raise BadRequestError("Shard key not specified")
            return self.shards
        keys = selector if isinstance(selector, list) else [selector]
        if unknown := [key for key in keys if key not in self.shards]:
            raise BadRequestError(f"Shard key {unknown[0]} not found")
        return {key: self.shards[key] for key in keys}

    def _split(self, wanted: models.PointsList, places: Iterable[Any]) -> dict[Any, Any]:
        shards = list(places)
        shares: dict[Any, list[Any]] = {}
        for point in wanted.points:
            shares.setdefault(shards[_number(point.id) % len(shards)], []).append(point)
        return {k: wanted.model_copy(update={"points": some}) for k, some in shares.items()}

    def _apply(self, kind: str, place: str, wanted: Any) -> None:
        if kind == "upsert":
            how = {"update_filter": wanted.update_filter, "update_mode": wanted.update_mode}
            self._client.upsert(place, wanted.points, **how)
        elif kind == "delete":
            self._client.delete(place, wanted.model_copy(update={"shard_key": None}))
        elif kind in ("set_payload", "overwrite_payload"):
            chosen: Any = wanted.filter or self._present(place, wanted.points or [])
            getattr(self._client, kind)(place, wanted.payload, chosen)
        else:
            raise NotImplementedError(kind)

    def _present(self, place: str, ids: Sequence[Any]) -> list[Any]:
        return [record.id for record in self._client.retrieve(place, ids, with_payload=False)]


_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
_OPTIMIZER = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "flush_interval_sec": 5,
}


def _number(point_id: Any) -> int:
    return point_id if isinstance(point_id, int) else UUID(str(point_id)).int
