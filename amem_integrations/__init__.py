"""Long-term memory for LLM agents that organises itself: linked, evolving notes over Qdrant."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config import MemoryConfig
from .context import render_notes
from .errors import (
    AmemError,
    ConfigurationError,
    EmbedderMismatchError,
    InvalidInputError,
    MissingExtraError,
    ModelReplyError,
    ModelUnavailableError,
    NamespaceError,
    NoteNotFoundError,
    RevisionConflictError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnavailableError,
)
from .memory import AgenticMemory
from .notes import Change, ContextEntry, Link, Note, NoteInput, ScoredNote, Via, Why
from .plans import EvolutionReport, Plan
from .ports import ChatModel, Completion, Embedder, ModelRequest, NoteStore

if TYPE_CHECKING:
    from .providers.minilm import MiniLmEmbedder
    from .providers.openai import OpenAIChatModel, OpenAIEmbedder
    from .providers.rules import RuleModel
    from .providers.sentence_transformers import SentenceTransformerEmbedder
    from .stores.edge import EdgeStore
    from .stores.qdrant import QdrantStore

__all__ = [
    "AgenticMemory",
    "AmemError",
    "Change",
    "ChatModel",
    "Completion",
    "ConfigurationError",
    "ContextEntry",
    "EdgeStore",
    "Embedder",
    "EmbedderMismatchError",
    "EvolutionReport",
    "InvalidInputError",
    "Link",
    "MemoryConfig",
    "MiniLmEmbedder",
    "MissingExtraError",
    "ModelReplyError",
    "ModelRequest",
    "ModelUnavailableError",
    "NamespaceError",
    "Note",
    "NoteInput",
    "NoteNotFoundError",
    "NoteStore",
    "OpenAIChatModel",
    "OpenAIEmbedder",
    "Plan",
    "QdrantStore",
    "RevisionConflictError",
    "RuleModel",
    "ScoredNote",
    "SentenceTransformerEmbedder",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreUnavailableError",
    "Via",
    "Why",
    "render_notes",
]

# Loaded on first use: each brings an engine or a vendor's package along.
_LATE = {
    "EdgeStore": "stores.edge",
    "QdrantStore": "stores.qdrant",
    "MiniLmEmbedder": "providers.minilm",
    "RuleModel": "providers.rules",
    "OpenAIChatModel": "providers.openai",
    "OpenAIEmbedder": "providers.openai",
    "SentenceTransformerEmbedder": "providers.sentence_transformers",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    """Import a store or a provider when it is asked for."""
    if name in _LATE:
        return getattr(import_module(f".{_LATE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
