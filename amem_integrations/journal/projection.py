"""Views are written: anybody may make the view of a note anew, at any time, and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..decisions import Decision
from ..errors import StoreError
from .fold import changed_fields, fold, shows_same
from .writer import RecordQuery, StoredNote, Writer


async def project(writer: Writer, ids: Iterable[str]) -> None:
    """Make the views of these notes what their decisions say.

    The tokens of the notes are read before the decisions, and every write has a new token, also one that changes
    nothing: so a slower writer with an older reading cannot write any more. A view is finished when nobody who read
    before this write can still write, and what stands is what would be written now.

    Raises:
        StoreError: A view would change one of the user's fields.
    """
    waiting = set(ids)
    while waiting:
        read = await writer.notes(waiting)
        about = await writer.decisions(RecordQuery(about=frozenset(waiting)))
        made = {
            key: replace(view_of(stored, about.values()), token=writer.new_token())
            for key, stored in read.items()
            if not stored.is_deleted
        }
        if not made:
            return
        await writer.swap_notes((read[key], new) for key, new in made.items())
        stands = await writer.notes(made)
        waiting = {
            key for key, new in made.items() if not _is_finished(stands.get(key), read[key], new)
        }


def view_of(stored: StoredNote, decisions: Iterable[Decision]) -> StoredNote:
    """Return a stored note with the view that those of the decisions make which are about it.

    Raises:
        StoreError: The view would change one of the user's fields.
    """
    about = [one for one in decisions if stored.id in one.about]
    made = fold(stored, about)
    if stored.note is not None and made.note is not None:
        changed = changed_fields(stored.note, made.note)
        if changed or made.rev != stored.rev:
            raise StoreError(
                f"the view of note {stored.id!r} would change {', '.join(changed) or 'its wording'}, which only "
                "the user changes; nothing was written: please report this"
            )
    return made


def _is_finished(stands: StoredNote | None, read: StoredNote, made: StoredNote) -> bool:
    if stands is None or stands.is_deleted:
        return True
    if stands.token == read.token:
        return False
    return stands.token == made.token or shows_same(stands, made)
