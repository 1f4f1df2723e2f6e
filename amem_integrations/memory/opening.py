"""Ports for those who name none: which store a location means, the default encoder and model."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from ..errors import ConfigurationError
from ..ports import ChatModel, Embedder, NoteStore


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
    if location == ":memory:" or "://" in location:
        from ..stores.qdrant import QdrantStore  # noqa: PLC0415

        return QdrantStore(location, **common, **options)
    from ..stores.edge import EdgeStore  # noqa: PLC0415

    return EdgeStore(location, **common, **options)


def open_embedder() -> Embedder:
    """Return all-MiniLM-L6-v2 by sentence-transformers."""
    from ..providers.sentence_transformers import SentenceTransformerEmbedder  # noqa: PLC0415

    return SentenceTransformerEmbedder()


def open_model(model: ChatModel | None) -> ChatModel:
    """Return the model, or the one that works without a language model."""
    if model is not None:
        return model
    from ..providers.offline import OfflineModel  # noqa: PLC0415

    return OfflineModel()
