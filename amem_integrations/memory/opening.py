"""Ports for those who name none: which store a location means, the default embedder and model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

from ..engine import Progress
from ..errors import ConfigurationError
from ..ports import ChatModel, Embedder, NoteStore

log = logging.getLogger("amem_integrations")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a memory is kept."""

    location: str | PathLike[str]
    collection: str = "amem"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_folder(self) -> bool:
        """Whether that is a folder, not a server or the memory of this process."""
        return not _is_served(fspath(self.location))

    def arguments(
        self, embedder: Embedder
    ) -> tuple[str | PathLike[str], Embedder, str, Mapping[str, Any]]:
        """Return the arguments by which `open_store` opens it."""
        return self.location, embedder, self.collection, self.options


def _is_served(location: str) -> bool:
    return location == ":memory:" or "://" in location


def open_as_made(place: Place) -> tuple[NoteStore, str, int]:
    """Return the store at a place, whatever embedder it was made with, and the name and size of that.

    Raises:
        StoreError: There is none.
    """
    if place.is_folder:
        from ..stores.edge import EdgeStore  # noqa: PLC0415

        return EdgeStore.as_made(place.location, place.collection, **place.options)
    from ..stores.qdrant import QdrantStore  # noqa: PLC0415

    return QdrantStore.as_made(fspath(place.location), place.collection, **place.options)


def open_store(
    location: str | PathLike[str],
    embedder: Embedder,
    collection: str,
    options: Mapping[str, Any],
) -> NoteStore:
    """Return the store that a location stands for."""
    location = fspath(location) if isinstance(location, PathLike) else location
    if not isinstance(location, str) or not location:
        raise ConfigurationError(
            f"location={location!r} must be ':memory:', the path of a folder, or the URL of a server"
        )
    common: dict[str, Any] = {
        "dimensions": embedder.dimensions,
        "embedder": embedder.name,
        "collection": collection,
    }
    # Each store brings its engine along, so only the one that is needed is imported.
    if _is_served(location):
        from ..stores.qdrant import QdrantStore  # noqa: PLC0415

        return QdrantStore(location, **common, **options)
    from ..stores.edge import EdgeStore  # noqa: PLC0415

    return EdgeStore(location, **common, **options)


def open_embedder() -> Embedder:
    """Return all-MiniLM-L6-v2."""
    from ..providers.minilm import MiniLmEmbedder  # noqa: PLC0415

    return MiniLmEmbedder()


def open_model(model: ChatModel | None) -> ChatModel:
    """Return the model, or the one that works without a language model."""
    if model is not None:
        return model
    from ..providers.rules import RuleModel  # noqa: PLC0415

    return RuleModel()


def reporter(progress: bool | Progress) -> Progress | None:
    """Return the function to call with how far it is, if any."""
    if callable(progress):
        return progress
    return (lambda done, total: log.info("%d of %d notes", done, total)) if progress else None
