"""Read: notes by their ids, or all of them, as they stand now or stood at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..context import as_of as seen_from
from ..current_facts import CurrentFacts
from ..errors import NoteNotFoundError
from ..fetch import existing, note_pages
from ..filters import check_count, conditions_of, matches
from ..ids import now
from ..notes import Namespace, Note, check_namespace
from ..runtime import Runtime
from .search import Reader


async def get(
    runtime: Runtime,
    note_id: str,
    *,
    namespace: Sequence[str],
    as_of: datetime | None = None,
    known_at: datetime | None = None,
) -> Note:
    """Return one note, as it stands now, or as it stood at a time (see `search`).

    Raises:
        NoteNotFoundError: There is none with this id in this namespace, it has expired, or came later.
    """
    space = check_namespace(namespace)
    conditions = conditions_of(None, as_of, known_at)
    notes = await existing(runtime.store, space, [note_id])
    if not all(matches(note, conditions) for note in notes):
        raise NoteNotFoundError(f"there was no note {note_id!r} at that time; it came later")
    views = await _views(runtime, space, notes, as_of, known_at)
    return views[0]


async def get_all(
    runtime: Runtime,
    *,
    namespace: Sequence[str],
    limit: int = 100,
    where: Mapping[str, Any] | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
) -> list[Note]:
    """Return up to `limit` notes, oldest first, as they stand now, or as they stood at a time (see `search`).

    Continue with `where={"seq": {"$gt": last.seq}}`.

    Raises:
        InvalidInputError: A bad `limit`, `where`, `as_of` or `known_at`.
    """
    space = check_namespace(namespace)
    check_count("limit", limit)
    found: list[Note] = []
    conditions = conditions_of(where, as_of, known_at)
    async for page in note_pages(runtime.store, space, conditions, size=limit, expired=False):
        found += page
        if len(found) >= limit:
            break
    return await _views(runtime, space, found[:limit], as_of, known_at)


async def _views(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    as_of: datetime | None,
    known_at: datetime | None,
) -> list[Note]:
    """Return notes as they stood at a time, or stand now."""
    reader = Reader(runtime, namespace, known_at)
    if known_at is None:
        reader.notes |= {note.id: note for note in notes}
    await reader.fetch([note.id for note in notes])
    shown = [reader.notes[note.id] for note in notes if note.id in reader.notes]
    await reader.fetch_related(shown)
    current = CurrentFacts(reader.notes, as_of or known_at or runtime.clock.now(), now=now())
    views = [current.view(note) for note in shown]
    return [seen_from(note, as_of) for note in views] if as_of else views
