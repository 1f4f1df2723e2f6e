"""The store of a memory over two collections of points: notes with their views, and records of what was decided.

Which collections these are (two shards in a folder, two collections on a server) is no concern of this module. Every
filter names the namespace, and what is fetched by id is checked to be of the namespace.
"""

from __future__ import annotations

from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn, Protocol

from ..decisions import VISIBLE, WRITTEN, Record
from ..errors import ConfigurationError, StoreError
from ..filters import Conditions
from ..ids import first_seq
from ..notes import Namespace, Note
from ..ports import NoteQuery, Query, Ranked, RecordQuery
from ..stored_note import StoredNote, Vector
from ..texts import lexical_texts
from .bm25 import Bm25, Sparse
from .checks import check_vectors, is_id, stamp
from .conditions import Dialect, Filter, IndexKind, note_filter
from .payloads import (
    BRIEF,
    CALL,
    DECIDED,
    OUTDATES,
    TERMS,
    VOID,
    WAITS,
    Point,
    decode_briefly,
    decode_namespace,
    decode_note,
    decode_record,
    encode_note,
    encode_record,
    namespace_key,
    number_of,
    owner,
)

IDS_AT_ONCE = 500  # in one filter; servers may limit the number of conditions
NOTES_AT_ONCE = 64  # of which the newest decisions are asked for in one request
SAME_SEQ = 32  # records that one call may have written at the same instant, and more
ALL = 1_000_000  # more records than there are about one note
OPEN = (VISIBLE, WRITTEN)
# By which names a record names what a query asks for; of a query's lists of ids the first given is in the filter.
NAMED_BY: Mapping[str, Sequence[str]] = {
    "about": ("about",),
    "made_from": ("about", "sources"),
    "shown": ("shown",),
    "calls": ("call",),
    "note": ("note",),
}
DOUBLE = 2048  # nanoseconds that a double cannot tell apart, and more

# A filter is quick, and allowed by a server in strict mode, only if the field that it names has an index. Each index
# makes a flush in a folder some milliseconds longer, and on a server takes memory maps.
NOTE_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant",
    "buried": "keyword",
    "owing": "keyword",
    "last": "integer",
    "seq": "integer",
    "seq_us": "integer",
    "seq_ns": "integer",
    "at": "datetime",
    "recorded_at": "datetime",
    "until": "datetime",
    "expires_at": "datetime",
    "attempts": "integer",
    TERMS: "number",  # everything else that `where` can name
}
RECORD_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant",
    "seq": "integer",
    "phase": "number",
    TERMS: "number",
}


@dataclass(frozen=True, slots=True)
class Nearest:
    """One query by a dense or a sparse vector; `corpus` is what word frequencies are counted over.

    With `among`, only what that query finds is scored.
    """

    vector: Vector | Sparse
    limit: int
    filter: Filter
    corpus: Filter
    among: Nearest | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    """The points that are best by reciprocal rank in several lists, 1 / (`k` + rank)."""

    parts: Sequence[Nearest]
    limit: int
    k: int


Hits = list[tuple[str, float]]


class Collection(Protocol):
    """A set of points with payloads; every method raises `StoreError` for trouble of its own."""

    @property
    def dialect(self) -> Dialect:
        """Makes the filters this collection understands."""

    def retrieve(
        self, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some fields of their payloads."""

    def insert(self, points: Sequence[Point]) -> None:
        """Write those of the points whose ids are not there."""

    def swap(self, swaps: Sequence[tuple[str, Point]]) -> None:
        """Replace each point whose stored `token` is the one given."""

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""

    def nearest(
        self, queries: Sequence[Nearest], fused: Sequence[Fused] = ()
    ) -> tuple[list[Hits], list[list[Point]]]:
        """Return (id, score) for each query, sorted by (-score, id), and the points that others find."""

    def newest(self, queries: Iterable[tuple[Filter, int]]) -> Iterable[Point]:
        """Return for each query that many matching points with the greatest `seq`."""

    def scroll(self, which: Filter | None, least: int | None = None) -> list[Point]:
        """Return all matching points, or at least so many of them, in any order."""

    def ordered(
        self, by: str, which: Filter | None, limit: int, *, newest_first: bool = False
    ) -> list[Point]:
        """Return a number of matching points in the order of a field."""

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
    malformed namespace is a `NamespaceError`, a value that cannot be stored an `InvalidInputError`, before anything
    is written.

    Attributes:
        remote: Whether a call waits for a network, and other processes may write to the store as well.

    Args:
        notes: The collection of notes.
        records: The collection of calls, decisions and leases.
        dimensions: Length of the dense vectors.
        bm25: How text becomes a sparse vector.
    """

    remote = False

    def __init__(
        self, notes: Collection, records: Collection, *, dimensions: int, bm25: Bm25
    ) -> None:
        self._notes, self._records = notes, records
        self._dimensions, self._bm25, self._dialect = dimensions, bm25, notes.dialect
        self._foreign = set[tuple[str, str]]()  # (namespace, id): reads that met another's point

    @property
    def power_was_cut(self) -> bool:
        """Whether a power cut may have taken what was written last, to different ends in the two collections."""
        return False

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

        Of those `briefly` there is only what tells whether a wording still stands: token, rev, `thorough`, and whether
        the note was deleted or when it expires. It is the same request to a server.
        """
        brief = set(briefly).difference(ids)
        if not self.remote:
            points = self._found(self._notes, namespace, brief, fields=BRIEF)
            known = {point.id: decode_briefly(point) for point in points}
            return known | _by_id(self._found(self._notes, namespace, ids, vectors=vectors))
        both = self._found(self._notes, namespace, [*ids, *brief], vectors=vectors)
        return {
            point.id: decode_briefly(point) if point.id in brief else decode_note(point)
            for point in both
        }

    def find_notes(self, namespace: Namespace, query: NoteQuery) -> dict[str, StoredNote]:
        """Return the stored notes that are wanted, by id."""
        self._check_open()
        key, every, any_of = namespace_key(namespace), self._dialect.every, self._dialect.any_of
        whose = {"namespace": query.alive is not False, "buried": query.alive is not True}
        which = [
            self._dialect.some([any_of(name, [key]) for name, is_in in whose.items() if is_in])
        ]
        if query.owing or query.bare:
            which.append(any_of("owing", [key]))
        if query.expired_at is not None:
            time = stamp(query.expired_at, "expired_at")
            which.append(self._dialect.during("expires_at", {"lte": time}))
        notes = _by_id(self._notes.scroll(every(which), query.least))
        return {key: note for key, note in notes.items() if query.finds(note)}

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
        key, any_of = namespace_key(namespace), self._dialect.any_of
        earlier = self._dialect.between("seq_us", {"lt": first_seq(before) // 1000})
        which = self._dialect.every(
            [any_of("buried", [key]), earlier], but=[any_of("owing", [key])]
        )
        with self._writing():
            self._notes.delete(which)

    def records(self, namespace: Namespace, ids: Ids[str]) -> dict[str, Record]:
        """Return the records with these ids, by id."""
        return {
            point.id: decode_record(point) for point in self._found(self._records, namespace, ids)
        }

    def find_records(self, namespace: Namespace, query: RecordQuery) -> dict[str, Record]:
        """Return the calls and decisions that are wanted, by id."""
        self._check_open()
        points = {point.id: point for point in self._found_by(namespace_key(namespace), query)}
        wanted = query.of(decode_record(point) for point in points.values())
        return {record.id: record for record in wanted}

    def insert_records(self, namespace: Namespace, records: Sequence[Record]) -> None:
        """Store records whose ids are not there."""
        points = [Point(record.id, encode_record(record)) for record in records]
        self._insert(self._records, namespace, points)

    def swap_records(self, namespace: Namespace, swaps: Sequence[tuple[str, Record]]) -> None:
        """Replace each record whose token is still the one given with the new version."""
        self._swap(
            self._records,
            namespace,
            [(token, Point(record.id, encode_record(record))) for token, record in swaps],
        )

    def remove_decisions(self, namespace: Namespace, ids: Ids[str]) -> None:
        """Remove the decisions with these ids."""
        ours = self._ours(namespace_key(namespace))
        decided = self._having(DECIDED)
        known = sorted(filter(is_id, ids))
        with self._writing():
            for start in range(0, len(known), IDS_AT_ONCE):
                some = self._dialect.ids(known[start : start + IDS_AT_ONCE])
                self._records.delete(self._dialect.every([ours, decided, some]))

    def search(self, namespace: Namespace, queries: Sequence[Query]) -> list[Ranked]:
        """Return for each query its dense and its BM25 list, each sorted by (-score, id), of notes that are not deleted.

        It is one request for all.
        """
        self._check_open()
        namespace_key(namespace)  # refuses a malformed one, also where nothing is asked
        plans: list[dict[str, Nearest]] = []
        fused: list[Fused | None] = []
        for query in queries:
            lists, bring = self._lists_of(query, query.namespace or namespace), query.bring
            if not (self.remote and bring and lists):
                fused.append(None)
            else:
                # Notes come along, and the cosines of notes that only words find, by the same request.
                fused.append(Fused(list(lists.values()), bring.limit, bring.k))
                if len(lists) > 1:
                    words = lists["lexical"]
                    lists["cosines"] = replace(lists["dense"], limit=words.limit, among=words)
            plans.append(lists)
        asked = [one for lists in plans for one in lists.values()]
        hits, points = self._notes.nearest(asked, list(filter(None, fused)))
        scored, brought, answers = iter(hits), iter(points), []
        for lists, brings in zip(plans, fused, strict=True):
            found = {name: next(scored) for name in lists}
            ranked = Ranked(
                dense=found.get("dense", ()),
                lexical=found.get("lexical", ()),
                cosines=dict(found.get("cosines", ())),
                brought=_by_id(next(brought)) if brings else {},
            )
            answers.append(ranked)
        return answers

    def count(self, namespace: Namespace, where: Conditions = ()) -> int:
        """Return how many notes meet the conditions, exactly; tombstones do not count."""
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
        points = self._notes.ordered("seq", which, limit, newest_first=newest_first)
        notes = (stored.note for stored in _by_id(points).values() if stored.note)
        return sorted(notes, key=lambda note: (note.seq, note.id), reverse=newest_first)

    def namespaces(self, where: Conditions = (), *, recorded: bool = False) -> list[Namespace]:
        """Return the namespaces that hold notes which meet the conditions, sorted.

        With `recorded` also those of which only records and tombstones are left.
        """
        self._check_open()
        which = note_filter(self._dialect, None, where) if where else None
        keys = set(self._notes.distinct("namespace", which))
        if recorded:
            made = self._dialect.every([self._having(CALL, DECIDED)])
            keys.update(self._records.distinct("namespace", made), self._notes.distinct("buried"))
        return sorted(map(decode_namespace, keys))

    def unfinished(self) -> list[Namespace]:
        """Return the namespaces in which a note owes a purge or has no vector, or a decision is not settled, sorted."""
        self._check_open()
        is_open = self._dialect.every([self._dialect.any_of("phase", OPEN)])
        keys = {*self._notes.distinct("owing"), *self._records.distinct("namespace", is_open)}
        return sorted(map(decode_namespace, keys))

    def last_seq(self) -> int:
        """Return the greatest `seq` of all notes, their wordings and records in all namespaces; 0 if there are none."""
        self._check_open()
        newest = [
            point.payload[by]
            for collection, by in ((self._notes, "last"), (self._records, "seq"))
            for point in collection.ordered(by, None, 1, newest_first=True)
        ]
        return max(newest, default=0)

    def _point_of(self, stored: StoredNote) -> Point:
        dense, payload = None, encode_note(stored)
        if stored.note is None:
            return Point(stored.id, payload)
        if stored.vectors is not None:
            where = f"vectors of note {stored.id}"
            dense = check_vectors(stored.vectors, self._dimensions, where)
        elif stored.embedded and self.remote:
            raise StoreError(
                f"note {stored.id!r} was read without its vectors; nothing was written: please report this"
            )
        words = self._bm25.encode_document(*lexical_texts(stored.note))
        return Point(
            stored.id, payload, dense, words, keeps_dense=dense is None and stored.has_vectors
        )

    def _insert(
        self, collection: Collection, namespace: Namespace, points: Sequence[Point]
    ) -> None:
        key = self._checked(namespace, points)
        with self._writing():
            first = {point.id: point for point in reversed(points)}
            # Ids come from the namespace: only those are looked up that a read has met.
            doubtful = [i for i in first if (key, i) in self._foreign]
            taken = collection.retrieve(doubtful) if doubtful else {}
            if others := [i for i, point in taken.items() if owner(point.payload) != key]:
                raise StoreError(
                    f"the ids {others} belong to another namespace than {namespace!r}; nothing was written. Ids "
                    "come from the namespace: these notes were imported with ids that do not"
                )
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
        if others := [point.id for point in points if owner(point.payload) != key]:
            raise StoreError(f"{others} are not of namespace {namespace!r}; nothing was written")
        return key

    def _found(
        self,
        collection: Collection,
        namespace: Namespace,
        ids: Ids[str],
        *,
        vectors: bool = False,
        fields: Sequence[str] | None = None,
    ) -> Iterator[Point]:
        """Yield the points with these ids that belong to this namespace."""
        self._check_open()
        key = namespace_key(namespace)
        known = [i for i in dict.fromkeys(ids) if is_id(i)]
        if not known:
            return
        for point in collection.retrieve(known, vectors=vectors, fields=fields).values():
            if owner(point.payload) == key:
                yield point
            else:
                self._foreign.add((key, point.id))

    def _ours(self, key: str) -> Filter:
        return self._dialect.any_of("namespace", [key])

    def _found_by(self, key: str, query: RecordQuery) -> Iterator[Point]:
        """Yield the wanted records, and some more: of several lists of ids only one is in the filter.

        Each note's newest decisions take a query for each; where nothing waits for a network, and there are not more than
        these would be, all are read at once.
        """
        every, which = self._dialect.every, self._clauses(key, query)
        name = next((name for name in NAMED_BY if getattr(query, name) is not None), None)
        if name is None:
            yield from self._records.scroll(every(which))
            return
        given = getattr(query, name)
        ids = sorted(filter(is_id, [given] if name == "note" else given))
        newest = query.newest if name == "about" else None
        size = IDS_AT_ONCE if newest is None else NOTES_AT_ONCE
        for start in range(0, len(ids), size):
            some = ids[start : start + size]
            naming = self._having(*(f"{by}={i}" for i in some for by in NAMED_BY[name]))
            if name == "calls":
                naming = self._dialect.some([self._dialect.ids(some), naming])
            all_of_them = every([*which, naming])
            if newest is None:
                yield from self._records.scroll(all_of_them)
                continue
            most = newest * len(some)
            few = [] if self.remote else self._records.scroll(all_of_them, most + 1)
            if self.remote or len(few) > most:
                few = list(self._records.newest(self._bounded(which, some, newest)))
            yield from few

    def _clauses(self, key: str, query: RecordQuery) -> list[Filter]:
        """Return conditions that the wanted records meet, whichever notes and calls they name."""
        which = [self._ours(key)]
        if query.waiting:
            which.append(self._having(WAITS))
        elif query.decisions or query.about is not None or query.made_from is not None:
            which.append(self._having(DECIDED))
        elif query.calls_only or query.shown is not None:
            which.append(self._having(CALL))
        if query.unsettled:
            which.append(self._dialect.any_of("phase", OPEN))
        if query.since:
            which.append(self._dialect.between("seq", {"gte": query.since - DOUBLE}))
        return which

    def _bounded(
        self, which: Sequence[Filter], ids: Sequence[str], newest: int
    ) -> Iterator[tuple[Filter, int]]:
        """Yield the queries for each note's own decisions and those that supersede, and for the newest of the others."""
        every, having = self._dialect.every, self._having
        about, own = ([f"{name}={i}" for i in ids] for name in ("about", "note"))
        yield every([*which, having(*about), having(OUTDATES, *own)]), ALL
        for one, mine in zip(about, own, strict=True):
            yield (
                every([*which, having(one)], but=[having(mine, OUTDATES, VOID)]),
                newest + SAME_SEQ,
            )

    def _having(self, *marks: str) -> Filter:
        """Return the condition that a record has one of these marks."""
        return self._dialect.any_of(TERMS, list(map(number_of, marks)))

    def _lists_of(self, query: Query, namespace: Namespace) -> dict[str, Nearest]:
        """Return the searches for the dense and the lexical list of a query."""
        key = namespace_key(namespace)
        corpus = note_filter(self._dialect, key)
        which = note_filter(self._dialect, key, query.where) if query.where else corpus
        vectors: dict[str, Vector | Sparse] = {}
        if query.vector is not None:
            (vectors["dense"],) = check_vectors(query.vector, self._dimensions, "vector of a query")
        if query.text is not None and (words := self._bm25.encode_query(query.text))[0]:
            vectors["lexical"] = words
        limit = query.limit
        return {n: Nearest(v, limit, which, corpus) for n, v in vectors.items() if limit > 0}


def _by_id(points: Iterable[Point]) -> dict[str, StoredNote]:
    return {point.id: decode_note(point) for point in points}
