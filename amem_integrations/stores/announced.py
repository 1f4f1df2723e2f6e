"""Writes among other processes: announced, so that whoever comes after a kill can settle what was left half done.

A write of versions is announced in the history collection, by the request that writes its changes. A removal is announced in
the collection of notes, by the request that removes them; that its changes are gone too is told by its receipts, which
are written with that. So what is carried out is known to be, also where its announcement is still there: it goes with
a later write. A removal without receipts takes its announcement away itself.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from uuid import uuid4

from ..errors import StoreError
from ..ids import clock
from ..notes import Change, Namespace
from .checks import is_id
from .payloads import TERMS, Point, term
from .qdrant_collection import PAGE_OF_IDS, QdrantCollection
from .writes import INTENT, PointStore, Removal

log = logging.getLogger("amem_integrations")

# Ids that were just read: when, and the `seq`, or that no note has it.
SEEN_KEPT, SEEN_SECONDS = 4096, 5.0
REMOVAL = term("kind", INTENT)  # by which announcements of removals are found among notes


class AnnouncedWrites(PointStore):
    """The writing half of a store that other processes write to as well, if it is `remote`."""

    settle_after: float = 15 * 60
    _notes: QdrantCollection
    _history: QdrantCollection

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - of `PointStore`
        super().__init__(*args, **kwargs)
        self._partial: dict[str, list[Point]] = {}  # intents of operations written in part
        self._finished: deque[str] = deque()  # intents that go with the next write
        self._removed: deque[str] = deque()  # of removals, that go with the next one
        self._seen: OrderedDict[str, tuple[float, int | None]] = OrderedDict()
        self._settles_at = 0.0

    async def _found(
        self,
        namespace: Namespace,
        ids: Sequence[str],
        fields: Sequence[str] | None = None,
        *,
        vectors: bool = False,
    ) -> dict[str, Point]:
        found = await super()._found(namespace, ids, fields, vectors=vectors)
        if self.remote and fields is None:
            self._saw(ids, found)
        return found

    def _saw(self, ids: Sequence[str], found: Mapping[str, Point]) -> None:
        now = time.monotonic()
        for i in ids:
            self._seen[i] = (now, int(found[i].payload["seq"]) if i in found else None)
        while len(self._seen) > SEEN_KEPT:
            with suppress(KeyError):  # another thread was faster
                self._seen.popitem(last=False)

    def _unknown(self, ids: Sequence[str]) -> list[str]:
        """Return the ids to ask for before an insert; who has just read that there are none need not ask again."""
        since = time.monotonic() - SEEN_SECONDS
        seen = {i: self._seen.pop(i, (0.0, None)) for i in ids}
        return [i for i, (at, seq) in seen.items() if at < since or seq is not None]

    async def _swap(self, points: Sequence[Point], first: Collection[str]) -> set[str]:
        """Replace the points, those of `first` before the others; where one of these is stale, no other."""
        rest = [point for point in points if point.id not in first]
        if not self.remote or not rest or len(rest) == len(points):
            return await self._notes.swap(points)
        chosen = [point for point in points if point.id in first]
        if lost := await self._notes.swap(chosen):
            return lost | {point.id for point in rest}
        return await self._notes.swap(rest)

    async def _remove(self, removal: Removal, receipts: Sequence[Point]) -> None:
        """Remove notes together with the announcement of it, then their changes together with the receipts."""
        if not self.remote:
            await super()._remove(removal, receipts)
            return
        upto = await self._newest(list(filter(is_id, removal.ids or ())))
        kept = [[receipt.id, receipt.payload] for receipt in receipts]
        what = {"removal": asdict(replace(removal, upto=upto)), "receipts": kept, TERMS: [REMOVAL]}
        intent = await self._intent(receipts, what)
        assert intent is not None  # noqa: S101 - a removal is announced
        done, self._removed = list(self._removed), deque()
        try:
            notes, _ = self._filters(removal)
            await self._notes.delete_with(notes, before=[intent], erase=done)
            await self._remove_changes(removal, receipts)
        except BaseException:
            self._removed.extend(done)
            self._unsettled.append(partial(self._finish_removal, intent))
            raise
        if receipts:
            self._removed.append(intent.id)
        else:  # nothing else says that it is done
            await self._erase_removals([intent.id])

    async def _remove_changes(self, removal: Removal, receipts: Sequence[Point]) -> None:
        _, gone = self._filters(removal)
        done = self._taken()
        await self._history.delete_with(gone, after=receipts, erase=done)

    async def _finish_removal(self, intent: Point) -> None:
        """Finish an announced removal, unless its receipts say that this is done."""
        removal = Removal(**intent.payload["removal"])
        receipts = [Point(*kept) for kept in intent.payload["receipts"]]
        ids = [receipt.id for receipt in receipts]
        written = await self._history.retrieve(ids, ("op",))
        if not receipts or len(written) < len(ids):
            notes, _ = self._filters(removal)
            await self._notes.delete_with(notes)
            await self._remove_changes(removal, receipts)
        await self._erase_removals([intent.id])

    async def _erase_removals(self, ids: Sequence[str]) -> None:
        if ids:
            await self._notes.delete(self._dialect.ids(ids))

    async def _take_announcements_away(self) -> None:
        """Remove the announcements of what is carried out, before the connections are closed."""
        await self._erase(self._taken())
        await self._erase_removals(list(self._removed))

    async def _newest(self, ids: Sequence[str]) -> int:
        """Return a `seq` that none of these notes exceeds: the clock of who added them may be ahead."""
        seen = {i: self._seen.pop(i, None) for i in ids}
        seqs = [seq or 0 for _, seq in filter(None, seen.values())]
        if unseen := [i for i, known in seen.items() if known is None]:
            read = await self._notes.retrieve(unseen, ("seq",))
            seqs += [int(point.payload["seq"]) for point in read.values()]
        return max([clock.tick(), *seqs])

    async def _intent(self, records: Sequence[Point], what: Mapping[str, Any]) -> Point | None:
        """Return a point whose namespace has another name, so that nothing that reads a history finds it."""
        if not self.remote or not any(what.values()):
            return None
        ops = sorted({record.payload["op"] for record in records})
        known = {"kind": INTENT, "at": time.time(), "ops": ops}
        return Point(str(uuid4()), {**known, **what})

    async def _ended(
        self, intent: Point, records: Sequence[Point], *, complete: bool | None
    ) -> None:
        if records and time.time() - intent.payload["at"] > self.settle_after / 2:
            # This process stood still; another may have taken it for dead, and its changes back.
            await self._history.upsert(records)
        if complete is None:
            self._finished.append(intent.id)
            return
        if not complete:
            for op in intent.payload["ops"]:
                self._partial.setdefault(op, []).append(intent)
            return
        left = [each.id for op in intent.payload["ops"] for each in self._partial.pop(op, ())]
        self._finished.extend([*left, intent.id])

    async def _upsert_history(self, intent: Point | None, records: Sequence[Point]) -> None:
        if not self.remote or not (records or intent is not None):
            await super()._upsert_history(intent, records)
            return
        done = self._taken()
        try:
            await self._history.upsert([*([intent] if intent else []), *records], done)
        except BaseException:
            self._finished.extend(done)
            raise

    def _taken(self) -> list[str]:
        """Return the intents that nobody has to finish, to be removed now."""
        taken: list[str] = []
        while self._finished and len(taken) < PAGE_OF_IDS:
            with suppress(IndexError):  # another thread was faster
                taken.append(self._finished.popleft())
        return taken

    async def _drop(self, *intents: Point) -> None:
        ids = [intent.id for intent in intents]
        try:
            await self._erase(ids)
        except StoreError:
            self._unsettled.append(partial(self._erase, ids))
            raise

    async def _settle(self) -> None:
        await super()._settle()
        if self.remote and time.monotonic() >= self._settles_at:
            self.interrupted = [*self.interrupted, *await self._settled()]

    async def _settled(self) -> list[Change]:
        """Settle what killed processes have left, and return the changes of their operations."""
        ops: list[str] = []
        self._settles_at = time.monotonic() + self.settle_after
        try:
            for intent in await self._left(self._notes, TERMS, REMOVAL):
                await self._finish_removal(intent)
                ops += intent.payload["ops"]
            for intent in await self._left(self._history, "kind", INTENT):
                await self._finish_intent(intent.payload)
                await self._erase([intent.id])
                ops += intent.payload["ops"]
            return await self._changes_of(ops)
        except StoreError as error:  # a key that may only read, for example
            log.warning("what a killed process left half done could not be settled: %s", error)
            return []

    async def _left(self, collection: QdrantCollection, field: str, value: str) -> list[Point]:
        """Return the announcements so old that who made them is not at it any more."""
        which = self._dialect.every([self._dialect.any_of(field, [value])])
        found = await collection.scroll(which)
        return [i for i in found if time.time() - i.payload["at"] >= self.settle_after]
