"""Long-term memory that organises itself, for LangChain and LangGraph.

Everything is imported on first use. `AMemRetriever`, the models and `memory_tools` need langchain-core
alone; what needs more (langchain, langchain-classic, LangGraph) names the extra to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_integrations import MissingExtraError
from amem_integrations.lazy import lazy_names

from .run import failures

if TYPE_CHECKING:
    from .chain_memory import AMemMemory
    from .chat_history import AMemChatMessageHistory
    from .evolution_graph import build_evolution_graph
    from .middleware import AMemMiddleware
    from .models import LangChainChatModel, LangChainEmbedder, open_memory
    from .nodes import MemoryState, evolve_node, recall_node, remember_node
    from .retriever import AMemRetriever
    from .store import AMemStore
    from .tools import described_call, memory_tools
    from .vector_store import AMemVectorStore

__all__ = [
    "AMemChatMessageHistory",
    "AMemMemory",
    "AMemMiddleware",
    "AMemRetriever",
    "AMemStore",
    "AMemVectorStore",
    "LangChainChatModel",
    "LangChainEmbedder",
    "MemoryState",
    "build_evolution_graph",
    "described_call",
    "evolve_node",
    "failures",
    "memory_tools",
    "open_memory",
    "recall_node",
    "remember_node",
]

_MODULES = {
    "AMemChatMessageHistory": "chat_history",
    "AMemMemory": "chain_memory",
    "AMemMiddleware": "middleware",
    "AMemRetriever": "retriever",
    "AMemStore": "store",
    "AMemVectorStore": "vector_store",
    "LangChainChatModel": "models",
    "LangChainEmbedder": "models",
    "MemoryState": "nodes",
    "build_evolution_graph": "evolution_graph",
    "described_call": "tools",
    "evolve_node": "nodes",
    "memory_tools": "tools",
    "open_memory": "models",
    "recall_node": "nodes",
    "remember_node": "nodes",
}

try:
    import langchain_core  # noqa: F401 - its root alone, which is light
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
