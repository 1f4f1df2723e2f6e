"""Notes that have to be there."""

from __future__ import annotations

from collections.abc import Sequence

from .._sync import resolve
from ..errors import NoteNotFoundError
from ..ids import now
from ..notes import Namespace, Note
from ..ports import NoteStore


async def existing(store: NoteStore, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
    """Return the notes with these ids, in this order.

    Raises:
        NoteNotFoundError: One is not there or has expired; the message names the first of those.
    """
    time = now()
    notes = await resolve(store.get(namespace, ids))
    known = {note.id for note in notes if not note.is_expired(time)}
    for note_id in ids:
        if note_id not in known:
            raise not_found(namespace, note_id)
    return notes


def not_found(namespace: Namespace, note_id: str) -> NoteNotFoundError:
    """Return the error that a note is not there."""
    return NoteNotFoundError(f"there is no note {note_id!r} in namespace {namespace!r}")
