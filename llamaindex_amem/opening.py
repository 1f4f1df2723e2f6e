"""`open_memory`: `AgenticMemory.open` that takes LlamaIndex's models."""

from __future__ import annotations

from os import PathLike
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM

from amem_integrations import AgenticMemory, ChatModel, Embedder, MemoryConfig

from .chat_model import LlamaIndexChatModel
from .embedder import LlamaIndexEmbedder


def open_memory(
    location: str | PathLike[str],
    *,
    model: LLM | ChatModel | None = None,
    embedder: BaseEmbedding | Embedder | None = None,
    config: MemoryConfig | None = None,
    collection: str = "amem",
    **client_options: Any,  # noqa: ANN401 - those of AgenticMemory.open
) -> AgenticMemory:
    """Return `AgenticMemory.open(…)` with LlamaIndex's models in it.

    Args:
        location: `":memory:"`, a folder, or the URL of a Qdrant server.
        model: An LLM, or a model of the memory's own; None works without one. `LlamaIndexChatModel()` is
            whatever `Settings.llm` is.
        embedder: Embeddings, or an embedder of the memory's own; None takes MiniLM.
        config: As for `AgenticMemory.open`, like `collection` and `client_options`.
        collection: See `config`.
        client_options: See `config`.

    Raises:
        ConfigurationError: `model` or `embedder` is none, or an option is one that `AgenticMemory.open` does not know.
    """
    return AgenticMemory.open(
        location,
        model=LlamaIndexChatModel(model) if isinstance(model, LLM) else model,
        embedder=LlamaIndexEmbedder(embedder) if isinstance(embedder, BaseEmbedding) else embedder,
        config=config,
        collection=collection,
        **client_options,
    )
