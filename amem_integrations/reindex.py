"""A folder by another embedder, without opening it: `reindex`."""

from __future__ import annotations

from contextlib import closing
from os import PathLike
from pathlib import Path

from .errors import ConfigurationError
from .flows.transfer import copy, made_by
from .opening import Location, open_as_made, open_store
from .ports import Embedder
from .progress import Progress, reporter
from .runtime import run


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
    interruption it goes on where it was. One on a server is exported, and imported into another collection.

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
            f"{location.path!r} is no folder; export() it, and import_() the file into a memory that is opened with "
            "the other embedder and another collection="
        )
    from .stores.folder import REINDEXED, put_in_place  # noqa: PLC0415 - brings its engine along

    draft = Location(location.path, location.collection + REINDEXED, location.options)
    source, *_ = open_as_made(location)
    with closing(source):
        made = open_store(draft, embedder=embedder.name, dimensions=embedder.dimensions)
        with closing(made) as target:
            done = run(copy(source, target, made_by(embedder), progress))
    folder = Path(str(location.path)).expanduser().absolute()
    put_in_place(folder / draft.collection, folder / location.collection)
    return done
