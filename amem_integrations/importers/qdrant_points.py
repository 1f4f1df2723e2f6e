"""The points of a Qdrant collection that another program made, on a server or in a folder.

A collection on a server is named by its address in the REST API, `http://localhost:6333/collections/mem0`
(https://api.qdrant.tech/api-reference/collections/get-collection); one in a folder of qdrant-client's local mode
(`QdrantClient(path=…)`) by its own folder, `/tmp/qdrant/collection/mem0`. It is only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InvalidInputError, StoreLockedError, StoreUnavailableError

PAGE = 256

_ADDRESS = re.compile(r"(?P<server>https?://.+)/collections/(?P<name>[^/?#]+)/?")


def is_collection(location: str) -> bool:
    """Return whether this names a collection of Qdrant."""
    if "://" in location:
        return True
    path = Path(location)
    return path.parent.name == "collection" and (path.parent.parent / "meta.json").is_file()


def points(location: str, api_key: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield each point as `{"id": …, "payload": {…}}`, page by page.

    Raises:
        InvalidInputError: There is no such collection, or the address names none.
        StoreLockedError: Another process has the folder open.
        StoreUnavailableError: The server does not answer, or refuses the key.
    """
    client, name = _client(location, api_key)
    try:
        if not _asked(location, client.collection_exists, name):
            raise InvalidInputError(f"{location}: there is no collection {name!r}")
        offset = None
        while True:
            page, offset = _asked(
                location, client.scroll, name, limit=PAGE, offset=offset, with_payload=True
            )
            for point in page:
                yield {"id": point.id, "payload": point.payload or {}}
            if offset is None:
                return
    finally:
        client.close()


def _client(location: str, api_key: str | None) -> tuple[Any, str]:
    from qdrant_client import QdrantClient  # noqa: PLC0415 - slow to import

    if "://" in location:
        found = _ADDRESS.fullmatch(location)
        if found is None:
            raise InvalidInputError(
                f"{location} names no collection; give http://<server>:6333/collections/<name>"
            )
        server = found["server"]
        return QdrantClient(url=server, api_key=api_key, check_compatibility=False), found["name"]
    path = Path(location)
    try:
        return QdrantClient(path=str(path.parent.parent)), path.name
    except RuntimeError as error:
        raise StoreLockedError(
            f"{path.parent.parent} is open in another process; stop it first"
        ) from error


def _asked(location: str, method: Any, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
    """Call the client, whose errors have many classes."""
    try:
        return method(*args, **kwargs)
    except Exception as error:
        raise StoreUnavailableError(f"{location} cannot be read: {error}") from error
