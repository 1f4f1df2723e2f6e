"""The journal's writer for one namespace, over the ports of a memory."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

from ..embedding import with_vectors
from ..errors import AmemError, ModelUnavailableError
from ..ids import clock, now
from ..journal.writer import Writer
from ..notes import USER, Namespace
from ..runtime import Runtime


def writer_of(
    runtime: Runtime,
    namespace: Namespace,
    by: str = USER,
    *,
    despite: tuple[type[AmemError], ...] = (ModelUnavailableError,),
) -> Writer:
    """Return what writes the notes and decisions of a namespace.

    Where the embedder fails by one of `despite`, notes are written with the vectors that they have.
    """
    return Writer(
        store=runtime.store,
        namespace=namespace,
        new_token=lambda: uuid4().hex,
        new_seq=clock.tick,
        now=now,
        embed=partial(with_vectors, runtime, despite=despite),
        by=by,
        most_links=runtime.config.max_links,
    )
