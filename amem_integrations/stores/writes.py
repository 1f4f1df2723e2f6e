"""The writing half of a note store: what is checked, and in which order things are written.

The history is written before the notes. So each write puts an *intent* into the history collection, which
says what the write is about to do. It is read when a store is opened after a process was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NoReturn

from ..errors import InvalidInputError, StoreError
from ..notes import Change, ChangeKind, Namespace
from ..ports import OPS_KEPT, Indexed
from .checks import check_vector, is_id
from .collection import is_written
from .conditions import seq_range
from .payloads import (
    Point,
    change_point_id,
    decode_change,
    encode_change,
    encode_note,
    namespace_key,
)
from .reads import PointReader, batches

INTENT = "intent"  # the kind of the point that announces a write; no change has it
# What stays when a namespace is cleared: that something was removed, and what models have cost.
RECEIPTS: tuple[ChangeKind, ...] = ("delete", "clear", "usage")
# With these a note loses a text, which must not be found in any copy either.
LOSING: tuple[ChangeKind, ...] = ("update", "undo", "forget", "retract")


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to go: these notes of a namespace (its key) and their changes, or (None) all of it.

    `receipts` are the points to be kept. With `upto` nothing goes that was added after this `seq`.
    """

    namespace: str
    ids: Sequence[str] | None
    receipts: Sequence[str] = ()
    upto: int | None = None


class PointStore(PointReader):
    """A `NoteStore`, written once for every kind of `Collection`.

    A subclass opens the collections, says in `_writing` what must happen around a write, and in `_intent`,
    `_ended` and `_drop` how a write is announced to whoever opens the store after this process was killed.

    The history is written before the notes. Where a write fails in between, what became of it is found out
    before the history is next read or written: a change that was not made is taken out of it, a removal
    that was begun is finished.
    """

    @property
    def remote(self) -> bool:
        """Whether a call waits for a network, and is better made in a thread by asynchronous code."""
        return False

    def __getstate__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: Always: a store holds an open folder or a connection.
        """
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it holds an open folder or "
            "connection; pass its location, and open it again in the other process"
        )

    def insert(
        self, namespace: Namespace, items: Sequence[Indexed], changes: Sequence[Change]
    ) -> set[str]:
        """See `NoteStore.insert`; changes about notes that were there are not recorded."""
        key = namespace_key(namespace)
        points: dict[str, Point] = {}
        for item in items:
            points.setdefault(item.note.id, self._encode(namespace, item))
        records = [_change_point(namespace, change) for change in changes]
        with self._changing(changes):
            taken = self._notes.retrieve(list(points), ("namespace",))
            _check_owner(taken.values(), key)
            new = [point for point in points.values() if point.id not in taken]
            lost = self._write(_about_others(records, taken), new, self._notes.insert)
        return {point.id for point in new} - lost

    def replace(
        self,
        namespace: Namespace,
        items: Sequence[Indexed],
        changes: Sequence[Change],
        first: Collection[str] = (),
    ) -> set[str]:
        """See `NoteStore.replace`: all or nothing, on a server all but what is stale."""
        namespace_key(namespace)
        points = {item.note.id: self._encode(namespace, item) for item in items}
        if len(points) < len(items):
            raise InvalidInputError(
                "replace was given two versions of one note; give the last one only"
            )
        records = [_change_point(namespace, change) for change in changes]
        with self._changing(changes):
            if any(change.kind in LOSING for change in changes):
                self._remove_copies()
            stored = self._stored(namespace, items)
            written = {i for i, old in stored.items() if _is_same_write(points[i], old)}
            stale = {i for i in points if not _follows(points[i], stored.get(i))} - written
            if stale and not self.remote:
                return set(points)
            if not stale.isdisjoint(first):  # the others wait for these
                stale |= points.keys() - set(first)
                written -= stale
            ready = [_completed(points[i], stored[i]) for i in points if i not in stale | written]
            about = _about_others(records, stale)
            swap = partial(self._swap_in_order, first)
            lost = self._write(about, ready, swap, whole=not stale)
        return stale | lost

    def _swap_in_order(self, first: Collection[str], points: Sequence[Point]) -> set[str]:
        """Replace the points, those of `first` first; where one of these is stale, no other."""
        rest = [point for point in points if point.id not in first]
        if not self.remote or not rest or len(rest) == len(points):
            return self._notes.swap(points)
        lost = self._notes.swap([point for point in points if point.id in first])
        return lost | {point.id for point in rest} if lost else self._notes.swap(rest)

    def rewrite_changes(self, namespace: Namespace, changes: Sequence[Change]) -> None:
        """See `NoteStore.rewrite_changes`."""
        namespace_key(namespace)
        records = [_change_point(namespace, change) for change in changes]
        with self._changing():
            self._remove_copies()
            found = self._history.retrieve([record.id for record in records], ("data",))
            self._history.upsert([_blanked(r, found[r.id]) for r in records if r.id in found])

    def delete(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        receipts: Sequence[Change],
        rewritten: Sequence[Change] = (),
    ) -> None:
        """See `NoteStore.delete`."""
        key = namespace_key(namespace)
        kept = [_change_point(namespace, receipt) for receipt in receipts]
        records = [_change_point(namespace, change) for change in rewritten]
        with self._changing(receipts):
            removal = Removal(key, tuple(ids), tuple(record.id for record in kept))
            self._remove(removal, kept, self._stored_only(records))

    def clear(self, namespace: Namespace, receipts: Sequence[Change]) -> None:
        """See `NoteStore.clear`."""
        key = namespace_key(namespace)
        records = [_change_point(namespace, receipt) for receipt in receipts]
        with self._changing(receipts):
            self._remove(Removal(key, None, tuple(record.id for record in records)), records)

    def _writing(self) -> AbstractContextManager[object]:
        """Return what to hold from reading stored versions to having written new ones."""
        raise NotImplementedError

    def _intent(self, records: Sequence[Point], what: Mapping[str, Any]) -> Point | None:
        """Return the point that announces a write; None if nobody can open the store after a kill."""
        del records, what
        return None

    def _ended(self, intent: Point, records: Sequence[Point], *, complete: bool) -> None:
        """The announced write was carried out, and its operations have written all, or only a part."""

    def _drop(self, *intents: Point) -> None:
        """Make the announced write one that nobody has to finish."""

    def _remove_copies(self) -> None:
        """Text is about to be removed: remove unfinished copies of the collection, which may hold it."""

    def _failed(self, ops: Collection[str]) -> None:
        """A write of these operations failed."""

    @contextmanager
    def _changing(self, changes: Sequence[Change] = ()) -> Iterator[None]:
        try:
            with self._writing():
                self._settle()
                yield
        except BaseException:
            self._failed({change.op for change in changes})
            raise

    def _write(
        self,
        records: Sequence[Point],
        notes: Sequence[Point],
        write: Callable[[Sequence[Point]], set[str]],
        *,
        whole: bool = True,
    ) -> set[str]:
        """Write the changes, then the notes; return the ids that another process was faster with."""
        intent = self._intent(records, {"changes": _intended(records, notes)}) if records else None
        try:
            self._upsert_history(intent, records)
            lost = write(notes)
            self._forget(records, lost)
        except BaseException:
            self._unsettled.append(partial(self._forget_unwritten, intent, records, notes))
            raise
        if intent is not None:
            self._ended(intent, _about_others(records, lost), complete=whole and not lost)
        return lost

    def _forget_unwritten(
        self, intent: Point | None, records: Sequence[Point], notes: Sequence[Point]
    ) -> None:
        found = self._notes.retrieve([n.id for n in notes], ("revision", "ops"))
        self._forget(records, {n.id for n in notes if not is_written(n, found.get(n.id))})
        if intent is not None:
            self._drop(intent)

    def _forget(self, records: Sequence[Point], lost: Collection[str]) -> None:
        """Remove the changes of notes that another process changed in between."""
        self._erase([record.id for record in records if record.payload["note_id"] in lost])

    def _erase(self, points: Sequence[str]) -> None:
        if points:
            self._history.delete(self._dialect.ids(points))

    def _remove(
        self, removal: Removal, receipts: Sequence[Point], rewritten: Sequence[Point] = ()
    ) -> None:
        """Announce a removal, together with what stays of it, and carry it out."""
        intent = self._intent(receipts, {"removal": asdict(removal)})
        try:
            self._upsert_history(intent, [*receipts, *rewritten])
        except BaseException:
            # The engine may have logged what it refused, and would carry it out when it is next opened.
            self._unsettled.append(partial(self._withdraw, intent, receipts))
            raise
        try:
            self._carry_out(removal, intent)
        except BaseException:
            self._unsettled.append(partial(self._carry_out, removal, intent))
            raise

    def _withdraw(self, intent: Point | None, receipts: Sequence[Point]) -> None:
        self._erase([receipt.id for receipt in receipts])
        if intent is not None:
            self._drop(intent)

    def _carry_out(self, removal: Removal, intent: Point | None) -> None:
        """Remove the changes and at last the notes; after a kill or a failure, what is left of them."""
        self._remove_copies()  # first of all: after a kill this is carried out again
        every, any_of = self._dialect.every, self._dialect.any_of
        ours = any_of("namespace", [removal.namespace])
        if removal.upto is not None:
            ours = every([ours, seq_range(self._dialect, "lte", removal.upto)])
        if removal.ids is None:
            self._history.delete(every([ours], but=[any_of("kind", RECEIPTS)]))
            self._notes.delete(every([ours]))
        kept = [self._dialect.ids(removal.receipts)]
        for batch in batches(filter(is_id, removal.ids or ())):
            self._history.delete(every([ours, any_of("note_id", batch)], but=kept))
        for batch in batches(filter(is_id, removal.ids or ())):
            self._notes.delete(every([ours, self._dialect.ids(batch)]))
        if intent is not None:
            self._ended(intent, (), complete=True)

    def _finish_intent(self, intent: Mapping[str, Any]) -> None:
        """Finish what a killed process had announced.

        A removal is carried out; a change whose note was not written is taken out of the history.
        """
        if removal := intent.get("removal"):
            self._carry_out(Removal(**removal), None)
            return
        changes = intent.get("changes") or []
        ids = list({note_id for _, note_id, _, _ in changes})
        notes = self._notes.retrieve(ids, ("revision", "ops"))
        self._erase([made for made, i, *how in changes if not _is_made(notes.get(i), *how)])

    def _changes_of(self, ops: Sequence[str]) -> list[Change]:
        """Return all changes of these operations, of any namespace, oldest first."""
        filters = [self._dialect.every([self._dialect.any_of("op", some)]) for some in batches(ops)]
        found = [point for which in filters for point in self._history.scroll(which)]
        changes = [decode_change(point.payload) for point in found]
        return sorted(changes, key=lambda change: (change.seq, change.id))

    def _upsert_history(self, intent: Point | None, records: Sequence[Point]) -> None:
        self._history.upsert([*records] if intent is None else [intent, *records])

    def _stored_only(self, records: Sequence[Point]) -> list[Point]:
        found = self._history.retrieve([record.id for record in records], ("namespace",))
        return [record for record in records if record.id in found]

    def _encode(self, namespace: Namespace, item: Indexed) -> Point:
        note, dense = item.note, item.vector
        if dense is not None:
            dense = check_vector(dense, self._dimensions, f"vector of {note.id}")
        lexical = None if item.text is None else self._bm25.encode_document(item.text)
        return Point(note.id, encode_note(note, namespace), dense, lexical)

    def _stored(self, namespace: Namespace, items: Sequence[Indexed]) -> dict[str, Point]:
        """Return what must be known of stored notes to replace them; vectors only if any is kept."""
        keeps = any(item.vector is None or item.text is None for item in items)
        ids = [item.note.id for item in items]
        return self._found(namespace, ids, ("namespace", "revision", "ops"), vectors=keeps)


def _change_point(namespace: Namespace, change: Change) -> Point:
    payload = encode_change(change, namespace)
    return Point(change_point_id(payload["namespace"], change.id), payload)


def _blanked(record: Point, stored: Point) -> Point:
    """Return the record without the texts that another writer has taken out of the stored one."""
    data = _less(record.payload["data"], stored.payload["data"])
    return Point(record.id, {**record.payload, "data": data})


def _less(new: Any, stored: Any) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(new, dict) and isinstance(stored, dict):
        return {name: _less(value, stored.get(name, value)) for name, value in new.items()}
    if isinstance(new, list) and isinstance(stored, list):
        return [item for item in new if not isinstance(item, str) or item in stored]
    return "" if stored == "" else new


def _check_owner(taken: Collection[Point], namespace: str) -> None:
    others = [point.id for point in taken if point.payload.get("namespace") != namespace]
    if others:
        raise StoreError(
            f"the ids {others} belong to notes of another namespace than {namespace}; nothing was "
            "written. Ids come from the namespace: these notes were imported with ids that do not"
        )


def _about_others(records: Sequence[Point], ids: Collection[str]) -> list[Point]:
    return [record for record in records if record.payload["note_id"] not in ids]


def _follows(new: Point, old: Point | None) -> bool:
    return old is not None and old.payload["revision"] == new.payload["revision"] - 1


def _is_same_write(new: Point, old: Point) -> bool:
    """Return whether `old` is `new`, written by an earlier try whose answer was lost."""
    last = new.payload["ops"][-1:]
    same = new.payload["revision"] == old.payload["revision"]
    return same and bool(last) and last == old.payload["ops"][-1:]


def _completed(new: Point, old: Point) -> Point:
    """Return `new` with the vectors of `old` where it has none of its own."""
    dense = old.dense if new.dense is None else new.dense
    return Point(new.id, new.payload, dense, old.lexical if new.lexical is None else new.lexical)


def _intended(records: Sequence[Point], notes: Sequence[Point]) -> list[list[Any]]:
    """Return which change is made true by which version of a note, known by revision and operation."""
    versions = {
        note.id: (note.payload["revision"], (note.payload["ops"] or [None])[-1]) for note in notes
    }
    return [
        [record.id, record.payload["note_id"], *versions[record.payload["note_id"]]]
        for record in records
        if record.payload["note_id"] in versions
    ]


def _is_made(note: Point | None, revision: int, op: str | None) -> bool:
    """Return whether a version was written, as far as the note remembers; in doubt it was."""
    if note is None or note.payload["revision"] < revision:
        return False
    forgotten = note.payload["revision"] - revision >= OPS_KEPT
    return forgotten or op is None or op in note.payload["ops"]
