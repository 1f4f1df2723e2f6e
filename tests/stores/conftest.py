"""Each store that a memory can be kept in, empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.qdrant_server import FakeQdrant, serving
from support.stored import DIMENSIONS, METADATA_INDEXES

from amem_integrations.ports import NoteStore
from amem_integrations.stores import EdgeStore, QdrantStore

SERVER = {"dimensions": DIMENSIONS, "metadata_indexes": METADATA_INDEXES}
KINDS = ["folder", "memory", pytest.param("stand-in", marks=pytest.mark.enable_socket)]
if "QDRANT_URL" in os.environ:
    KINDS.append(pytest.param("server", marks=pytest.mark.enable_socket))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NoteStore]:
    """Return an empty store, which is closed after the test."""
    if request.param == "folder":
        opened = EdgeStore(tmp_path / "store", dimensions=DIMENSIONS)
    elif request.param == "memory":
        opened = QdrantStore(":memory:", dimensions=DIMENSIONS)
    elif request.param == "server":
        name = f"amem-test-{os.urandom(8).hex()}"
        opened = QdrantStore(os.environ["QDRANT_URL"], collection=name, **SERVER)
    else:
        with serving(FakeQdrant()) as fake:
            opened = QdrantStore(fake.url, **SERVER)
            yield opened
            opened.close()
        return
    yield opened
    opened.close()
