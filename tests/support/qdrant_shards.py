"""A collection of the stand-in server, in shards: each a collection of local mode, with word statistics of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from qdrant_client import QdrantClient, models


class ShardsFailedError(Exception):
    """The server answers 500 with this text: some shards did not take a write, others did."""


class ShardedCollection:
    """Points in shards by their id."""

    def __init__(
        self,
        client: QdrantClient,
        name: str,
        wanted: models.CreateCollection,
        down: set[int],
    ) -> None:
        self._client, self._name, self.wanted, self._down = client, name, wanted, down
        self.shards = {n: f"{name} {n}" for n in range(wanted.shard_number or 1)}
        for place in self.shards.values():
            client.create_collection(
                place, wanted.vectors, wanted.sparse_vectors, metadata=wanted.metadata
            )

    def drop(self) -> None:
        """Remove all of it."""
        for place in self.shards.values():
            self._client.delete_collection(place)

    def info(self) -> dict[str, Any]:
        """Describe the collection as a server does."""
        info = self._client.get_collection(self.shards[0])
        described = info.model_dump(mode="json", exclude_none=True)
        asked = self.wanted.model_dump(mode="json", exclude_none=True)
        names = (
            "shard_number",
            "replication_factor",
            "write_consistency_factor",
            "on_disk_payload",
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
        shares = self._split(wanted) if kind == "upsert" else dict.fromkeys(self.shards, wanted)
        failed = [shard for shard in shares if shard in self._down]
        for shard, share in shares.items():
            if shard not in self._down:
                self._apply(kind, self.shards[shard], share)
        if failed:
            raise ShardsFailedError(
                f"{len(failed)} out of {len(shares)} shards failed to apply operation. First error "
                "captured: Service internal error: The replica set for shard 1 on peer 1 has no active replica"
            )

    def retrieve(self, wanted: models.PointRequest) -> list[Any]:
        found = [
            self._client.retrieve(place, wanted.ids, wanted.with_payload, wanted.with_vector)
            for place in self.shards.values()
        ]
        return [record for records in found for record in records]

    def count(self, wanted: models.CountRequest) -> int:
        counts = [self._client.count(p, wanted.filter, exact=True) for p in self.shards.values()]
        return sum(found.count for found in counts)

    def scroll(self, wanted: models.ScrollRequest) -> tuple[list[Any], Any]:
        options = (wanted.order_by, wanted.offset, wanted.with_payload, wanted.with_vector)
        limit, places = wanted.limit or 10, self.shards.values()
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
        found = [
            point
            for place in self.shards.values()
            for point in self._client.query_batch_points(place, [wanted])[0].points
        ]
        if len(self.shards) > 1:
            found.sort(key=lambda point: -point.score)
        return {"points": [p.model_dump(mode="json") for p in found[: wanted.limit or 10]]}

    def facet(self, wanted: models.FacetRequest) -> list[dict[str, Any]]:
        counted: Counter[Any] = Counter()
        for place in self.shards.values():
            found = self._client.facet(place, wanted.key, wanted.filter, wanted.limit or 10, True)
            counted.update({hit.value: hit.count for hit in found.hits})
        hits = counted.most_common(wanted.limit or 10)
        return [{"value": value, "count": count} for value, count in hits]

    def _split(self, wanted: models.PointsList) -> dict[int, Any]:
        shares: dict[int, list[Any]] = {}
        for point in wanted.points:
            shares.setdefault(_number(point.id) % len(self.shards), []).append(point)
        return {k: wanted.model_copy(update={"points": some}) for k, some in shares.items()}

    def _apply(self, kind: str, place: str, wanted: Any) -> None:
        if kind == "upsert":
            how = {"update_filter": wanted.update_filter, "update_mode": wanted.update_mode}
            self._client.upsert(place, wanted.points, **how)
        elif kind == "delete":
            self._client.delete(place, wanted)
        else:
            raise NotImplementedError(kind)


_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
_OPTIMIZER = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "flush_interval_sec": 5,
}


def _number(point_id: Any) -> int:
    return point_id if isinstance(point_id, int) else UUID(str(point_id)).int
