"""A collection of points in a folder: one shard of Qdrant's engine, inside this process.

The engine's habits are dealt with here: all its errors are plain `Exception`s that differ by their text only,
a damaged file makes it panic with something that is not even an `Exception`, and a refused write can
leave a point without payload, which is ignored on reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from ..errors import StoreError, StoreLockedError
from .collection import Nearest
from .conditions import Dialect, Filter, IndexKind
from .payloads import DENSE, LEXICAL, Point, points_of

NO_HNSW = 2_000_000_000  # indexing threshold: `optimize` builds no graph below this many kilobytes
HNSW_FROM = 10_000  # the engine's own threshold
EF = 128  # of searches over a graph; the default loses 5 % of the neighbours at 10,000 notes
PAGE = 256  # points; a call holds the GIL, so none should be long
MAX_NAMESPACES = 1_000_000

_LOCKED = "WouldBlock"
_SCHEMAS: Mapping[IndexKind, Any] = {
    # Only the namespace takes part in the graph: with all fields, building it takes 2.5 times as long.
    "tenant": edge.KeywordIndexParams(is_tenant=True, enable_hnsw=True),
    "keyword": edge.KeywordIndexParams(enable_hnsw=False),
    "integer": edge.IntegerIndexParams(lookup=True, range=True, enable_hnsw=False),
    "float": edge.FloatIndexParams(enable_hnsw=False),
    "datetime": edge.DatetimeIndexParams(enable_hnsw=False),
    "uuid": edge.UuidIndexParams(enable_hnsw=False),
}


@contextmanager
def engine_errors(path: Path) -> Iterator[None]:
    """Translate what the engine raises.

    Raises:
        StoreLockedError: Another process, or another store in this one, has the folder open.
        StoreError: Anything else: damage, or an operation the engine refuses.
    """
    try:
        yield
    except BaseException as error:
        # A panic of the engine derives from BaseException; anything else of that kind is not ours.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if _LOCKED in str(error):
            raise StoreLockedError(
                f"the memory in {path.parent} is open already, in another process or in this one; "
                "close it there, or share one memory by a Qdrant server: "
                "open('http://localhost:6333', …)"
            ) from error
        raise StoreError(
            f"the engine failed on {path}: {error}. If this happens again, the folder may be damaged: "
            "restore it from a backup or an export"
        ) from error


DIALECT = Dialect(
    edge,
    edge.RangeFloat,
    edge.RangeDateTime,
    lambda ids: edge.HasIdCondition(set(ids)),
    edge.HasVectorCondition,
)


class EdgeShard:
    """A `Collection` in a folder. Not for use in a forked child: the engine hangs there.

    One process has a shard open at a time, so a lock round reading and writing is all that `insert` and
    `swap` need, and the caller holds it: they are plain upserts here.
    """

    dialect = DIALECT

    def __init__(self, path: Path, shard: edge.EdgeShard) -> None:
        self._path, self._shard = path, shard

    @classmethod
    def create(
        cls, path: Path, indexes: Mapping[str, IndexKind], *, dimensions: int | None
    ) -> EdgeShard:
        """Return a new shard; without `dimensions` its points have no dense vector."""
        dense = dimensions and {DENSE: edge.EdgeVectorParams(dimensions, edge.Distance.Cosine)}
        config = edge.EdgeConfig(
            vectors=dense or None,
            sparse_vectors={LEXICAL: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=NO_HNSW),
        )
        with engine_errors(path):
            path.mkdir(parents=True)
            shard = edge.EdgeShard.create(str(path), config)
            _make_indexes(shard, indexes)
        return cls(path, shard)

    @classmethod
    def load(cls, path: Path, indexes: Mapping[str, IndexKind]) -> EdgeShard:
        """Return the shard in a folder, with the indexes an earlier version did not make.

        Raises:
            StoreLockedError: It is open already.
            StoreError: It is damaged.
        """
        with engine_errors(path):
            shard = edge.EdgeShard.load(str(path))
            missing = indexes.keys() - shard.info().payload_schema.keys()
            _make_indexes(shard, {field: indexes[field] for field in missing})
        return cls(path, shard)

    def retrieve(
        self,
        ids: Sequence[str],
        fields: Sequence[str] | None = None,
        *,
        vectors: bool = False,
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some payload fields."""
        if not ids:
            return {}
        payload = True if fields is None else list(fields)
        with engine_errors(self._path):
            records = self._shard.retrieve(list(ids), payload, vectors)
        return {point.id: point for point in points_of(records)}

    def upsert(self, points: Sequence[Point], erase: Sequence[str] = ()) -> None:
        """Write points, replacing those there are, in one operation of the log."""
        if erase:
            raise NotImplementedError  # nothing is announced here by a point of its own
        if points:
            with engine_errors(self._path):
                new = [_edge_point(point) for point in points]
                self._shard.update(edge.UpdateOperation.upsert_points(new))

    def insert(self, points: Sequence[Point]) -> set[str]:
        """Write new points; no other writer can have taken an id."""
        self.upsert(points)
        return set()

    def swap(self, points: Sequence[Point]) -> set[str]:
        """Replace points; no other writer can have changed one."""
        self.upsert(points)
        return set()

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        with engine_errors(self._path):
            self._shard.update(edge.UpdateOperation.delete_points_by_filter(which))

    def nearest(
        self,
        queries: Sequence[Nearest],
    ) -> list[list[tuple[str, float]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""
        if not queries:
            return []
        requests = edge.QueryBatchRequest([_request(query) for query in queries])
        with engine_errors(self._path):
            results: Any = self._shard.query_batch(requests)
        hits = [[(_spelled(point.id.int), point.score) for point in result] for result in results]
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
            direction = edge.Direction.Desc if newest_first else edge.Direction.Asc
            order = edge.OrderBy("seq", direction)
            return self._page(edge.ScrollRequest(None, limit, which, True, order_by=order))[0]
        return [point for page in self.pages(which) for point in page]

    def pages(self, which: Filter | None = None, *, vectors: bool = False) -> Iterator[list[Point]]:
        """Return matching points, some at a time."""
        offset = None
        while True:
            page, offset = self._page(edge.ScrollRequest(offset, PAGE, which, True, vectors))
            yield page
            if offset is None:
                return

    def count(self, which: Filter | None = None) -> int:
        """Return how many points match, exactly."""
        with engine_errors(self._path):
            return self._shard.count(edge.CountRequest(exact=True, filter=which))

    def size(self) -> int:
        """Return how many points there are."""
        return self.count()

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        with engine_errors(self._path):
            request = edge.FacetRequest(key, MAX_NAMESPACES, exact=True, filter=which)
            found = self._shard.facet(request)
            return [str(hit.value) for hit in found.hits if hit.count]

    def optimize(self) -> bool:
        """Merge segments and build the graph of neighbours; return whether there was anything to do."""
        # What is not named keeps its setting; the engine wants at least one kind of vector named.
        config = edge.EdgeConfig(
            sparse_vectors={LEXICAL: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=HNSW_FROM),
        )
        with engine_errors(self._path):
            self._shard.flush()
            self._shard.close()
            self._shard = edge.EdgeShard.load(str(self._path), config)
            done = self._shard.optimize()
            self._shard.flush()
        return done

    def flush(self) -> None:
        """Make what was written survive a power cut."""
        with engine_errors(self._path):
            self._shard.flush()

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless the folder is not there any more, and let go of it."""
        with engine_errors(self._path):
            if flush:
                self._shard.flush()
            self._shard.close()

    def _page(self, request: edge.ScrollRequest) -> tuple[list[Point], Any]:
        with engine_errors(self._path):
            records, offset = self._shard.scroll(request)
        return list(points_of(records)), offset


def _make_indexes(shard: edge.EdgeShard, indexes: Mapping[str, IndexKind]) -> None:
    for field, kind in indexes.items():
        shard.update(edge.UpdateOperation.create_field_index(field, _SCHEMAS[kind]))


@lru_cache(maxsize=2**16)
def _spelled(number: int) -> str:
    """Return an id as text: spelling out a hundred UUIDs takes as long as finding them."""
    return str(UUID(int=number))


def _edge_point(point: Point) -> edge.Point:
    vectors: dict[str, Any] = {}
    if point.dense is not None and len(point.dense):
        vectors[DENSE] = point.dense
    if point.lexical is not None:
        vectors[LEXICAL] = edge.SparseVector(*point.lexical)
    return edge.Point(point.id, vectors, point.payload)


def _request(query: Nearest) -> edge.QueryRequest:
    vector: Any = query.vector
    if isinstance(vector, tuple):
        nearest = edge.Query.Nearest(edge.SparseVector(*vector), LEXICAL)
        params = edge.SearchParams(idf=edge.IdfParams(corpus=query.corpus))
    else:
        nearest = edge.Query.Nearest(vector.tolist(), DENSE)  # an array takes longer to convert
        params = edge.SearchParams(hnsw_ef=EF)
    return edge.QueryRequest(query.limit, query=nearest, filter=query.filter, params=params)
