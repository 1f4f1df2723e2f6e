"""The tests that use `":memory:"`, on a server: the stand-in (`AMEM_TEST_STORE=stand-in`), or one at a URL.

Each memory gets collections of its own, which are removed when it is closed, or at the end. A key for the server
is read from `AMEM_TEST_STORE_KEY`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from qdrant_client import QdrantClient
from support.qdrant_server import FakeQdrant, serving
from support.stored import METADATA_INDEXES

from amem_integrations.stores import QdrantStore

CHOSEN = os.environ.get("AMEM_TEST_STORE", "")
PREFIX = "amem-test-"


@contextmanager
def instead_of_memory() -> Iterator[None]:
    """Let `QdrantStore(":memory:")` be a store on the chosen server."""
    with ExitStack() as stack:
        url, options = CHOSEN, _key()
        if CHOSEN == "stand-in":
            url = stack.enter_context(serving(FakeQdrant())).url
        made = f"{PREFIX}{uuid4().hex[:12]}-"  # of this run: others may use the same server
        client = QdrantClient(url=url, check_compatibility=False, **options)
        stack.callback(_remove, client, made)
        original, closing = QdrantStore.__init__, QdrantStore.close

        @wraps(original)  # what it takes is looked up
        def opened(self: QdrantStore, location: str, **given: Any) -> None:
            if location == ":memory:":
                given["metadata_indexes"] = {
                    **METADATA_INDEXES,
                    **given.get("metadata_indexes", {}),
                }
                given["collection"] = f"{made}{uuid4().hex[:12]}"
                location, given = url, {"timeout": 60, **options, **given}
            original(self, location, **given)

        def closed(self: QdrantStore) -> None:
            closing(self)
            name = self._notes._name
            if name.startswith(made):
                _remove(client, name)

        stack.enter_context(patch.object(QdrantStore, "__init__", opened))
        stack.enter_context(patch.object(QdrantStore, "close", closed))
        yield


def _remove(client: QdrantClient, prefix: str) -> None:
    for each in client.get_collections().collections:
        if each.name.startswith(prefix):
            client.delete_collection(each.name)


def _key() -> dict[str, Any]:
    return {"api_key": key} if (key := os.environ.get("AMEM_TEST_STORE_KEY")) else {}
