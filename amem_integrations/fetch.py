"""Read from the store: notes that have to be there, and all of what it gives in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from .errors import NoteNotFoundError
from .filters import Condition, Conditions
from .ids import now
from .notes import Namespace, Note
from .ports import Store
from .runtime import resolve

NOTES = 256


async def get(store: Store, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
    """Return the notes with these ids, in this order; unknown ones and those that were deleted are left out."""
    stored = await resolve(store.notes(namespace, list(dict.fromkeys(ids)))) if ids else {}
    return [one.note for i in ids if (one := stored.get(i)) is not None and one.note is not None]


async def note_pages(
    store: Store,
    namespace: Namespace,
    where: Conditions = (),
    *,
    size: int = NOTES,
    expired: bool = True,
) -> AsyncIterator[list[Note]]:
    """Yield all notes of a namespace that meet the conditions, oldest first, up to `size` at a time.

    With `expired` false those that have expired are left out.
    """
    after = -1
    while True:
        later = (*where, Condition("seq", "$gt", after))
        page = await resolve(store.scan(namespace, where=later, limit=size))
        time = now()
        if shown := [note for note in page if expired or not note.is_expired(time)]:
            yield shown
        if len(page) < size:
            return
        after = page[-1].seq


async def existing(store: Store, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
    """Return the notes with these ids, in this order.

    Raises:
        NoteNotFoundError: One is not there or has expired; the message names the first of those.
    """
    time = now()
    notes = await get(store, namespace, ids)
    known = {note.id for note in notes if not note.is_expired(time)}
    for note_id in ids:
        if note_id not in known:
            raise not_found(namespace, note_id)
    return notes


def not_found(namespace: Namespace, note_id: str) -> NoteNotFoundError:
    """Return the error that a note is not there."""
    return NoteNotFoundError(f"there is no note {note_id!r} in namespace {namespace!r}")
