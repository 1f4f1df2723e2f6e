"""Long-term memory that organises itself, for LlamaIndex chat engines, agents and query engines.

- `AMemMemory`: pass it as `memory=` to any chat engine or agent.
- `AMemMemoryBlock`: put it beside other blocks in a stock `Memory`.
- `AMemRetriever`: notes as nodes, for query engines and tools.
- `AMemIngest`: a step of an ingestion pipeline that stores nodes and documents as notes.
- `AMemToolSpec`: lets an agent remember, recall, forget and correct by itself.
- `open_memory`: `AgenticMemory.open` that takes your LlamaIndex models (`LlamaIndexChatModel`, `LlamaIndexEmbedder`).
"""

from __future__ import annotations

import lazy_loader

from amem_integrations.errors import needed

needed("llama_index.core", "llamaindex")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
