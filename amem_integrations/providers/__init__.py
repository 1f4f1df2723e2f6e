"""Ready chat models and embedders. Each is loaded, with what it needs, when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fastembed import FastEmbedEmbedder
    from .minilm import MiniLmEmbedder
    from .openai import OpenAIChatModel, OpenAIEmbedder
    from .rules import RuleModel
    from .sentence_transformers import SentenceTransformerEmbedder

__all__ = [
    "FastEmbedEmbedder",
    "MiniLmEmbedder",
    "OpenAIChatModel",
    "OpenAIEmbedder",
    "RuleModel",
    "SentenceTransformerEmbedder",
]

_MODULES = {
    "FastEmbedEmbedder": "fastembed",
    "MiniLmEmbedder": "minilm",
    "RuleModel": "rules",
    "OpenAIChatModel": "openai",
    "OpenAIEmbedder": "openai",
    "SentenceTransformerEmbedder": "sentence_transformers",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute
    """Return a provider, importing its module only now."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
