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

from amem_integrations import opening
from amem_integrations.opening import Location
from amem_integrations.stores import ServerStore
from amem_integrations.stores.store import Store

CHOSEN = os.environ.get("AMEM_TEST_STORE", "")
PREFIX = "amem-test-"


class _Own(ServerStore):
    """A store in collections of its own, which are removed when the store is closed."""

    def close(self) -> None:
        """Close the connections, and remove the collections."""
        if not self._is_closed:
            for name in (self._name, f"{self._name}-journal"):
                self._connection.call(lambda client, name=name: client.delete_collection(name))
        super().close()


@contextmanager
def instead_of_memory() -> Iterator[None]:
    """Let `":memory:"` be a store on the chosen server."""
    with ExitStack() as stack:
        url, options = CHOSEN, _key()
        if CHOSEN == "stand-in":
            url = stack.enter_context(serving(FakeQdrant())).url
        made = f"{PREFIX}{uuid4().hex[:12]}-"  # of this run: others may use the same server
        client = QdrantClient(url=url, check_compatibility=False, **options)
        stack.callback(_remove, client, made)
        original = opening.open_store

        @wraps(original)
        def opened(location: Location, *, embedder: str, dimensions: int) -> Store:
            if location.path != opening.MEMORY:
                return original(location, embedder=embedder, dimensions=dimensions)
            return _Own(
                url,
                embedder=embedder,
                dimensions=dimensions,
                collection=f"{made}{uuid4().hex[:12]}",
                metadata_indexes=METADATA_INDEXES,
                **{"timeout": 60, **options},
            )

        stack.enter_context(patch.object(opening, "open_store", opened))
        yield


def _remove(client: QdrantClient, prefix: str) -> None:
    for each in client.get_collections().collections:
        if each.name.startswith(prefix):
            client.delete_collection(each.name)


def _key() -> dict[str, Any]:
    return {"api_key": key} if (key := os.environ.get("AMEM_TEST_STORE_KEY")) else {}
