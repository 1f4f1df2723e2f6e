"""The store of a LangGraph deployment: `langgraph.json` names `open_store`, and the server opens and closes it.

A server has several workers, and a folder belongs to one process, so the notes are on a Qdrant server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amem_integrations import AgenticMemory
from langchain_amem import AMemStore


@asynccontextmanager
async def open_store() -> AsyncIterator[AMemStore]:
    """Yield a store over the memory at `AMEM_LOCATION`; opening and closing it does not hold the server up."""
    location = os.environ.get("AMEM_LOCATION", "http://localhost:6333")
    memory = await asyncio.to_thread(AgenticMemory.open, location)
    try:
        yield AMemStore(memory, fields=["text"])
    finally:
        await asyncio.to_thread(memory.close)
