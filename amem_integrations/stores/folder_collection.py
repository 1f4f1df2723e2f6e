"""A collection of points in a folder: one shard of Qdrant's engine, inside this process.

The engine's habits are dealt with here: all its errors are plain `Exception`s that differ by their text only,
a damaged file makes it panic with something that is not even an `Exception`, and a refused write can
leave a point without payload, which is ignored on reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import qdrant_edge as edge

from ..errors import StoreError, StoreLockedError
from ..ports import Ranked
from .conditions import INDEXES, Filter, IndexKind
from .payloads import DENSE, LEXICAL, READ, TEXT, Payload, Point, rows
from .store import Limited, Search, pieces

NO_HNSW = 2_000_000_000  # indexing threshold: `optimize` builds no graph below this many kilobytes
HNSW_FROM = 10_000  # the engine's own threshold
EF = 128  # of searches over a graph; the default loses 5 % of the neighbours at 10,000 notes
PAGE = 256  # points; a call holds the GIL, so none should be long
MAX_VALUES = 1_000_000
FEW = 256  # points, among which everything is found quickly
EMBEDDED = '"embedded":'  # in the text of a note that has vectors
_WORDS = {LEXICAL: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)}


class FolderCollection:
    """A `Collection` in a folder. Not for use in a forked child: the engine hangs there.

    One process has a shard open at a time, so a lock round reading and writing is all that a swap needs.

    Args:
        path: The folder of the shard.
        indexes: The fields that have an index, and of what kind.
        lock: Goes round every use of the engine.

    Attributes:
        forgotten: How many bytes of text writes took out of points.
        was_killed: Whether who had the folder open before was killed.
    """

    def __init__(
        self, path: Path, indexes: Mapping[str, IndexKind], lock: AbstractContextManager[bool]
    ) -> None:
        self._path, self._indexes, self._lock = path, indexes, lock
        self.forgotten, self.was_killed = 0, False
        self._is_dirty = True  # something may not survive a power cut
        self._shard: edge.EdgeShard
        self._lacking, self._most_points = set[str](), 0

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Use the engine, one at a time, and translate what the engine raises.

        Raises:
            StoreLockedError: Another process, or another store in this one, has the folder open.
            StoreError: Anything else: damage, or an operation the engine refuses.
        """
        try:
            with self._lock:
                yield
        except StoreError:
            raise
        except BaseException as error:
            # A panic of the engine derives from BaseException; anything else of that kind is not ours.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            if "WouldBlock" in str(error):
                raise is_open_already(self._path.parent) from error
            raise StoreError(
                f"the engine failed on {self._path}: {error}. If this happens again, the folder may be damaged: "
                "restore it from a backup or an export"
            ) from error

    def create(self, *, dimensions: int | None, is_temporary: bool = False) -> None:
        """Make a new shard; without `dimensions` its points have no vectors.

        A temporary one outlives no kill. An index, which takes time to make and to open, is made when the order or the values
        of its field are first asked for, or when there are some points: filters find the same without.
        """
        if dimensions is None:  # the engine wants some vector, which no point needs to have
            dense = edge.EdgeVectorParams(1, edge.Distance.Dot)
        else:
            best = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
            dense = edge.EdgeVectorParams(dimensions, edge.Distance.Cosine, multivector_config=best)
        config = edge.EdgeConfig(
            vectors={DENSE: dense},
            sparse_vectors=None if dimensions is None else _WORDS,
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=NO_HNSW),
            wal_enabled=not is_temporary,
        )
        with self._using():
            self._path.mkdir(parents=True)
            self._shard = edge.EdgeShard.create(str(self._path), config)
            self._look()

    def load(self) -> None:
        """Open the shard.

        Raises:
            StoreLockedError: It is open already.
            StoreError: It is damaged.
        """
        with self._using():
            self._shard = edge.EdgeShard.load(str(self._path))
            self._look()

    def _look(self) -> None:
        """See which indexes are lacking, and make them if there are many points."""
        info = self._shard.info()
        self._most_points = info.points_count
        self._lacking = self._indexes.keys() - info.payload_schema.keys()
        if self._most_points > FEW:
            self._make_indexes(*self._lacking)

    def _make_indexes(self, *fields: str) -> None:
        """Make those of the indexes that are lacking."""
        for field in self._lacking.intersection(fields):
            how = dict(INDEXES[self._indexes[field]])
            schema = getattr(edge, f"{how.pop('type').title()}IndexParams")(**how)
            self._update(edge.UpdateOperation.create_field_index(field, schema))
            self._lacking.remove(field)

    def retrieve(self, ids: Sequence[str], *, vectors: bool = False) -> list[Point]:
        """Return the points with these ids, with the fields that readers look at: each takes time to convert."""
        with self._using():
            return _points(self._shard.retrieve(list(ids), READ, vectors))

    def insert(self, points: Sequence[Point]) -> None:
        """Write those of the points whose ids are not there, some in one operation of the log."""
        for page in pieces(points, PAGE):
            self._upsert(page, edge.UpdateMode.InsertOnly)
        self._most_points += len(points)
        if self._lacking and self._most_points > FEW:
            with self._using():  # one by one: each takes about a tenth of a second on a disk
                self._make_indexes(*islice(self._lacking, 1 + len(points) // 16))

    def swap(self, swaps: Sequence[tuple[str, Point]]) -> None:
        """Replace each point whose stored `token` is the one given; what stays of a point is not written again."""
        for page in pieces(swaps, PAGE):
            with self._using():
                ids: list[Any] = [point.id for _, point in page]
                found = _points(self._shard.retrieve(ids, True, False))
                stored = {(one.id, one.payload["token"]): one.payload for one in found}
                new = [
                    (stored[point.id, token], point)
                    for token, point in page
                    if (point.id, token) in stored
                ]
                self._replace(new)
                self.forgotten += sum(_gone(old, point.payload) for old, point in new)

    def _replace(self, new: Sequence[tuple[Payload, Point]]) -> None:
        """Write points, given with their stored payloads.

        Where a dense vector stays, or is the first one, vectors are written before the payload. If the process is killed
        between the two, somebody has yet to project the note, and then nothing is taken for written.
        """
        whole, vectors = list[Point](), list[edge.PointVectors]()
        changes: dict[str, tuple[Payload, list[int | str | UUID]]] = {}  # by their text
        for old, point in new:
            is_same = point.dense is None and old[TEXT] == point.payload[TEXT]
            if not is_same or (self.was_killed and point.lexical):
                is_first = point.dense is not None and EMBEDDED not in old[TEXT]
                if not (point.keeps_dense or is_first):
                    whole.append(point)
                    continue
                vectors.append(edge.PointVectors(point.id, _vectors(point)))
            changed = _changed(old, point.payload)
            changes.setdefault(repr(changed), (changed, []))[1].append(point.id)
        if whole:
            self._upsert(whole)
        if vectors:
            self._update(edge.UpdateOperation.update_vectors(vectors))
        for changed, ids in changes.values():
            self._update(edge.UpdateOperation.set_payload(ids, changed))

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        with self._using():
            gone = sum(_size(point.payload) for point in self.scroll(which))
            self._update(edge.UpdateOperation.delete_points_by_filter(_filter(which)))
            self.forgotten += gone

    def search(self, searches: Sequence[Search]) -> list[Ranked]:
        """Return the answer to each search, its lists sorted by (-score, id); no notes: reading them costs nothing."""
        asked = list(map(_requests, searches))
        hits = iter(self._batch([request for own in asked for request in own.values()]))
        lists: list[dict[str, Any]] = [{name: _hits(next(hits)) for name in own} for own in asked]
        return [Ranked(**own) for own in lists]

    def ordered(self, by: str, queries: Limited, *, newest_first: bool = True) -> list[Point]:
        """Return for each query that many matching points in the order of an indexed field."""
        order = edge.OrderBy(by, edge.Direction.Desc if newest_first else edge.Direction.Asc)
        requests = [
            edge.QueryRequest(limit, query=order, filter=_filter(which), with_payload=READ)
            for which, limit in queries
        ]
        with self._using():  # of one shard: another thread may compact the folder
            found = self._batch(requests) if self._has_index(by) else []
        return [point for some in found for point in _points(some)]

    def _has_index(self, field: str) -> bool:
        """Return whether there are points, and so an index of the field, which is made if it is lacking."""
        if self._most_points:
            self._make_indexes(field)
        return self._most_points > 0

    def _batch(self, requests: list[edge.QueryRequest]) -> Sequence[Sequence[Any]]:
        if not requests:
            return []
        with self._using():
            return self._shard.query_batch(edge.QueryBatchRequest(requests))

    def pages(self, which: Filter | None = None, *, vectors: bool = False) -> Iterator[list[Point]]:
        """Return matching points, some at a time."""
        offset, wanted = None, _filter(which)
        while True:
            with self._using():
                request = edge.ScrollRequest(offset, PAGE, wanted, True, vectors)
                found, offset = self._shard.scroll(request)
            yield _points(found)
            if offset is None:
                return

    def scroll(self, which: Filter | None, least: int | None = None) -> list[Point]:
        """Return all matching points, or at least so many of them, in any order."""
        points = list[Point]()
        for page in self.pages(which):
            points += page
            if least is not None and len(points) >= least:
                break
        return points

    def count(self, which: Filter | None = None) -> int:
        """Return how many points match, exactly."""
        with self._using():
            return self._shard.count(edge.CountRequest(exact=True, filter=_filter(which)))

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        request = edge.FacetRequest(key, MAX_VALUES, exact=True, filter=_filter(which))
        with self._using():
            hits = self._shard.facet(request).hits if self._has_index(key) else []
        return [str(hit.value) for hit in hits if hit.count]

    def optimize(self) -> bool:
        """Merge segments and build the graph of neighbours; return whether there was anything to do."""
        # A kind of vector that is not named keeps its setting; the engine wants at least one named.
        config = edge.EdgeConfig(
            sparse_vectors=_WORDS,
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=HNSW_FROM),
        )
        with self._using():
            self._shard.flush()
            self._shard.close()
            self._shard = edge.EdgeShard.load(str(self._path), config)
            done = self._shard.optimize()
            self._shard.flush()
        return done

    def flush(self) -> None:
        """Make all earlier writes survive a power cut."""
        with self._using():
            if self._is_dirty:
                self._shard.flush()
                self._is_dirty = False

    def close(self) -> None:
        """Let go of the folder, which may not be there any more."""
        with self._using():
            self._shard.close()

    def _update(self, operation: edge.UpdateOperation) -> None:
        self._is_dirty = True
        self._shard.update(operation)

    def _upsert(
        self, points: Sequence[Point], mode: edge.UpdateMode = edge.UpdateMode.Upsert
    ) -> None:
        new = [edge.Point(point.id, _vectors(point), point.payload) for point in points]
        with self._using():
            self._update(edge.UpdateOperation.upsert_points(new, update_mode=mode))


def is_open_already(path: Path) -> StoreLockedError:
    """Return the error that a folder is open, in another process or in this one."""
    return StoreLockedError(
        f"the memory in {path} is open already, in another process or in this one; close it there, or share one memory "
        "by a Qdrant server, at a URL such as http://localhost:6333"
    )


def _points(records: Iterable[Any]) -> list[Point]:
    """Return records of the engine as points; one without a payload was never written whole."""
    points = []
    for record in records:
        if payload := record.payload:  # each look makes another dict of it
            point = Point(_spelled(record.id.int), payload)
            if vectors := record.vector:
                point.dense, words = rows(vectors), vectors.get(LEXICAL)
                point.lexical = words and (words.indices, words.values)
            points.append(point)
    return points


@lru_cache(maxsize=2**16)
def _spelled(number: int) -> str:
    """Return an id as text: spelling out a hundred UUIDs takes as long as finding them."""
    return str(UUID(int=number))


def _hits(found: Iterable[Any]) -> list[tuple[str, float]]:
    hits = [(_spelled(point.id.int), point.score) for point in found]
    hits.sort()
    hits.sort(key=itemgetter(1), reverse=True)  # equal scores stay in the order of ids
    return hits


def _gone(old: Payload, new: Payload) -> int:
    """Return how many bytes of text are in the old version of a point and not in the new one, about."""
    before, after = _size(old), _size(new)
    is_reworded = "namespace" in new and old.get("rev") != new.get("rev")
    return before if is_reworded else max(0, before - after)


def _size(payload: Payload) -> int:
    return len(payload.get(TEXT, "").encode())


def _changed(old: Payload, new: Payload) -> Payload:
    """Return the fields of a payload that are others now; those that are gone have no value."""
    gone = {name: None for name in old.keys() - new.keys() if old[name] is not None}
    return {name: value for name, value in new.items() if old.get(name) != value} | gone


def _vectors(point: Point) -> dict[str, Any]:
    """Return the vectors of a point in the types of the engine."""
    vectors: dict[str, Any] = {}
    if point.lexical is not None:
        vectors[LEXICAL] = edge.SparseVector(*point.lexical)
    if point.dense is not None:
        # A list converts sooner than an array, and half precision is half as long in the engine's log.
        vectors[DENSE] = point.dense.astype(np.float16).tolist()
    return vectors


def _requests(search: Search) -> dict[str, edge.QueryRequest]:
    asked, nearest = dict[str, tuple[Any, edge.SearchParams]](), edge.Query.Nearest
    if search.dense is not None:  # an array takes longer to convert
        asked["dense"] = nearest(search.dense.tolist(), DENSE), edge.SearchParams(hnsw_ef=EF)
    if search.words is not None:
        corpus = edge.SearchParams(idf=edge.IdfParams(corpus=_filter(search.corpus)))
        asked["lexical"] = nearest(edge.SparseVector(*search.words), LEXICAL), corpus
    return {
        name: edge.QueryRequest(
            search.limit, query=query, filter=_filter(search.filter), params=params
        )
        for name, (query, params) in asked.items()
    }


def _filter(which: Filter | None) -> Any:  # noqa: ANN401 - in the types of the engine
    """Return a filter, or a condition of one, in the types of the engine."""
    if which is None:
        return None
    if "match" in which:
        return edge.FieldCondition(which["key"], match=edge.MatchAny(which["match"]["any"]))
    if "range" in which:
        is_time = isinstance(next(iter(which["range"].values())), str)
        bounds = (edge.RangeDateTime if is_time else edge.RangeFloat)(**which["range"])
        return edge.FieldCondition(which["key"], range=bounds)
    if "has_id" in which:
        return edge.HasIdCondition(set(which["has_id"]))
    if "has_vector" in which:
        return edge.HasVectorCondition(which["has_vector"])
    clauses: dict[str, Any] = {name: list(map(_filter, some)) for name, some in which.items()}
    return edge.Filter(**clauses)
