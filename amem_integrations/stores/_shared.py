"""A store that several processes write to: what one that was killed left half done, another one settles."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import uuid4

from ..errors import StoreError
from ..ids import clock
from ..notes import Change
from ._checks import is_id
from ._collection import Point
from ._points import decode_change
from ._store import PointStore, Removal

log = logging.getLogger("amem_integrations")

INTENT = "intent"  # the kind of a point that says what is about to be written; no change is of it
OPS_KEPT = 32  # last operations that a note remembers


class SharedStore(PointStore):
    """Says beside the history what it is about to write, and takes that back when it is written.

    What is still said after a long time was said by a process that was killed. It is settled when the store
    is next opened: a change that was not made is taken out of the history, a removal is finished.
    """

    _patience: float | None = None  # seconds until that; None: no other process is there

    def _write(
        self,
        records: Sequence[Point],
        notes: Sequence[Point],
        write: Callable[[Sequence[Point]], set[str]],
    ) -> set[str]:
        if self._patience is None or not (records and notes):
            return super()._write(records, notes, write)
        intent = _intent(changes=_intended(records, notes))
        with self._dropping(intent):
            lost = super()._write([intent, *records], notes, write)
            if time.time() - intent.payload["at"] > self._patience / 2:
                # This process stood still; another may have taken it for dead, and its changes back.
                self._history.upsert([r for r in records if r.payload["note_id"] not in lost])
        return lost

    def _remove(self, removal: Removal, receipts: Sequence[Point]) -> None:
        if self._patience is None:
            super()._remove(removal, receipts)
            return
        ids = [note_id for note_id in removal.ids or () if is_id(note_id)]
        known = self._notes.retrieve(ids, ("seq",)) if ids else {}
        # The clock of who added them may be ahead of ours.
        upto = max([clock.tick(), *(note.payload["seq"] for note in known.values())])
        intent = _intent(removal=asdict(removal), upto=upto)
        with self._dropping(intent):
            super()._remove(removal, [intent, *receipts])

    @contextmanager
    def _dropping(self, intent: Point) -> Iterator[None]:
        """Take an intent back when the write is done; or if it fails, when that is settled."""
        drop = partial(self._history.delete, self._dialect.ids([intent.id]))
        try:
            yield
        except StoreError:
            self._unsettled.add(drop)
            raise
        with suppress(StoreError):  # what was to be written is; the rest is tried again
            self._unsettled.surely(drop)

    def _settle_others(self) -> list[Change]:
        """Settle what killed processes have left, as far as the server lets us.

        Returns:
            The receipts of single notes whose removal was finished: others may still speak of them.
        """
        receipts: list[Change] = []
        try:
            left = self._dialect.every([self._dialect.match("kind", INTENT)])
            for intent in self._history.scroll(left):
                if time.time() - intent.payload["at"] < (self._patience or 0):
                    continue  # that process may just be at it
                receipts += self._settle(intent.payload)
                self._history.delete(self._dialect.ids([intent.id]))
        except StoreError as error:  # a key that may only read, say
            log.warning("what a killed process left half done could not be settled: %s", error)
        return receipts

    def _settle(self, intent: Mapping[str, Any]) -> list[Change]:
        if given := intent.get("removal"):
            removal = Removal(**given)
            # What was added since is not what was to be removed.
            self._finish_removal(removal, upto=intent["upto"])
            told = self._history.retrieve(list(removal.receipts)) if removal.receipts else {}
            return [decode_change(point.payload) for point in told.values()]
        changes = intent["changes"]
        ids = list({note_id for _, note_id, _, _ in changes})
        notes = self._notes.retrieve(ids, ("revision", "ops"))
        undone = [made for made, note_id, *how in changes if not _is_made(notes.get(note_id), *how)]
        if undone:
            self._history.delete(self._dialect.ids(undone))
        return []


def _intent(**what: Any) -> Point:  # noqa: ANN401 - plain JSON
    # No namespace, so that nothing that reads a history comes upon it; no note, so that it is about none.
    return Point(str(uuid4()), {"kind": INTENT, "note_id": "", "at": time.time(), **what})


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
    """Return whether a version was written, as far as the note remembers; when in doubt it was."""
    if note is None or note.payload["revision"] < revision:
        return False
    forgotten = note.payload["revision"] - revision >= OPS_KEPT
    return forgotten or op is None or op in note.payload["ops"]
