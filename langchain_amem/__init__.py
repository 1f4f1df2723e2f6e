"""Long-term memory that organises itself, for LangChain and LangGraph.

`import langchain_amem` needs langchain-core alone. What needs more (langchain, langchain-classic,
LangGraph) is imported on first use, and an error then names the extra to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from amem_integrations import MissingExtraError

from ._failures import failures

try:
    from .retriever import AMemRetriever
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

if TYPE_CHECKING:
    from .embeddings import LangChainEmbedder
    from .graph import build_evolution_graph
    from .memory import AMemMemory
    from .middleware import AMemMiddleware
    from .models import LangChainChatModel
    from .nodes import MemoryState, evolve_node, recall_node, remember_node
    from .opening import open_memory
    from .store import AMemStore
    from .tools import memory_tools

__all__ = [
    "AMemMemory",
    "AMemMiddleware",
    "AMemRetriever",
    "AMemStore",
    "LangChainChatModel",
    "LangChainEmbedder",
    "MemoryState",
    "build_evolution_graph",
    "evolve_node",
    "failures",
    "memory_tools",
    "open_memory",
    "recall_node",
    "remember_node",
]

# Loaded on first use: each needs a package beyond langchain-core, or is rarely wanted.
_LATE = {
    "AMemMemory": "memory",
    "AMemMiddleware": "middleware",
    "AMemStore": "store",
    "LangChainChatModel": "models",
    "LangChainEmbedder": "embeddings",
    "MemoryState": "nodes",
    "build_evolution_graph": "graph",
    "evolve_node": "nodes",
    "memory_tools": "tools",
    "open_memory": "opening",
    "recall_node": "nodes",
    "remember_node": "nodes",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    """Import a name when it is asked for.

    Raises:
        MissingExtraError: It needs a package that is not installed.
    """
    if name in _LATE:
        return getattr(import_module(f".{_LATE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
