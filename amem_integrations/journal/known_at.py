"""The belief of the memory at an earlier time: notes in the wording of that time, with the decisions that were on then.

Nothing is written. What was deleted, or redacted with a text that was corrected, does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from ..decisions import Decision, Item
from ..ids import first_seq
from ..kinds import kind_of
from ..notes import Namespace
from ..ports import RecordQuery, Store
from ..runtime import resolve
from ..stored_note import StoredNote
from .fold import fold
from .writer import MOST_LINKS


async def notes_as_known(
    store: Store,
    namespace: Namespace,
    stored: Sequence[StoredNote],
    time: datetime,
    most_links: int = MOST_LINKS,
) -> list[StoredNote]:
    """Return those of some stored notes that the memory knew at a time, as the memory knew them; one request.

    The vectors, if the notes have any, are those of today.
    """
    about = RecordQuery(about=frozenset(one.id for one in stored), decisions=True)
    records = await resolve(store.find_records(namespace, about)) if stored else {}
    decisions = [one for one in records.values() if isinstance(one, Decision)]
    notes = (as_known(one, decisions, time, most_links) for one in stored)
    return [note for note in notes if note is not None]


def as_known(
    stored: StoredNote,
    decisions: Iterable[Decision],
    time: datetime,
    most_links: int = MOST_LINKS,
) -> StoredNote | None:
    """Return a stored note as the memory knew the note at a time, by the decisions about the note.

    None: the note was deleted, or was not there yet.
    """
    if stored.note is None or stored.note.recorded_at > time:
        return None
    last = first_seq(time) + 999  # nanoseconds: the last instant of this microsecond
    known = [
        one.with_items(lambda item: _switched_as_of(item, last))
        for one in decisions
        if stored.id in one.about and one.seq <= last
    ]
    return fold(_worded_as_of(stored, last), known, most_links)


def _worded_as_of(stored: StoredNote, last: int) -> StoredNote:
    """Return a stored note with the values of its fields at an instant."""
    note, rev = stored.note, stored.rev
    for earlier in reversed(stored.earlier):
        if earlier.seq > last and note is not None:
            note, rev = replace(note, **earlier.values), earlier.rev
    if note is not None and stored.note is not None and note.content != stored.note.content:
        note = replace(note, passages=(), kind=kind_of(note.content))
    return replace(stored, note=note, rev=rev)


def _switched_as_of(item: Item, last: int) -> Item:
    """Return an item with its switch as the switch was set at an instant."""
    log = tuple(flip for flip in item.log if flip.seq <= last)
    return replace(item, switch=log[-1].switch if log else item.first_switch, log=log)
