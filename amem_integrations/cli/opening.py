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
from ..stores._folder import settle
from ..stores._sidecar import Sidecar
from .options import Options
from .ports import NoEncoder


@dataclass(frozen=True, slots=True)
class Opened:
    """An open memory, the store beneath it, and its encoder."""

    memory: AgenticMemory
    store: NoteStore
    encoder: Embedder


def folder(options: Options) -> Path:
    """Return the folder of the collection."""
    return Path(options.memory).expanduser().absolute() / options.collection


def place(options: Options) -> Place:
    """Return where the memory is."""
    key = {"api_key": options.api_key} if options.remote and options.api_key else {}
    return Place(options.memory, options.collection, key)


def encoder_name(options: Options) -> str:
    """Return the name of the encoder that the memory was made with.

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
    """Open a memory that is there, without its encoder."""
    if not options.remote and description(options) is None:
        raise missing(options)
    store, name, dimensions = open_as_made(place(options))
    encoder = NoEncoder(name, dimensions)
    with AgenticMemory(store, encoder) as memory:
        yield Opened(memory, store, encoder)


@contextmanager
def encoding(options: Options, *, create: bool = False) -> Iterator[Opened]:
    """Open a memory with its encoder and, if one was named, a chat model.

    Unless told otherwise, the encoder is the one the memory was made with.
    """
    known = _known_encoder(options) if create else encoder_name(options)
    encoder = options.ports.encoder(options.encoder or known, options.base_url)
    model = options.ports.model(options.model, options.base_url)
    store = open_store(*place(options).arguments(encoder))
    with AgenticMemory(store, encoder, model) as memory:
        yield Opened(memory, store, encoder)


def _known_encoder(options: Options) -> str | None:
    """Return the name of the encoder that the memory was made with, or None if there is no memory."""
    if not options.remote:
        return made.embedder if (made := description(options)) else None
    try:
        return encoder_name(options)
    except StoreUnavailableError:
        raise
    except StoreError:
        return None  # if it is there but cannot be used, opening it will say so
