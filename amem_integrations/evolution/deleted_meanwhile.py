"""What was deleted or corrected while a model answered: it may have been quoted in the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..changes.edits import stated
from ..changes.gone_texts import Gone
from ..changes.quote_matching import texts_in, texts_of
from ..changes.quote_removal import QuoteRemoval
from ..ids import now, time_of
from ..notes import ContextEntry, Namespace, Note
from ..runtime import Runtime, resolve
from .construct import Part


async def as_they_are(runtime: Runtime, namespace: Namespace, parts: Sequence[Part]) -> list[Part]:
    """Return the notes of each part as they are now; those that are gone are left out."""
    ids = [note.id for part in parts for note in part]
    stored = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    current = [[stored[note.id] for note in part if note.id in stored] for part in parts]
    return [part for part in current if part]


async def remove_what_is_gone(
    runtime: Runtime,
    namespace: Namespace,
    shown: Mapping[str, Note],
    since: int,
    *,
    ops: Collection[str] = (),
) -> dict[str, Note]:
    """Return the notes that were shown to a model as they are now.

    Those that were deleted or corrected while it answered may have been quoted by it, or linked to: what was
    written of them meanwhile is removed. So is what quotes a context which a note has lost meanwhile because that
    itself quoted a text that is gone. `since` is an instant before the model wrote anything. `ops` are the
    operations that wrote: of what others were shown, which may be another text of these notes, nothing is known here.
    """
    current = await _read(runtime, namespace, list(shown))
    kept = {entry.change for note in current.values() for entry in note.contexts}
    lost = {i: [e for e in note.contexts if e.change not in kept] for i, note in shown.items()}
    if not any(lost.values()) and all(_is_same(note, current) for note in shown.values()):
        return current
    began = time_of(since)  # what was written since may quote what is gone
    others = [
        entry
        for note in shown.values()
        for entry in note.contexts
        if entry.change in kept and entry.recorded_at < began
    ]
    for gone in await _gone(runtime, namespace, shown, current, lost, tuple(_texts(others))):
        op = f"{gone.note_id}:{now().isoformat()}"
        removal = QuoteRemoval(runtime, namespace, op, [gone], since=since, known=ops)
        await removal.remove(deleted=gone.note_id not in current)
    return await _read(runtime, namespace, list(current))


async def _gone(
    runtime: Runtime,
    namespace: Namespace,
    shown: Mapping[str, Note],
    current: Mapping[str, Note],
    lost: Mapping[str, Sequence[ContextEntry]],
    elsewhere: tuple[str, ...],
) -> list[Gone]:
    """Return the texts that are gone, note by note: one may stand in the history of another."""
    purged = await _purged(runtime, namespace, [e for i in current for e in lost[i]])
    found = []
    for note_id, note in shown.items():
        if note_id not in current:
            found.append(Gone(note_id=note_id, texts=texts_of(note)))
            quoted = tuple(_texts(lost[note_id]))
            found.append(Gone(note_id=note_id, texts=quoted, kept=elsewhere))
            continue
        if not _is_same(note, current):
            kept, at = texts_of(current[note_id]), now()
            found.append(Gone(note_id=note_id, texts=texts_of(note), kept=kept, corrected_at=at))
        if texts := tuple(_texts(entry for entry in lost[note_id] if entry.change in purged)):
            found.append(Gone(note_id=note_id, texts=texts, kept=elsewhere, in_context=True))
    return found


async def _purged(
    runtime: Runtime, namespace: Namespace, entries: Sequence[ContextEntry]
) -> set[str]:
    """Return the changes of those entries whose texts were taken out of the history: they had quoted something."""
    if not entries:
        return set()
    ids = [entry.change for entry in entries]
    made = await resolve(runtime.store.changes_by_id(namespace, ids))
    return {change.id for change in made if change.data.get("blanked")}


def _is_same(note: Note, current: Mapping[str, Note]) -> bool:
    """Return whether a note is there, and says what it said."""
    return note.id in current and stated(current[note.id]) == stated(note)


def _texts(entries: Iterable[ContextEntry]) -> Iterable[str]:
    for entry in entries:
        yield from texts_in(entry)


async def _read(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> dict[str, Note]:
    stored = await resolve(runtime.store.get(namespace, list(dict.fromkeys(ids))))
    return {note.id: note for note in stored}
