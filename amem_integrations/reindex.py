"""A folder by another embedder, without opening it: `reindex`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from os import PathLike

from .embedding import with_vectors_anew
from .errors import ConfigurationError, without_secrets
from .opening import Location, open_embedder, open_store
from .ports import Embedder
from .runtime import Meter, Progress, run
from .stored_note import StoredNote

PAGE = 64  # notes embedded at once


def reindex(
    location: str | PathLike[str],
    embedder: Embedder,
    *,
    collection: str = "amem",
    progress: bool | Progress = False,
    **options: object,
) -> int:
    """Embed all notes of a folder anew with another embedder; return how many there are.

    The collection is built anew beside the old one, and takes its place when it is complete. One on a server is
    exported, and imported into another collection.

    Raises:
        ConfigurationError: The location is no folder, or `embedder` is none.
        StoreLockedError: It is open.
        StoreError: There is no memory in it.
        ModelUnavailableError: The embedder failed; the old collection is as it was.
    """
    place, embedder = Location.of(location, collection, options), open_embedder(embedder)
    if not place.is_folder:
        raise ConfigurationError(
            f"{without_secrets(place.path)!r} is no folder; export() it, and import_() the file into a memory that "
            "is opened with the other embedder and another collection="
        )
    with closing(open_store(place)) as store:
        meter = Meter(progress, sum(store.count(space) for space in store.namespaces()))

        def embedded(notes: Sequence[StoredNote]) -> list[StoredNote]:
            new: list[StoredNote] = []
            for start in range(0, len(notes), PAGE):
                page = notes[start : start + PAGE]
                new += run(with_vectors_anew(embedder, page))
                meter.add(sum(not one.is_deleted for one in page))
            return new

        store.rebuild(embedder.name, embedder.dimensions, embedded)
    return meter.done
