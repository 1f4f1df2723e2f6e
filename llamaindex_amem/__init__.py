"""Long-term memory that organises itself, for LlamaIndex chat engines, agents and query engines.

- `AMemMemory`: pass it as `memory=` to any chat engine or agent.
- `AMemMemoryBlock`: put it beside other blocks in a stock `Memory`.
- `AMemRetriever`: notes as nodes, for query engines and tools.
- `AMemIngest`: a step of an ingestion pipeline that stores nodes and documents as notes.
- `AMemToolSpec`: lets an agent remember, recall, forget and correct by itself.
- `open_memory`: `AgenticMemory.open` that takes your LlamaIndex models (`LlamaIndexChatModel`, `LlamaIndexEmbedder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_integrations import MissingExtraError
from amem_integrations.lazy import lazy_names

if TYPE_CHECKING:
    from .documents import AMemIngest
    from .events import (
        AMemEvolutionEvent,
        AMemFailureEvent,
        AMemRecallEvent,
        AMemToolEvent,
        AMemWriteEvent,
    )
    from .memory import AMemMemory
    from .memory_block import AMemMemoryBlock
    from .models import LlamaIndexChatModel, LlamaIndexEmbedder, open_memory
    from .retriever import AMemRetriever
    from .tools import AMemToolSpec

try:
    import llama_index.core  # noqa: F401 - to see whether it is there
except ModuleNotFoundError as error:
    # `llama_index` is a namespace package, which may be there without its core.
    if not (error.name or "").startswith("llama_index"):
        raise
    raise MissingExtraError("llama-index-core", "llamaindex") from error

__all__ = [
    "AMemEvolutionEvent",
    "AMemFailureEvent",
    "AMemIngest",
    "AMemMemory",
    "AMemMemoryBlock",
    "AMemRecallEvent",
    "AMemRetriever",
    "AMemToolEvent",
    "AMemToolSpec",
    "AMemWriteEvent",
    "LlamaIndexChatModel",
    "LlamaIndexEmbedder",
    "open_memory",
]

_MODULES = {
    "AMemEvolutionEvent": "events",
    "AMemFailureEvent": "events",
    "AMemIngest": "documents",
    "AMemMemory": "memory",
    "AMemMemoryBlock": "memory_block",
    "AMemRecallEvent": "events",
    "AMemRetriever": "retriever",
    "AMemToolEvent": "events",
    "AMemToolSpec": "tools",
    "AMemWriteEvent": "events",
    "LlamaIndexChatModel": "models",
    "LlamaIndexEmbedder": "models",
    "open_memory": "models",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
