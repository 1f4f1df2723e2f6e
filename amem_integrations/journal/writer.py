"""The writer of the journal, with all that a write needs; and writes of the user's words: new notes, and edits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..decisions import VISIBLE, Decision, Record
from ..notes import Namespace, Note
from ..ports import NoteQuery, RecordQuery
from ..runtime import resolve
from ..stored_note import Earlier, StoredNote
from .fold import MOST_LINKS, changed_fields

if TYPE_CHECKING:
    from ..stores.store import Store

# Besides a note's own decisions and all that supersede, so many of the newest decisions about a note are read.
MOST_OTHERS = 64
MOST_EARLIER = 20  # earlier values of a note's fields that are kept


async def as_it_is(notes: Sequence[StoredNote]) -> list[StoredNote]:
    """Return notes as they are, without new vectors."""
    return list(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One writer: its store, and where new tokens, seqs, vectors and the present time come from.

    Attributes:
        embed: Gives notes the vectors of their words and attributes, if they have others. While the embedder is down
            the notes keep the vectors that they have.
        by: The name of whoever sets a switch.
        most_links: So many links of a note show.
        most_others: So many of the newest decisions about a note are read, beside the note's own and those that supersede.
    """

    store: Store
    namespace: Namespace
    new_token: Callable[[], str]
    new_seq: Callable[[], int]
    now: Callable[[], datetime]
    embed: Callable[[Sequence[StoredNote]], Awaitable[list[StoredNote]]] = field(default=as_it_is)
    by: str = "user"
    most_links: int = MOST_LINKS
    most_others: int = MOST_OTHERS

    async def note(self, note_id: str) -> StoredNote | None:
        """Return one stored note, as it has to be read by whoever replaces it, or its tombstone; None: there is neither."""
        return (await self.whole_notes([note_id])).get(note_id)

    async def notes(self, ids: Iterable[str]) -> Mapping[str, StoredNote]:
        """Return stored notes by id, without their vectors."""
        return await resolve(self.store.notes(self.namespace, sorted(set(ids))))

    async def brief_notes(self, ids: Iterable[str]) -> Mapping[str, StoredNote]:
        """Return by id what tells whether the wordings of notes still stand, and the tokens of the notes."""
        return await resolve(self.store.notes(self.namespace, (), briefly=sorted(set(ids))))

    async def whole_notes(
        self, ids: Iterable[str], briefly: Iterable[str] = ()
    ) -> Mapping[str, StoredNote]:
        """Return stored notes by id, as they have to be read by whoever replaces them; others briefly."""
        wanted = set(ids)
        others = sorted(set(briefly) - wanted)
        vectors = self.store.remote  # elsewhere a write leaves those alone that stay
        return await resolve(
            self.store.notes(self.namespace, sorted(wanted), vectors=vectors, briefly=others)
        )

    async def find_notes(self, query: NoteQuery) -> Mapping[str, StoredNote]:
        """Return the stored notes that are wanted, by id."""
        return await resolve(self.store.find_notes(self.namespace, query))

    async def swap_notes(self, notes: Iterable[tuple[StoredNote, StoredNote]]) -> None:
        """Replace notes, given as they were read, with new versions."""
        swaps = [(read.token, new) for read, new in notes]
        if swaps:
            await resolve(self.store.swap_notes(self.namespace, swaps))

    async def decisions(self, query: RecordQuery) -> dict[str, Decision]:
        """Return the decisions that are wanted, by id."""
        found = await self.find_records(replace(query, decisions=True))
        return {key: one for key, one in found.items() if isinstance(one, Decision)}

    async def records_of(self, calls: Iterable[str]) -> dict[str, Record]:
        """Return calls with their decisions, by id."""
        query = RecordQuery(calls=frozenset(calls))
        return dict(await self.find_records(query))

    async def records(self, ids: Iterable[str]) -> Mapping[str, Record]:
        """Return records by id."""
        return await resolve(self.store.records(self.namespace, sorted(set(ids))))

    async def find_records(self, query: RecordQuery) -> Mapping[str, Record]:
        """Return the calls and decisions that are wanted, by id."""
        return await resolve(self.store.find_records(self.namespace, query))

    async def insert_records(self, records: Sequence[Record]) -> None:
        """Store records whose ids are not there."""
        await resolve(self.store.insert_records(self.namespace, records))

    async def swap_records(self, records: Iterable[tuple[Record, Record]]) -> dict[str, Record]:
        """Replace records, given as they were read, with new versions; return these by id, with their new token."""
        token = self.new_token()
        swaps = [(read.token, replace(new, token=token)) for read, new in records]
        if swaps:
            await resolve(self.store.swap_records(self.namespace, swaps))
        return {new.id: new for _, new in swaps}


def shown_once(decision: Decision) -> Decision:
    """Return a decision whose sources have been looked at, which a view may show from now on."""
    return replace(decision, phase=min(decision.phase, VISIBLE))


def reopened(decision: Decision) -> Decision:
    """Return a decision that was changed, and is to be settled again; one that was not looked at yet stays so."""
    return replace(decision, phase=max(decision.phase, VISIBLE))


async def insert(
    writer: Writer,
    notes: Sequence[Note],
    known: Mapping[str, StoredNote] | None = None,
    *,
    look: bool = True,
) -> Mapping[str, StoredNote]:
    """Store notes whose ids are not there, and return what stands under each id.

    A tombstone is swapped for the new wording; what the tombstone owes stays owed, and no rev is used twice. The note
    that is returned for an id tells by its `seq` who said it. A note that somebody else deletes at the same time is
    returned as it was.

    Args:
        writer: Who writes.
        notes: The new notes.
        known: What stood under these ids a moment ago; None reads it.
        look: Whether what stands is read back: without a key, whoever has the same id says the same.
    """
    wanted = {note.id: note for note in notes}
    new = await writer.embed([_stored(writer, note) for note in wanted.values()])
    return await _put(writer, dict(zip(wanted, new, strict=True)), known, look=look)


async def restore(
    writer: Writer, notes: Sequence[StoredNote], known: Mapping[str, StoredNote]
) -> Mapping[str, StoredNote]:
    """Store notes as another memory held them, whose ids are not there, and return what stands under each id.

    As in `insert`, a tombstone is swapped, and the note gets a later rev. The notes are written with the vectors that
    they have.
    """
    return await _put(writer, {stored.id: stored for stored in notes}, known, look=True)


async def _put(
    writer: Writer,
    made: Mapping[str, StoredNote],
    known: Mapping[str, StoredNote] | None,
    *,
    look: bool,
) -> Mapping[str, StoredNote]:
    written: dict[str, StoredNote] = {}
    while True:
        stored = dict(await writer.notes(made)) if known is None else dict(known)
        known = None
        deleted = {key: one for key, one in stored.items() if key in made and one.is_deleted}
        # A delete that came after the first look has taken the note away: the note does not come back.
        since = {key: written[key] for key in deleted if _was_there(written.get(key), deleted[key])}
        new = [one for key, one in made.items() if key not in stored]
        anew = [
            (tombstone, _in_place_of(writer, tombstone, made[key]))
            for key, tombstone in deleted.items()
            if key not in since
        ]
        if not new and not anew:
            return stored | since
        if new:
            await resolve(writer.store.insert_notes(writer.namespace, new))
        await writer.swap_notes(anew)
        if not look and not anew:
            return stored | {one.id: one for one in new}
        written |= {one.id: one for one in (*new, *(one for _, one in anew))}


def _was_there(written: StoredNote | None, tombstone: StoredNote) -> bool:
    """Return whether a tombstone is later than what was written under its id."""
    return written is not None and tombstone.rev >= written.rev


def _stored(writer: Writer, note: Note) -> StoredNote:
    token = writer.new_token()
    return StoredNote(id=note.id, namespace=writer.namespace, token=token, rev=note.seq, note=note)


def _in_place_of(writer: Writer, tombstone: StoredNote, made: StoredNote) -> StoredNote:
    return replace(
        made,
        token=writer.new_token(),
        rev=max(made.rev, tombstone.rev + 1),
        purge=tombstone.purge,
        thorough=tombstone.thorough,
    )


async def edit(writer: Writer, note_id: str, change: Callable[[Note], Note]) -> StoredNote | None:
    """Change fields of a note other than its content; return the note as it stands, or None if it is gone."""
    while True:
        stored = await writer.note(note_id)
        if stored is None or stored.note is None:
            return None
        after = change(stored.note)
        if not changed_fields(stored.note, after):
            return stored
        token = writer.new_token()
        earlier = earlier_values(stored, after, token, writer.new_seq())
        made = replace(stored, token=token, note=after, earlier=earlier)
        (new,) = await writer.embed([made])
        await writer.swap_notes([(stored, new)])
        stands = await writer.note(note_id)
        if stands is None or stands.was_written_by(token):
            return stands


def earlier_values(stored: StoredNote, after: Note, token: str, seq: int) -> tuple[Earlier, ...]:
    """Return the earlier values of a note that becomes another; of documents and items only the tokens are kept.

    By the tokens other writers know that they have written.
    """
    values = {}
    if stored.note is not None and after.origin == "conversation":
        names = changed_fields(stored.note, after)
        values = {name: getattr(stored.note, name) for name in names}
    return (*stored.earlier, Earlier(token, seq, stored.rev, values))[-MOST_EARLIER:]
