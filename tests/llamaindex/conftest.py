from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("llama_index.core")

from amem_integrations import AgenticMemory
from llamaindex_fakes import Probe, open_memory


@pytest.fixture
def opened() -> Iterator[tuple[AgenticMemory, Probe]]:
    memory, store = open_memory()
    yield memory, store
    memory.close()


@pytest.fixture
def memory(opened: tuple[AgenticMemory, Probe]) -> AgenticMemory:
    return opened[0]


@pytest.fixture
def store(opened: tuple[AgenticMemory, Probe]) -> Probe:
    return opened[1]
