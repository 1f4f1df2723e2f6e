from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("llama_index.core")

from llamaindex_fakes import Probe, open_memory

from amem_integrations import AgenticMemory


def pytest_configure(config: pytest.Config) -> None:
    # A `Memory` has no close: its SQLite connection, and the loop of a synchronous call, are left to
    # the garbage collector by the framework.
    for warning in ("<aiosqlite.core.Connection.*> was deleted", "unclosed event loop"):
        config.addinivalue_line("filterwarnings", f"ignore:{warning}:ResourceWarning")


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
