"""Read from the store: notes that have to be there, and all of what it gives in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from .errors import NoteNotFoundError
from .filters import Condition, Conditions, unexpired, unique_ids
from .ids import now
from .notes import Namespace, Note, check_namespace
from .runtime import resolve

if TYPE_CHECKING:
    from .stores.store import Store

NOTES = 256


async def living(store: Store, namespace: Namespace, ids: Iterable[str]) -> dict[str, Note]:
    """Return the notes with these ids, by id, in this order, without those that were deleted or have expired."""
    wanted, time = list(dict.fromkeys(ids)), now()
    stored = await resolve(store.notes(namespace, wanted)) if wanted else {}
    notes = {i: stored[i].note for i in wanted if i in stored}
    return {i: note for i, note in notes.items() if note and not note.is_expired(time)}


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
        later = (*where, Condition("seq", "$gt", after), *(() if expired else (unexpired(now()),)))
        page = await resolve(store.scan(namespace, where=later, limit=size))
        if page:
            yield page
        if len(page) < size:
            return
        after = page[-1].seq


async def recorded_namespaces(store: Store, namespace: Sequence[str] | None) -> list[Namespace]:
    """Return a namespace, checked, or (None) all of which notes, tombstones or records are stored, sorted.

    Raises:
        NamespaceError: The namespace is malformed.
    """
    if namespace is not None:
        return [check_namespace(namespace)]
    return await resolve(store.namespaces(recorded=True))


async def existing(store: Store, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
    """Return the notes with these ids, in this order.

    Raises:
        NoteNotFoundError: One is not there or has expired; the message names the first of those.
        InvalidInputError: One holds an id in place of it.
    """
    notes = await living(store, namespace, unique_ids(ids))
    for note_id in ids:
        if note_id not in notes:
            raise not_found(namespace, note_id)
    return [notes[note_id] for note_id in ids]


def not_found(namespace: Namespace, note_id: str) -> NoteNotFoundError:
    """Return the error that a note is not there."""
    return NoteNotFoundError(f"there is no note {note_id!r} in namespace {namespace!r}")
