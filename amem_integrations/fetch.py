"""Read from the store: notes that have to be there, and all of what it gives in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from .errors import NoteNotFoundError
from .filters import Condition, Conditions
from .ids import now
from .notes import Change, ChangeKind, Namespace, Note
from .ports import NoteStore
from .runtime import resolve

CHANGES = 1000
NOTES = 256


async def all_changes(
    store: NoteStore,
    namespace: Namespace,
    note_id: str | None = None,
    kinds: Sequence[ChangeKind] = (),
    after: int = -1,
) -> list[Change]:
    """Return the whole history of a note, or of a namespace, oldest first."""
    found: list[Change] = []
    while True:
        page = await resolve(
            store.changes(namespace, note_id=note_id, kinds=kinds, after=after, limit=CHANGES)
        )
        found += page
        if len(page) < CHANGES:
            return found
        after = page[-1].seq


async def note_pages(
    store: NoteStore,
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


async def existing_change(store: NoteStore, namespace: Namespace, change_id: str) -> Change:
    """Return the change with this id.

    Raises:
        NoteNotFoundError: There is none in this namespace.
    """
    found = await resolve(store.changes_by_id(namespace, [change_id]))
    if not found:
        raise NoteNotFoundError(
            f"there is no change {change_id!r} in namespace {namespace!r}; history() lists them"
        )
    return found[0]


def not_found(namespace: Namespace, note_id: str) -> NoteNotFoundError:
    """Return the error that a note is not there."""
    return NoteNotFoundError(f"there is no note {note_id!r} in namespace {namespace!r}")
