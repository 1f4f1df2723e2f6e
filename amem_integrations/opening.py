"""Ports for those who name none: which store a location means, the default embedder and model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from .errors import ConfigurationError
from .ports import ChatModel, Embedder, NoteStore

_ADDRESS = re.compile(r"[\w.-]+:\d{1,5}/?|\[[0-9a-fA-F:]+\]:\d{1,5}/?")  # host:port

# Which adapter wraps the objects of which framework.
_WRAPPERS = {
    "langchain_core": "langchain_amem.LangChain",
    "llama_index": "llamaindex_amem.LlamaIndex",
}


@dataclass(frozen=True, slots=True)
class Location:
    """Where a memory is kept: `":memory:"`, a folder or a URL, the collection, and the client's options."""

    path: str
    collection: str = "amem"
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        path: str | PathLike[str],
        collection: str = "amem",
        options: Mapping[str, Any] | None = None,
    ) -> Location:
        """Return the location; a folder by its absolute path, as the working directory may change.

        Raises:
            ConfigurationError: It is no path and no URL.
        """
        text = fspath(path) if isinstance(path, str | PathLike) else path
        if not isinstance(text, str) or not text:
            raise ConfigurationError(
                f"location={path!r} must be ':memory:', the path of a folder, or the URL of a server"
            )
        if _ADDRESS.fullmatch(text):
            raise ConfigurationError(
                f"location={text!r} is the address of a server without a scheme; use "
                f"'http://{text}', or './{text}' for a folder of that name"
            )
        if not _is_served(text):
            text = str(Path(text).expanduser().absolute())
        return cls(text, collection, dict(options or {}))

    @property
    def is_folder(self) -> bool:
        """Whether that is a folder, not a server or the memory of this process."""
        return not _is_served(self.path)


def _is_served(path: str) -> bool:
    return path == ":memory:" or "://" in path


def open_store(location: Location, *, embedder: str, dimensions: int) -> NoteStore:
    """Return the store that a location stands for, for vectors of an embedder."""
    common: dict[str, Any] = {
        "dimensions": dimensions,
        "embedder": embedder,
        "collection": location.collection,
    }
    # Each store brings its engine along, so only the one that is needed is imported.
    if location.is_folder:
        from .stores.edge import EdgeStore  # noqa: PLC0415

        return EdgeStore(location.path, **common, **location.options)
    from .stores.qdrant import QdrantStore  # noqa: PLC0415

    return QdrantStore(location.path, **common, **location.options)


def open_as_made(location: Location) -> tuple[NoteStore, str, int]:
    """Return the store at a location whatever embedder it was made with, and that one's name and dimensions.

    Raises:
        StoreError: There is none.
    """
    if location.is_folder:
        from .stores.edge import EdgeStore  # noqa: PLC0415

        return EdgeStore.as_made(location.path, location.collection, **location.options)
    from .stores.qdrant import QdrantStore  # noqa: PLC0415

    return QdrantStore.as_made(location.path, location.collection, **location.options)


def open_embedder(embedder: Embedder | None) -> Embedder:
    """Return the embedder, or all-MiniLM-L6-v2.

    Raises:
        ConfigurationError: It is no embedder.
        MissingExtraError: None was given and none is installed.
    """
    if embedder is None:
        from .providers.minilm import MiniLmEmbedder  # noqa: PLC0415

        return MiniLmEmbedder()
    _check_port("embedder", embedder, "embed_documents", "Embedder")
    return embedder


def open_model(model: ChatModel | None) -> ChatModel:
    """Return the model, or the one that works by rules.

    Raises:
        ConfigurationError: It is no chat model.
    """
    if model is None:
        from .providers.rules import RuleModel  # noqa: PLC0415

        return RuleModel()
    _check_port("model", model, "generate", "ChatModel")
    return model


def _check_port(name: str, value: object, method: str, suffix: str) -> None:
    """Refuse what is no port; an object of a framework has an adapter's class to wrap it."""
    modules = [kind.__module__ for kind in type(value).__mro__]
    for framework, wrapper in _WRAPPERS.items():
        if any(module.split(".")[0] == framework for module in modules):
            raise ConfigurationError(
                f"{name} is a {type(value).__name__} of {framework}; wrap it: {wrapper}{suffix}(…)"
            )
    if not callable(getattr(value, method, None)):
        known = "OpenAIChatModel" if name == "model" else "MiniLmEmbedder"
        raise ConfigurationError(
            f"{name}={value!r} has no method {method!r}; give one that has, such as {known}(…), or "
            "None for the default"
        )
