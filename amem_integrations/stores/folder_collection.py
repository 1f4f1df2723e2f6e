"""A collection of points in a folder: one shard of Qdrant's engine, inside this process.

The engine's habits are dealt with here: all its errors are plain `Exception`s that differ by their text only,
a damaged file makes it panic with something that is not even an `Exception`, and a refused write can
leave a point without payload, which is ignored on reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from ..errors import StoreError, StoreLockedError
from .conditions import Dialect, Filter, IndexKind
from .payloads import DENSE, LEXICAL, TEXT, Payload, Point, points_of
from .store import Fused, Hits, Nearest

NO_HNSW = 2_000_000_000  # indexing threshold: `optimize` builds no graph below this many kilobytes
HNSW_FROM = 10_000  # the engine's own threshold
EF = 128  # of searches over a graph; the default loses 5 % of the neighbours at 10,000 notes
PAGE = 256  # points; a call holds the GIL, so none should be long
MAX_VALUES = 1_000_000
FEW = 256  # points, among which everything is found quickly
NEEDED = (
    "namespace",
    "buried",
    "owing",
    "seq",
    "last",
)  # indexes without which no order and no values are known

_LOCKED = "WouldBlock"
_WORDS = {LEXICAL: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)}


class Using:
    """Goes round every use of the engine: one at a time, and what the engine raises is translated.

    Raises:
        StoreLockedError: Another process, or another store in this one, has the folder open.
        StoreError: Anything else: damage, or an operation the engine refuses.
    """

    def __init__(self, path: Path, lock: AbstractContextManager[bool]) -> None:
        self._path, self._lock = path, lock

    def __enter__(self) -> None:
        """Wait until nobody else uses the engine."""
        self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Let others use the engine, and translate an error."""
        self._lock.__exit__(kind, error, where)
        # A panic of the engine derives from BaseException; anything else of that kind is not ours.
        if kind is None or not (issubclass(kind, Exception) or kind.__name__ == "PanicException"):
            return
        if _LOCKED in str(error):
            raise is_open_already(self._path.parent) from error
        raise StoreError(
            f"the engine failed on {self._path}: {error}. If this happens again, the folder may be damaged: "
            "restore it from a backup or an export"
        ) from error


def is_open_already(path: Path) -> StoreLockedError:
    """Return the error that a folder is open, in another process or in this one."""
    return StoreLockedError(
        f"the memory in {path} is open already, in another process or in this one; close it there, or share one memory "
        "by a Qdrant server, at a URL such as http://localhost:6333"
    )


DIALECT = Dialect(
    edge,
    lambda _: {},
    edge.RangeFloat,
    edge.RangeDateTime,
    lambda ids: edge.HasIdCondition(set(ids)),
    edge.HasVectorCondition,
)


class FolderCollection:
    """A `Collection` in a folder. Not for use in a forked child: the engine hangs there.

    One process has a shard open at a time, so a lock round reading and writing is all that a swap needs.

    Args:
        path: The folder of the shard.
        indexes: The fields that have an index, and of what kind.
        lock: Goes round every use of the engine.
        forgotten: Is told how many bytes of text a write takes out of a point.
    """

    dialect = DIALECT

    def __init__(
        self,
        path: Path,
        indexes: Mapping[str, IndexKind],
        lock: AbstractContextManager[bool],
        forgotten: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._path, self._indexes, self._forgotten = path, indexes, forgotten
        self._using = Using(path, lock)
        self.was_killed = False  # who had the folder open before
        self._is_dirty = True  # something may not survive a power cut
        self._shard: edge.EdgeShard
        self._lacking, self._few = dict[str, IndexKind](), FEW

    def create(self, *, dimensions: int | None, is_temporary: bool = False) -> None:
        """Make a new shard; without `dimensions` its points have no vectors.

        A temporary one outlives no kill. It is made in a third of the time: most indexes, without which filters find the
        same, come when there are some points.
        """
        rows = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
        vectors = {
            # The engine wants some vector, which no point needs to have.
            DENSE: edge.EdgeVectorParams(1, edge.Distance.Dot)
            if dimensions is None
            else edge.EdgeVectorParams(dimensions, edge.Distance.Cosine, multivector_config=rows)
        }
        config = edge.EdgeConfig(
            vectors=vectors,
            sparse_vectors=None if dimensions is None else _WORDS,
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=NO_HNSW),
            wal_enabled=not is_temporary,
        )
        with self._using:
            self._path.mkdir(parents=True)
            self._shard = edge.EdgeShard.create(str(self._path), config)
            if is_temporary:
                self._lacking = {f: k for f, k in self._indexes.items() if f not in NEEDED}
            self._make_indexes(self._indexes.keys() - self._lacking.keys())

    def load(self) -> None:
        """Open the shard, with the indexes an earlier version did not make.

        Raises:
            StoreLockedError: It is open already.
            StoreError: It is damaged.
        """
        with self._using:
            self._shard = edge.EdgeShard.load(str(self._path))
            self._make_indexes(self._indexes.keys() - self._shard.info().payload_schema.keys())

    def retrieve(
        self, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some fields of their payloads."""
        if not ids:
            return {}
        with self._using:
            payload = True if fields is None else list(fields)
            records = self._shard.retrieve(list(ids), payload, vectors)
        return {point.id: point for point in points_of(records)}

    def insert(self, points: Sequence[Point]) -> None:
        """Write those of the points whose ids are not there, some in one operation of the log."""
        for page in _pages(points):
            self._upsert(page, edge.UpdateMode.InsertOnly)
        self._few -= len(points)
        if self._lacking and self._few < 0:
            with self._using:
                self._make_indexes(self._lacking)
                self._lacking = {}

    def swap(self, swaps: Sequence[tuple[str, Point]]) -> None:
        """Replace each point whose stored `token` is the one given; what stays of a point is not written again."""
        for page in _pages(swaps):
            with self._using:
                stored = self.retrieve([point.id for _, point in page])
                new = [
                    (stored[point.id].payload, point)
                    for token, point in page
                    if point.id in stored and stored[point.id].payload["token"] == token
                ]
                self._replace(new)
                self._forgotten(sum(_gone(old, point.payload) for old, point in new))

    def _replace(self, new: Sequence[tuple[Payload, Point]]) -> None:
        """Write points, given with their stored payloads.

        The words of a note whose dense vector stays are written before its payload. If the process is killed between
        the two, somebody has yet to project the note, and then nothing is taken for written.
        """
        whole, reworded = list[Point](), list[Point]()
        changes: dict[str, tuple[Payload, list[int | str | UUID]]] = {}  # by their text
        for old, point in new:
            is_same = point.dense is None and old[TEXT] == point.payload[TEXT]
            if is_same and not (self.was_killed and point.lexical):
                changed = _changed(old, point.payload)
                changes.setdefault(repr(changed), (changed, []))[1].append(point.id)
            else:
                (reworded if point.keeps_dense else whole).append(point)
        if whole:
            self._upsert(whole)
        do, make = self._update, edge.UpdateOperation
        if reworded:
            words = [edge.PointVectors(point.id, _words(point)) for point in reworded]
            do(make.update_vectors(words))
        for point in reworded:
            do(make.overwrite_payload([point.id], point.payload))
        for changed, ids in changes.values():
            do(make.set_payload(ids, changed))

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        with self._using:
            sizes = (_size(p.payload) for page in self.pages(which) for p in page)
            gone = sum(sizes)
            self._update(edge.UpdateOperation.delete_points_by_filter(which))
            self._forgotten(gone)

    def nearest(
        self, queries: Sequence[Nearest], fused: Sequence[Fused] = ()
    ) -> tuple[list[Hits], list[list[Point]]]:
        """Return (id, score) for each query, sorted by (-score, id); notes are not brought: reading them costs nothing."""
        assert not fused  # noqa: S101 - only a server saves a request so
        if not queries:
            return [], []
        requests = edge.QueryBatchRequest([_request(query) for query in queries])
        with self._using:
            results: Any = self._shard.query_batch(requests)
        hits = [[(_spelled(point.id.int), point.score) for point in result] for result in results]
        for found in hits:
            found.sort()
            found.sort(key=itemgetter(1), reverse=True)  # equal scores stay in the order of ids
        return hits, []

    def newest(self, queries: Iterable[tuple[Filter, int]]) -> list[Point]:
        """Return for each query that many matching points with the greatest `seq`."""
        order = edge.OrderBy("seq", edge.Direction.Desc)
        requests = [
            edge.QueryRequest(limit, query=order, filter=which, with_payload=True)
            for which, limit in queries
        ]
        with self._using:
            results: Any = self._shard.query_batch(edge.QueryBatchRequest(requests))
        return [point for result in results for point in points_of(result)]

    def scroll(self, which: Filter | None, least: int | None = None) -> list[Point]:
        """Return all matching points, or at least so many of them, in any order."""
        points: list[Point] = []
        for page in self.pages(which):
            points += page
            if least is not None and len(points) >= least:
                break
        return points

    def ordered(
        self, by: str, which: Filter | None, limit: int, *, newest_first: bool = False
    ) -> list[Point]:
        """Return a number of matching points in the order of a field."""
        order = edge.OrderBy(by, edge.Direction.Desc if newest_first else edge.Direction.Asc)
        return self._page(edge.ScrollRequest(None, limit, which, True, order_by=order))[0]

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
        with self._using:
            return self._shard.count(edge.CountRequest(exact=True, filter=which))

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        with self._using:
            request = edge.FacetRequest(key, MAX_VALUES, exact=True, filter=which)
            found = self._shard.facet(request)
            return [str(hit.value) for hit in found.hits if hit.count]

    def optimize(self) -> bool:
        """Merge segments and build the graph of neighbours; return whether there was anything to do."""
        # A kind of vector that is not named keeps its setting; the engine wants at least one named.
        config = edge.EdgeConfig(
            sparse_vectors=_WORDS,
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=HNSW_FROM),
        )
        with self._using:
            self._shard.flush()
            self._shard.close()
            self._shard = edge.EdgeShard.load(str(self._path), config)
            done = self._shard.optimize()
            self._shard.flush()
        return done

    def flush(self) -> None:
        """Make what was written survive a power cut."""
        with self._using:
            if self._is_dirty:
                self._shard.flush()
                self._is_dirty = False

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless the folder is not there any more, and let go of it."""
        with self._using:
            if flush:
                self._shard.flush()
            self._shard.close()

    def _update(self, operation: edge.UpdateOperation) -> None:
        self._is_dirty = True
        self._shard.update(operation)

    def _upsert(
        self, points: Sequence[Point], mode: edge.UpdateMode = edge.UpdateMode.Upsert
    ) -> None:
        new = [_edge_point(point) for point in points]
        with self._using:
            self._update(edge.UpdateOperation.upsert_points(new, update_mode=mode))

    def _make_indexes(self, fields: Iterable[str]) -> None:
        for field in fields:
            schema = DIALECT.index(self._indexes[field])
            self._update(edge.UpdateOperation.create_field_index(field, schema))

    def _page(self, request: edge.ScrollRequest) -> tuple[list[Point], Any]:
        with self._using:
            records, offset = self._shard.scroll(request)
        return list(points_of(records)), offset


def _pages(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), PAGE):
        yield list(items[start : start + PAGE])


def _gone(old: Payload, new: Payload) -> int:
    """Return how many bytes of text are in the old version of a point and not in the new one, about."""
    before, after = _size(old), _size(new)
    return before if _size(new) and old.get("rev") != new.get("rev") else max(0, before - after)


def _size(payload: Payload) -> int:
    return len(payload.get(TEXT, "").encode())


@lru_cache(maxsize=2**16)
def _spelled(number: int) -> str:
    """Return an id as text: spelling out a hundred UUIDs takes as long as finding them."""
    return str(UUID(int=number))


def _changed(old: Payload, new: Payload) -> Payload:
    """Return the fields of a payload that are others now; those that are gone have no value."""
    gone = {name: None for name in old.keys() - new.keys() if old[name] is not None}
    return {name: value for name, value in new.items() if old.get(name) != value} | gone


def _edge_point(point: Point) -> edge.Point:
    vectors = _words(point)
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()  # an array takes longer to convert
    return edge.Point(point.id, vectors, point.payload)


def _words(point: Point) -> dict[str, Any]:
    return {} if point.lexical is None else {LEXICAL: edge.SparseVector(*point.lexical)}


def _request(query: Nearest) -> edge.QueryRequest:
    vector: Any = query.vector
    if isinstance(vector, tuple):
        nearest = edge.Query.Nearest(edge.SparseVector(*vector), LEXICAL)
        params = edge.SearchParams(idf=edge.IdfParams(corpus=query.corpus))
    else:
        nearest = edge.Query.Nearest([vector.tolist()], DENSE)  # an array takes longer to convert
        params = edge.SearchParams(hnsw_ef=EF)
    return edge.QueryRequest(query.limit, query=nearest, filter=query.filter, params=params)
