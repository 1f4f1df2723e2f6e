"""Embed: notes get the vectors that they were stored without."""

from __future__ import annotations

from collections.abc import Sequence

from .. import texts
from ..changes.rewrite import next_revision
from ..embedding import embed_if_possible
from ..errors import AmemError, ModelUnavailableError
from ..fetch import note_pages
from ..filters import WITHOUT_VECTOR
from ..ids import new_operation
from ..notes import check_namespace
from ..ports import Indexed
from ..runtime import Runtime, resolve


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
    space, op, is_done = check_namespace(namespace), new_operation(), True
    async for page in note_pages(runtime.store, space, (WITHOUT_VECTOR,)):
        wanted = [texts.embedding_text(note) for note in page]
        rows = await embed_if_possible(runtime, wanted, despite=despite)
        ready = [
            Indexed(note=next_revision(note, note, op), vector=row)
            for note, row in zip(page, rows, strict=True)
            if row is not None
        ]
        # A note that was changed meanwhile has been embedded by that change.
        stale = await resolve(runtime.store.replace(space, ready, [])) if ready else set()
        is_done &= len(ready) - len(stale) == len(page)
        if not ready:
            break
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
