"""Long-term memory that organises itself, for LlamaIndex chat engines, agents and query engines.

- `AMemMemory`: pass it as `memory=` to any chat engine or agent.
- `AMemMemoryBlock`: put it beside other blocks in a stock `Memory`.
- `AMemRetriever`: notes as nodes, for query engines and tools.
- `AMemToolSpec`: lets an agent remember, recall, forget and correct by itself.
- `LlamaIndexChatModel`, `LlamaIndexEmbedder`: your LlamaIndex models, for `AgenticMemory.open`.
"""

from __future__ import annotations

from importlib.util import find_spec

from amem_integrations import MissingExtraError

# `llama_index` itself is a namespace package, which other distributions share.
if find_spec("llama_index") is None or find_spec("llama_index.core") is None:
    raise MissingExtraError("llama-index-core", "llamaindex")

from ._events import AMemEvolutionEvent, AMemRecallEvent, AMemWriteEvent
from .memory import AMemMemory
from .memory_block import AMemMemoryBlock
from .models import LlamaIndexChatModel, LlamaIndexEmbedder
from .retriever import AMemRetriever
from .tools import AMemToolSpec

__all__ = [
    "AMemEvolutionEvent",
    "AMemMemory",
    "AMemMemoryBlock",
    "AMemRecallEvent",
    "AMemRetriever",
    "AMemToolSpec",
    "AMemWriteEvent",
    "LlamaIndexChatModel",
    "LlamaIndexEmbedder",
]
