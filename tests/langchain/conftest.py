"""A memory with a model that links and evolves, without any language model."""

from __future__ import annotations

import pytest
from langchain_kit import ANN, BOB, scripted
from support.ports import Silent

from amem_integrations.testing import HashEmbedder


@pytest.fixture
def model():
    return scripted()


@pytest.fixture
def memory(model):
    """A memory; with `down` its store does not answer."""
    with Silent.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        yield opened


@pytest.fixture
def seeded(memory):
    """Return a memory in which Ann has said a few things, and Bob one."""
    for content in ("I moved to Oslo.", "My cat is called Mia.", "I like jazz.", "I play chess."):
        memory.add(content, namespace=ANN, speaker="Ann")
    memory.add("I moved to Rome.", namespace=BOB, speaker="Bob")
    return memory
