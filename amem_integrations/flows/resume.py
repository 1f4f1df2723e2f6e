"""Resume: what a killed process, a power cut or a failed write left is finished, before anything else is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

from ..embedding import WITHOUT_EMBEDDER
from ..errors import AmemError, ModelUnavailableError
from ..journal.erasure import resume, resume_after_power_cut
from ..journal.writer import Writer
from ..notes import USER, Namespace
from ..runtime import Runtime, resolve
from .writer import writer_of


@runtime_checkable
class CanLosePower(Protocol):
    """A store in the folder of a machine, which knows whether the machine was cut from power while the folder was open."""

    @property
    def power_was_cut(self) -> bool:
        """Whether what was written last may be lost, to different ends in the two collections."""
        ...

    def recovered(self) -> None:
        """Note that the memory was put right."""
        ...


async def resume_all(runtime: Runtime) -> list[Namespace]:
    """Finish what earlier processes left, in all namespaces; while the embedder fails, views keep the vectors they have.

    Return the namespaces in which something was left; in some of them there may be notes without vectors.
    """
    store = runtime.store
    if isinstance(store, CanLosePower) and store.power_was_cut:
        spaces = await make_views_anew(runtime, despite=WITHOUT_EMBEDDER)
        store.recovered()
        return spaces
    spaces = await resolve(store.unfinished())
    for space in spaces:
        await resume(writer_of(runtime, space, despite=WITHOUT_EMBEDDER))
    return spaces


async def make_views_anew(
    runtime: Runtime, *, despite: tuple[type[AmemError], ...] = (ModelUnavailableError,)
) -> list[Namespace]:
    """Look at the sources of all decisions again, and make all views and their vectors anew; return the namespaces."""
    spaces = await resolve(runtime.store.namespaces(recorded=True))
    for space in spaces:
        await resume_after_power_cut(writer_of(runtime, space, despite=despite))
    return spaces


@asynccontextmanager
async def writing(
    runtime: Runtime,
    namespace: Namespace,
    by: str = USER,
    *,
    despite: tuple[type[AmemError], ...] = (ModelUnavailableError,),
) -> AsyncIterator[Writer]:
    """Yield the journal's writer for a namespace, once what a failed write has left there is finished.

    A write that fails within is remembered, so that the next one finishes it first. While the embedder fails by one of
    `despite`, what is written has no new vectors.
    """
    if namespace in runtime.unfinished:
        await resume(writer_of(runtime, namespace, despite=WITHOUT_EMBEDDER))
        runtime.unfinished.discard(namespace)
    try:
        yield writer_of(runtime, namespace, by, despite=despite)
    except BaseException:
        runtime.unfinished.add(namespace)
        raise
