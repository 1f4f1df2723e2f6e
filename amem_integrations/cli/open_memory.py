"""Opens the memory that a command is about, and finds notes and changes in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from .. import AgenticMemory, MemoryConfig
from ..errors import (
    ConfigurationError,
    InvalidInputError,
    NoteNotFoundError,
    StoreError,
    StoreUnavailableError,
)
from ..notes import Change, Namespace, Note
from ..opening import Location, open_as_made
from ..ports import Store
from ..runtime import resolve, run
from ..stored_note import Vector
from ..stores.folder import settle
from ..stores.sidecar import Sidecar
from .options import Options, format_namespace

T = TypeVar("T", Note, Change)

PAGE = 256

_START = re.compile(r"[0-9a-f-]{4,36}")


@dataclass(frozen=True, slots=True)
class UnloadedEmbedder:
    """Stands in for the embedder in commands that only read, so that none has to be loaded."""

    name: str
    dimensions: int

    def embed_documents(self, texts: object) -> Vector:
        """Raise a `ConfigurationError`."""
        raise ConfigurationError(
            f"cannot embed {texts!r:.60}: {self.name!r} is not loaded; open the memory with its embedder"
        )

    embed_query = embed_documents


@contextmanager
def open_to_read(options: Options) -> Iterator[tuple[AgenticMemory, Store]]:
    """Open an existing memory and its store, without loading the embedder.

    Raises:
        StoreError: There is no memory, or it cannot be opened.
    """
    if not options.remote:
        folder_description(options)
    store, name, dimensions = _open_store(options)
    memory = AgenticMemory._over(store, UnloadedEmbedder(name, dimensions))  # noqa: SLF001
    with memory:
        yield memory, store


def open_to_write(options: Options, *, create: bool = False) -> AgenticMemory:
    """Return a memory with its embedder and, if one was named, a chat model.

    Args:
        options: Without `--embedder` it is the one that the memory was made with.
        create: Make a memory if there is none.

    Raises:
        StoreError: There is no memory and `create` is False, or it cannot be opened.
    """
    try:
        known = embedder_name(options)
    except StoreUnavailableError:
        raise
    except StoreError:
        if not create or (not options.remote and folder(options).exists()):
            raise
        known = None  # there is none; if a server's cannot be opened, opening it raises the error
    return AgenticMemory.open(
        options.memory,
        embedder=options.make_embedder(known),
        model=options.make_model(),
        config=MemoryConfig(review=options.review),
        collection=options.collection,
        **options.client_options,
    )


def embedder_name(options: Options) -> str:
    """Return the name of the embedder that the memory was made with.

    Raises:
        StoreError: There is no memory, or it cannot be opened.
    """
    if not options.remote:
        return folder_description(options).embedder
    store, name, _ = _open_store(options)
    run(resolve(store.close()))
    return name


def folder(options: Options) -> Path:
    """Return the folder of the collection; an address without a scheme is a `ConfigurationError`."""
    return Path(str(Location.of(options.memory).path)) / options.collection


def folder_description(options: Options) -> Sidecar:
    """Return what a folder says about the memory in it.

    Raises:
        StoreError: There is no memory, or what it says cannot be read.
    """
    path = folder(options)
    if path.parent.exists():
        settle(path)  # completes a `reindex` that was interrupted at its very end
    if not path.exists():
        raise StoreError(
            f"there is no memory in {path}; `amem add` makes one, --memory names another"
        )
    return Sidecar.read(path / "amem.json")


def _open_store(options: Options) -> tuple[Store, str, int]:
    """Return the store as it was made, and the name and dimensions of its embedder."""
    place = Location.of(options.memory, options.collection, options.client_options)
    return open_as_made(place)


def find_note(memory: AgenticMemory, name: str, namespace: Namespace) -> Note:
    """Return the note that a name stands for.

    Raises:
        NoteNotFoundError: There is none.
        InvalidInputError: Several ids start with it.
    """
    if _is_id(name):
        return memory.get(name, namespace=namespace)
    if keyed := memory.get_all(namespace=namespace, where={"key": name}, limit=1):
        return keyed[0]
    notes = all_notes(memory, namespace) if _START.fullmatch(name) else ()
    found = [note for note in notes if note.id.startswith(name)]
    if not found:
        raise NoteNotFoundError(
            f"no note has the id or key {name!r} in namespace {format_namespace(namespace)}; "
            "`amem show` lists the last ones"
        )
    return _only(name, found)


def find_change(memory: AgenticMemory, name: str, namespace: Namespace) -> Change:
    """Return the change that a name stands for: its id, the start of it, or the start of each part between the colons.

    Raises:
        NoteNotFoundError: There is none.
        InvalidInputError: There are several.
    """
    changes = memory.history(None, namespace=namespace)
    found = [change for change in changes if _is_named(change, name)]
    if not found:
        raise NoteNotFoundError(
            f"there is no change {name!r} in namespace {format_namespace(namespace)}; "
            "`amem history` lists them"
        )
    return _only(name, found)


def notes_by_id(
    memory: AgenticMemory, ids: Collection[str], namespace: Namespace
) -> dict[str, Note]:
    """Return those of the notes that exist, by id."""
    wanted, found = list(dict.fromkeys(ids)), dict[str, Note]()
    for start in range(0, len(wanted), PAGE):
        where = {"id": {"$in": wanted[start : start + PAGE]}}
        notes = memory.get_all(namespace=namespace, where=where, limit=PAGE)
        found |= {note.id: note for note in notes}
    return found


def all_notes(memory: AgenticMemory, namespace: Namespace) -> Iterator[Note]:
    """Return all notes of a namespace, oldest first."""
    after = -1
    while True:
        where = {"seq": {"$gt": after}}
        page = memory.get_all(namespace=namespace, where=where, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq


def _is_named(change: Change, name: str) -> bool:
    parts, given = change.id.split(":"), name.split(":")
    if len(given) == 1:
        return change.id.startswith(name)
    return len(parts) == len(given) and all(
        part == start if part.isdecimal() else part.startswith(start)
        for part, start in zip(parts, given, strict=True)
    )


def _only(name: str, found: Sequence[T]) -> T:
    if len(found) > 1:
        ids = ", ".join(sorted(each.id for each in found)[:5])
        raise InvalidInputError(f"{name!r} starts {len(found)} ids: {ids}; give more of the id")
    return found[0]


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
