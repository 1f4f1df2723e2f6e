"""The reading half of a note store, over two collections of points: notes, and their history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from operator import attrgetter
from threading import RLock

import numpy as np

from ..filters import Conditions
from ..notes import Change, ChangeKind, Namespace, Note
from ..ports import Indexed, Query, Ranked, Vector
from .bm25 import Bm25
from .checks import check_vector, is_id, plain
from .collection import BACKLINKS, MENTIONS, Collection, Nearest
from .conditions import Filter, note_filter, seq_range
from .payloads import (
    Point,
    change_point_id,
    decode_change,
    decode_namespace,
    decode_note,
    namespace_key,
)

IDS_AT_ONCE = 512  # in one filter; servers may limit the number of conditions

_in_order = attrgetter("seq", "id")


class PointReader:
    """Reads notes and changes. Every filter names the namespace; what is fetched by id is checked."""

    def __init__(
        self,
        notes: Collection,
        history: Collection,
        *,
        dimensions: int,
        bm25: Bm25,
        lock: AbstractContextManager[object],
    ) -> None:
        self._notes, self._history = notes, history
        self._dimensions, self._bm25 = dimensions, bm25
        self._lock, self._dialect = lock, notes.dialect
        self._unsettled: deque[Callable[[], object]] = deque()  # what failed writes left to be done
        self._settling = RLock()

    def _check_open(self) -> None:
        """Raise `StoreError` if the store cannot be used (any more)."""
        raise NotImplementedError

    def get(self, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
        """Return the notes with these ids, in this order; unknown ones are left out."""
        found = self._found(namespace, ids)
        return [decode_note(i, found[i].payload) for i in ids if i in found]

    def get_indexed(self, namespace: Namespace, ids: Sequence[str]) -> list[Indexed]:
        """Return these notes with their dense vectors, in this order; unknown ones are left out."""
        found = self._found(namespace, ids, vectors=True)
        points = [found[i] for i in ids if i in found]
        return [Indexed(note=decode_note(p.id, p.payload), vector=_dense(p)) for p in points]

    def last_seq(self) -> int:
        """Return the greatest `seq` of all notes and changes, of any namespace; 0 if there are none."""
        self._ready()
        newest = (c.scroll(None, limit=1, newest_first=True) for c in (self._notes, self._history))
        return max((int(point.payload["seq"]) for point in chain(*newest)), default=0)

    def search(self, namespace: Namespace, queries: Sequence[Query]) -> list[Ranked]:
        """Return for each query its dense and its BM25 list, each sorted by (-score, id)."""
        self._check_open()
        key = namespace_key(namespace)
        corpus = note_filter(self._dialect, key)
        wanted: list[Nearest] = []
        plan = [self._plan(query, key, corpus, wanted) for query in queries]
        lists = self._notes.nearest(wanted)
        return [Ranked(**{name: lists[n] for name, n in places.items()}) for places in plan]

    def backlinks(self, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
        """Return the other notes that link to any of these, or have context from it, in order of seq."""
        self._check_open()
        ours, notes = self._ours(namespace), dict[str, Note]()
        for some in batches(filter(is_id, ids)):
            linked = self._dialect.some([self._dialect.any_of(end, some) for end in BACKLINKS])
            found = self._notes.scroll(self._dialect.every([ours, linked]))
            notes |= {point.id: decode_note(point.id, point.payload) for point in found}
        asked = set(ids)
        return sorted((note for note in notes.values() if note.id not in asked), key=_in_order)

    def count(self, namespace: Namespace, where: Conditions = ()) -> int:
        """Return how many notes meet the conditions, exactly."""
        self._check_open()
        return self._notes.count(note_filter(self._dialect, namespace_key(namespace), where))

    def scan(
        self,
        namespace: Namespace,
        *,
        where: Conditions = (),
        limit: int = 256,
        newest_first: bool = False,
    ) -> list[Note]:
        """Return up to `limit` notes in order of (seq, id); continue with a condition on `seq`."""
        self._check_open()
        which = note_filter(self._dialect, namespace_key(namespace), where)
        if limit < 1:
            return []
        points = self._notes.scroll(which, limit=limit, newest_first=newest_first)
        notes = [decode_note(point.id, point.payload) for point in points]
        return sorted(notes, key=_in_order, reverse=newest_first)

    def namespaces(self, where: Conditions = ()) -> list[Namespace]:
        """Return the namespaces that hold notes which meet the conditions, sorted."""
        self._check_open()
        which = note_filter(self._dialect, None, where) if where else None
        return sorted(decode_namespace(key) for key in self._notes.distinct("namespace", which))

    def changes(
        self,
        namespace: Namespace,
        *,
        note_id: str | None = None,
        kinds: Sequence[ChangeKind] = (),
        after: int | None = None,
        limit: int = 1000,
    ) -> list[Change]:
        """Return the last `limit` changes, or the first ones `after` a `seq`, oldest first."""
        self._ready()
        about = [self._ours(namespace)]
        if note_id is not None:
            about.append(self._dialect.any_of("note_id", [plain(note_id, "note_id")]))
        if kinds:
            about.append(self._dialect.any_of("kind", kinds))
        if after is not None:
            about.append(seq_range(self._dialect, "gt", after))
        if limit < 1:
            return []
        which = self._dialect.every(about)
        points = self._history.scroll(which, limit=limit, newest_first=after is None)
        return sorted((decode_change(point.payload) for point in points), key=_in_order)

    def changes_by_id(self, namespace: Namespace, ids: Sequence[str]) -> list[Change]:
        """Return the changes with these ids, in this order; unknown ones are left out."""
        self._ready()
        key = namespace_key(namespace)
        points = [change_point_id(key, plain(change_id, "id of a change")) for change_id in ids]
        found = self._history.retrieve(points)
        return [decode_change(found[point].payload) for point in points if point in found]

    def changes_by_op(self, namespace: Namespace, ops: Sequence[str]) -> list[Change]:
        """Return all changes of these operations, oldest first."""
        self._ready()
        ours, found = self._ours(namespace), list[Point]()
        for some in batches(plain(op, "id of an operation") for op in ops):
            about = self._dialect.any_of("op", some)
            found += self._history.scroll(self._dialect.every([ours, about]))
        return sorted((decode_change(point.payload) for point in found), key=_in_order)

    def mentions(self, namespace: Namespace, ids: Sequence[str]) -> list[Change]:
        """Return the changes about other notes that one of these caused, or that it was shown for."""
        self._ready()
        ours, found = self._ours(namespace), dict[str, Point]()
        for some in batches(filter(is_id, ids)):
            ends = [self._dialect.any_of(end, some) for end in MENTIONS]
            about = [self._dialect.any_of("note_id", some)]
            which = self._dialect.every([ours, self._dialect.some(ends)], but=about)
            found |= {point.id: point for point in self._history.scroll(which)}
        asked = set(ids)
        changes = [decode_change(point.payload) for point in found.values()]
        return sorted((made for made in changes if made.note_id not in asked), key=_in_order)

    def _ready(self) -> None:
        self._check_open()
        self._settle()

    def _settle(self) -> None:
        """Finish what writes that failed have left, in order; a step that fails stays for the next time."""
        if not self._unsettled:
            return
        with self._lock, self._settling:
            while self._unsettled:
                self._unsettled[0]()
                self._unsettled.popleft()

    def _ours(self, namespace: Namespace) -> Filter:
        return self._dialect.any_of("namespace", [namespace_key(namespace)])

    def _plan(
        self, query: Query, namespace: str, corpus: Filter, wanted: list[Nearest]
    ) -> dict[str, int]:
        """Add the query's lists to `wanted`; return where its dense and its lexical list will be."""
        which = note_filter(self._dialect, namespace, query.where) if query.where else corpus
        places: dict[str, int] = {}
        if query.limit < 1:
            return places
        if query.vector is not None:
            vector = check_vector(query.vector, self._dimensions, "vector of a query")
            places["dense"] = len(wanted)
            wanted.append(Nearest(vector, query.limit, which, corpus))
        if query.text is not None and (terms := self._bm25.encode_query(query.text))[0]:
            places["lexical"] = len(wanted)
            wanted.append(Nearest(terms, query.limit, which, corpus))
        return places

    def _found(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        fields: Sequence[str] | None = None,
        *,
        vectors: bool = False,
    ) -> dict[str, Point]:
        """Return the points with these ids that belong to this namespace."""
        self._check_open()
        key = namespace_key(namespace)
        known = [note_id for note_id in ids if is_id(note_id)]
        points = self._notes.retrieve(known, fields, vectors=vectors)
        return {i: point for i, point in points.items() if point.payload.get("namespace") == key}


def batches(values: Iterable[str]) -> Iterator[list[str]]:
    """Return these values without repeats, at most `IDS_AT_ONCE` at a time."""
    known = list(dict.fromkeys(values))
    for start in range(0, len(known), IDS_AT_ONCE):
        yield known[start : start + IDS_AT_ONCE]


def _dense(point: Point) -> Vector | None:
    return None if point.dense is None else np.asarray(point.dense, dtype=np.float32)
