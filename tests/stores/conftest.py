"""Each store that a memory can be kept in, empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.qdrant_server import FakeQdrant, serving
from support.stored import DIMENSIONS, METADATA_INDEXES

from amem_integrations.stores import FolderStore, ServerStore

SERVER: dict[str, Any] = {"dimensions": DIMENSIONS, "metadata_indexes": METADATA_INDEXES}
KINDS = [
    "folder",
    ":memory:",
    pytest.param("stand-in", marks=pytest.mark.enable_socket),
]
if "QDRANT_URL" in os.environ:
    KINDS.append(pytest.param("server", marks=pytest.mark.enable_socket))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderStore | ServerStore]:
    """Return an empty store, which is closed after the test."""
    if request.param == "stand-in":
        with serving(FakeQdrant()) as fake, closing(ServerStore(fake.url, **SERVER)) as opened:
            yield opened
        return
    with closing(_opened(request.param, tmp_path)) as opened:
        yield opened


def _opened(kind: str, folder: Path) -> FolderStore | ServerStore:
    if kind == "folder":
        return FolderStore(folder / "store", dimensions=DIMENSIONS)
    if kind == ":memory:":
        return FolderStore(":memory:", dimensions=DIMENSIONS)
    name = f"amem-test-{os.urandom(8).hex()}"
    return ServerStore(os.environ["QDRANT_URL"], collection=name, **SERVER)


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    """Return the stand-in of a server, on loopback."""
    with serving(FakeQdrant()) as served:
        yield served
