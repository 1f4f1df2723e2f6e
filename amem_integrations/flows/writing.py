"""Writing: the journal's writer over the ports of a memory, and what was left unfinished is finished.

What a killed process, a power cut or a failed write left is finished before anything else is written; notes that were
stored while the embedder was down get their vectors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

from ..embedding import with_vectors, with_vectors_anew
from ..fetch import note_pages
from ..filters import WITHOUT_VECTOR
from ..ids import new_token, now
from ..journal.erasure import resume, resume_after_power_cut
from ..journal.projection import project
from ..journal.writer import Writer
from ..notes import USER, Namespace
from ..runtime import Meter, Progress, Runtime, resolve

PAGE = 64  # notes embedded at once


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


@asynccontextmanager
async def writing(runtime: Runtime, namespace: Namespace, by: str = USER) -> AsyncIterator[Writer]:
    """Yield the journal's writer for a namespace, once what a failed write has left there is finished.

    A write that fails within is remembered, so that the next one finishes it first.
    """
    if namespace in runtime.unfinished:
        await resume(writer_of(runtime, namespace))
        runtime.unfinished.discard(namespace)
    try:
        yield writer_of(runtime, namespace, by)
    except BaseException:
        runtime.unfinished.add(namespace)
        raise


@runtime_checkable
class CanLosePower(Protocol):
    """A store in the folder of a machine, which knows whether the machine was cut from power while the folder was open."""

    @property
    def power_was_cut(self) -> bool:
        """Whether what was written last may be lost, to different ends in the two collections."""

    def recovered(self) -> None:
        """Note that the memory was put right."""


async def resume_all(runtime: Runtime) -> list[Namespace]:
    """Finish what earlier processes left, in all namespaces; while the embedder fails, views keep the vectors they have.

    Return the namespaces in which something was left; in some of them there may be notes without vectors.
    """
    store = runtime.store
    if isinstance(store, CanLosePower) and store.power_was_cut:
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
            async with writing(runtime, space) as writer:
                made = await project(writer, [note.id for note in page])
            if not any(one.has_vectors for one in made.values()):
                break  # the embedder is down


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
