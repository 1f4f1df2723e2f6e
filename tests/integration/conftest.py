"""Fixtures of the tests that drive a whole memory."""

from __future__ import annotations

import pytest

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.testing import HashEmbedder


@pytest.fixture
def open_memory():
    """Opens memories; the gate lets HashEmbedder's rough cosines pass."""
    opened = []

    def open_(model=None, embedder=None, **settings):
        memory = AgenticMemory.open(
            ":memory:",
            model=model,
            embedder=embedder or HashEmbedder(),
            config=MemoryConfig(**{"min_gate_similarity": -1.0, **settings}),
        )
        opened.append(memory)
        return memory

    yield open_
    for memory in opened:
        memory.close()
