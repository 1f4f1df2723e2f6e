"""Fixtures that every test may use."""

from __future__ import annotations

import os

# Before anything imports a library that would ask a model hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from support.openai_server import openai_server

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

__all__ = ["openai_server"]


@pytest.fixture(params=["edge", "memory"])
def memory(request, tmp_path):
    """A memory without a language model, over each of the engines."""
    location = str(tmp_path / "memory") if request.param == "edge" else ":memory:"
    with AgenticMemory.open(location, embedder=HashEmbedder()) as opened:
        yield opened
