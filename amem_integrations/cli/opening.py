"""Opening the memory that a command is about, with as much as the command needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..memory import AgenticMemory
from ..memory.opening import open_store
from ..ports import Embedder, NoteStore
from ..stores._sidecar import Sidecar
from .options import Options
from .ports import NoEncoder


@dataclass(frozen=True, slots=True)
class Opened:
    """An open memory, the store beneath it, and what it says of itself."""

    memory: AgenticMemory
    store: NoteStore
    encoder: Embedder


def folder(options: Options) -> Path:
    """Return the folder of the collection."""
    return Path(options.memory).expanduser().absolute() / options.collection


def describe(options: Options) -> Sidecar | None:
    """Return what the memory was made with, or None if there is none.

    Raises:
        StoreError: The place holds something else, or cannot be read.
    """
    if options.remote:
        return _describe_server(options)
    path = folder(options)
    return Sidecar.read(path / "amem.json") if path.exists() else None


def described(options: Options) -> Sidecar:
    """Return what the memory was made with.

    Raises:
        StoreError: There is none.
    """
    found = describe(options)
    if found is None:
        where = options.memory if options.remote else folder(options)
        raise StoreError(
            f"there is no memory in {where}; `amem add` makes one, --memory names another"
        )
    return found


@contextmanager
def reading(options: Options) -> Iterator[Opened]:
    """Open a memory that is there, without its encoder."""
    made = described(options)
    yield from _open(options, NoEncoder(made.embedder, made.dimensions))


@contextmanager
def encoding(options: Options, *, create: bool = False) -> Iterator[Opened]:
    """Open a memory with its encoder and, if one was named, a chat model.

    Unless told otherwise, the encoder is the one the memory was made with.
    """
    made = describe(options) if create else described(options)
    known = made.embedder if made is not None else None
    encoder = options.ports.encoder(options.encoder or known, options.base_url)
    yield from _open(options, encoder)


def _open(options: Options, encoder: Embedder) -> Iterator[Opened]:
    model = options.ports.model(options.model, options.base_url)
    store = open_store(options.memory, encoder, options.collection, client_options(options))
    with AgenticMemory(store, encoder, model) as memory:
        yield Opened(memory, store, encoder)


def client_options(options: Options) -> dict[str, Any]:
    """Return what only a server is told."""
    return {"api_key": options.api_key} if options.remote and options.api_key else {}


def _describe_server(options: Options) -> Sidecar | None:
    from ..stores._connection import Connection  # noqa: PLC0415 - imports Qdrant's client
    from ..stores.qdrant import TIMEOUT, _address, _client  # noqa: PLC0415

    where = _address(options.memory, options.api_key, allow_insecure=False)
    client = _client(options.memory, options.api_key, {"timeout": TIMEOUT})
    connection = Connection(client, where, pauses=(0.2,), guard=nullcontext())
    name = options.collection
    try:
        if not connection.call(lambda c: c.collection_exists(name)):
            return None
        info = connection.call(lambda c: c.get_collection(name))
    finally:
        connection.close()
    made = (info.config.metadata or {}).get("amem")
    return Sidecar.parse(made, f"collection {name!r} at {where}")
