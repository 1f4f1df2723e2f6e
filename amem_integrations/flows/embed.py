"""Embed: notes get the vectors that they were stored without."""

from __future__ import annotations

from collections.abc import Sequence

from .. import texts
from ..changes.rewrite import next_revision
from ..embedding import embed_if_possible
from ..filters import unique_ids
from ..ids import new_operation
from ..notes import check_namespace
from ..ports import Indexed
from ..runtime import Runtime, resolve
from .content import later_chunks


async def embed(runtime: Runtime, ids: Sequence[str], *, namespace: Sequence[str]) -> list[str]:
    """Make vectors for those of the notes that have none, by one call of the embedder; return which have one now.

    With the first note of a long text, the one that `add` returned, all of that text gets them. While the embedder
    does not answer, the notes stay as they are.

    Args:
        ids: Of notes that were added with `embed=False`, or while the embedder was down; unknown ones are
            left out.
        namespace: Whose memory it is.

    Raises:
        ConfigurationError: The embedder cannot be used, such as with a wrong key.
        StoreError: The store refused.
    """
    space = check_namespace(namespace)
    notes = await resolve(runtime.store.get(space, unique_ids(ids)))
    whole = {note.id: [note, *await later_chunks(runtime, space, note)] for note in notes}
    known = [part.id for parts in whole.values() for part in parts]
    found = await resolve(runtime.store.get_indexed(space, known))
    bare = [item.note for item in found if item.vector is None and item.note.content]
    rows = await embed_if_possible(runtime, [texts.embedding_text(note) for note in bare])
    op = new_operation()
    ready = [
        Indexed(note=next_revision(note, note, op), vector=row)
        for note, row in zip(bare, rows, strict=True)
        if row is not None
    ]
    # A note that was changed meanwhile has been embedded by that.
    stale = await resolve(runtime.store.replace(space, ready, [])) if ready else set()
    without = {note.id for note in bare} - {item.note.id for item in ready} | stale
    return [i for i, parts in whole.items() if without.isdisjoint(part.id for part in parts)]
