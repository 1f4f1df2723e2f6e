"""Change what a note says: its content, all chunks of it, and what was made of the old one elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..changes import edits
from ..changes.gone_texts import CORRECTING, Gone, corrections, stated_texts
from ..changes.quote_removal import QuoteRemoval
from ..changes.recovery import recover
from ..changes.rewrite import MAX_TRIES, conflict, rewrite
from ..changes.undo import fields_of
from ..chunks import chunk_id, chunks
from ..embedding import WITHOUT_EMBEDDER, indexed
from ..fetch import not_found
from ..filters import Condition
from ..ids import clock, new_operation, now, time_of
from ..kinds import FORM
from ..notes import Change, Namespace, Note, NoteInput
from ..runtime import Runtime, resolve

# What all chunks of a text have in common.
SHARED = ("at", "speaker", "metadata", "until", "expires_at")
CHUNKS_READ = 4096
LONGEST = 15 * 60 * 10**9  # nanoseconds that no correction takes


async def recover_interrupted(runtime: Runtime) -> None:
    """Finish what the store tells of: writes of a process that was killed, or of anyone that failed half way."""
    steps = tuple(getattr(runtime.store, "interrupted", ()))
    await recover(runtime, steps)
    for step in steps:
        await _finish_text(runtime, step)
    if finished := getattr(runtime.store, "finished", None):
        await resolve(finished(steps))


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
        can_split = (split and note.kind != FORM) and (
            note.chunk == 1 or len(chunks(runtime, _input(note, {}), note.id)) == 1
        )
        parts = chunks(runtime, replace(_input(note, given), split=can_split), note.id)
        start = parts[0]
        given |= {"content": start.item.content, "chunk": start.number, "thread": start.item.thread}
        after = [part.item.content for part in parts[1:]]
    rest = {"before": before, "after": after} if before != after else None
    op, at = new_operation(), now()
    steps = {note.id: edits.update(op, at, given, rest)}
    done = await rewrite(runtime, namespace, op, steps, base={note.id: note})
    if note.id not in done.notes:
        raise not_found(namespace, note.id)
    await remove_old_text(runtime, namespace, op, done.changes)
    first, shared = done.notes[note.id], {name: given[name] for name in SHARED if name in given}
    if rest or (others and shared):
        await set_later_chunks(runtime, namespace, op, first, after, shared)
    return [first, *await later_chunks(runtime, namespace, first)]


async def later_chunks(runtime: Runtime, namespace: Namespace, note: Note) -> list[Note]:
    """Return the chunks of a text after the first note of it, in order."""
    if note.chunk != 1:
        return []
    where = (Condition("chunk_of", "$eq", note.id),)
    found = await resolve(runtime.store.scan(namespace, where=where, limit=CHUNKS_READ))
    return sorted(found, key=lambda chunk: chunk.chunk)


async def _finish_text(runtime: Runtime, step: Change) -> None:
    """Let the later chunks of a text follow a correction of its first note, if they have not yet."""
    fields = fields_of(step)
    changed = [name for name in SHARED if name in fields]
    if step.kind not in CORRECTING or not (changed or "rest" in fields):
        return
    for first in await resolve(runtime.store.get(step.namespace, [step.note_id])):
        others = await later_chunks(runtime, step.namespace, first)
        if "rest" in fields or others:
            rest = fields.get("rest", {"after": [other.content for other in others]})
            shared = {name: getattr(first, name) for name in changed}
            await set_later_chunks(
                runtime, step.namespace, step.op, first, rest["after"], shared, since=step.seq
            )


async def set_later_chunks(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    first: Note,
    contents: Sequence[str],
    shared: Mapping[str, Any] | None = None,
    *,
    since: int | None = None,
) -> None:
    """Make the chunks after the first be these texts, but for those that were changed `since`.

    It follows from the operation `op`. Doing it again changes nothing.
    """
    stored = {c.chunk: c for c in await later_chunks(runtime, namespace, first.revised(chunk=1))}
    wanted = dict(enumerate(contents, start=2))
    if since is not None:
        later = await _changed_chunks(runtime, namespace, first, {*stored, *wanted}, since)
        stored = {number: chunk for number, chunk in stored.items() if number not in later}
        wanted = {number: text for number, text in wanted.items() if number not in later}
    op, at = f"{op}:chunks", now()
    changed = {
        chunk.id: edits.update(op, at, {"content": wanted[number], **(shared or {})})
        for number, chunk in stored.items()
        if number in wanted
    }
    base = {chunk.id: chunk for chunk in stored.values() if chunk.id in changed}
    recovering = since is not None
    done = await rewrite(runtime, namespace, op, changed, base=base, removing=recovering)
    await remove_old_text(runtime, namespace, op, done.changes, whole=first.id)
    new = {number: text for number, text in wanted.items() if number not in stored}
    await _insert_chunks(runtime, namespace, op, first, new)
    stale = [chunk for number, chunk in stored.items() if number not in wanted]
    await remove_notes(runtime, namespace, stale, whole=first.id, op=op)


async def _changed_chunks(
    runtime: Runtime, namespace: Namespace, first: Note, numbers: Collection[int], since: int
) -> set[int]:
    """Return the numbers of the chunks whose text was added, changed or deleted after a `seq`."""
    changed = set()
    for number in numbers:
        chunk, kinds = chunk_id(first.id, number), ("add", "delete", *CORRECTING)
        how: dict[str, Any] = {"note_id": chunk, "kinds": kinds, "after": since, "limit": 1}
        if await resolve(runtime.store.changes(namespace, **how)):
            changed.add(number)
    return changed


async def remove_old_text(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    changes: Sequence[Change],
    *,
    whole: str | None = None,
) -> None:
    """Remove from other notes what was made of the old text of corrected ones (chunks of `whole`, if given)."""
    if gone := corrections(changes):
        since = min(made.seq for made in changes)
        removal = QuoteRemoval(runtime, namespace, f"{op}:retract", gone, since=since, whole=whole)
        await removal.remove()


async def remove_notes(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    *,
    whole: str | None = None,
    op: str | None = None,
    undone: Change | None = None,
) -> list[Change]:
    """Remove notes for good, with their history, the links to them and every text that quotes them.

    Chunks of a text that goes on stay in the history of its first note, `whole`, whose correction is `op`.
    Returned are the receipts; they name the change that is `undone` by it.
    """
    if not notes:
        return []
    if whole is None and getattr(runtime.store, "interrupted", False):  # else it is done already
        await recover_interrupted(runtime)
    op, since, gone = op or new_operation(), clock.tick(), dict[str, Gone]()
    data = {} if undone is None else {"undone": undone.id, "kind": undone.kind}
    left, receipts = notes, list[Change]()
    for number in range(MAX_TRIES):
        # Quotes go while the text is there to know them by: should this be interrupted, it can be done again. What is
        # written from then on names a note that is not there, and nothing else does (see `recovery`).
        name = f"{op}:{number}"
        since = await _remove_quotes(runtime, namespace, name, left, gone, since, whole)
        receipts += [
            edits.change(op, "delete", note, recorded_at=now(), data=data) for note in left
        ]
        left = await _delete(runtime, namespace, left, receipts[-len(left) :])
        if not left:
            break
    else:
        raise conflict(note.id for note in left)
    quotes = QuoteRemoval(runtime, namespace, op, list(gone.values()), since=since, whole=whole)
    await quotes.remove(deleted=True)
    return list({receipt.note_id: receipt for receipt in receipts}.values())


async def _remove_quotes(
    runtime: Runtime,
    namespace: Namespace,
    op: str,
    notes: Sequence[Note],
    gone: dict[str, Gone],
    since: int,
    whole: str | None,
) -> int:
    """Remove the quotes of all that notes have said, unless `gone` has it, and add it there.

    Return `since`, or when the first of their last corrections began: while a note is corrected, what quotes its old
    text does not name it.
    """
    ids = [note.id for note in notes]
    told = await resolve(
        runtime.store.mentions(namespace, ids, prompts_after=since, about=CORRECTING)
    )
    said = {
        note.id: Gone(note_id=note.id, texts=stated_texts(note, told), chunk_of=note.chunk_of)
        for note in notes
    }
    if gone == gone | said:
        return since
    gone |= said
    recent = [made.seq for made in told if made.kind in CORRECTING and made.seq > since - LONGEST]
    began = min([since, *recent])
    quotes = QuoteRemoval(
        runtime,
        namespace,
        op,
        list(gone.values()),
        since=began,
        whole=whole,
        known={made.op for made in told},
    )
    await quotes.remove(read=told if began == since else None)
    return began


async def _delete(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], receipts: Sequence[Change]
) -> Sequence[Note]:
    """Delete notes that are as they were read; return those that were changed, as they are now."""
    ids, revisions = [note.id for note in notes], {note.id: note.revision for note in notes}
    stay = await resolve(runtime.store.delete(namespace, ids, receipts, revisions=revisions))
    return await resolve(runtime.store.get(namespace, sorted(stay))) if stay else []


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
    runtime: Runtime, namespace: Namespace, op: str, first: Note, contents: Mapping[int, str]
) -> None:
    if not contents:
        return
    notes = []
    for number, content in contents.items():
        seq = clock.tick()
        notes.append(
            first.revised(
                id=chunk_id(first.id, number),
                seq=seq,
                content=content,
                recorded_at=time_of(seq),
                at=first.when,  # it was said when the first was
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
    added = [edits.change(op, "add", note, recorded_at=note.recorded_at) for note in notes]
    added += [
        edits.change(
            op, "supersede", note, cause=newer, model=s.model, recorded_at=now(), data=data
        )
        for note in notes
        for newer, s in note.supersessions.items()
        for data in [{"supersession": edits.supersession_json(s)}]
    ]
    items = await indexed(runtime, notes, WITHOUT_EMBEDDER)
    await resolve(runtime.store.insert(namespace, items, added))
