"""A collection of points on a Qdrant server, or in qdrant-client's local mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from qdrant_client import models

from .collection import Fused, Nearest
from .conditions import Dialect, Filter, IndexKind
from .connection import Connection
from .payloads import (
    DENSE,
    LEXICAL,
    Point,
    is_written,
    points_of,
)
from .query_requests import QueryRequests, sparse_vector

PAGE = 256  # points with their payloads in one request
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
    when applied. A conditional write never says what it changed: what was written is read back. `consistency` is
    that of reads by id and of searches.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        dialect: Dialect,
        consistency: models.ReadConsistency | None = None,
    ) -> None:
        self._connection, self._name, self.dialect = connection, name, dialect
        self._consistency = consistency

    async def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, *, vectors: bool = False
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some payload fields."""
        payload = True if fields is None else list(fields)
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
                )
            )
        return {point.id: point for point in points_of(records)}

    async def upsert(self, points: Sequence[Point], erase: Sequence[str] = ()) -> None:
        """Write points without vectors, replacing those there are; first of all remove those to `erase`."""
        for page in _pages(points, PAGE_OF_RECORDS):
            if erase:
                await self._batch([*self._erasing(erase), _upserting(page)])
            else:
                await self._upsert(page)
            erase = ()

    async def insert(self, points: Sequence[Point]) -> set[str]:
        """Write new points; return the ids that another writer took first.

        `seq` is in nanoseconds and no version of a note changes it, so it tells whose note is stored.
        """
        for page in _pages(points, PAGE):
            await self._upsert(page, update_mode=models.UpdateMode.INSERT_ONLY)
        stored = await self.retrieve([point.id for point in points], ("seq",))
        return {
            point.id
            for point in points
            if point.id not in stored or stored[point.id].payload["seq"] != point.payload["seq"]
        }

    async def swap(self, points: Sequence[Point]) -> set[str]:
        """Replace points whose stored `revision` is one less; return the ids where it was not.

        A point without any vector keeps those that are stored.
        """
        for page in _pages(points, PAGE):
            whole = [point for point in page if _has_vectors(point)]
            kept = [self._overwriting(point) for point in page if not _has_vectors(point)]
            how: dict[str, Any] = {"update_mode": models.UpdateMode.UPDATE_ONLY}
            if whole:
                how["update_filter"] = self.dialect.some(list(map(self._unchanged, whole)))
            if kept:
                await self._batch([*([_upserting(whole, **how)] if whole else []), *kept])
            else:
                await self._upsert(whole, **how)
        stored = await self.retrieve([point.id for point in points], ("revision", "ops"))
        return {point.id for point in points if not is_written(point, stored.get(point.id))}

    async def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        selector = models.FilterSelector(filter=which)
        await self._connection.call(
            lambda client: client.delete(self._name, selector, wait=True, ordering=ORDERING)
        )

    async def delete_with(
        self,
        which: Sequence[Filter],
        *,
        before: Sequence[Point] = (),
        after: Sequence[Point] = (),
        erase: Sequence[str] = (),
    ) -> None:
        """Remove the points that match, in one request: after writing some, and before writing others."""
        first, last = ([_upserting(points)] if points else [] for points in (before, after))
        if operations := [*self._erasing(erase), *first, *map(_deleting, which), *last]:
            await self._batch(operations)

    async def nearest(self, queries: Sequence[Nearest]) -> list[list[tuple[str, float]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""
        lists, _ = await self.nearest_and_points(queries, ())
        return lists

    async def nearest_and_points(
        self, queries: Sequence[Nearest], points: Sequence[Fused]
    ) -> tuple[list[list[tuple[str, float]]], list[list[Point]]]:
        """Return (id, score) for each query, and the points that others find, by one request."""
        make = QueryRequests()
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
    ) -> list[Point]:
        """Return matching points: all of them in any order, or `limit` of them in order of `seq`."""
        if limit is not None:
            direction = models.Direction.DESC if newest_first else models.Direction.ASC
            order = models.OrderBy(key="seq", direction=direction)
            return (await self._page(which, limit, order_by=order))[0]
        points, offset = await self._page(which, PAGE)
        while offset is not None:
            page, offset = await self._page(which, PAGE, offset=offset)
            points += page
        return points

    async def count(self, which: Filter | None = None) -> int:
        """Return how many points match, exactly."""
        found = await self._connection.call(lambda c: c.count(self._name, which, exact=True))
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

    def _unchanged(self, point: Point) -> Filter:
        """The point is as it was before this version, and of its namespace, if it has one."""
        revision = self.dialect.integer("revision", point.payload["revision"] - 1)
        same = [self.dialect.ids([point.id]), revision]
        if namespace := point.payload.get("namespace"):
            same.append(self.dialect.any_of("namespace", [namespace]))
        return self.dialect.every(same)

    def _overwriting(self, point: Point) -> models.OverwritePayloadOperation:
        change = models.SetPayload(payload=point.payload, filter=self._unchanged(point))
        return models.OverwritePayloadOperation(overwrite_payload=change)

    def _erasing(self, ids: Sequence[str]) -> list[models.DeleteOperation]:
        return [_deleting(self.dialect.ids(ids))] if ids else []

    async def _upsert(self, points: Sequence[Point], **how: Any) -> None:  # noqa: ANN401
        structs = list(map(_struct, points))
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
        self,
        which: Filter | None,
        limit: int,
        **how: Any,  # noqa: ANN401 - of the client
    ) -> tuple[list[Point], Any]:
        records, offset = await self._connection.call(
            lambda client: client.scroll(self._name, which, limit=limit, with_payload=True, **how)
        )
        return list(points_of(records)), offset


def _retrieve(client: Any, **how: Any) -> Any:  # noqa: ANN401 - of the client, in either form
    return client.retrieve(**how)


def _pages(items: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _has_vectors(point: Point) -> bool:
    return point.dense is not None or point.lexical is not None


def _upserting(points: Sequence[Point], **how: Any) -> models.UpsertOperation:  # noqa: ANN401
    listed = models.PointsList(points=list(map(_struct, points)), **how)
    return models.UpsertOperation(upsert=listed)


def _deleting(which: Filter) -> models.DeleteOperation:
    return models.DeleteOperation(delete=models.FilterSelector(filter=which))


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None and len(point.dense):
        vectors[DENSE] = [float(number) for number in point.dense]
    if point.lexical is not None:
        vectors[LEXICAL] = sparse_vector(point.lexical)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)
