"""A collection of points on a Qdrant server, or in qdrant-client's local mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from qdrant_client import models

from .collection import Also, Fused, Nearest, Those
from .conditions import Dialect, Filter, IndexKind
from .connection import Connection
from .layout import ShardKeys
from .payloads import (
    DENSE,
    LEXICAL,
    Point,
    is_written,
    points_of,
)
from .query_requests import PAGE, QueryRequests, sparse_vector

PAGE_OF_IDS = 1024  # points that are looked for
PAGE_OF_RECORDS = 512  # points without vectors
QUICK = 2  # seconds
MAX_NAMESPACES = 1_000_000

# One replica after the other, by a leader that is elected anew when its node is away: two writers of one note
# meet in the same order on all replicas. "strong" has a permanent leader, and would wait for that node.
ORDERING = models.WriteOrdering.MEDIUM


def client_dialect(ordered: Mapping[str, IndexKind] | None) -> Dialect:
    """Return what makes the filters for qdrant-client."""

    def has_id(ids: Sequence[str]) -> Filter:
        return models.HasIdCondition(has_id=list(ids))

    def has_vector(name: str) -> Filter:
        return models.HasVectorCondition(has_vector=name)

    return Dialect(models, models.Range, models.DatetimeRange, has_id, has_vector, ordered)


class QdrantCollection:
    """A `Collection` by qdrant-client, which other processes may write to as well.

    Its methods are coroutines, which suspend only in asynchronous calls of the store. Writes are acknowledged
    when applied. A conditional write never says what it changed: what was written is read back. With
    `shards`, the points of a namespace are in a shard of their own; what names no namespace asks all. `consistency`
    is that of reads by id.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        dialect: Dialect,
        shards: ShardKeys | None = None,
        consistency: models.ReadConsistency | None = None,
    ) -> None:
        self._connection, self._name, self.dialect = connection, name, dialect
        self._shards, self._consistency = shards, consistency

    async def retrieve(
        self,
        ids: Sequence[str],
        fields: Sequence[str] | None = None,
        *,
        vectors: bool = False,
        namespace: str | None = None,
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some payload fields."""
        payload = True if fields is None else list(fields)
        how = self._reading(namespace)
        records: list[models.Record] = []
        for some in _pages(ids, PAGE_OF_IDS):
            records += await self._connection.call(
                partial(
                    _retrieve,
                    collection_name=self._name,
                    ids=some,
                    with_payload=payload,
                    with_vectors=vectors,
                    consistency=self._consistency,
                    **how,
                )
            )
        return {point.id: point for point in points_of(records)}

    async def upsert(self, points: Sequence[Point], erase: Sequence[str] = ()) -> None:
        """Write points without vectors, replacing those there are; first of all remove those to `erase`."""
        for page in _pages(points, PAGE_OF_RECORDS):
            by_shard = self._by_shard(page)
            if len(by_shard) == 1 and not erase:
                ((shard, some),) = by_shard.items()
                await self._upsert(some, shard)
                continue
            listed = [
                _upserting(models.PointsList(points=list(map(_struct, some)), shard_key=shard))
                for shard, some in by_shard.items()
            ]
            await self._batch([*self._erasing(erase), *listed])
            erase = ()

    async def insert(self, points: Sequence[Point]) -> set[str]:
        """Write new points; return the ids that another writer took first.

        `seq` is in nanoseconds and no version of a note changes it, so it tells whose note is stored.
        """
        for page in _pages(points, PAGE):
            for shard, some in self._by_shard(page).items():
                await self._upsert(some, shard, update_mode=models.UpdateMode.INSERT_ONLY)
        stored = await self._stored(points, ("seq",))
        return {
            point.id
            for point in points
            if point.id not in stored or stored[point.id].payload["seq"] != point.payload["seq"]
        }

    async def swap(self, points: Sequence[Point], also: Also | None = None) -> set[str]:
        """Replace points whose stored `revision` is one less; return the ids where it was not.

        A point without any vector keeps those that are stored. `also` is read with what was written.
        """
        await self._swap(points)
        if also is None or not 0 < len(points) <= PAGE:
            stored = await self._stored(points, ("revision", "ops"))
        else:
            namespace, ids = points[0].payload["namespace"], [point.id for point in points]
            ours = [self.dialect.any_of("namespace", [namespace]), self.dialect.ids(ids)]
            written = Those(self.dialect.every(ours), fields=("revision", "ops"))
            wanted = [written, *also.wanted]
            _, (read, *found) = await self.nearest_and_points([], wanted, namespace)
            also.found[:] = found
            stored = {point.id: point for point in read}
        return {point.id for point in points if not is_written(point, stored.get(point.id))}

    async def _swap(self, points: Sequence[Point]) -> None:
        for page in _pages(points, PAGE):
            for shard, some in self._by_shard(page).items():
                whole = [point for point in some if _has_vectors(point)]
                kept = [self._overwriting(p, shard) for p in some if not _has_vectors(p)]
                how: dict[str, Any] = {"update_mode": models.UpdateMode.UPDATE_ONLY}
                if whole:
                    how["update_filter"] = self.dialect.some(list(map(self._unchanged, whole)))
                if not kept:
                    await self._upsert(whole, shard, **how)
                    continue
                structs = list(map(_struct, whole))
                listed = models.PointsList(points=structs, shard_key=shard, **how)
                upserts = [_upserting(listed)] if structs else []
                await self._batch([*upserts, *kept])

    async def delete(self, which: Filter, namespace: str | None = None) -> None:
        """Remove the points that match."""
        keys = self._every_shard if namespace is None else self._key(namespace)
        selector = models.FilterSelector(filter=which, shard_key=keys)
        await self._connection.call(
            lambda client: client.delete(self._name, selector, wait=True, ordering=ORDERING)
        )

    async def delete_with(
        self,
        which: Sequence[Filter],
        namespace: str,
        *,
        before: Sequence[Point] = (),
        after: Sequence[Point] = (),
        erase: Sequence[str] = (),
    ) -> None:
        """Remove the points that match, in one request: after writing some, and before writing others."""
        shard = self._key(namespace)
        deletes = [
            models.DeleteOperation(delete=models.FilterSelector(filter=each, shard_key=shard))
            for each in which
        ]
        first, last = (
            [_upserting(models.PointsList(points=list(map(_struct, points)), shard_key=shard))]
            if points
            else []
            for points in (before, after)
        )
        if operations := [*self._erasing(erase), *first, *deletes, *last]:
            await self._batch(operations)

    async def nearest(
        self, queries: Sequence[Nearest], namespace: str | None = None
    ) -> list[list[tuple[str, float]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""
        lists, _ = await self.nearest_and_points(queries, (), namespace)
        return lists

    async def nearest_and_points(
        self, queries: Sequence[Nearest], points: Sequence[Fused | Those], namespace: str | None
    ) -> tuple[list[list[tuple[str, float]]], list[list[Point]]]:
        """Return (id, score) for each query, and the points that others find, by one request."""
        make = QueryRequests(self._key(namespace))
        requests = [make.scored(query) for query in queries]
        requests += [make.bringing(each) for each in points]
        if not requests:
            return [], []
        answers = await self._answers(requests)
        hits = [[(str(p.id), p.score) for p in answer.points] for answer in answers[: len(queries)]]
        lists = [sorted(found, key=lambda hit: (-hit[1], hit[0])) for found in hits]
        return lists, [list(points_of(answer.points)) for answer in answers[len(queries) :]]

    async def _answers(
        self, requests: Sequence[models.QueryRequest]
    ) -> Sequence[models.QueryResponse]:
        """Return the answers to a batch of queries.

        The client itself copies every request, numbers and all, to look for texts to embed; ours have none.
        """
        name, how = self._name, {"consistency": self._consistency}
        answers: Sequence[models.QueryResponse]
        if self._connection.is_local:
            answers = await self._connection.call(lambda c: c.query_batch_points(name, requests))
            return answers
        batch = models.QueryRequestBatch(searches=list(requests))
        answer = await self._connection.call(
            lambda c: c.http.search_api.query_batch_points(name, query_request_batch=batch, **how)
        )
        answers = answer.result
        return answers

    async def scroll(
        self,
        which: Filter | None,
        *,
        limit: int | None = None,
        newest_first: bool | None = None,
        namespace: str | None = None,
    ) -> list[Point]:
        """Return matching points: all of them in any order, or `limit` of them in order of `seq`."""
        how = self._reading(namespace)
        if limit is not None:
            direction = models.Direction.DESC if newest_first else models.Direction.ASC
            how["order_by"] = models.OrderBy(key="seq", direction=direction)
            return (await self._page(which, limit, how))[0]
        points, offset = await self._page(which, PAGE, how)
        while offset is not None:
            page, offset = await self._page(which, PAGE, {**how, "offset": offset})
            points += page
        return points

    async def count(self, which: Filter | None = None, namespace: str | None = None) -> int:
        """Return how many points match, exactly."""
        how = self._reading(namespace)
        found = await self._connection.call(lambda c: c.count(self._name, which, exact=True, **how))
        return int(found.count)

    async def size(self) -> int:
        """Return about how many points there are, by one quick try."""
        found = await self._connection.call(
            lambda c: c.count(self._name, exact=False, timeout=QUICK), tries=1
        )
        return int(found.count)

    async def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        found = await self._connection.call(
            lambda client: client.facet(self._name, key, which, limit=MAX_NAMESPACES, exact=True)
        )
        return [str(hit.value) for hit in found.hits if hit.count]

    def _key(self, namespace: str | None) -> str | None:
        return None if namespace is None or self._shards is None else self._shards.of(namespace)

    def _reading(self, namespace: str | None) -> dict[str, Any]:
        shard = self._key(namespace)
        return {} if shard is None else {"shard_key_selector": shard}

    def _by_shard(self, points: Iterable[Point]) -> dict[str | None, list[Point]]:
        found: dict[str | None, list[Point]] = {}
        for point in points:
            found.setdefault(self._key(_space(point)), []).append(point)
        return found

    def _unchanged(self, point: Point) -> Filter:
        """The point is as it was before this version, and of its namespace, if it has one."""
        revision = self.dialect.integer("revision", point.payload["revision"] - 1)
        same = [self.dialect.ids([point.id]), revision]
        if namespace := point.payload.get("namespace"):
            same.append(self.dialect.any_of("namespace", [namespace]))
        return self.dialect.every(same)

    def _overwriting(self, point: Point, shard: str | None) -> models.OverwritePayloadOperation:
        change = models.SetPayload(
            payload=point.payload, filter=self._unchanged(point), shard_key=shard
        )
        return models.OverwritePayloadOperation(overwrite_payload=change)

    def _erasing(self, ids: Sequence[str]) -> list[models.DeleteOperation]:
        if not ids:
            return []
        which = self.dialect.ids(ids)
        selector = models.FilterSelector(filter=which, shard_key=self._every_shard)
        return [models.DeleteOperation(delete=selector)]

    @property
    def _every_shard(self) -> Any:  # noqa: ANN401 - a selector
        """What names all shards: a removal has to."""
        return None if self._shards is None else self._shards.all

    async def _stored(self, points: Sequence[Point], fields: Sequence[str]) -> dict[str, Point]:
        found: dict[str, Point] = {}
        for some in self._by_shard(points).values():
            ids = [point.id for point in some]
            found |= await self.retrieve(ids, fields, namespace=_space(some[0]))
        return found

    async def _upsert(self, points: Sequence[Point], shard: str | None, **how: Any) -> None:  # noqa: ANN401
        structs = list(map(_struct, points))
        if shard is not None:
            how["shard_key_selector"] = shard
        await self._connection.call(
            lambda c: c.upsert(self._name, structs, wait=True, ordering=ORDERING, **how)
        )

    async def _batch(self, operations: Sequence[Any]) -> None:
        await self._connection.call(
            lambda client: client.batch_update_points(
                self._name, operations, wait=True, ordering=ORDERING
            )
        )

    async def _page(
        self, which: Filter | None, limit: int, how: Mapping[str, Any]
    ) -> tuple[list[Point], Any]:
        records, offset = await self._connection.call(
            lambda client: client.scroll(self._name, which, limit=limit, with_payload=True, **how)
        )
        return list(points_of(records)), offset


def _retrieve(client: Any, **how: Any) -> Any:  # noqa: ANN401 - of the client, in either form
    return client.retrieve(**how)


def _pages(items: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _space(point: Point) -> str:
    """Return the key of the namespace that a point is of, or about."""
    return str(point.payload.get("namespace") or point.payload["about"])


def _has_vectors(point: Point) -> bool:
    return point.dense is not None or point.lexical is not None


def _upserting(listed: models.PointsList) -> models.UpsertOperation:
    return models.UpsertOperation(upsert=listed)


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None and len(point.dense):
        vectors[DENSE] = [float(number) for number in point.dense]
    if point.lexical is not None:
        vectors[LEXICAL] = sparse_vector(point.lexical)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)
