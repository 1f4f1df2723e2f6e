"""A collection of points on a Qdrant server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import models

from .bm25 import Sparse
from .conditions import Dialect, Filter, IndexKind
from .connection import Connection
from .payloads import DENSE, LEXICAL, Point, points_of
from .store import Fused, Hits, Nearest

PAGE = 256  # points with their payloads in one request
PAGE_OF_SWAPS = 50  # points with a condition each
PAGE_OF_IDS = 1024  # points that are looked for
MAX_VALUES = 1_000_000

# One replica after the other, by a leader that is elected anew when its node is away: two writers of one point
# meet in the same order on all replicas. "strong" has a permanent leader, and would wait for that node.
ORDERING = models.WriteOrdering.MEDIUM
WRITING: Mapping[str, Any] = {"wait": True, "ordering": ORDERING}


def client_dialect(ordered: Mapping[str, IndexKind]) -> Dialect:
    """Return the builder of the filters for qdrant-client."""

    def has_id(ids: Sequence[str]) -> Filter:
        return models.HasIdCondition(has_id=list(ids))

    def has_vector(name: str) -> Filter:
        return models.HasVectorCondition(has_vector=name)

    def typed(index: str) -> Mapping[str, str]:
        return {"type": index.lower()}

    return Dialect(models, typed, models.Range, models.DatetimeRange, has_id, has_vector, ordered)


class ServerCollection:
    """A `Collection` by qdrant-client, which other processes may write to as well.

    Writes are acknowledged when applied. `consistency` is that of reads.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        dialect: Dialect,
        consistency: models.ReadConsistency | None = None,
    ) -> None:
        self._connection, self._name, self.dialect = connection, name, dialect
        # A server with one replica needs none.
        self._reading: dict[str, Any] = {} if consistency is None else {"consistency": consistency}

    def retrieve(
        self, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some fields of their payloads."""
        records: list[models.Record] = []
        for some in _pages(ids, PAGE_OF_IDS):
            payload = True if fields is None else list(fields)
            how = {"with_payload": payload, "with_vectors": vectors, **self._reading}
            records += self._call("retrieve", some, **how)
        return {point.id: point for point in points_of(records)}

    def insert(self, points: Sequence[Point]) -> None:
        """Write those of the points whose ids are not there."""
        for page in _pages(points, PAGE):
            structs = list(map(_struct, page))
            self._call("upsert", structs, update_mode=models.UpdateMode.INSERT_ONLY, **WRITING)

    def swap(self, swaps: Sequence[tuple[str, Point]]) -> None:
        """Replace each point whose stored `token` is the one given."""
        every, any_of = self.dialect.every, self.dialect.any_of
        for page in _pages(swaps, PAGE_OF_SWAPS):
            unchanged = [
                every([self.dialect.ids([point.id]), any_of("token", [token])])
                for token, point in page
            ]
            self._call(
                "upsert",
                [_struct(point) for _, point in page],
                update_filter=self.dialect.some(unchanged),
                update_mode=models.UpdateMode.UPDATE_ONLY,
                **WRITING,
            )

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        self._call("delete", models.FilterSelector(filter=which), **WRITING)

    def nearest(
        self, queries: Sequence[Nearest], fused: Sequence[Fused] = ()
    ) -> tuple[list[Hits], list[list[Point]]]:
        """Return (id, score) for each query, sorted by (-score, id), and the points that others find, by one request."""
        make = _Requests()
        requests = [make.scored(query) for query in queries]
        requests += [make.bringing(each) for each in fused]
        if not requests:
            return [], []
        answers = self._answers(requests)
        hits = [[(str(p.id), p.score) for p in answer.points] for answer in answers[: len(queries)]]
        lists = [sorted(found, key=lambda hit: (-hit[1], hit[0])) for found in hits]
        return lists, [list(points_of(answer.points)) for answer in answers[len(queries) :]]

    def newest(self, queries: Iterable[tuple[Filter, int]]) -> list[Point]:
        """Return for each query that many matching points with the greatest `seq`."""
        order = models.OrderBy(key="seq", direction=models.Direction.DESC)
        newest = models.OrderByQuery(order_by=order)
        requests = [
            models.QueryRequest(query=newest, filter=which, limit=limit, with_payload=True)
            for which, limit in queries
        ]
        return [point for answer in self._answers(requests) for point in points_of(answer.points)]

    def scroll(self, which: Filter | None, least: int | None = None) -> list[Point]:
        """Return all matching points, or at least so many of them, in any order."""
        points, offset = self._page(which, PAGE)
        while offset is not None and (least is None or len(points) < least):
            page, offset = self._page(which, PAGE, offset=offset)
            points += page
        return points

    def ordered(
        self, by: str, which: Filter | None, limit: int, *, newest_first: bool = False
    ) -> list[Point]:
        """Return a number of matching points in the order of a field."""
        direction = models.Direction.DESC if newest_first else models.Direction.ASC
        order = models.OrderBy(key=by, direction=direction)
        return self._page(which, limit, order_by=order)[0]

    def count(self, which: Filter) -> int:
        """Return how many points match, exactly."""
        if not self._reading:
            return int(self._call("count", which, exact=True).count)
        request = models.CountRequest(filter=which, exact=True)
        answer = self._connection.call(  # the client itself passes no consistency on
            lambda client: client.http.points_api.count_points(
                self._name, count_request=request, **self._reading
            )
        )
        return int(answer.result.count)

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        found = self._call("facet", key, which, limit=MAX_VALUES, exact=True, **self._reading)
        return [str(hit.value) for hit in found.hits if hit.count]

    def _answers(self, requests: Sequence[models.QueryRequest]) -> Sequence[models.QueryResponse]:
        """Return the answers to a batch of queries.

        The client itself copies every request, numbers and all, to look for texts to embed; ours have none.
        """
        batch = models.QueryRequestBatch(searches=list(requests))
        answer = self._connection.call(
            lambda client: client.http.search_api.query_batch_points(
                self._name, query_request_batch=batch, **self._reading
            )
        )
        answers: Sequence[models.QueryResponse] = answer.result
        return answers

    def _page(
        self,
        which: Filter | None,
        limit: int,
        **how: Any,  # noqa: ANN401 - of the client
    ) -> tuple[list[Point], Any]:
        how |= {"limit": limit, "with_payload": True, **self._reading}
        records, offset = self._call("scroll", which, **how)
        return list(points_of(records)), offset

    def _call(self, method: str, *args: Any, **how: Any) -> Any:  # noqa: ANN401
        def do(client: Any) -> Any:  # noqa: ANN401
            return getattr(client, method)(self._name, *args, **how)

        return self._connection.call(do)


class _Requests:
    """Makes the requests of one batch; a vector that stands in several of them is converted once."""

    def __init__(self) -> None:
        self._converted = dict[int, list[list[float]]]()

    def scored(self, query: Nearest) -> models.QueryRequest:
        """Return the request for ids and scores."""
        among = None if query.among is None else models.Prefetch(**self._query(query.among))
        return models.QueryRequest(**self._query(query), prefetch=among, with_payload=False)

    def bringing(self, wanted: Fused) -> models.QueryRequest:
        """Return the request for points themselves: the best of several lists."""
        how: dict[str, Any] = {"with_payload": True, "limit": wanted.limit}
        parts = [self._query(part) for part in wanted.parts]
        if len(parts) == 1:
            return models.QueryRequest(**{**parts[0], **how})
        # The engine counts ranks from 0.
        fusion = models.RrfQuery(rrf=models.Rrf(k=wanted.k + 1))
        lists = [models.Prefetch(**part) for part in parts]
        return models.QueryRequest(prefetch=lists, query=fusion, **how)

    def _query(self, query: Nearest) -> dict[str, Any]:
        common = {"filter": query.filter, "limit": query.limit}
        if isinstance(query.vector, tuple):
            params = models.SearchParams(idf=models.IdfCorpusParams(corpus=query.corpus))
            words = _sparse_vector(query.vector)
            return {**common, "query": words, "using": LEXICAL, "params": params}
        rows = self._converted.setdefault(id(query.vector), [])
        if not rows:
            rows.append(query.vector.tolist())
        return {**common, "query": rows, "using": DENSE}


def _pages(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _sparse_vector(words: Sparse) -> models.SparseVector:
    return models.SparseVector(indices=words[0], values=words[1])


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.lexical is not None:
        vectors[LEXICAL] = _sparse_vector(point.lexical)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)
