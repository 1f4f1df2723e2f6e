"""Each store that a memory can be kept in, empty."""

from __future__ import annotations

import os
from contextlib import closing

import pytest
from support.qdrant_server import FakeQdrant, serving
from support.stored import DIMENSIONS, METADATA_INDEXES

from amem_integrations.stores import FolderStore, ServerStore

SERVER = {"dimensions": DIMENSIONS, "metadata_indexes": METADATA_INDEXES}
SERVED = [None, *filter(None, [os.environ.get("QDRANT_URL")])]  # the stand-in, and a real server
KINDS = ["folder", ":memory:"]
KINDS += [
    pytest.param(url, marks=pytest.mark.enable_socket, id=url or "stand-in") for url in SERVED
]


@pytest.fixture
def fake():
    """Return the stand-in of a server, on loopback."""
    with serving(FakeQdrant()) as served:
        yield served


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    """Return an empty store, which is closed after the test."""
    if request.param in KINDS[:2]:
        place = tmp_path / "store" if request.param == "folder" else ":memory:"
        made = FolderStore(place, dimensions=DIMENSIONS)
    else:
        name = f"amem-test-{os.urandom(8).hex()}"
        url = request.param or request.getfixturevalue("fake").url
        made = ServerStore(url, collection=name, **SERVER)
    with closing(made):
        yield made
