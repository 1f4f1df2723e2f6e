"""`open_memory`: a memory that works with LangChain's models, in one line."""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from amem_integrations import AgenticMemory, ChatModel, Embedder, MissingExtraError

from .embeddings import LangChainEmbedder
from .models import LangChainChatModel


def open_memory(
    location: str,
    *,
    model: BaseChatModel | ChatModel | str | None = None,
    embeddings: Embeddings | Embedder | str | None = None,
    **options: Any,  # noqa: ANN401 - those of AgenticMemory.open
) -> AgenticMemory:
    """Return `AgenticMemory.open(…)` with LangChain's models in it.

    Args:
        location: `":memory:"`, a folder, or the URL of a Qdrant server.
        model: A chat model, or its name for LangChain (`"openai:gpt-5-mini"`); None works without one.
        embeddings: Embeddings, or their name (`"openai:text-embedding-3-small"`); None takes MiniLM.
        options: What `AgenticMemory.open` takes.

    Raises:
        MissingExtraError: A name was given, and langchain is not installed.
    """
    chat: Any = _load("init_chat_model", model) if isinstance(model, str) else model
    embedder: Any = (
        _load("init_embeddings", embeddings) if isinstance(embeddings, str) else embeddings
    )
    chat = LangChainChatModel(chat) if isinstance(chat, BaseChatModel) else chat
    embedder = LangChainEmbedder(embedder) if isinstance(embedder, Embeddings) else embedder
    return AgenticMemory.open(location, model=chat, embedder=embedder, **options)


def _load(loader: str, name: str | Any) -> Any:  # noqa: ANN401 - a model or embeddings
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
        from langchain.embeddings import init_embeddings  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("langchain", "langchain") from error
    loaders: dict[str, Any] = {
        "init_chat_model": init_chat_model,
        "init_embeddings": init_embeddings,
    }
    return loaders[loader](name)
