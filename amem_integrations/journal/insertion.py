"""What the user says is written: new notes, and edits of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..notes import Note
from ..runtime import resolve
from .erasure import MOST_EARLIER
from .fold import changed_fields
from .writer import Earlier, StoredNote, Writer


async def insert(writer: Writer, notes: Sequence[Note]) -> Mapping[str, StoredNote]:
    """Store notes whose ids are not there, and return what stands under each id.

    A tombstone is swapped for the new wording; what the tombstone owes stays owed, and no rev is used twice.
    """
    wanted = {note.id: note for note in notes}
    while True:
        stored = dict(await writer.notes(wanted))
        new, anew = [], []
        for key, note in wanted.items():
            if (stands := stored.get(key)) is None:
                new.append(_stored(writer, note))
            elif stands.is_deleted:
                anew.append((stands, _in_place_of(writer, stands, note)))
        if not new and not anew:
            return stored
        if new:
            await resolve(writer.collections.insert_notes(new))
        await writer.swap_notes(anew)


def _stored(writer: Writer, note: Note) -> StoredNote:
    token = writer.new_token()
    return StoredNote(id=note.id, namespace=writer.namespace, token=token, rev=note.seq, note=note)


def _in_place_of(writer: Writer, tombstone: StoredNote, note: Note) -> StoredNote:
    return replace(
        tombstone,
        token=writer.new_token(),
        rev=max(note.seq, tombstone.rev + 1),
        note=note,
        deleted_at=0,
    )


async def edit(writer: Writer, note_id: str, change: Callable[[Note], Note]) -> StoredNote | None:
    """Change fields of a note other than its content; return the note as it stands, or None if it is gone."""
    while True:
        stored = await writer.note(note_id)
        if stored is None or stored.note is None:
            return None
        after = change(stored.note)
        names = changed_fields(stored.note, after)
        if not names:
            return stored
        token, seq = writer.new_token(), writer.new_seq()
        values = {name: getattr(stored.note, name) for name in names}
        earlier = (*stored.earlier, Earlier(token, seq, stored.rev, values))[-MOST_EARLIER:]
        new = replace(stored, token=token, note=after, earlier=earlier)
        await writer.swap_notes([(stored, new)])
        stands = await writer.note(note_id)
        if stands is None or stands.was_written_by(token):
            return stands
