"""A memory with a model that links and evolves, without any language model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("langchain_core")

from langchain_kit import ANN, BOB, Contents, scripted

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder, ScriptedModel


@pytest.fixture
def model() -> ScriptedModel:
    return scripted()


@pytest.fixture
def memory(model: ScriptedModel) -> Iterator[AgenticMemory]:
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        yield opened


@pytest.fixture
def seeded(memory: AgenticMemory) -> AgenticMemory:
    """Return a memory in which Ann has said a few things, and Bob one."""
    for content in ("I moved to Oslo.", "My cat is called Mia.", "I like jazz.", "I play chess."):
        memory.add(content, namespace=ANN, speaker="Ann")
    memory.add("I moved to Rome.", namespace=BOB, speaker="Bob")
    return memory


@pytest.fixture
def contents(memory: AgenticMemory) -> Contents:
    """Return what a namespace holds, oldest first."""

    def of(namespace: tuple[str, ...]) -> list[str]:
        return [note.content for note in memory.get_all(namespace=namespace)]

    return of
