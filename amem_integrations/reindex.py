"""Functions about whole memories that need none to be open: `migrate`, `reindex`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import ConfigurationError
from .flows.transfer import copy, made_by, taken_from
from .opening import Location, open_as_made, open_store
from .ports import Embedder
from .progress import Progress, reporter
from .runtime import run


def migrate(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    embedder: Embedder | None = None,
    collection: str = "amem",
    target_collection: str | None = None,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    progress: bool | Progress = False,
) -> int:
    """Copy a memory, all namespaces with their history, and return the number of notes.

    Between folders and servers, either way. The source stays as it is. What is in the target already and
    equal costs nothing, so after an interruption it goes on where it was; notes there that the source does
    not have are removed from namespaces that the source has. Of a namespace without notes the receipts are copied.

    Args:
        source: A folder, or the URL of a server.
        target: The same.
        embedder: Embeds the notes anew; without one their vectors are copied, and none is needed.
        collection: The collection to copy.
        target_collection: Its name in the target, if that is another.
        source_options: What `AgenticMemory.open` takes as `client_options`, for the source.
        target_options: The same for the target.
        progress: True logs how far it is; a function is called with (notes copied, notes in all).

    Raises:
        ConfigurationError: The target is the source, or one of them is `":memory:"`.
        StoreError: There is no memory in the source, or one of them fails.
        EmbedderMismatchError: The target was made with another embedder.
    """
    origin = Location.of(source, collection, source_options)
    other = Location.of(target, target_collection or collection, target_options)
    same = (origin.path, origin.collection) == (other.path, other.collection)
    if ":memory:" in (origin.path, other.path) or same:
        raise ConfigurationError(
            f"cannot copy {source!r} to {target!r}; give two different folders or URLs"
        )
    return _copy(origin, other, embedder, reporter(progress))


def reindex(
    location: str | PathLike[str],
    embedder: Embedder,
    *,
    collection: str = "amem",
    progress: bool | Progress = False,
    **options: object,
) -> int:
    """Embed all notes of a folder anew with another embedder; return how many there are.

    The collection is built anew beside the old one, and takes its place when it is complete. After an
    interruption it goes on where it was. One on a server is copied: `migrate(url, url, embedder=…,
    target_collection=…)`.

    Raises:
        ConfigurationError: The location is no folder.
        StoreLockedError: It is open.
        StoreError: There is no memory in it.
        ModelUnavailableError: The embedder failed; the old collection is as it was.
    """
    return rebuild(Location.of(location, collection, options), embedder, reporter(progress))


def rebuild(location: Location, embedder: Embedder, progress: Progress | None) -> int:
    """Build a folder's collection anew and put it in place."""
    if not location.is_folder:
        raise ConfigurationError(
            f"{location.path!r} is no folder; copy it with another embedder by "
            "migrate(url, url, embedder=…, target_collection=…)"
        )
    from .stores.folder import REINDEXED, put_in_place  # noqa: PLC0415 - brings its engine along

    draft = Location(location.path, location.collection + REINDEXED, location.options)
    done = _copy(location, draft, embedder, progress, exact=True)
    folder = Path(str(location.path)).expanduser().absolute()
    put_in_place(folder / draft.collection, folder / location.collection)
    return done


def _copy(
    origin: Location,
    other: Location,
    embedder: Embedder | None,
    progress: Progress | None,
    *,
    exact: bool = False,
) -> int:
    source, name, dimensions = open_as_made(origin)
    with closing(source):
        if embedder is not None:
            name, dimensions = embedder.name, embedder.dimensions
        with closing(open_store(other, embedder=name, dimensions=dimensions)) as target:
            vectors = made_by(embedder) if embedder else taken_from(source)
            return run(copy(source, target, vectors, progress, exact=exact))
