"""The two collections as the journal sees them, and what a writer needs to write to them.

There are two kinds of write. An *insertion* leaves a point alone that is there already. A *swap* replaces a whole point
if its token is still the one that was read. Points are removed by `clear` and by the sweep of tombstones only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ..decisions import VISIBLE, Call, Decision, Record, Source
from ..notes import Namespace, Note
from ..ports import MaybeAwaitable
from ..runtime import resolve


class Purge(NamedTuple):
    """What a delete or a correction still owes: all that was made of wordings up to `rev` is to go."""

    rev: int
    deleted: bool


class Earlier(NamedTuple):
    """Earlier values of a note's fields, and the token of the write that replaced them."""

    token: str
    seq: int
    rev: int
    values: Mapping[str, Any]


class Attempts(NamedTuple):
    """The attempt of each stage at which the next decision about the present wording would be written."""

    construct: int = 0
    link: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNote:
    """A note as it is stored: the note with its view, and what keeps writers from harming each other.

    Attributes:
        id: The id of the note, and of its point.
        namespace: Whose memory.
        token: New with every write.
        rev: The seq of the present wording; it never falls, also not where an id is deleted and added again.
        note: The note with its view; None in a tombstone.
        deleted_at: The seq of a tombstone.
        purge: What was made of earlier wordings and is still to go; None: nothing.
        thorough: The rev up to which every call that was shown the note is void. It is never cleared, or the late
            answers of such calls would come back.
        supersedes: The ids of the notes whose place the note takes.
        attempts: The next attempt of each stage.
        earlier: The newest earlier values, oldest first.
    """

    id: str
    namespace: Namespace
    token: str
    rev: int
    note: Note | None = None
    deleted_at: int = 0
    purge: Purge | None = None
    thorough: int = 0
    supersedes: tuple[str, ...] = ()
    attempts: Attempts = field(default_factory=Attempts)
    earlier: tuple[Earlier, ...] = ()

    @property
    def is_deleted(self) -> bool:
        """Whether the point is a tombstone."""
        return self.note is None

    @property
    def source(self) -> Source:
        """The present wording."""
        return Source(self.id, self.rev)

    def is_gone(self, time: datetime) -> bool:
        """Return whether the note counts as gone: it was deleted, or has expired."""
        return self.note is None or self.note.is_expired(time)

    def tombstone(self, token: str, seq: int, *, thorough: bool) -> StoredNote:
        """Return what is left of the note when it is deleted: no text, no vector."""
        return StoredNote(
            id=self.id,
            namespace=self.namespace,
            token=token,
            rev=self.rev,
            deleted_at=seq,
            purge=Purge(self.rev, deleted=True),
            thorough=self.rev if thorough else self.thorough,
        )

    def was_written_by(self, token: str) -> bool:
        """Return whether the write with this token was applied, whatever was written since."""
        return self.token == token or any(values.token == token for values in self.earlier)


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """Which notes are wanted: all of a namespace, those not deleted, expired at a time, or with an open purge."""

    alive: bool | None = None
    expired_at: datetime | None = None
    owing: bool = False

    def finds(self, note: StoredNote) -> bool:
        """Return whether a note is one of those wanted."""
        if self.alive is not None and self.alive is note.is_deleted:
            return False
        if self.owing and note.purge is None:
            return False
        time = self.expired_at
        return time is None or (note.note is not None and note.note.is_expired(time))


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records are wanted; the conditions that are given all have to hold.

    Attributes:
        calls: Calls with these ids, and their decisions.
        about: Decisions that show on one of these notes.
        made_from: Decisions that have a wording of this note, up to this rev, among their sources.
        shown: Calls that were shown a wording of this note, up to this rev.
        unsettled: Decisions that are not settled.
        decisions: Decisions only.
    """

    calls: frozenset[str] | None = None
    about: frozenset[str] | None = None
    made_from: Source | None = None
    shown: Source | None = None
    unsettled: bool = False
    decisions: bool = False

    def finds(self, record: Record) -> bool:
        """Return whether a record is one of those wanted."""
        if isinstance(record, Call):
            return self._finds_call(record)
        return (
            self.shown is None
            and (self.calls is None or record.call in self.calls)
            and (self.about is None or not self.about.isdisjoint(record.about))
            and (self.made_from is None or _reaches(record.sources, self.made_from))
            and not (self.unsettled and not record.phase)
        )

    def _finds_call(self, call: Call) -> bool:
        if self.decisions or self.about is not None or self.made_from is not None or self.unsettled:
            return False
        if self.shown is not None and not _reaches(call.shown, self.shown):
            return False
        return self.calls is None or call.id in self.calls


def _reaches(sources: Iterable[Source], upto: Source) -> bool:
    return any(source.id == upto.id and source.rev <= upto.rev for source in sources)


class Collections(Protocol):
    """The two collections of a memory, within one namespace. One call is one request.

    Reads see every acknowledged write. A write of several points may be applied in part, late, or again.
    """

    def notes(self, ids: Sequence[str]) -> MaybeAwaitable[Mapping[str, StoredNote]]:
        """Return the stored notes with these ids, tombstones too, by id."""
        ...

    def find_notes(self, query: NoteQuery) -> MaybeAwaitable[Mapping[str, StoredNote]]:
        """Return the stored notes that are wanted, by id."""
        ...

    def insert_notes(self, notes: Sequence[StoredNote]) -> MaybeAwaitable[None]:
        """Store notes whose ids are not there."""
        ...

    def swap_notes(self, swaps: Sequence[tuple[str, StoredNote]]) -> MaybeAwaitable[None]:
        """Replace each note whose token is still the one given with the new version."""
        ...

    def records(self, ids: Sequence[str]) -> MaybeAwaitable[Mapping[str, Record]]:
        """Return the calls and decisions with these ids, by id."""
        ...

    def find_records(self, query: RecordQuery) -> MaybeAwaitable[Mapping[str, Record]]:
        """Return the calls and decisions that are wanted, by id."""
        ...

    def insert_records(self, records: Sequence[Record]) -> MaybeAwaitable[None]:
        """Store calls and decisions whose ids are not there."""
        ...

    def swap_records(self, swaps: Sequence[tuple[str, Decision]]) -> MaybeAwaitable[None]:
        """Replace each decision whose token is still the one given with the new version."""
        ...

    def remove_decisions(self) -> MaybeAwaitable[None]:
        """Remove all decisions of the namespace; calls stay."""
        ...

    def remove_tombstones(self, before: datetime) -> MaybeAwaitable[None]:
        """Remove the tombstones that owe nothing and whose notes were deleted before a time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One writer: its collections, and where new tokens, seqs and the present time come from."""

    collections: Collections
    namespace: Namespace
    new_token: Callable[[], str]
    new_seq: Callable[[], int]
    now: Callable[[], datetime]
    by: str = field(default="user")

    async def note(self, note_id: str) -> StoredNote | None:
        """Return one stored note, or its tombstone; None: there is neither."""
        return (await self.notes([note_id])).get(note_id)

    async def notes(self, ids: Iterable[str]) -> Mapping[str, StoredNote]:
        """Return stored notes by id."""
        return await resolve(self.collections.notes(sorted(set(ids))))

    async def find_notes(self, query: NoteQuery) -> Mapping[str, StoredNote]:
        """Return the stored notes that are wanted, by id."""
        return await resolve(self.collections.find_notes(query))

    async def swap_notes(self, notes: Iterable[tuple[StoredNote, StoredNote]]) -> None:
        """Replace notes, given as they were read, with new versions."""
        swaps = [(read.token, new) for read, new in notes]
        if swaps:
            await resolve(self.collections.swap_notes(swaps))

    async def decisions(self, query: RecordQuery) -> dict[str, Decision]:
        """Return the decisions that are wanted, by id."""
        found = await resolve(self.collections.find_records(replace(query, decisions=True)))
        return {key: one for key, one in found.items() if isinstance(one, Decision)}

    async def records_of(self, calls: Iterable[str]) -> dict[str, Record]:
        """Return calls with their decisions, by id."""
        query = RecordQuery(calls=frozenset(calls))
        return dict(await resolve(self.collections.find_records(query)))

    async def swap_decisions(self, decisions: Iterable[tuple[Decision, Decision]]) -> None:
        """Replace decisions, given as they were read, with new versions, which get new tokens."""
        swaps = [(read.token, replace(new, token=self.new_token())) for read, new in decisions]
        if swaps:
            await resolve(self.collections.swap_records(swaps))


def shown_once(decision: Decision) -> Decision:
    """Return a decision whose sources have been looked at, which a view may show from now on."""
    return replace(decision, phase=min(decision.phase, VISIBLE))


def reopened(decision: Decision) -> Decision:
    """Return a decision that was changed, and is to be settled again; one that was not looked at yet stays so."""
    return replace(decision, phase=max(decision.phase, VISIBLE))
