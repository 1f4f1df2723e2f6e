"""The writing half of a note store: what is checked, and in which order things are written.

The history is written before the notes, so each write announces there, by an *intent*, what it is about to do. It is
read when a store is opened after a process was killed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NoReturn

from ..errors import InvalidInputError
from ..notes import Change, ChangeKind, Namespace
from ..ports import Indexed, MaybeAwaitable
from ..runtime import resolve
from .checks import check_vector, is_id
from .conditions import Filter, seq_range
from .payloads import (
    Point,
    about_others,
    blanked,
    change_point_id,
    check_owner,
    completed,
    decode_change,
    encode_change,
    encode_note,
    follows,
    intended,
    is_made,
    is_same_write,
    is_written,
    namespace_key,
)
from .reads import PointReader, batches, driven

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

    Attributes:
        interrupted: All changes of those operations that may not be finished, for the memory to finish.
    """

    interrupted: Sequence[Change] = ()

    def finished(self, steps: Sequence[Change]) -> None:
        """Forget those of the `interrupted` changes that the memory has finished."""
        done = {step.id for step in steps}
        self.interrupted = [step for step in self.interrupted if step.id not in done]

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

    @driven
    async def insert(
        self, namespace: Namespace, items: Sequence[Indexed], changes: Sequence[Change]
    ) -> set[str]:
        """See `NoteStore.insert`; changes about notes that were there are not recorded."""
        key = namespace_key(namespace)
        points: dict[str, Point] = {}
        for item in items:
            points.setdefault(item.note.id, self._encode(namespace, item))
        records = [_change_point(namespace, change) for change in changes]
        async with self._changing(changes):
            unsure = self._unknown(list(points))
            taken = await resolve(self._notes.retrieve(unsure, ("namespace",)))
            check_owner(taken.values(), key)
            new = [point for point in points.values() if point.id not in taken]
            about = about_others(records, taken)
            lost = await self._write(about, new, self._notes.insert)
        return {point.id for point in new} - lost

    @driven
    async def replace(
        self,
        namespace: Namespace,
        items: Sequence[Indexed],
        changes: Sequence[Change],
        *,
        first: Collection[str] = (),
    ) -> set[str]:
        """See `NoteStore.replace`: all or nothing, on a server all but what is stale."""
        namespace_key(namespace)  # a malformed one is refused
        points = {item.note.id: self._encode(namespace, item) for item in items}
        if len(points) < len(items):
            raise InvalidInputError(
                "replace was given two versions of one note; give the last one only"
            )
        records = [_change_point(namespace, change) for change in changes]
        async with self._changing(changes):
            if any(change.kind in LOSING for change in changes):
                self._remove_copies()
            ready, stale = await self._ready_to_swap(namespace, points)
            if stale and not self.remote:
                return set(points)
            if not stale.isdisjoint(first):  # the others wait for these
                stale |= points.keys() - set(first)
                ready = [point for point in ready if point.id not in stale]
            about = about_others(records, stale)
            swap = partial(self._swap, first=first)
            lost = await self._write(about, ready, swap, whole=not stale)
        return stale | lost

    @driven
    async def rewrite_changes(self, namespace: Namespace, changes: Sequence[Change]) -> None:
        """See `NoteStore.rewrite_changes`."""
        namespace_key(namespace)  # a malformed one is refused
        records = [_change_point(namespace, change) for change in changes]
        async with self._changing():
            self._remove_copies()
            ids = [record.id for record in records]
            found = await resolve(self._history.retrieve(ids, ("data",)))
            less = [blanked(r, found[r.id]) for r in records if r.id in found]
            await resolve(self._history.upsert(less))

    @driven
    async def delete(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        receipts: Sequence[Change],
        *,
        revisions: Mapping[str, int] | None = None,
    ) -> set[str]:
        """See `NoteStore.delete`."""
        key = namespace_key(namespace)
        kept = [_change_point(namespace, receipt) for receipt in receipts]
        async with self._changing(receipts):
            if revisions and not self.remote:
                found = await self._found(namespace, list(revisions), ("namespace", "revision"))
                if any(point.payload["revision"] != revisions[i] for i, point in found.items()):
                    return set(ids)
            await self._remove(Removal(key, tuple(ids), tuple(r.id for r in kept)), kept)
        return set()

    @driven
    async def clear(self, namespace: Namespace, receipts: Sequence[Change]) -> None:
        """See `NoteStore.clear`."""
        key = namespace_key(namespace)
        records = [_change_point(namespace, receipt) for receipt in receipts]
        async with self._changing(receipts):
            await self._remove(Removal(key, None, tuple(r.id for r in records)), records)

    def _writing(self) -> AbstractContextManager[object]:
        """Return what to hold from reading stored versions to having written new ones."""
        raise NotImplementedError

    async def _intent(self, records: Sequence[Point], what: Mapping[str, Any]) -> Point | None:
        """Return the point that announces a write; None if nobody can open the store after a kill."""
        del records, what
        return None

    def _unknown(self, ids: Sequence[str]) -> Sequence[str]:
        """Return the ids to ask for before an insert."""
        return ids

    async def _swap(self, points: Sequence[Point], first: Collection[str]) -> set[str]:
        """Replace points whose stored revision is one less; return the ids where it was not."""
        del first
        return await resolve(self._notes.swap(points))

    async def _ended(
        self, intent: Point, records: Sequence[Point], *, complete: bool | None
    ) -> None:
        """The announced write was carried out, and its operations have written all, or a part; None: no note."""

    async def _drop(self, *intents: Point) -> None:
        """Make the announced write one that nobody has to finish."""

    def _remove_copies(self) -> None:
        """Text is about to be removed: remove unfinished copies of the collection, which may hold it."""

    def _failed(self, ops: Collection[str]) -> None:
        """A write of these operations failed."""

    @asynccontextmanager
    async def _changing(self, changes: Sequence[Change] = ()) -> AsyncIterator[None]:
        try:
            with self._writing():
                await self._settle()
                yield
        except BaseException:
            self._failed({change.op for change in changes})
            raise

    async def _write(
        self,
        records: Sequence[Point],
        notes: Sequence[Point],
        write: Callable[[Sequence[Point]], MaybeAwaitable[set[str]]],
        *,
        whole: bool = True,
    ) -> set[str]:
        """Write the changes, then the notes; return the ids that another process was faster with."""
        announced = {"changes": intended(records, notes)}
        intent = await self._intent(records, announced) if records else None
        try:
            await self._upsert_history(intent, records)
            lost = await resolve(write(notes))
            await self._forget(records, lost)
        except BaseException:
            step = partial(self._forget_unwritten, intent, records, notes)
            self._unsettled.append(step)
            raise
        if intent is not None:
            written = None if lost and len(lost) == len(notes) else whole and not lost
            await self._ended(intent, about_others(records, lost), complete=written)
        return lost

    async def _forget_unwritten(
        self,
        intent: Point | None,
        records: Sequence[Point],
        notes: Sequence[Point],
    ) -> None:
        ids = [note.id for note in notes]
        fields = ("revision", "ops")
        found = await resolve(self._notes.retrieve(ids, fields))
        lost = {note.id for note in notes if not is_written(note, found.get(note.id))}
        await self._forget(records, lost)
        if intent is None:
            return
        if lost and len(lost) < len(notes):  # it stays announced until its operation is finished
            more = await self._changes_of(intent.payload["ops"])
            self.interrupted = [*self.interrupted, *more]
        else:
            await self._drop(intent)

    async def _forget(self, records: Sequence[Point], lost: Collection[str]) -> None:
        """Remove the changes of notes that another process changed in between."""
        await self._erase([r.id for r in records if r.payload["note_id"] in lost])

    async def _erase(self, points: Sequence[str]) -> None:
        if points:
            await resolve(self._history.delete(self._dialect.ids(points)))

    async def _remove(self, removal: Removal, receipts: Sequence[Point]) -> None:
        """Announce a removal, together with what stays of it, and carry it out."""
        intent = await self._intent(receipts, {"removal": asdict(removal)})
        try:
            await self._upsert_history(intent, receipts)
        except BaseException:
            # The engine may have logged what it refused, and would carry it out when it is next opened.
            self._unsettled.append(partial(self._withdraw, intent, receipts))
            raise
        try:
            await self._carry_out(removal, intent)
        except BaseException:
            self._unsettled.append(partial(self._carry_out, removal, intent))
            raise

    async def _withdraw(self, intent: Point | None, receipts: Sequence[Point]) -> None:
        await self._erase([receipt.id for receipt in receipts])
        if intent is not None:
            await self._drop(intent)

    async def _carry_out(self, removal: Removal, intent: Point | None) -> None:
        """Remove the notes and then their changes; after a kill or a failure, what is left of them."""
        self._remove_copies()  # first of all: after a kill this is carried out again
        notes, gone = self._filters(removal)
        for which in notes:
            await resolve(self._notes.delete(which))
        for which in gone:
            await resolve(self._history.delete(which))
        if intent is not None:
            await self._ended(intent, (), complete=True)

    def _filters(self, removal: Removal) -> tuple[list[Filter], list[Filter]]:
        """Return what matches the notes of a removal, and what matches their changes."""
        every, any_of = self._dialect.every, self._dialect.any_of
        ours = self._ours(removal.namespace)
        if removal.upto is not None:
            ours = every([ours, seq_range(self._dialect, "lte", removal.upto)])
        if removal.ids is None:
            return [every([ours])], [every([ours], but=[any_of("kind", RECEIPTS)])]
        kept = [self._dialect.ids(removal.receipts)]
        some = list(batches(filter(is_id, removal.ids)))
        return (
            [every([ours, self._dialect.ids(batch)]) for batch in some],
            [every([ours, any_of("note_id", batch)], but=kept) for batch in some],
        )

    async def _finish_intent(self, intent: Mapping[str, Any]) -> None:
        """Finish what a killed process had announced.

        A removal is carried out; a change whose note was not written is taken out of the history.
        """
        if removal := intent.get("removal"):
            await self._carry_out(Removal(**removal), None)
            return
        changes = intent.get("changes") or []
        ids = list({note_id for _, note_id, _, _ in changes})
        notes = await resolve(self._notes.retrieve(ids, ("revision", "ops")))
        await self._erase([made for made, i, *how in changes if not is_made(notes.get(i), *how)])

    async def _changes_of(self, ops: Sequence[str]) -> list[Change]:
        """Return all changes of these operations, of any namespace, oldest first.

        One that is named `<op>:…` follows from `<op>`, which is not over before it: its changes come along.
        """
        all_ops = [name for op in ops for name in (op, op.partition(":")[0])]
        every, any_of = self._dialect.every, self._dialect.any_of
        filters = [every([any_of("op", some)]) for some in batches(all_ops)]
        found = [point for f in filters for point in await resolve(self._history.scroll(f))]
        changes = [decode_change(point.payload) for point in found]
        return sorted(changes, key=lambda change: (change.seq, change.id))

    async def _upsert_history(self, intent: Point | None, records: Sequence[Point]) -> None:
        await resolve(self._history.upsert([*filter(None, [intent]), *records]))

    def _encode(self, namespace: Namespace, item: Indexed) -> Point:
        note, dense = item.note, item.vector
        if dense is not None:
            dense = check_vector(dense, self._dimensions, f"vector of {note.id}")
        lexical = None if item.text is None else self._bm25.encode_document(item.text)
        kept = () if dense is None and item.text == "" else dense
        return Point(note.id, encode_note(note, namespace), kept, lexical)

    async def _ready_to_swap(
        self, namespace: Namespace, points: Mapping[str, Point]
    ) -> tuple[list[Point], set[str]]:
        """Return the points to write, with the vectors that they keep, and the ids of those that are stale.

        A server compares revisions when it writes, and lets a point keep both of its vectors, but not one.
        """
        partial_ = [p for p in points.values() if (p.dense is None) != (p.lexical is None)]
        if self.remote and not partial_:
            return list(points.values()), set()
        keeps = any(p.dense is None or p.lexical is None for p in points.values())
        fields = ("namespace", "revision", "ops")
        stored = await self._found(namespace, list(points), fields, vectors=keeps)
        written = {i for i, old in stored.items() if is_same_write(points[i], old)}
        stale = {i for i in points if not follows(points[i], stored.get(i))} - written
        left = [i for i in points if i not in stale | written]
        return [completed(points[i], stored[i]) for i in left], stale


def _change_point(namespace: Namespace, change: Change) -> Point:
    payload = encode_change(change, namespace)
    return Point(change_point_id(payload["namespace"], change.id), payload)
