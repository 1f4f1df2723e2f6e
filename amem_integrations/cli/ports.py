"""Where a command gets its embedder and its chat model from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from ..errors import ConfigurationError
from ..ports import ChatModel, Embedder, Vector

_SERVED = "openai:"


def make_embedder(name: str | None, base_url: str | None) -> Embedder:
    """Return the embedder of this name, or without a name the default one.

    Raises:
        MissingExtraError: What it needs is not installed.
        ConfigurationError: It cannot be loaded.
    """
    if name is not None and name.startswith(_SERVED):
        from ..providers.openai import OpenAIEmbedder  # noqa: PLC0415 - imports the SDK

        return OpenAIEmbedder(name.removeprefix(_SERVED), base_url=base_url)
    from ..providers.minilm import DEFAULT_MODEL, MiniLmEmbedder  # noqa: PLC0415

    if name is None or name == DEFAULT_MODEL or find_spec("sentence_transformers") is None:
        return MiniLmEmbedder(name or DEFAULT_MODEL)
    from ..providers.sentence_transformers import SentenceTransformerEmbedder  # noqa: PLC0415

    return SentenceTransformerEmbedder(name)


def make_model(name: str | None, base_url: str | None) -> ChatModel | None:
    """Return the chat model of this name; None, which means rules, without a name.

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
    """Makes what a command needs; a program that runs commands itself can bring its own."""

    embedder: Callable[[str | None, str | None], Embedder] = make_embedder
    model: Callable[[str | None, str | None], ChatModel | None] = make_model


@dataclass(frozen=True, slots=True)
class NoEmbedder:
    """Stands in for an embedder in commands that read only, so that none has to be loaded."""

    name: str
    dimensions: int

    def embed_documents(self, texts: object) -> Vector:
        """Refuse."""
        raise self._refusal(texts)

    def embed_query(self, text: object) -> Vector:
        """Refuse."""
        raise self._refusal(text)

    def _refusal(self, given: object) -> ConfigurationError:
        return ConfigurationError(
            f"{given!r:.60} is to be encoded, but {self.name!r} is not loaded"
        )
