"""Opening the memory that a command is about, with as much as the command needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .._sync import resolve, run
from ..errors import StoreError, StoreUnavailableError
from ..memory import AgenticMemory
from ..memory.opening import Place, open_as_made, open_store
from ..ports import Embedder, NoteStore
from ..stores.folder import settle
from ..stores.sidecar import Sidecar
from .options import Options
from .ports import NoEmbedder


@dataclass(frozen=True, slots=True)
class Opened:
    """An open memory, the store beneath it, and its embedder."""

    memory: AgenticMemory
    store: NoteStore
    embedder: Embedder


def folder(options: Options) -> Path:
    """Return the folder of the collection."""
    return Path(options.memory).expanduser().absolute() / options.collection


def place(options: Options) -> Place:
    """Return where the memory is."""
    key = {"api_key": options.api_key} if options.remote and options.api_key else {}
    return Place(options.memory, options.collection, key)


def embedder_name(options: Options) -> str:
    """Return the name of the embedder that the memory was made with.

    Raises:
        StoreError: There is no memory, or it cannot be opened.
    """
    if not options.remote:
        if (made := description(options)) is None:
            raise missing(options)
        return made.embedder
    store, name, _ = open_as_made(place(options))
    run(resolve(store.close()))
    return name


def description(options: Options) -> Sidecar | None:
    """Return what a folder was made with, or None if there is no memory in it."""
    path = folder(options)
    if path.parent.exists():
        settle(path)  # after a `reindex` that was interrupted at its very end
    return Sidecar.read(path / "amem.json") if path.exists() else None


def missing(options: Options) -> StoreError:
    """Return the error that there is no memory."""
    where = options.memory if options.remote else folder(options)
    return StoreError(
        f"there is no memory in {where}; `amem add` makes one, --memory names another"
    )


@contextmanager
def reading(options: Options) -> Iterator[Opened]:
    """Open a memory that is there, without its embedder."""
    if not options.remote and description(options) is None:
        raise missing(options)
    store, name, dimensions = open_as_made(place(options))
    embedder = NoEmbedder(name, dimensions)
    with AgenticMemory(store, embedder) as memory:
        yield Opened(memory, store, embedder)


@contextmanager
def encoding(options: Options, *, create: bool = False) -> Iterator[Opened]:
    """Open a memory with its embedder and, if one was named, a chat model.

    Unless told otherwise, the embedder is the one the memory was made with.
    """
    known = _known_embedder(options) if create else embedder_name(options)
    embedder = options.ports.embedder(options.embedder or known, options.base_url)
    model = options.ports.model(options.model, options.base_url)
    store = open_store(*place(options).arguments(embedder))
    with AgenticMemory(store, embedder, model) as memory:
        yield Opened(memory, store, embedder)


def _known_embedder(options: Options) -> str | None:
    """Return the name of the embedder that the memory was made with, or None if there is no memory."""
    if not options.remote:
        return made.embedder if (made := description(options)) else None
    try:
        return embedder_name(options)
    except StoreUnavailableError:
        raise
    except StoreError:
        return None  # if it is there but cannot be used, opening it will say so
