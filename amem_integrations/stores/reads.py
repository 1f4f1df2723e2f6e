"""The reading half of a note store, over two collections of points: notes, and their history.

One body serves both forms of a method: a coroutine that awaits nothing but calls to collections. A synchronous call
(`driven`) makes it do all of its work with one `send`; no client of such a call suspends. The asynchronous `twin` runs it
on the caller's loop, where calls to a server are awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from operator import attrgetter
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..errors import StoreUnavailableError
from ..filters import Conditions
from ..notes import Change, ChangeKind, Namespace, Note
from ..ports import Indexed, Query, Ranked
from ..runtime import resolve, run
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

SETTLE_SECONDS, SETTLE_POLL = 60.0, 0.01
IDS_AT_ONCE = 512  # in one filter; servers may limit the number of conditions

_in_order = attrgetter("seq", "id")

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
Body = Callable[Concatenate[S, P], Coroutine[Any, Any, R]]

_awaiting: ContextVar[bool] = ContextVar("awaiting", default=False)


def is_awaiting() -> bool:
    """Return whether the present call is an asynchronous one."""
    return _awaiting.get()


async def wait(seconds: float) -> None:
    """Wait: on the loop in an asynchronous call, else in the thread."""
    if _awaiting.get():
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251 - no loop runs this


def driven(body: Body[S, P, R]) -> Callable[Concatenate[S, P], R]:
    """Return the synchronous form of a method, which keeps its body for `twin`."""

    @wraps(body)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not _awaiting.get():
            return run(body(self, *args, **kwargs))
        token = _awaiting.set(False)
        try:
            return run(body(self, *args, **kwargs))
        finally:
            _awaiting.reset(token)

    return method


def twin(method: Callable[Concatenate[S, P], R]) -> Body[S, P, R]:
    """Return the asynchronous form of a method that was made by `driven`."""
    body: Body[S, P, R] = method.__wrapped__  # type: ignore[attr-defined]

    @wraps(body)
    async def awaited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        token = _awaiting.set(True)
        try:
            return await body(self, *args, **kwargs)
        finally:
            _awaiting.reset(token)

    awaited.__name__ = f"a{body.__name__}"
    return awaited


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
        # What failed writes left to be done.
        self._unsettled: deque[Callable[[], Coroutine[Any, Any, object]]] = deque()
        self._settling = Lock()

    def _check_open(self) -> None:
        """Raise `StoreError` if the store cannot be used (any more)."""
        raise NotImplementedError

    @driven
    async def get(self, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
        """Return the notes with these ids, in this order; unknown ones are left out."""
        found = await self._found(namespace, ids)
        return [decode_note(i, found[i].payload) for i in ids if i in found]

    @driven
    async def get_indexed(self, namespace: Namespace, ids: Sequence[str]) -> list[Indexed]:
        """Return these notes with their dense vectors, in this order; unknown ones are left out."""
        found = await self._found(namespace, ids, vectors=True)
        return [indexed(found[i]) for i in ids if i in found]

    @driven
    async def number_of_notes(self) -> int:
        """Return how many notes all namespaces have together; a server answers with an estimate, or at once not."""
        self._check_open()
        return await resolve(self._notes.size())

    @driven
    async def last_seq(self) -> int:
        """Return the greatest `seq` of all notes and changes, of any namespace; 0 if there are none."""
        await self._ready()
        newest: list[Point] = []
        for collection in (self._notes, self._history):
            newest += await resolve(collection.scroll(None, limit=1, newest_first=True))
        return max((int(point.payload["seq"]) for point in newest), default=0)

    @driven
    async def search(self, namespace: Namespace, queries: Sequence[Query]) -> list[Ranked]:
        """Return for each query its dense and its BM25 list, each sorted by (-score, id)."""
        self._check_open()
        key = namespace_key(namespace)
        corpus = note_filter(self._dialect, key)
        wanted: list[Nearest] = []
        plan = [self._plan(query, key, corpus, wanted) for query in queries]
        return await self._ranked(queries, wanted, plan)

    async def _ranked(
        self,
        queries: Sequence[Query],  # noqa: ARG002 - see `QdrantStore`
        wanted: Sequence[Nearest],
        plan: Sequence[Mapping[str, int]],
    ) -> list[Ranked]:
        lists = await resolve(self._notes.nearest(wanted))
        return [Ranked(**found_lists(places, lists)) for places in plan]

    @driven
    async def backlinks(self, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
        """Return the other notes that link to any of these, or have context from it, in order of seq."""
        self._check_open()
        key, notes = namespace_key(namespace), dict[str, Note]()
        for some in batches(filter(is_id, ids)):
            found = await resolve(self._notes.scroll(self._linked_to(key, some)))
            notes |= {point.id: decode_note(point.id, point.payload) for point in found}
        asked = set(ids)
        return sorted((note for note in notes.values() if note.id not in asked), key=_in_order)

    @driven
    async def count(self, namespace: Namespace, where: Conditions = ()) -> int:
        """Return how many notes meet the conditions, exactly."""
        self._check_open()
        key = namespace_key(namespace)
        return await resolve(self._notes.count(note_filter(self._dialect, key, where)))

    @driven
    async def scan(
        self,
        namespace: Namespace,
        *,
        where: Conditions = (),
        limit: int = 256,
        newest_first: bool = False,
    ) -> list[Note]:
        """Return up to `limit` notes in order of (seq, id); continue with a condition on `seq`."""
        self._check_open()
        key = namespace_key(namespace)
        which = note_filter(self._dialect, key, where)
        if limit < 1:
            return []
        points = await resolve(self._notes.scroll(which, limit=limit, newest_first=newest_first))
        notes = [decode_note(point.id, point.payload) for point in points]
        return sorted(notes, key=_in_order, reverse=newest_first)

    @driven
    async def namespaces(
        self, where: Conditions = (), *, recorded: bool = False
    ) -> list[Namespace]:
        """Return the namespaces that hold notes which meet the conditions, sorted; or also what has a history."""
        self._check_open()
        which = note_filter(self._dialect, None, where) if where else None
        keys = set(await resolve(self._notes.distinct("namespace", which)))
        if recorded:
            keys.update(await resolve(self._history.distinct("namespace")))
        return sorted(map(decode_namespace, keys))

    @driven
    async def changes(
        self,
        namespace: Namespace,
        *,
        note_id: str | None = None,
        kinds: Sequence[ChangeKind] = (),
        after: int | None = None,
        limit: int = 1000,
    ) -> list[Change]:
        """Return the last `limit` changes, or the first ones `after` a `seq`, oldest first."""
        await self._ready()
        key = namespace_key(namespace)
        about = [self._ours(key)]
        if note_id is not None:
            about.append(self._dialect.any_of("note_id", [plain(note_id, "note_id")]))
        if kinds:
            about.append(self._dialect.any_of("kind", kinds))
        if after is not None:
            about.append(seq_range(self._dialect, "gt", after))
        if limit < 1:
            return []
        which = self._dialect.every(about)
        points = await resolve(self._history.scroll(which, limit=limit, newest_first=after is None))
        return sorted((decode_change(point.payload) for point in points), key=_in_order)

    @driven
    async def changes_by_id(self, namespace: Namespace, ids: Sequence[str]) -> list[Change]:
        """Return the changes with these ids, in this order; unknown ones are left out."""
        await self._ready()
        key = namespace_key(namespace)
        points = [change_point_id(key, plain(change_id, "id of a change")) for change_id in ids]
        found = await resolve(self._history.retrieve(points))
        return [decode_change(found[point].payload) for point in points if point in found]

    @driven
    async def changes_by_op(self, namespace: Namespace, ops: Sequence[str]) -> list[Change]:
        """Return all changes of these operations, oldest first."""
        await self._ready()
        key, found = namespace_key(namespace), list[Point]()
        for some in batches(plain(op, "id of an operation") for op in ops):
            which = self._dialect.every([self._ours(key), self._dialect.any_of("op", some)])
            found += await resolve(self._history.scroll(which))
        return sorted((decode_change(point.payload) for point in found), key=_in_order)

    @driven
    async def mentions(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        *,
        prompts_after: int | None = None,
        about: Sequence[ChangeKind] = (),
    ) -> list[Change]:
        """Return the changes about other notes that one of these caused, or that it was shown for; and later prompts."""
        await self._ready()
        key, found = namespace_key(namespace), dict[str, Point]()
        asked_for = [self._mentioning(some, about) for some in batches(filter(is_id, ids))]
        if prompts_after is not None:
            later = [seq_range(self._dialect, "gt", prompts_after)]
            prompts = self._dialect.every([self._dialect.any_of("kind", ["prompt"]), *later])
            first = [*asked_for[:1], prompts]
            asked_for = [self._dialect.some(first), *asked_for[1:]]
        for one in asked_for:
            which = self._dialect.every([self._ours(key), one])
            points = await resolve(self._history.scroll(which))
            found |= {point.id: point for point in points}
        asked = set(ids)
        changes = [decode_change(point.payload) for point in found.values()]
        wanted = (made for made in changes if made.note_id not in asked or made.kind in about)
        return sorted(wanted, key=_in_order)

    def _mentioning(self, ids: Sequence[str], kinds: Sequence[ChangeKind]) -> Filter:
        every, some, any_of = self._dialect.every, self._dialect.some, self._dialect.any_of
        about = any_of("note_id", ids)
        others = every([some([any_of(end, ids) for end in MENTIONS])], but=[about])
        return some([others, every([about, any_of("kind", kinds)])]) if kinds else others

    async def _ready(self) -> None:
        self._check_open()
        await self._settle()

    async def _settle(self) -> None:
        """Finish what writes that failed have left, in order; a step that fails stays for the next time.

        One call does it; others wait for it.
        """
        if not self._unsettled:
            return
        waits = SETTLE_SECONDS / SETTLE_POLL
        with self._lock:
            while self._unsettled:
                if self._settling.acquire(blocking=False):
                    try:
                        await self._settle_all()
                    finally:
                        self._settling.release()
                elif (waits := waits - 1) < 0:
                    raise StoreUnavailableError(
                        "another call has been finishing an earlier write for a minute; try again later"
                    )
                else:
                    await wait(SETTLE_POLL)

    async def _settle_all(self) -> None:
        while self._unsettled:
            await self._unsettled[0]()
            self._unsettled.popleft()

    def _ours(self, namespace: str) -> Filter:
        return self._dialect.any_of("namespace", [namespace])

    def _linked_to(self, namespace: str, ids: Sequence[str]) -> Filter:
        """The note holds a link to one of these, or has context from it (see `NoteStore.backlinks`)."""
        linked = self._dialect.some([self._dialect.any_of(end, ids) for end in BACKLINKS])
        return self._dialect.every([self._ours(namespace), linked])

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

    async def _found(
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
        points = await resolve(self._notes.retrieve(known, fields, vectors=vectors))
        return {i: point for i, point in points.items() if point.payload.get("namespace") == key}


def batches(values: Iterable[str]) -> Iterator[list[str]]:
    """Return these values without repeats, at most `IDS_AT_ONCE` at a time."""
    known = list(dict.fromkeys(values))
    for start in range(0, len(known), IDS_AT_ONCE):
        yield known[start : start + IDS_AT_ONCE]


def found_lists(
    places: Mapping[str, int], lists: Sequence[list[tuple[str, float]]]
) -> dict[str, Any]:
    """Return the dense and the lexical list of a query, by name, as they stand among all lists."""
    return {name: lists[place] for name, place in places.items()}


def indexed(point: Point) -> Indexed:
    """Return the note of a point with its dense vector."""
    vector = None if point.dense is None else np.asarray(point.dense, dtype=np.float32)
    return Indexed(note=decode_note(point.id, point.payload), vector=vector)
