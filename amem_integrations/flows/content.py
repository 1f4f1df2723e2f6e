"""Change what a note says: its content, all chunks of it, and what was made of the old one elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import texts
from ..changes import edits
from ..changes.gone_texts import Gone, corrections
from ..changes.merging import changed_notes, merged_into, unmerge
from ..changes.quote_matching import texts_of
from ..changes.quotes import QuoteRemoval
from ..changes.recovery import recover_interrupted
from ..changes.rewrite import rewrite
from ..chunks import chunk_id, chunks
from ..embedding import embed_if_possible
from ..fetch import not_found
from ..filters import Condition
from ..ids import clock, new_operation, now, time_of
from ..notes import Change, Namespace, Note, NoteInput
from ..ports import Indexed, Look
from ..runtime import Runtime, resolve

SHARED = (
    "at",
    "speaker",
    "metadata",
    "until",
    "expires_at",
)  # what all chunks of a text have in common
CHUNKS_READ = 4096


async def change_note(
    runtime: Runtime,
    namespace: Namespace,
    note: Note,
    values: Mapping[str, Any],
    *,
    split: bool = True,
) -> list[Note]:
    """Return the note with other values, and the other chunks of its text; `content` is all of the text.

    With `split`, a content that is too long for the embedder becomes several notes, unless the old one was too
    long as well and is one note.

    Raises:
        NoteNotFoundError: It was deleted meanwhile.
    """
    if getattr(runtime.store, "interrupted", ()):
        await recover_interrupted(runtime)
    given = dict(values)
    others = await later_chunks(runtime, namespace, note)
    before, after = [other.content for other in others], [other.content for other in others]
    if "content" in given and note.chunk <= 1:
        can_split = split and (
            note.chunk == 1 or len(chunks(runtime, _input(note, {}), note.id)) == 1
        )
        parts = chunks(runtime, replace(_input(note, given), split=can_split), note.id)
        start = parts[0]
        given |= {"content": start.item.content, "chunk": start.number, "thread": start.item.thread}
        after = [part.item.content for part in parts[1:]]
    rest = {"before": before, "after": after} if before != after else None
    op, at = new_operation(), now()
    steps, look = {note.id: edits.update(op, at, given, rest)}, Look(linked_to=[note.id])
    done = await rewrite(runtime, namespace, op, steps, base={note.id: note}, look=look)
    if note.id not in done.notes:
        raise not_found(namespace, note.id)
    await remove_old_text(runtime, namespace, op, done.changes, look=look)
    await show_merged(runtime, namespace, op, done.changes)
    first, shared = done.notes[note.id], {name: given[name] for name in SHARED if name in given}
    if rest or (others and shared):
        await set_later_chunks(runtime, namespace, first, after, shared)
    return [first, *await later_chunks(runtime, namespace, first)]


async def later_chunks(runtime: Runtime, namespace: Namespace, note: Note) -> list[Note]:
    """Return the chunks of a text after the first note of it, in order."""
    if note.chunk != 1:
        return []
    where = (Condition("chunk_of", "$eq", note.id),)
    found = await resolve(runtime.store.scan(namespace, where=where, limit=CHUNKS_READ))
    return sorted(found, key=lambda chunk: chunk.chunk)


async def set_later_chunks(
    runtime: Runtime,
    namespace: Namespace,
    first: Note,
    contents: Sequence[str],
    shared: Mapping[str, Any] | None = None,
) -> None:
    """Make the chunks after the first be these texts; doing it again changes nothing."""
    stored = {c.chunk: c for c in await later_chunks(runtime, namespace, first.revised(chunk=1))}
    wanted = dict(enumerate(contents, start=2))
    op, at = new_operation(), now()
    changed = {
        chunk.id: edits.update(op, at, {"content": wanted[number], **(shared or {})})
        for number, chunk in stored.items()
        if number in wanted
    }
    base = {chunk.id: chunk for chunk in stored.values() if chunk.id in changed}
    done = await rewrite(runtime, namespace, op, changed, base=base)
    await remove_old_text(runtime, namespace, op, done.changes, whole=first.id)
    new = {number: text for number, text in wanted.items() if number not in stored}
    await _insert_chunks(runtime, namespace, first, new)
    stale = [chunk for number, chunk in stored.items() if number not in wanted]
    await remove_notes(runtime, namespace, stale, whole=first.id)


async def remove_old_text(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    changes: Sequence[Change],
    *,
    whole: str | None = None,
    look: Look | None = None,
) -> None:
    """Remove from other notes what was made of the old text of corrected ones (chunks of `whole`, if given)."""
    if gone := corrections(changes):
        since = min(made.seq for made in changes)
        removal = QuoteRemoval(runtime, namespace, f"{op}:retract", gone, since=since, whole=whole)
        await removal.remove(holders=look.backlinks if look else None)


async def show_merged(
    runtime: Runtime, namespace: Namespace, op: str, changes: Sequence[Change]
) -> None:
    """Let the notes be found again that are merged into one that says something else now."""
    corrected = {gone.note_id for gone in corrections(changes)}  # nothing is merged into these
    if changed := [note_id for note_id in changed_notes(changes) if note_id not in corrected]:
        merged = await merged_into(runtime, namespace, changed)
        steps = {note.id: unmerge(op, now()) for note in merged}
        await rewrite(runtime, namespace, op, steps, base={note.id: note for note in merged})


async def remove_notes(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    *,
    whole: str | None = None,
    look: Look | None = None,
) -> None:
    """Remove notes for good, with their history, the links to them and every text that quotes them.

    Chunks of a text that goes on stay in the history of its first note, `whole`. `look` holds the backlinks of the notes
    if these have been read with them: what was written since tells in the history that it is due to them.
    """
    if not notes:
        return
    if getattr(runtime.store, "interrupted", ()):
        await recover_interrupted(runtime)
    op, since, at = new_operation(), clock.tick(), now()
    gone = [Gone(note_id=note.id, texts=texts_of(note)) for note in notes]
    quotes = QuoteRemoval(runtime, namespace, op, gone, since=since, whole=whole)
    # Quotes go while the text is there to know them by: should this be interrupted, it can be done again. What is
    # written from then on names a note that is not there, and nothing else does (see `recovery`).
    await quotes.remove()
    receipts = [edits.change(op, "delete", note, recorded_at=at) for note in notes]
    await resolve(runtime.store.delete(namespace, [note.id for note in notes], receipts))
    await quotes.remove(deleted=True, holders=look.backlinks if look else None)


def _input(note: Note, values: Mapping[str, Any]) -> NoteInput:
    return NoteInput(
        content=values.get("content", note.content),
        at=values.get("at", note.at),
        thread=note.thread,
        speaker=values.get("speaker", note.speaker),
        source=note.source,
        metadata=values.get("metadata", note.metadata),
    )


async def _insert_chunks(
    runtime: Runtime, namespace: Namespace, first: Note, contents: Mapping[int, str]
) -> None:
    if not contents:
        return
    op = new_operation()
    notes = []
    for number, content in contents.items():
        seq = clock.tick()
        notes.append(
            first.revised(
                id=chunk_id(first.id, number),
                seq=seq,
                content=content,
                recorded_at=time_of(seq),
                key=None,
                chunk=number,
                chunk_of=first.id,
                contexts=(),
                links={},
                state="pending",
                failure=None,
                attempts=0,
                revision=0,
                ops=(op,),
            )
        )
    rows = await embed_if_possible(runtime, [texts.embedding_text(note) for note in notes])
    items = [
        Indexed(note=note, vector=row, text=texts.lexical_text(note))
        for note, row in zip(notes, rows, strict=True)
    ]
    added = [edits.change(op, "add", note, recorded_at=note.recorded_at) for note in notes]
    await resolve(runtime.store.insert(namespace, items, added))
