"""A `ServerStore` over qdrant-client's local mode: no server and no network, so that many small examples are quick."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from qdrant_client import QdrantClient

from amem_integrations.stores import ServerStore
from amem_integrations.stores.connection import Connection


class LocalClient:
    """The client of local mode, with what only the client of a server has."""

    def __init__(self) -> None:
        self._client = QdrantClient(":memory:")
        self.http = SimpleNamespace(search_api=self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def info(self) -> SimpleNamespace:
        """Return the oldest version that will do."""
        return SimpleNamespace(version="1.19.0")

    def create_payload_index(self, *_: object, **__: object) -> None:
        """Do nothing: local mode looks at every point."""

    def query_batch_points(self, name: str, query_request_batch: Any) -> SimpleNamespace:
        """Answer as the interface below the client does."""
        found = self._client.query_batch_points(name, query_request_batch.searches)
        return SimpleNamespace(result=found)


def local_store(**options: Any) -> ServerStore:
    """Return a store in local mode, which is not safe for threads: one request is under way at a time."""
    warnings.filterwarnings("ignore", message="Local mode is not recommended")
    connection = Connection(":memory:", pauses=(), client=LocalClient(), connections=1)  # type: ignore[arg-type]
    with patch("amem_integrations.stores.server.connect", return_value=connection):
        return ServerStore(":memory:", **options)
