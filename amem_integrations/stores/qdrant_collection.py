"""A collection of points on a Qdrant server, or in qdrant-client's local mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from qdrant_client import QdrantClient, models

from ..errors import InvalidInputError
from .bm25 import Sparse
from .collection import DENSE, LEXICAL, Filter, IndexKind, Nearest, Point, is_written
from .connection import Connection

PAGE = 256  # points in one request
MAX_NAMESPACES = 1_000_000


class ClientDialect:
    """Filters in the types of qdrant-client.

    `ordered` are the metadata fields that have an index for ranges, and of which kind; None where a range
    needs no index.
    """

    def __init__(self, ordered: Mapping[str, IndexKind] | None = None) -> None:
        self._ordered = ordered

    def any_of(self, key: str, values: Sequence[str]) -> Filter:
        """The field equals one of the strings, or holds one of them."""
        return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))

    def integer(self, key: str, value: int) -> Filter:
        """The field equals the integer, exactly."""
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))

    def between(self, key: str, bounds: Mapping[str, float]) -> Filter:
        """The number is within the bounds."""
        self._check_ordered(key, ("integer", "float"))
        return models.FieldCondition(key=key, range=models.Range(**bounds))

    def during(self, key: str, bounds: Mapping[str, str]) -> Filter:
        """The time is within the bounds."""
        self._check_ordered(key, ("datetime",))
        times = {bound: datetime.fromisoformat(time) for bound, time in bounds.items()}
        return models.FieldCondition(key=key, range=models.DatetimeRange(**times))

    def _check_ordered(self, key: str, kinds: Sequence[IndexKind]) -> None:
        if self._ordered is None or not key.startswith("metadata."):
            return
        if self._ordered.get(key) not in kinds:
            name = key.removeprefix("metadata.")
            message = (
                f"a range of {key!r} needs an index on the server: open the memory with "
                f"metadata_indexes={{{name!r}: {' or '.join(map(repr, kinds))}}}"
            )
            raise InvalidInputError(message)

    def ids(self, ids: Sequence[str]) -> Filter:
        """The point has one of these ids."""
        return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])

    def every(self, conditions: Sequence[Filter], but: Sequence[Filter] = ()) -> Filter:
        """All conditions hold, and none of `but`."""
        return models.Filter(must=list(conditions), must_not=list(but) or None)

    def some(self, conditions: Sequence[Filter]) -> Filter:
        """At least one of the conditions holds."""
        return models.Filter(should=list(conditions))


class QdrantCollection:
    """A `Collection` by qdrant-client, which other processes may write to as well.

    Writes are acknowledged when applied, and those that depend on a revision go through the leader of
    the replicas. A conditional write never says what it changed: what was written is read back.
    """

    def __init__(self, connection: Connection, name: str, dialect: ClientDialect) -> None:
        self._connection, self._name, self._dialect = connection, name, dialect

    @property
    def dialect(self) -> ClientDialect:
        """Makes the filters for qdrant-client."""
        return self._dialect

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, *, vectors: bool = False
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some payload fields."""
        payload = True if fields is None else list(fields)
        records: list[models.Record] = []
        for some in _pages(ids):
            records += self._read(some, payload, vectors=vectors)
        return {point.id: point for point in map(_point, records) if point.payload}

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points, replacing those there are."""
        for page in _pages(points):
            self._write(page)

    def insert(self, points: Sequence[Point]) -> set[str]:
        """Write new points; return the ids that another writer took first.

        `seq` is in nanoseconds and no version of a note changes it, so it tells whose note is stored.
        """
        for page in _pages(points):
            self._write(page, update_mode=models.UpdateMode.INSERT_ONLY)
        stored = self.retrieve([point.id for point in points], ("seq",))
        return {
            point.id
            for point in points
            if point.id not in stored or stored[point.id].payload["seq"] != point.payload["seq"]
        }

    def swap(self, points: Sequence[Point]) -> set[str]:
        """Replace points whose stored `revision` is one less; return the ids where it was not."""
        for page in _pages(points):
            self._write(
                page,
                update_mode=models.UpdateMode.UPDATE_ONLY,
                update_filter=models.Filter(should=[_unchanged(point) for point in page]),
                ordering=models.WriteOrdering.STRONG,
            )
        stored = self.retrieve([point.id for point in points], ("revision", "ops"))
        return {point.id for point in points if not is_written(point, stored.get(point.id))}

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        selector = models.FilterSelector(filter=which)
        self._connection.call(lambda client: client.delete(self._name, selector, wait=True))

    def nearest(self, queries: Sequence[Nearest]) -> list[list[tuple[str, float]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""
        requests = [_request(query) for query in queries]
        answers = self._connection.call(
            lambda client: client.query_batch_points(self._name, requests)
        )
        hits = [[(str(point.id), point.score) for point in answer.points] for answer in answers]
        return [sorted(found, key=lambda hit: (-hit[1], hit[0])) for found in hits]

    def scroll(
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
            return self._page(which, limit, order_by=order)[0]
        points, offset = self._page(which, PAGE)
        while offset is not None:
            page, offset = self._page(which, PAGE, offset=offset)
            points += page
        return points

    def count(self, which: Filter | None = None) -> int:
        """Return how many points match, exactly."""
        return self._connection.call(
            lambda client: client.count(self._name, which, exact=True).count
        )

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        found = self._connection.call(
            lambda client: client.facet(self._name, key, which, limit=MAX_NAMESPACES, exact=True)
        )
        return [str(hit.value) for hit in found.hits if hit.count]

    def _read(
        self, ids: list[str], payload: bool | list[str], *, vectors: bool
    ) -> list[models.Record]:
        return self._connection.call(
            lambda client: client.retrieve(self._name, ids, payload, vectors)
        )

    def _write(self, points: Sequence[Point], **how: Any) -> None:  # noqa: ANN401 - of `upsert`
        structs = [_struct(point) for point in points]
        self._connection.call(lambda client: client.upsert(self._name, structs, wait=True, **how))

    def _page(
        self,
        which: Filter | None,
        limit: int,
        **how: Any,  # noqa: ANN401 - of `scroll`
    ) -> tuple[list[Point], Any]:
        def do(client: QdrantClient) -> tuple[list[models.Record], Any]:
            return client.scroll(self._name, which, limit, with_payload=True, **how)

        records, offset = self._connection.call(do)
        return [point for point in map(_point, records) if point.payload], offset


def _pages(items: Sequence[Any]) -> list[list[Any]]:
    return [list(items[start : start + PAGE]) for start in range(0, len(items), PAGE)]


def _unchanged(point: Point) -> models.Filter:
    revision = models.MatchValue(value=point.payload["revision"] - 1)
    return models.Filter(
        must=[
            models.HasIdCondition(has_id=[point.id]),
            models.FieldCondition(key="revision", match=revision),
        ]
    )


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = [float(number) for number in point.dense]
    if point.lexical is not None:
        vectors[LEXICAL] = _sparse(point.lexical)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def _sparse(terms: Sparse) -> models.SparseVector:
    return models.SparseVector(indices=terms[0], values=terms[1])


def _point(record: models.Record) -> Point:
    vectors: Any = record.vector or {}
    lexical = vectors.get(LEXICAL)
    return Point(
        str(record.id),
        record.payload or {},
        vectors.get(DENSE),
        lexical and (lexical.indices, lexical.values),
    )


def _request(query: Nearest) -> models.QueryRequest:
    vector: Any = query.vector
    if not isinstance(vector, tuple):
        return models.QueryRequest(
            query=vector.tolist(), using=DENSE, filter=query.filter, limit=query.limit
        )
    params = models.SearchParams(idf=models.IdfCorpusParams(corpus=query.corpus))
    return models.QueryRequest(
        query=_sparse(vector),
        using=LEXICAL,
        filter=query.filter,
        limit=query.limit,
        params=params,
    )
