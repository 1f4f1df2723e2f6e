"""Writing: the journal's writer over the ports of a memory, and what was left unfinished is finished.

What a killed process, a power cut or a failed write left is finished before anything else is written; notes that were
stored while the embedder was down get their vectors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..embedding import with_vectors, with_vectors_anew
from ..errors import AmemError
from ..fetch import not_found, note_pages
from ..filters import WITHOUT_VECTOR
from ..ids import new_token, now
from ..journal.erasure import forget, resume, resume_after_power_cut
from ..journal.projection import project
from ..journal.writer import Writer, edit
from ..notes import USER, Namespace, Note
from ..runtime import Meter, Progress, Runtime, resolve
from ..stored_note import StoredNote

PAGE = 64  # notes embedded at once

# Speaker and time belong to the wording: all that was made of the text names them, and goes when one of them changes.
WORDING = ("content", "at", "speaker")


def writer_of(runtime: Runtime, namespace: Namespace, by: str = USER) -> Writer:
    """Return the writer of the notes and decisions of a namespace.

    While the embedder fails, `runtime.degraded` is told why, and notes are written with the vectors that they have.
    """
    return Writer(
        store=runtime.store,
        namespace=namespace,
        new_token=new_token,
        new_seq=runtime.clock.tick,
        now=now,
        embed=partial(with_vectors, runtime),
        by=by,
        most_links=runtime.config.max_links,
    )


async def finish(runtime: Runtime, namespace: Namespace | None) -> None:
    """Finish what failed writes have left in a namespace, or (None) in all."""
    for space in [*runtime.unfinished]:
        if namespace in (None, space):
            runtime.unfinished.discard(space)  # first: another write may fail meanwhile
            async with writing(runtime, space) as writer:
                await resume(writer)


@asynccontextmanager
async def writing(runtime: Runtime, namespace: Namespace, by: str = USER) -> AsyncIterator[Writer]:
    """Yield the journal's writer for a namespace, once what a failed write has left there is finished.

    A write that fails within is remembered, so that the next one finishes it first.
    """
    await finish(runtime, namespace)
    try:
        yield writer_of(runtime, namespace, by)
    except BaseException:
        runtime.unfinished.add(namespace)
        raise


async def change_note(
    writer: Writer,
    note_id: str,
    values: Mapping[str, Any],
    *,
    thorough: bool = False,
    check: Callable[[Note], None] = lambda _: None,
) -> Note:
    """Give fields of a note other values; return the note as it stands.

    Args:
        writer: Who writes.
        note_id: Which note.
        values: The values of the fields by name.
        thorough: Whether what was made of the earlier wordings goes whole.
        check: Raises an error where the note, as it stands, must not be changed so.

    Raises:
        NoteNotFoundError: The note is not there.
    """

    def changed(note: Note) -> Note:
        check(note)
        return note.revised(**values)

    def is_other(stored: StoredNote) -> bool:
        wording = [name for name in WORDING if name in values]
        return thorough or any(getattr(stored.note, name) != values[name] for name in wording)

    gone = None
    if not values.keys().isdisjoint(WORDING):
        gone = await forget(writer, note_id, changed, thorough=thorough, only_if=is_other)
    if gone is None:
        return living_note(writer, note_id, await edit(writer, note_id, changed))
    return living_note(writer, note_id, (await writer.notes([note_id])).get(note_id))


def living_note(writer: Writer, note_id: str, stored: StoredNote | None) -> Note:
    """Return a note that was read; raise `NoteNotFoundError` if it was deleted."""
    if stored is None or stored.note is None:
        raise not_found(writer.namespace, note_id)
    return stored.note


async def resume_all(runtime: Runtime) -> list[Namespace]:
    """Finish what earlier processes left, in all namespaces; while the embedder fails, views keep the vectors they have.

    Return the namespaces in which something was left; in some of them there may be notes without vectors.
    """
    store = runtime.store
    if store.power_was_cut:
        spaces = await make_views_anew(runtime)
        store.recovered()
        return spaces
    spaces = await resolve(store.unfinished())
    for space in spaces:
        await resume(writer_of(runtime, space))
    return spaces


async def make_views_anew(runtime: Runtime) -> list[Namespace]:
    """Look at the sources of all decisions again, and make all views and their vectors anew; return the namespaces."""
    spaces = await resolve(runtime.store.namespaces(recorded=True))
    for space in spaces:
        await resume_after_power_cut(writer_of(runtime, space))
    return spaces


async def embed_missing(runtime: Runtime, namespaces: Iterable[Namespace]) -> None:
    """Make vectors for the notes of some namespaces that have none.

    While the embedder fails, the notes stay as they are, and are found by their words.
    """
    for space in namespaces:
        async for page in note_pages(runtime.store, space, (WITHOUT_VECTOR,), size=PAGE):
            errors = list[AmemError]()
            async with writing(replace(runtime, degraded=errors.append), space) as writer:
                await project(writer, [note.id for note in page])
            if errors:  # the embedder is down; a text that it only refuses is no error
                runtime.degraded(errors[0])
                return


async def embed_anew(runtime: Runtime, progress: bool | Progress) -> int:
    """Embed all notes of all namespaces again, in place; return how many there are.

    Raises:
        ModelUnavailableError: The embedder failed; do it again to go on.
        StoreError: The store refused.
    """
    store, embed = runtime.store, partial(with_vectors_anew, runtime.embedder)
    spaces = await resolve(store.namespaces())
    meter = Meter(progress, sum([await resolve(store.count(space)) for space in spaces]))
    for space in spaces:
        async for page in note_pages(store, space, size=PAGE):
            async with writing(runtime, space) as writer:
                await project(replace(writer, embed=embed), [note.id for note in page])
            meter.add(len(page))
    return meter.done
