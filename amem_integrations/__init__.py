"""Long-term memory for LLM agents that organises itself: linked, evolving notes over Qdrant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .budget import LedgerEntry
    from .config import MemoryConfig
    from .context import render_notes
    from .errors import (
        AmemError,
        BudgetExceededError,
        ConfigurationError,
        EmbedderMismatchError,
        InvalidInputError,
        MissingExtraError,
        ModelReplyError,
        ModelUnavailableError,
        NamespaceError,
        NoteNotFoundError,
        RevisionConflictError,
        StoreClosedError,
        StoreError,
        StoreFullError,
        StoreLockedError,
        StoreUnavailableError,
    )
    from .forms import Profile
    from .memory import AgenticMemory
    from .notes import Change, ContextEntry, Link, Note, NoteInput, ScoredNote, Via, Why
    from .plans import (
        EvolutionReport,
        Plan,
        UndoReport,
        WorkReport,
    )
    from .ports import ChatModel, Completion, Embedder, ModelRequest
    from .providers.fastembed import FastEmbedEmbedder
    from .providers.minilm import MiniLmEmbedder
    from .providers.openai import OpenAIChatModel, OpenAIEmbedder
    from .providers.rules import RuleModel
    from .providers.sentence_transformers import SentenceTransformerEmbedder

__all__ = [
    "AgenticMemory",
    "AmemError",
    "BudgetExceededError",
    "Change",
    "ChatModel",
    "Completion",
    "ConfigurationError",
    "ContextEntry",
    "Embedder",
    "EmbedderMismatchError",
    "EvolutionReport",
    "FastEmbedEmbedder",
    "InvalidInputError",
    "LedgerEntry",
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
    "OpenAIChatModel",
    "OpenAIEmbedder",
    "Plan",
    "Profile",
    "RevisionConflictError",
    "RuleModel",
    "ScoredNote",
    "SentenceTransformerEmbedder",
    "StoreClosedError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreUnavailableError",
    "UndoReport",
    "Via",
    "Why",
    "WorkReport",
    "render_notes",
]

_MODULES = {
    "LedgerEntry": "budget",
    "MemoryConfig": "config",
    "render_notes": "context",
    "AmemError": "errors",
    "BudgetExceededError": "errors",
    "ConfigurationError": "errors",
    "EmbedderMismatchError": "errors",
    "InvalidInputError": "errors",
    "MissingExtraError": "errors",
    "ModelReplyError": "errors",
    "ModelUnavailableError": "errors",
    "NamespaceError": "errors",
    "NoteNotFoundError": "errors",
    "RevisionConflictError": "errors",
    "StoreClosedError": "errors",
    "StoreError": "errors",
    "StoreFullError": "errors",
    "StoreLockedError": "errors",
    "StoreUnavailableError": "errors",
    "Profile": "forms",
    "AgenticMemory": "memory",
    "Change": "notes",
    "ContextEntry": "notes",
    "Link": "notes",
    "Note": "notes",
    "NoteInput": "notes",
    "ScoredNote": "notes",
    "Via": "notes",
    "Why": "notes",
    "EvolutionReport": "plans",
    "Plan": "plans",
    "UndoReport": "plans",
    "WorkReport": "plans",
    "ChatModel": "ports",
    "Completion": "ports",
    "Embedder": "ports",
    "ModelRequest": "ports",
    "FastEmbedEmbedder": "providers.fastembed",
    "MiniLmEmbedder": "providers.minilm",
    "OpenAIChatModel": "providers.openai",
    "OpenAIEmbedder": "providers.openai",
    "RuleModel": "providers.rules",
    "SentenceTransformerEmbedder": "providers.sentence_transformers",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
