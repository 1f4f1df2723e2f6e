"""Every store keeps the contract."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amem_integrations.ports import NoteStore
from amem_integrations.stores import EdgeStore, QdrantStore
from amem_integrations.testing.conformance import DIMENSIONS, NoteStoreConformance

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where an fsync costs nothing


class TestEdgeStore(NoteStoreConformance):
    @pytest.fixture
    def tmp_path(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=IN_MEMORY, prefix="amem-") as folder:
            yield Path(folder)

    def make_store(self, folder: Path) -> NoteStore:
        return EdgeStore(folder, dimensions=DIMENSIONS)


class TestQdrantStoreInMemory(NoteStoreConformance):
    def make_store(self, folder: Path) -> NoteStore:
        return QdrantStore(":memory:", dimensions=DIMENSIONS)


@pytest.mark.enable_socket
@pytest.mark.skipif("QDRANT_URL" not in os.environ, reason="no QDRANT_URL")
class TestQdrantStoreOnAServer(NoteStoreConformance):
    def make_store(self, folder: Path) -> NoteStore:
        collection = f"amem-test-{os.urandom(8).hex()}"
        return QdrantStore(os.environ["QDRANT_URL"], dimensions=DIMENSIONS, collection=collection)
