"""Views are written: anybody may make the view of a note anew, at any time, and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..decisions import Decision, by_note
from ..errors import StoreError
from ..ports import RecordQuery, newest_about
from ..stored_note import StoredNote
from .fold import changed_fields, fold, shows_same
from .writer import Writer


async def project(
    writer: Writer, ids: Iterable[str], known: Mapping[str, StoredNote] | None = None
) -> dict[str, StoredNote]:
    """Make the views of these notes what their decisions say, and their vectors what the views say.

    The tokens of the notes are read before the decisions, and every write has a new token, also one that changes
    nothing: so a slower writer with an older reading cannot write any more. A view is finished when nobody who read
    before this write can still write, and what stands is what would be written now. `known` are notes that were just read,
    with their vectors, before anything that is to show now was written. Return the notes as they stand, as they have to be
    read by whoever replaces them.

    Raises:
        StoreError: A view would change one of the user's fields.
    """
    waiting, written = set(ids), dict[str, StoredNote]()
    while waiting:
        if known is None or not waiting <= known.keys():
            known = await writer.whole_notes(waiting)
        read = {key: known[key] for key in sorted(waiting & known.keys())}
        known = None
        about = await _decisions_about(writer, waiting)
        views = [
            view_of(stored, about[key], writer)
            for key, stored in read.items()
            if not stored.is_deleted
        ]
        if not views:
            break
        embedded = await writer.embed(views)
        token = writer.new_token()
        made = {view.id: replace(view, token=token) for view in embedded}
        await writer.swap_notes((read[key], new) for key, new in made.items())
        tokens = await writer.brief_notes(made)
        stands = {
            key: new for key, new in made.items() if key in tokens and tokens[key].token == token
        }
        if others := made.keys() - stands.keys():
            stands |= await writer.whole_notes(others)
        written |= stands
        waiting = {
            key for key, new in made.items() if not _is_finished(stands.get(key), read[key], new)
        }
    return written


async def differing(writer: Writer, ids: Iterable[str]) -> list[str]:
    """Return the ids of those notes whose views are not what the decisions about them say, sorted."""
    read = await writer.notes(ids)
    about = await _decisions_about(writer, read)
    return sorted(
        key
        for key, stored in read.items()
        if not shows_same(stored, view_of(stored, about[key], writer))
    )


async def _decisions_about(writer: Writer, ids: Iterable[str]) -> Mapping[str, list[Decision]]:
    """Return the decisions about each of some notes; of very many the newest ones."""
    wanted = RecordQuery(about=frozenset(ids), newest=writer.most_others)
    return by_note((await writer.decisions(wanted)).values())


def view_of(stored: StoredNote, about: Iterable[Decision], writer: Writer) -> StoredNote:
    """Return a stored note with the view that the decisions about it make.

    It counts its own newest decisions, whatever was read for other notes beside it.

    Raises:
        StoreError: The view would change one of the user's fields.
    """
    counting = newest_about(stored.id, about, writer.most_others)
    made = fold(stored, counting, writer.most_links)
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
