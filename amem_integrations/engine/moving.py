"""Whole memories: bringing notes in, copying them to another store, embedding them anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from .. import texts
from .._sync import resolve
from ..errors import RevisionConflictError
from ..filters import Condition
from ..ids import new_operation
from ..notes import Change, Namespace, Note
from ..ports import OPS_KEPT, Embedder, Indexed, NoteStore, Vector
from ..runtime import Runtime
from .embedding import embed_by
from .history import all_changes
from .progress import Meter, Progress
from .rewriting import MAX_TRIES

PAGE = 64  # notes embedded and written at once
CHANGES = 512

Vectors = Callable[[Namespace, Sequence[Note]], Coroutine[Any, Any, Mapping[str, Vector]]]


async def pages(store: NoteStore, namespace: Namespace) -> AsyncIterator[list[Note]]:
    """Yield all notes of a namespace, oldest first."""
    after = -1
    while True:
        where = (Condition("seq", "$gt", after),)
        page = await resolve(store.scan(namespace, where=where, limit=PAGE))
        if not page:
            return
        yield page
        after = page[-1].seq


def made_by(embedder: Embedder) -> Vectors:
    """Return a function that encodes notes."""

    async def vectors(_namespace: Namespace, notes: Sequence[Note]) -> Mapping[str, Vector]:
        rows = await embed_by(embedder, [texts.embedding_text(note) for note in notes])
        return {note.id: row for note, row in zip(notes, rows, strict=True)}

    return vectors


def taken_from(source: NoteStore) -> Vectors:
    """Return a function that fetches the vectors of notes."""

    async def vectors(namespace: Namespace, notes: Sequence[Note]) -> Mapping[str, Vector]:
        return await resolve(source.vectors(namespace, [note.id for note in notes]))

    return vectors


async def bring_in(
    store: NoteStore, namespace: Namespace, notes: Sequence[Note], vectors: Vectors
) -> list[Note]:
    """Store those of the notes that are not there yet; return the stored ones that differ."""
    ids = [note.id for note in notes]
    stored = {note.id: note for note in await resolve(store.get(namespace, ids))}
    new = [note for note in notes if note.id not in stored]
    found = await vectors(namespace, new)
    items = [
        Indexed(note=note, vector=found.get(note.id), text=texts.lexical_text(note)) for note in new
    ]
    if items:
        await resolve(store.insert(namespace, items, []))
    return [stored[note.id] for note in notes if note.id in stored and stored[note.id] != note]


async def bring_in_changes(
    store: NoteStore, namespace: Namespace, changes: Sequence[Change]
) -> None:
    """Store changes."""
    for start in range(0, len(changes), CHANGES):
        await resolve(store.replace(namespace, [], changes[start : start + CHANGES]))


async def copy(
    source: NoteStore, target: NoteStore, vectors: Vectors, progress: Progress | None = None
) -> int:
    """Make the namespaces of `source` the same in another store; return the number of notes.

    What is there already and equal costs nothing, so a copy that was interrupted goes on where it was.
    """
    spaces = await resolve(source.namespaces())
    total = sum([await resolve(source.count(space)) for space in spaces])
    meter = Meter(progress, total)
    for space in spaces:
        kept: set[str] = set()
        async for page in pages(source, space):
            kept.update(note.id for note in page)
            if differing := await bring_in(target, space, page, vectors):
                await _remove(target, space, differing)
                await bring_in(target, space, page, vectors)
            meter.add(len(page))
        async for page in pages(target, space):
            await _remove(target, space, [note for note in page if note.id not in kept])
        await bring_in_changes(target, space, await all_changes(source, space))
    return meter.done


async def _remove(target: NoteStore, namespace: Namespace, notes: Iterable[Note]) -> None:
    if ids := [note.id for note in notes]:
        await resolve(target.delete(namespace, ids, []))


async def embed_anew(runtime: Runtime, progress: Progress | None = None) -> int:
    """Give every note a new vector and new BM25 weights, where it is; return how many there were."""
    spaces = await resolve(runtime.store.namespaces())
    meter = Meter(progress, sum([await resolve(runtime.store.count(space)) for space in spaces]))
    op = new_operation()
    runtime.recent.clear()  # the embedder may be another one under the same name
    for space in spaces:
        async for page in pages(runtime.store, space):
            await _embed_page(runtime, space, page, op)
            meter.add(len(page))
    return meter.done


async def _embed_page(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], op: str
) -> None:
    for _ in range(MAX_TRIES):
        rows = await embed_by(runtime.embedder, [texts.embedding_text(note) for note in notes])
        items = [
            Indexed(
                note=note.revised(revision=note.revision + 1, ops=(*note.ops, op)[-OPS_KEPT:]),
                vector=row,
                text=texts.lexical_text(note),
            )
            for note, row in zip(notes, rows, strict=True)
        ]
        stale = await resolve(runtime.store.replace(namespace, items, []))
        notes = await resolve(runtime.store.get(namespace, sorted(stale)))
        if not notes:
            return
    raise RevisionConflictError("notes were changed by others again and again; try again later")
