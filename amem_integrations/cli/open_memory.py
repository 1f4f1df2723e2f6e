"""Opens the memory that a command is about, with as much as the command needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import AgenticMemory
from .._sync import resolve, run
from ..errors import ConfigurationError, StoreError, StoreUnavailableError
from ..ports import NoteStore, Vector
from ..stores.folder import settle
from ..stores.sidecar import Sidecar
from .options import Options


@dataclass(frozen=True, slots=True)
class UnloadedEmbedder:
    """Stands in for the embedder in commands that only read, so that none has to be loaded."""

    name: str
    dimensions: int

    def embed_documents(self, texts: object) -> Vector:
        """Raise a `ConfigurationError`."""
        raise self._error(texts)

    def embed_query(self, text: object) -> Vector:
        """Raise a `ConfigurationError`."""
        raise self._error(text)

    def _error(self, given: object) -> ConfigurationError:
        return ConfigurationError(
            f"cannot embed {given!r:.60}: {self.name!r} is not loaded; open the memory with its embedder"
        )


@contextmanager
def open_to_read(options: Options) -> Iterator[tuple[AgenticMemory, NoteStore]]:
    """Open an existing memory and its store, without loading the embedder.

    Raises:
        StoreError: There is no memory, or it cannot be opened.
    """
    if not options.remote and folder_description(options) is None:
        raise no_memory(options)
    store, name, dimensions = _open_store(options)
    with AgenticMemory(store, UnloadedEmbedder(name, dimensions)) as memory:
        yield memory, store


def open_to_write(options: Options, *, create: bool = False) -> AgenticMemory:
    """Return a memory with its embedder and, if one was named, a chat model.

    Args:
        options: Without `--embedder` it is the one that the memory was made with.
        create: Make a memory if there is none.

    Raises:
        StoreError: There is no memory and `create` is False, or it cannot be opened.
    """
    known = _known_embedder(options) if create else embedder_name(options)
    return AgenticMemory.open(
        options.memory,
        embedder=options.make_embedder(known),
        model=options.make_model(),
        collection=options.collection,
        **options.client_options,  # type: ignore[arg-type]
    )


def embedder_name(options: Options) -> str:
    """Return the name of the embedder that the memory was made with.

    Raises:
        StoreError: There is no memory, or it cannot be opened.
    """
    if not options.remote:
        if (description := folder_description(options)) is None:
            raise no_memory(options)
        return description.embedder
    store, name, _ = _open_store(options)
    run(resolve(store.close()))
    return name


def folder(options: Options) -> Path:
    """Return the folder of the collection."""
    return Path(options.memory).expanduser().absolute() / options.collection


def folder_description(options: Options) -> Sidecar | None:
    """Return what a folder says about the memory in it, or None if there is none."""
    path = folder(options)
    if path.parent.exists():
        settle(path)  # completes a `reindex` that was interrupted at its very end
    return Sidecar.read(path / "amem.json") if path.exists() else None


def no_memory(options: Options) -> StoreError:
    """Return the error that there is no memory."""
    where = options.memory if options.remote else folder(options)
    return StoreError(
        f"there is no memory in {where}; `amem add` makes one, --memory names another"
    )


def _open_store(options: Options) -> tuple[NoteStore, str, int]:
    """Return the store as it was made, and the name and dimensions of its embedder."""
    if options.remote:
        from .. import QdrantStore  # noqa: PLC0415 - imports the client

        return QdrantStore.as_made(options.memory, options.collection, **options.client_options)
    from .. import EdgeStore  # noqa: PLC0415 - imports the engine

    return EdgeStore.as_made(options.memory, options.collection)


def _known_embedder(options: Options) -> str | None:
    """Return the name of the embedder that the memory was made with, or None if there is no memory."""
    if not options.remote:
        description = folder_description(options)
        return description.embedder if description else None
    try:
        return embedder_name(options)
    except StoreUnavailableError:
        raise
    except StoreError:
        return None  # there is none; if it cannot be opened, opening it raises the error
