"""The options that commands share, and what they stand for: a namespace, an embedder, a chat model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigurationError, NamespaceError
from ..notes import Namespace, check_namespace

if TYPE_CHECKING:  # they import numpy
    from ..ports import ChatModel, Embedder

Shared = Mapping[str, Any]  # by name of an option: its annotation and its default


def _option(kind: Any, default: object, *names: str, **settings: Any) -> tuple[Any, object]:  # noqa: ANN401 - of Typer
    return Annotated[kind, typer.Option(*names, **settings)], default


COMMON: Shared = {
    "memory": _option(
        str,
        "./memory",
        *("--memory", "-m"),
        metavar="LOCATION",
        envvar="AMEM_MEMORY",
        help="A folder, or the URL of a Qdrant server.",
    ),
    "collection": _option(str, "amem", help="Name of the memory, if several are in one place."),
    "api_key": _option(
        str | None,
        None,
        envvar="QDRANT_API_KEY",
        show_envvar=True,
        help="API key of the Qdrant server, if it needs one.",
    ),
    "as_json": _option(bool, False, "--json", help="Print JSON."),
}
NAMESPACE: Shared = {
    "namespace": _option(
        str | None,
        None,
        *("--namespace", "-n"),
        envvar="AMEM_NAMESPACE",
        help='The owner of the notes: labels with "/" between them, such as team/ann, or a JSON list.',
    )
}
EMBEDDER: Shared = {
    "embedder": _option(
        str | None,
        None,
        metavar="NAME",
        envvar="AMEM_EMBEDDER",
        help="A model by name or folder, openai:NAME, fastembed:NAME, or python:MODULE:NAME for one of your own. By "
        "default the one the memory was made with; for a new memory all-MiniLM-L6-v2.",
    ),
    "base_url": _option(
        str | None,
        None,
        envvar="OPENAI_BASE_URL",
        help="URL of an OpenAI-compatible endpoint: Ollama, vLLM, …",
    ),
}
MODEL: Shared = {
    **EMBEDDER,
    "model": _option(
        str | None,
        None,
        envvar="AMEM_MODEL",
        help="A chat model, such as gpt-4o-mini, with OPENAI_API_KEY; without one notes are made by rules.",
    ),
    "review": _option(
        bool,
        False,
        "--review",
        envvar="AMEM_REVIEW",
        help="Let what is proposed for earlier notes wait for `amem approve`.",
    ),
}


def make_embedder(name: str | None, base_url: str | None) -> Embedder:
    """Return the embedder that `--embedder` names; without a name all-MiniLM-L6-v2.

    Raises:
        MissingExtraError: A package that it needs is not installed.
        ConfigurationError: It cannot be loaded.
    """
    kind, _, model = (name or "").partition(":")
    if kind == "openai" and model:
        from ..providers.openai import OpenAIEmbedder  # noqa: PLC0415 - imports the SDK

        return OpenAIEmbedder(model, base_url=base_url)
    if kind == "fastembed" and model:
        from ..providers.fastembed import FastEmbedEmbedder  # noqa: PLC0415 - imports ONNX Runtime

        return FastEmbedEmbedder(model)
    if kind == "python" and model:
        return _python_embedder(model)
    if name == "hash":  # knows words only
        from ..testing import HashEmbedder  # noqa: PLC0415 - only for this

        return HashEmbedder(256)
    from ..providers.minilm import DEFAULT_MODEL, MiniLmEmbedder  # noqa: PLC0415

    if name is None or name == DEFAULT_MODEL or find_spec("sentence_transformers") is None:
        return MiniLmEmbedder(name or DEFAULT_MODEL)
    from ..providers.sentence_transformers import (  # noqa: PLC0415 - imports PyTorch
        SentenceTransformerEmbedder,
    )

    return SentenceTransformerEmbedder(name)


def _python_embedder(path: str) -> Embedder:
    """Return what `module:name` stands for: an embedder, or a function that makes one."""
    from ..opening import open_embedder  # noqa: PLC0415 - imports numpy

    module, _colon, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"--embedder python:{path}: {error}; name an embedder, or a function that makes one, as "
            "python:package.module:name"
        ) from error
    return open_embedder(found if hasattr(found, "embed_documents") else found())


def make_model(name: str | None, base_url: str | None) -> ChatModel | None:
    """Return the chat model that `--model` names; None, which means rules, without a name.

    Raises:
        MissingExtraError: The openai package is not installed.
        ConfigurationError: There is no API key.
    """
    if name is None:
        return None
    from ..providers.openai import OpenAIChatModel  # noqa: PLC0415 - imports the SDK

    return OpenAIChatModel(name, base_url=base_url)


@dataclass(frozen=True, slots=True)
class Ports:
    """Makes the embedder and the chat model of a command; a program that runs commands can pass its own."""

    embedder: Callable[[str | None, str | None], Embedder] = make_embedder
    model: Callable[[str | None, str | None], ChatModel | None] = make_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The values of the shared options in one call; an option that the command lacks has its default."""

    memory: str
    collection: str
    api_key: str | None = field(repr=False)
    as_json: bool
    namespace: Namespace | None = None
    embedder: str | None = None
    base_url: str | None = None
    model: str | None = None
    review: bool = False
    ports: Ports

    @property
    def remote(self) -> bool:
        """Whether the memory is on a server."""
        return "://" in self.memory

    @property
    def client_options(self) -> dict[str, str]:
        """What the store takes beside location and collection."""
        return {"api_key": self.api_key} if self.remote and self.api_key else {}

    @property
    def required_namespace(self) -> Namespace:
        """The namespace.

        Raises:
            NamespaceError: None was given.
        """
        if self.namespace is None:
            raise NamespaceError(
                "no namespace was given; use --namespace or set AMEM_NAMESPACE (`amem stats` lists the "
                "namespaces of a memory)"
            )
        return self.namespace

    def make_embedder(self, name: str | None = None) -> Embedder:
        """Return the embedder that was asked for, else the one of this name, else the default one."""
        return self.ports.embedder(self.embedder or name, self.base_url)

    def make_model(self) -> ChatModel | None:
        """Return the chat model that was asked for, if any."""
        return self.ports.model(self.model, self.base_url)


def parse_namespace(text: str) -> Namespace:
    """Return the namespace that a text stands for: labels with `/` between them, or a JSON list.

    `team/ann` is `("team", "ann")`. A label that holds a slash or starts with a bracket is written
    in JSON, as in `["a/b", "c"]`.

    Raises:
        NamespaceError: There is no label, or an empty one.
    """
    if not text.startswith("["):
        return check_namespace(text.split("/"))
    try:
        return check_namespace(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise NamespaceError(
            f"namespace {text!r} must be labels such as team/ann, or a JSON list of labels: {error}"
        ) from error


def format_namespace(namespace: Sequence[str]) -> str:
    """Return the text that `parse_namespace` takes for this namespace."""
    if namespace[0].startswith("[") or any("/" in label for label in namespace):
        return json.dumps(list(namespace), ensure_ascii=False)
    return "/".join(namespace)
