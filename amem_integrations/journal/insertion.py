"""Writes of the user's words: new notes, and edits of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..notes import Note
from ..runtime import resolve
from ..stored_note import StoredNote
from .erasure import earlier_values
from .fold import changed_fields
from .writer import Writer


async def insert(
    writer: Writer,
    notes: Sequence[Note],
    known: Mapping[str, StoredNote] | None = None,
    *,
    look: bool = True,
) -> Mapping[str, StoredNote]:
    """Store notes whose ids are not there, and return what stands under each id.

    A tombstone is swapped for the new wording; what the tombstone owes stays owed, and no rev is used twice. The note
    that is returned for an id tells by its `seq` who said it.

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
    while True:
        stored = dict(await writer.notes(made)) if known is None else dict(known)
        known = None
        new = [one for key, one in made.items() if key not in stored]
        anew = [
            (stored[key], _in_place_of(writer, stored[key], one))
            for key, one in made.items()
            if key in stored and stored[key].is_deleted
        ]
        if not new and not anew:
            return stored
        if new:
            await resolve(writer.store.insert_notes(writer.namespace, new))
        await writer.swap_notes(anew)
        if not look and not anew:
            return stored | {one.id: one for one in new}


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
