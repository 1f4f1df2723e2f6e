"""Ports for those who name none: which store a location means, the default embedder and model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import providers  # each of which is imported when it is used
from .errors import ConfigurationError, StoreError, StoreUnavailableError, without_secrets
from .ports import ChatModel, Embedder

if TYPE_CHECKING:
    from .stores.sidecar import Sidecar

T = TypeVar("T")

MEMORY = ":memory:"

_ADDRESS = re.compile(r"([^/]*@)?([\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}/?")  # host:port

# The adapters that wrap the objects of a framework.
_WRAPPERS = {
    "langchain_core": "langchain_amem.LangChain",
    "llama_index": "llamaindex_amem.LlamaIndex",
}


# Parameters of stores and clients that the location and the memory give.
_GIVEN = {
    "location", "path", "url", "host", "base_url", "dimensions", "embedder", "collection", "check_compatibility",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a memory: `":memory:"`, a folder or a URL, the collection, and the client's options."""

    path: str
    collection: str = "amem"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # a key is among them

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
        if not isinstance(text, str) or not text or not isinstance(collection, str):
            raise ConfigurationError(
                f"location={path!r} must be ':memory:', the path of a folder, or the URL of a server, "
                f"and collection={collection!r} a name"
            )
        if _ADDRESS.fullmatch(text):
            text = text.rpartition("@")[2]  # without a password
            raise ConfigurationError(
                f"location={text!r} is the address of a server without a scheme; use "
                f"'http://{text}', or './{text}' for a folder of that name"
            )
        if text != MEMORY and "://" not in text:
            text = str(Path(text).expanduser().absolute())
        return cls(text, collection, dict(options or {}))

    @property
    def is_folder(self) -> bool:
        """Whether the place is a folder, not a server or the memory of this process."""
        return self.path != MEMORY and not self.is_served

    @property
    def is_served(self) -> bool:
        """Whether the place is a server."""
        return "://" in self.path

    @property
    def folder(self) -> Path:
        """The folder of the collection."""
        return Path(self.path) / self.collection

    def description(self) -> Sidecar:
        """Return the facts that a folder holds about the memory in it.

        Raises:
            StoreError: There is no memory, or what it says cannot be read.
        """
        from .stores.folder import description, placing  # noqa: PLC0415

        with placing(self.folder):
            return description(self.folder)

    def made_with(self, *, required: bool = True) -> str | None:
        """Return the name of the embedder that the memory was made with; None if there is none and none is required.

        Raises:
            StoreError: There is no memory and one is `required`, or it cannot be opened.
        """
        try:
            if self.is_folder:
                return self.description().embedder
            store = open_store(self)
            store.close()
        except StoreUnavailableError:
            raise
        except StoreError:  # there is none; why one on a server cannot be opened is said later
            if required or (self.is_folder and self.folder.exists()):
                raise
            return None
        return str(store.made_with["embedder"])


def open_store(location: Location, *, embedder: str = "", dimensions: int | None = None) -> Any:  # noqa: ANN401 - FolderStore or ServerStore
    """Return the store that a location stands for, for vectors of an embedder; without `dimensions` as it was made.

    Only the engine that is needed is imported.

    Raises:
        StoreError: There is none, and no dimensions to make one of.
        ConfigurationError: The store does not know one of the options.
    """
    takers: tuple[type, ...]
    if location.is_served:
        from .stores.connection import CLIENTS, Connection  # noqa: PLC0415
        from .stores.server import ServerStore  # noqa: PLC0415

        takers = (ServerStore, Connection, *CLIENTS)
    else:
        from .stores.folder import FolderStore  # noqa: PLC0415

        takers = (FolderStore,)
    parameters = [each for taker in takers for each in signature(taker).parameters.values()]
    known = {each.name for each in parameters if each.kind is not Parameter.VAR_KEYWORD} - _GIVEN
    if unknown := sorted(location.options.keys() - known):
        raise ConfigurationError(
            f"unknown options {', '.join(map(repr, unknown))} for {without_secrets(location.path)!r}; beside its own "
            f"parameters AgenticMemory.open takes {', '.join(sorted(known))}"
        )
    made: dict[str, Any] = {"embedder": embedder, "dimensions": dimensions, **location.options}
    return takers[0](location.path, collection=location.collection, **made)


@dataclass(frozen=True, slots=True)
class UnloadedEmbedder:
    """Stands in for the embedder in commands that only read, so that none has to be loaded."""

    name: str
    dimensions: int

    def embed_documents(self, texts: object) -> Any:  # noqa: ANN401 - nothing is returned
        """Raise a `ConfigurationError`."""
        raise ConfigurationError(
            f"cannot embed {texts!r:.60}: {self.name!r} is not loaded; open the memory with its embedder"
        )

    embed_query = embed_documents


def open_embedder(embedder: Embedder | None) -> Embedder:
    """Return the embedder, or all-MiniLM-L6-v2.

    Raises:
        ConfigurationError: It is no embedder.
        MissingExtraError: None was given and none is installed.
    """
    if embedder is None:
        return providers.MiniLmEmbedder()
    return _checked(embedder, "embedder", "embed_documents", "MiniLmEmbedder", "Embedder")


def open_model(model: ChatModel | None) -> ChatModel:
    """Return the model, or the one that works by rules.

    Raises:
        ConfigurationError: It is no chat model.
    """
    if model is None:
        return providers.RuleModel()
    return _checked(model, "model", "generate", "OpenAIChatModel", "ChatModel")


def _checked(port: T, name: str, method: str, known: str, suffix: str) -> T:
    """Return a port; refuse what is none, such as an object of a framework, which an adapter's class wraps."""
    modules = {kind.__module__.split(".")[0] for kind in type(port).__mro__}
    for framework in modules & _WRAPPERS.keys():
        raise ConfigurationError(
            f"{name} is a {type(port).__name__} of {framework}; wrap it: {_WRAPPERS[framework]}{suffix}(…)"
        )
    if not callable(getattr(port, method, None)):
        raise ConfigurationError(
            f"{name}={port!r} has no method {method!r}; give one that has, such as {known}(…), or "
            "None for the default"
        )
    return port


def trusted(made_with: str | None) -> str | None:
    """Return the name of the embedder that stands in a memory.

    Raises:
        ConfigurationError: The name is code, or a folder that may hold some: whoever can write to a folder or a server can
            put any name there, and is not to choose what others run.
    """
    if made_with and (made_with.startswith("python:") or Path(made_with).exists()):
        raise ConfigurationError(
            f"the memory was made with the embedder {made_with!r}, which may run code; give it by embedder= if that code "
            "is yours"
        )
    return made_with


def embedder_named(name: str | None, base_url: str | None) -> Embedder:
    """Return the embedder that a name stands for; without a name all-MiniLM-L6-v2.

    `python:module:name` is an embedder, or the class or function that makes one.

    Raises:
        MissingExtraError: A package that the embedder needs is not installed.
        ConfigurationError: The embedder cannot be loaded.
    """
    from .providers.minilm import DEFAULT_MODEL  # noqa: PLC0415

    kind, _, model = (name or "").partition(":")
    if kind == "openai" and model:
        return providers.OpenAIEmbedder(model, base_url=base_url)
    if kind == "fastembed" and model:
        return providers.FastEmbedEmbedder(model)
    if name == "hash":  # knows words only
        from .testing import HashEmbedder  # noqa: PLC0415

        return HashEmbedder(256)
    if kind != "python" or not model:
        if name in (None, DEFAULT_MODEL) or find_spec("sentence_transformers") is None:
            return providers.MiniLmEmbedder(name or DEFAULT_MODEL)
        return providers.SentenceTransformerEmbedder(str(name))
    module, _, attribute = model.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"--embedder {name}: {error}; name an embedder, or a class or function that makes one, as "
            "python:package.module:name"
        ) from error
    is_made = hasattr(found, "embed_documents") and not isinstance(found, type)
    return open_embedder(found if is_made or not callable(found) else found())
