"""Embed: notes get the vectors that they were stored without."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..embedding import embed_by, vectors_by
from ..errors import AmemError, ModelUnavailableError
from ..fetch import note_pages
from ..filters import WITHOUT_VECTOR
from ..journal.projection import project
from ..notes import check_namespace
from ..progress import Meter, Progress
from ..runtime import Runtime, resolve
from ..stored_note import StoredNote
from .resume import writing

log = logging.getLogger("amem_integrations")

PAGE = 64  # notes embedded at once


async def embed_missing(
    runtime: Runtime,
    *,
    namespace: Sequence[str],
    despite: tuple[type[AmemError], ...] = (ModelUnavailableError,),
) -> bool:
    """Make vectors for the notes of a namespace that have none; return whether all of them have one now.

    While the embedder fails by one of `despite`, the notes stay as they are, and are found by their words.

    Raises:
        ConfigurationError: The embedder cannot be used, such as with a wrong key.
        StoreError: The store refused.
    """
    space, is_done = check_namespace(namespace), True
    async for page in note_pages(runtime.store, space, (WITHOUT_VECTOR,), size=PAGE):
        ids = [note.id for note in page]
        async with writing(runtime, space, despite=despite) as writer:
            await project(writer, ids)
        stored = await resolve(runtime.store.notes(space, ids))
        lacking = [one for one in stored.values() if not (one.is_deleted or one.embedded)]
        is_done &= not lacking
        if len(lacking) == len(page):
            break  # the embedder is down
    if not is_done:
        runtime.vectors.lacking = True
    return is_done


async def embed_all_missing(
    runtime: Runtime,
    namespace: Sequence[str] | None = None,
    despite: tuple[type[AmemError], ...] = (ModelUnavailableError,),
) -> None:
    """Make vectors for all notes that have none, of one namespace or (None) of all; what fails is tried again."""
    if namespace is not None:
        await embed_missing(runtime, namespace=namespace, despite=despite)
        return
    runtime.vectors.lacking = False
    try:
        for space in await resolve(runtime.store.namespaces((WITHOUT_VECTOR,))):
            await embed_missing(runtime, namespace=space, despite=despite)
    except AmemError:
        runtime.vectors.lacking = True
        raise


async def embed_anew(runtime: Runtime, progress: Progress | None) -> int:
    """Embed all notes of all namespaces again, in place; return how many there are.

    Raises:
        ModelUnavailableError: The embedder failed; do it again to go on.
        StoreError: The store refused.
    """
    store, embedder = runtime.store, runtime.embedder
    spaces = await resolve(store.namespaces())
    meter = Meter(progress, sum([await resolve(store.count(space)) for space in spaces]))

    async def embedded(notes: Sequence[StoredNote]) -> list[StoredNote]:
        bare = [replace(one, vectors=None, embedded="") for one in notes]
        return await vectors_by(embedder, bare, partial(embed_by, embedder))

    for space in spaces:
        async for page in note_pages(store, space, size=PAGE):
            async with writing(runtime, space) as writer:
                await project(replace(writer, embed=embedded), [note.id for note in page])
            meter.add(len(page))
    return meter.done
