"""Fixtures that every test may use."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

# Before anything imports a library that would ask a model hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from support.openai_server import openai_server

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

__all__ = ["openai_server"]

SHM = Path("/dev/shm")


def pytest_configure() -> None:
    """Put temporary folders into memory: a memory's indexes take dozens of fsyncs, and a kill spares both."""
    roomy = os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free > 4 * 2**30
    if roomy and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = str(SHM)  # also for the processes that tests start
        tempfile.tempdir = None


@pytest.fixture(params=["edge", "memory"])
def memory(request, tmp_path):
    """A memory without a language model, over each of the engines."""
    location = str(tmp_path / "memory") if request.param == "edge" else ":memory:"
    with AgenticMemory.open(location, embedder=HashEmbedder()) as opened:
        yield opened
