"""The writing half of a note store: what is checked, and in which order things are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Items
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from ..errors import InvalidInputError, StoreError
from ..notes import Change, ChangeKind, Namespace
from ..ports import Indexed
from ._checks import check_vector, namespace_key
from ._collection import Point, is_written
from ._filters import seq_range
from ._points import change_point_id, encode_change, encode_note
from ._reader import PointReader, batches

RECEIPTS: tuple[ChangeKind, ...] = ("delete", "clear")  # what stays when a namespace is cleared


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to go: these notes of a namespace (given as its key) but no receipts, or (None) all of it."""

    namespace: str
    ids: Sequence[str] | None
    receipts: Sequence[str] = ()


class PointStore(PointReader):
    """A `NoteStore`, written once for every kind of `Collection`.

    A subclass opens the collections and says in `_writing` what must happen around a write.

    The history is written before the notes. Where a write fails in between, what became of it is found out
    before the history is next read or written: a change that was not made is taken out of it, a removal
    that was begun is finished.
    """

    @property
    def remote(self) -> bool:
        """Whether a call waits for a network, and is better made in a thread by asynchronous code."""
        return False

    def _writing(self) -> AbstractContextManager[object]:
        """Return what to hold from reading stored versions to having written new ones."""
        raise NotImplementedError

    def _record(self, changes: Sequence[Point], notes: Sequence[Point]) -> None:
        """Write the intent: these changes, about to be made true by writing these notes."""
        del notes
        if changes:
            self._history.upsert(changes)

    def insert(
        self, namespace: Namespace, items: Sequence[Indexed], changes: Sequence[Change]
    ) -> set[str]:
        """Store notes whose ids are not there yet; return the ids that were new.

        Notes that are there stay as they are, and changes about them are not recorded.

        Raises:
            InvalidInputError: Something cannot be stored; nothing was.
            StoreError: The store could not write.
        """
        namespace_key(namespace)
        points: dict[str, Point] = {}
        for item in items:
            points.setdefault(item.note.id, self._encode(namespace, item))
        records = [_change_point(namespace, change) for change in changes]
        with self._changing():
            taken = self._notes.retrieve(list(points), ("seq",)) if points else {}
            new = [point for point in points.values() if point.id not in taken]
            lost = self._write(_about_others(records, taken), new, self._notes.insert)
        return {point.id for point in new} - lost

    def replace(
        self, namespace: Namespace, items: Sequence[Indexed], changes: Sequence[Change]
    ) -> set[str]:
        """Write new versions of stored notes; return the ids of those that were stale.

        A stale note is one whose stored revision is not one less than its own, or that is gone; it is not
        written, and changes about it are not recorded. Writing the same version again, known by its
        last operation id, succeeds.

        Raises:
            InvalidInputError: Something cannot be stored; nothing was.
            StoreError: The store could not write.
        """
        namespace_key(namespace)
        given = {item.note.id: item for item in items}
        if len(given) < len(items):
            message = "replace was given two versions of one note; give the last one only"
            raise InvalidInputError(message)
        points = {note_id: self._encode(namespace, item) for note_id, item in given.items()}
        records = [_change_point(namespace, change) for change in changes]
        with self._changing():
            stored = self._stored(namespace, items)
            written = {i for i, old in stored.items() if _is_same_write(points[i], old)}
            stale = {i for i in points if not _follows(points[i], stored.get(i))} - written
            ready = [
                _completed(point, stored[i])
                for i, point in points.items()
                if i not in stale | written
            ]
            lost = self._write(_about_others(records, stale), ready, self._notes.swap)
        return stale | lost

    def delete(self, namespace: Namespace, ids: Sequence[str], receipts: Sequence[Change]) -> None:
        """Remove these notes and all changes of which one is subject or cause; keep the receipts.

        Raises:
            StoreError: The store could not write.
        """
        records = [_change_point(namespace, receipt) for receipt in receipts]
        kept = tuple(record.id for record in records)
        with self._changing():
            self._remove(Removal(namespace_key(namespace), tuple(ids), kept), records)

    def clear(self, namespace: Namespace, receipts: Sequence[Change]) -> None:
        """Remove everything of a namespace but the receipts of this and of earlier removals.

        Raises:
            StoreError: The store could not write.
        """
        records = [_change_point(namespace, receipt) for receipt in receipts]
        with self._changing():
            self._remove(Removal(namespace_key(namespace), None), records)

    def _remove(self, removal: Removal, receipts: Sequence[Point]) -> None:
        """Write the receipts, then take away the history and at last the notes."""
        self._record(receipts, [])
        self._unsettled.surely(partial(self._finish_removal, removal))

    def _finish_removal(self, removal: Removal, upto: int | None = None) -> None:
        """Take away the history and at last the notes, all of them or only what is not after `upto`."""
        ours = self._dialect.match("namespace", removal.namespace)
        every, some = self._dialect.every, self._dialect.some
        if upto is not None:
            ours = every([ours, seq_range(self._dialect, "lte", upto)])
        if removal.ids is None:
            receipts = self._dialect.any_of("kind", RECEIPTS)
            self._history.delete(every([ours], but=[receipts]))
            self._notes.delete(every([ours]))
            return
        kept = [self._dialect.ids(removal.receipts)]
        for batch in batches(removal.ids):
            told = [
                self._dialect.any_of(end, batch)
                for end in ("note_id", "cause", "data.entry.seen[]")
            ]
            self._history.delete(every([ours, some(told)], but=kept))
        for batch in batches(removal.ids):
            self._notes.delete(every([ours, self._dialect.ids(batch)]))

    def _encode(self, namespace: Namespace, item: Indexed) -> Point:
        note, dense = item.note, item.vector
        return Point(
            note.id,
            encode_note(note, namespace),
            None
            if dense is None
            else check_vector(dense, self._dimensions, f"vector of {note.id}"),
            None if item.text is None else self._bm25.encode_document(item.text),
        )

    def _stored(self, namespace: Namespace, items: Sequence[Indexed]) -> dict[str, Point]:
        """Return what must be known of stored notes to replace them; vectors only if any is kept."""
        keeps = any(item.vector is None or item.text is None for item in items)
        ids = [item.note.id for item in items]
        return self._found(namespace, ids, ("namespace", "revision", "ops"), vectors=keeps)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._writing():
            self._unsettled.settle()
            yield

    def _write(
        self,
        records: Sequence[Point],
        notes: Sequence[Point],
        write: Callable[[Sequence[Point]], set[str]],
    ) -> set[str]:
        """Write the intent, then the notes; return the ids of those that another process was faster with."""
        try:
            self._record(records, notes)
            lost = write(notes) if notes else set()
            self._forget(records, lost)
        except StoreError:
            self._unsettled.add(partial(self._forget_unwritten, records, notes))
            raise
        return lost

    def _forget_unwritten(self, records: Sequence[Point], notes: Sequence[Point]) -> None:
        found = self._notes.retrieve([note.id for note in notes], ("revision", "ops"))
        self._forget(records, {n.id for n in notes if not is_written(n, found.get(n.id))})

    def _forget(self, records: Sequence[Point], lost: Items[str]) -> None:
        """Remove the intent for notes that another process changed in between."""
        undone = [record.id for record in records if record.payload["note_id"] in lost]
        if undone:
            self._history.delete(self._dialect.ids(undone))


def _change_point(namespace: Namespace, change: Change) -> Point:
    payload = encode_change(change, namespace)
    return Point(change_point_id(payload["namespace"], change.id), payload)


def _about_others(records: Sequence[Point], ids: Items[str]) -> list[Point]:
    return [record for record in records if record.payload["note_id"] not in ids]


def _follows(new: Point, old: Point | None) -> bool:
    return old is not None and old.payload["revision"] == new.payload["revision"] - 1


def _is_same_write(new: Point, old: Point) -> bool:
    """Return whether `old` is `new`, written by an earlier try whose answer was lost."""
    last = new.payload["ops"][-1:]
    return (
        bool(last)
        and last == old.payload["ops"][-1:]
        and new.payload["revision"] == old.payload["revision"]
    )


def _completed(new: Point, old: Point) -> Point:
    """Return `new` with the vectors of `old` where it has none of its own."""
    dense = old.dense if new.dense is None else new.dense
    return Point(new.id, new.payload, dense, old.lexical if new.lexical is None else new.lexical)
