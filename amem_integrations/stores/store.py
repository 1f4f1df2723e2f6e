"""The store of a memory over two collections of points: notes with their views, and records of what was decided.

Which collections these are (two shards in a folder, two collections on a server) is no concern of this module. Every
filter names the namespace, and what is fetched by id is checked to be of the namespace.
"""

from __future__ import annotations

from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, NoReturn, Protocol

from ..decisions import VISIBLE, WRITTEN, Record
from ..errors import ConfigurationError, StoreError
from ..filters import Conditions
from ..ids import first_seq
from ..notes import Namespace, Note
from ..ports import Bring, NoteQuery, Query, Ranked, RecordQuery
from ..stored_note import StoredNote, Vector
from ..texts import lexical_texts
from . import bm25, payloads
from .bm25 import Sparse
from .conditions import Filter, Filters, IndexKind, any_of, every, one_of, some, within
from .payloads import TERMS, Point, check_vectors, is_id, namespace_key, stamp

IDS_AT_ONCE = 500  # in one filter; servers may limit the number of conditions
NOTES_AT_ONCE = 64  # of which the newest decisions are asked for in one request
SAME_SEQ = 32  # records that one call may have written at the same instant, and more
ALL = 1_000_000  # more records than there are about one note
OPEN = any_of("phase", (VISIBLE, WRITTEN))
# By which names a record names what a query asks for; of a query's lists of ids the first given is in the filter.
NAMED_BY: Mapping[str, Sequence[str]] = {
    "about": ("about",), "made_from": ("about", "sources"), "shown": ("shown",), "calls": ("call",), "note": ("note",),
}  # fmt: skip
DOUBLE = 2048  # nanoseconds that a double cannot tell apart, and more

# A filter is quick, and allowed by a server in strict mode, only if the field that it names has an index. Each index
# makes a flush in a folder some milliseconds longer, and on a server takes memory maps.
NOTE_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant", "buried": "keyword", "owing": "keyword",
    "last": "integer", "seq": "integer", "seq_us": "integer", "seq_ns": "integer", "attempts": "integer",
    "at": "datetime", "recorded_at": "datetime", "until": "datetime", "expires_at": "datetime",
    TERMS: "number",  # everything else that `where` can name
}  # fmt: skip
RECORD_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant", "seq": "integer", "phase": "number", TERMS: "number",
}  # fmt: skip

Limited = Iterable[tuple[Filter | None, int]]  # filters, and how many points of each are wanted


@dataclass(frozen=True, slots=True)
class Search:
    """One query to a collection: up to `limit` points by a dense vector, by a sparse one, or by each.

    Attributes:
        corpus: The points over which word frequencies are counted.
        bring: The notes that are to come along, where that saves a request.
    """

    dense: Vector | None
    words: Sparse | None
    limit: int
    filter: Filter
    corpus: Filter
    bring: Bring | None


class Collection(Protocol):
    """A set of points with payloads; every method raises `StoreError` for trouble of its own."""

    def retrieve(self, ids: Sequence[str], *, vectors: bool = False) -> list[Point]:
        """Return the points with these ids."""

    def insert(self, points: Sequence[Point]) -> None:
        """Write those of the points whose ids are not there."""

    def swap(self, swaps: Sequence[tuple[str, Point]]) -> None:
        """Replace each point whose stored `token` is the one given."""

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""

    def search(self, searches: Sequence[Search]) -> list[Ranked]:
        """Return the answer to each search, its lists sorted by (-score, id)."""

    def ordered(self, by: str, queries: Limited, *, newest_first: bool = True) -> list[Point]:
        """Return for each query that many matching points in the order of a field."""

    def scroll(self, which: Filter | None, least: int | None = None) -> list[Point]:
        """Return all matching points, or at least so many of them, in any order."""

    def count(self, which: Filter) -> int:
        """Return how many points match, exactly."""

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""


class Store:
    """Keeps notes and records (calls, decisions, leases). Calls are about one namespace; none sees another's.

    There are two kinds of write. An *insertion* leaves a point alone that is there already. A *swap* replaces a whole
    point if its token is still the one given, and does nothing otherwise: whoever wants to know reads back. Each write
    is atomic for one point at a time; of several points a part may be written where the call raises. All writes are
    durable against a killed process when they return, and every read sees them. Points are removed by `remove_…` only.

    `StoreError` and its subclasses are the only errors a store raises for reasons of its own. An id that is no UUID,
    or that belongs to another namespace, is unknown here: reads leave it out, and a write of it is a `StoreError`. A
    value that cannot be stored is an `InvalidInputError`, before anything is written.

    Attributes:
        remote: Whether a call waits for a network, and other processes may write to the store as well.
        power_was_cut: Whether a power cut may have taken what was written last, to different ends in the two collections.

    Args:
        notes: The collection of notes.
        records: The collection of calls, decisions and leases.
        dimensions: Length of the dense vectors.
        filters: Makes the filters of notes.
    """

    remote = False
    power_was_cut = False

    def __init__(
        self, notes: Collection, records: Collection, *, dimensions: int, filters: Filters
    ) -> None:
        self._notes, self._records, self._filters = notes, records, filters
        self._dimensions = dimensions
        self._foreign = set[tuple[str, str]]()  # (namespace, id): reads that met another's point

    def recovered(self) -> None:
        """Note that the memory was put right after a power cut."""

    def __getstate__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: Always: a store holds an open folder or a connection.
        """
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it holds an open folder or "
            "connection; pass its location, and open it again in the other process"
        )

    @property
    def where(self) -> str:
        """The folder or the URL."""
        raise NotImplementedError

    @property
    def made_with(self) -> Mapping[str, Any]:
        """The settings that the collection was made with, and the thresholds that were found for its embedder."""
        raise NotImplementedError

    def keep_cosines(self, cosines: Mapping[str, float]) -> None:
        """Keep the thresholds of the embedder with the collection."""
        raise NotImplementedError

    def close(self) -> None:
        """Flush and let go of the store; calling it again does nothing."""
        raise NotImplementedError

    def _check_open(self) -> None:
        """Raise `StoreError` if the store cannot be used (any more)."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make everything written so far survive a power cut as well: a server has done so when it answers."""
        self._check_open()

    def compact(self) -> None:
        """Write the files of a folder anew, without what was deleted; another store raises `ConfigurationError`."""
        self._refuse_upkeep()

    def optimize(self) -> bool:
        """Build the graph of neighbours in a folder; return whether anything was done."""
        self._refuse_upkeep()

    def _refuse_upkeep(self) -> NoReturn:
        raise ConfigurationError(
            f"{self.where!r} is no folder; a server maintains its collections by itself"
        )

    def _writing(self, replaced: int = 0) -> AbstractContextManager[None]:  # noqa: ARG002 - for a folder
        """Return the context in which a write happens that replaces so many points."""
        self._check_open()
        return nullcontext()

    def notes(
        self, namespace: Namespace, ids: Ids[str], *, vectors: bool = False, briefly: Ids[str] = ()
    ) -> dict[str, StoredNote]:
        """Return the stored notes with these ids, tombstones too, by id; with their vectors, if asked for.

        Of those `briefly` there is at least what tells whether a wording still stands: token, rev, `thorough`, and
        whether the note was deleted or when it expires. They may come without their vectors.
        """
        if self.remote:  # one request does for all
            ids, briefly = [*ids, *briefly], ()
        brief = self._found(self._notes, namespace, set(briefly).difference(ids))
        whole = self._found(self._notes, namespace, ids, vectors=vectors)
        return {point.id: payloads.decode_note(point) for point in chain(brief, whole)}

    def find_notes(self, namespace: Namespace, query: NoteQuery) -> dict[str, StoredNote]:
        """Return the stored notes that are wanted, by id."""
        self._check_open()
        key = namespace_key(namespace)
        names = ("namespace",) if query.alive else ("namespace", "buried")
        if query.owing or query.bare:
            names = ("owing",)
        which = [some(any_of(name, [key]) for name in names)]
        if query.expired_at is not None:
            which.append(_expired(query.expired_at))
        notes = map(payloads.decode_note, self._notes.scroll(every(which), query.least))
        return {note.id: note for note in notes if query.finds(note)}

    def insert_notes(self, namespace: Namespace, notes: Sequence[StoredNote]) -> None:
        """Store notes whose ids are not there."""
        self._insert(self._notes, namespace, [self._point_of(note) for note in notes])

    def swap_notes(self, namespace: Namespace, swaps: Sequence[tuple[str, StoredNote]]) -> None:
        """Replace each note whose token is still the one given with the new version.

        Vectors are replaced as well. A store that is not `remote` keeps those of a note that says what its vectors
        stand for and has none here; another one refuses such a note.
        """
        self._swap(self._notes, namespace, [(token, self._point_of(note)) for token, note in swaps])

    def remove_tombstones(self, namespace: Namespace, before: datetime) -> None:
        """Remove the tombstones that owe nothing and whose notes were deleted before a time."""
        key = namespace_key(namespace)
        with self._writing():
            self._notes.delete(
                every([any_of("buried", [key]), _earlier(before)], but=[any_of("owing", [key])])
            )

    def records(self, namespace: Namespace, ids: Ids[str]) -> dict[str, Record]:
        """Return the records with these ids, by id."""
        found = map(payloads.decode_record, self._found(self._records, namespace, ids))
        return {record.id: record for record in found}

    def find_records(self, namespace: Namespace, query: RecordQuery) -> dict[str, Record]:
        """Return the calls and decisions that are wanted, by id."""
        self._check_open()
        points = {point.id: point for point in self._found_by(namespace_key(namespace), query)}
        return {one.id: one for one in query.of(map(payloads.decode_record, points.values()))}

    def insert_records(self, namespace: Namespace, records: Sequence[Record]) -> None:
        """Store records whose ids are not there."""
        points = [Point(record.id, payloads.encode_record(record)) for record in records]
        self._insert(self._records, namespace, points)

    def swap_records(self, namespace: Namespace, swaps: Sequence[tuple[str, Record]]) -> None:
        """Replace each record whose token is still the one given with the new version."""
        made = [(token, Point(one.id, payloads.encode_record(one))) for token, one in swaps]
        self._swap(self._records, namespace, made)

    def remove_decisions(self, namespace: Namespace, ids: Ids[str]) -> None:
        """Remove the decisions with these ids."""
        ours, known = any_of("namespace", [namespace_key(namespace)]), sorted(filter(is_id, ids))
        with self._writing():
            for some_ids in pieces(known, IDS_AT_ONCE):
                self._records.delete(every([ours, _having(payloads.DECIDED), one_of(some_ids)]))

    def search(self, namespace: Namespace, queries: Sequence[Query]) -> list[Ranked]:
        """Return for each query its dense and its BM25 list, each sorted by (-score, id), of notes that are not deleted.

        It is one request for all.
        """
        self._check_open()
        return self._notes.search(
            [self._search_of(query, query.namespace or namespace) for query in queries]
        )

    def count(self, namespace: Namespace, where: Conditions = ()) -> int:
        """Return how many notes meet the conditions, exactly; tombstones do not count."""
        self._check_open()
        return self._notes.count(self._filters.filter(namespace_key(namespace), where))

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
        which = self._filters.filter(namespace_key(namespace), where)
        points = self._notes.ordered("seq", [(which, limit)], newest_first=newest_first)
        notes = (note for point in points if (note := payloads.decode_note(point).note))
        return sorted(notes, key=lambda note: (note.seq, note.id), reverse=newest_first)

    def namespaces(self, where: Conditions = (), *, recorded: bool = False) -> list[Namespace]:
        """Return the namespaces that hold notes which meet the conditions, sorted.

        With `recorded` also those of which only records and tombstones are left.
        """
        self._check_open()
        which = self._filters.filter(None, where) if where else None
        keys = set(self._notes.distinct("namespace", which))
        if recorded:
            made = every([_having(payloads.CALL, payloads.DECIDED)])
            keys.update(self._records.distinct("namespace", made), self._notes.distinct("buried"))
        return sorted(map(payloads.decode_namespace, keys))

    def unfinished(self) -> list[Namespace]:
        """Return the namespaces in which a note owes a purge or has no vector, or a decision is not settled, sorted."""
        self._check_open()
        keys = set(self._notes.distinct("owing"))
        keys.update(self._records.distinct("namespace", every([OPEN])))
        return sorted(map(payloads.decode_namespace, keys))

    def to_sweep(self, expired_at: datetime, deleted_before: datetime) -> list[Namespace]:
        """Return the namespaces with notes that have expired, or tombstones of notes deleted before a time, sorted."""
        self._check_open()
        keys = set(self._notes.distinct("namespace", every([_expired(expired_at)])))
        keys.update(self._notes.distinct("buried", every([_earlier(deleted_before)])))
        return sorted(map(payloads.decode_namespace, keys))

    def last_seq(self) -> int:
        """Return the greatest `seq` of all notes, their wordings and records in all namespaces; 0 if there are none."""
        self._check_open()
        newest = [
            point.payload[by]
            for collection, by in ((self._notes, "last"), (self._records, "seq"))
            for point in collection.ordered(by, [(None, 1)])
        ]
        return max(newest, default=0)

    def _point_of(self, stored: StoredNote) -> Point:
        point = Point(stored.id, payloads.encode_note(stored))
        if stored.note is None:
            return point
        if stored.vectors is not None:
            where = f"vectors of note {stored.id}"
            point.dense = check_vectors(stored.vectors, self._dimensions, where)
        elif stored.embedded and self.remote:
            raise StoreError(
                f"note {stored.id!r} was read without its vectors; nothing was written: please report this"
            )
        point.lexical = bm25.encode_document(*lexical_texts(stored.note))
        point.keeps_dense = point.dense is None and stored.has_vectors
        return point

    def _insert(
        self, collection: Collection, namespace: Namespace, points: Sequence[Point]
    ) -> None:
        key = self._checked(namespace, points)
        first = {point.id: point for point in reversed(points)}
        # Ids come from the namespace: only of those that a read has met another's point may be there.
        if others := [note_id for note_id in first if (key, note_id) in self._foreign]:
            raise StoreError(
                f"the ids {others} belong to another namespace than {namespace!r}; nothing was written. Ids "
                "come from the namespace: these notes were imported with ids that do not"
            )
        with self._writing():
            collection.insert(list(first.values())[::-1])

    def _swap(
        self, collection: Collection, namespace: Namespace, swaps: Sequence[tuple[str, Point]]
    ) -> None:
        self._checked(namespace, [point for _, point in swaps])
        with self._writing(len(swaps)):
            collection.swap(swaps)

    def _checked(self, namespace: Namespace, points: Iterable[Point]) -> str:
        """Return the key of the namespace; raise `StoreError` if a point is of another one."""
        key = namespace_key(namespace)
        if others := [point.id for point in points if payloads.owner(point.payload) != key]:
            raise StoreError(f"{others} are not of namespace {namespace!r}; nothing was written")
        return key

    def _found(
        self, collection: Collection, namespace: Namespace, ids: Ids[str], *, vectors: bool = False
    ) -> Iterator[Point]:
        """Yield the points with these ids that belong to this namespace."""
        self._check_open()
        key = namespace_key(namespace)
        if known := [note_id for note_id in dict.fromkeys(ids) if is_id(note_id)]:
            for point in collection.retrieve(known, vectors=vectors):
                if payloads.owner(point.payload) == key:
                    yield point
                else:
                    self._foreign.add((key, point.id))

    def _found_by(self, key: str, query: RecordQuery) -> Iterator[Point]:
        """Yield the wanted records, and some more: of several lists of ids only one is in the filter.

        Each note's newest decisions take a query for each.
        """
        which = _clauses(key, query)
        name = next((name for name in NAMED_BY if getattr(query, name) is not None), None)
        if name is None:
            yield from self._records.scroll(every(which))
            return
        given = getattr(query, name)
        ids = sorted(filter(is_id, [given] if name == "note" else given))
        if name == "about" and query.newest is not None:
            for notes in pieces(ids, NOTES_AT_ONCE):
                yield from self._records.ordered("seq", _newest(which, notes, query.newest))
            return
        for some_ids in pieces(ids, IDS_AT_ONCE):
            naming = _having(*(f"{by}={i}" for i in some_ids for by in NAMED_BY[name]))
            if name == "calls":
                naming = some([one_of(some_ids), naming])
            yield from self._records.scroll(every([*which, naming]))

    def _search_of(self, query: Query, namespace: Namespace) -> Search:
        key, dense, words = namespace_key(namespace), None, None
        corpus = self._filters.filter(key)
        which = self._filters.filter(key, query.where) if query.where else corpus
        if query.vector is not None:
            dense = check_vectors(query.vector, self._dimensions, "vector of a query")
        if query.text is not None:
            encoded = bm25.encode_query(query.text)
            words = encoded if encoded[0] else None
        return Search(dense, words, query.limit, which, corpus, query.bring)


def _clauses(key: str, query: RecordQuery) -> list[Filter]:
    """Return conditions that the wanted records meet, whichever notes and calls they name."""
    of_decisions = query.decisions or query.about is not None or query.made_from is not None
    of_calls = query.calls_only or query.shown is not None
    marks = {payloads.WAITS: query.waiting, payloads.DECIDED: of_decisions, payloads.CALL: of_calls}
    mark = next((mark for mark, is_wanted in marks.items() if is_wanted), None)
    which = [any_of("namespace", [key]), *([_having(mark)] if mark else [])]
    if query.unsettled:
        which.append(OPEN)
    if query.since:
        which.append(within("seq", {"gte": query.since - DOUBLE}))
    return which


def _newest(
    which: Sequence[Filter], ids: Sequence[str], newest: int
) -> Iterator[tuple[Filter, int]]:
    """Yield the queries for each note's own decisions and those that supersede, and for the newest of the others."""
    about, own = ([f"{name}={i}" for i in ids] for name in ("about", "note"))
    yield every([*which, _having(*about), _having(payloads.OUTDATES, *own)]), ALL
    for one, mine in zip(about, own, strict=True):
        others = every(
            [*which, _having(one)], but=[_having(mine, payloads.OUTDATES, payloads.VOID)]
        )
        yield others, newest + SAME_SEQ


def _expired(time: datetime) -> Filter:
    return within("expires_at", {"lte": stamp(time, "expired_at")})


def _earlier(before: datetime) -> Filter:
    """Return the condition that a tombstone is of a note which was deleted before a time."""
    return within("seq_us", {"lt": first_seq(before) // 1000})


def _having(*marks: str) -> Filter:
    """Return the condition that a record has one of these marks."""
    return any_of(TERMS, map(payloads.number_of, marks))


def pieces(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Yield items so many at a time."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
