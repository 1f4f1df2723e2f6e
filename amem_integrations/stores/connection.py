"""The connection to a Qdrant server: its client, how patiently the client is used, and what errors mean.

Calls to the client are repeated where that helps, and its errors translated, here alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from json import JSONDecodeError
from typing import Any
from urllib.parse import urlsplit

from httpx import Limits, TransportError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from ..errors import ConfigurationError, StoreError, StoreUnavailableError

TIMEOUT = 15  # seconds for one request
CONNECTIONS = 32  # at once, by all threads together
LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1"})

MAX_PAUSE = 10.0  # seconds between two tries
MAX_ASKED = (
    60.0  # seconds that are waited where the server asks for it; who asks for more is unavailable
)
MAX_DETAIL = 300  # characters of a server's answer in a message


class Connection:
    """The client of a server, for all threads.

    All writes of the store are idempotent, so any call may be repeated. At most `connections` requests are on their
    way at once.

    Attributes:
        where: The address, without what is secret in it.
    """

    def __init__(
        self,
        address: str,
        *,
        pauses: Sequence[float],
        client: QdrantClient,
        connections: int,
    ) -> None:
        self.where, self._pauses, self._client = address, pauses, client
        self._under_way = threading.BoundedSemaphore(connections)

    def call(self, do: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - of the client
        """Return the result of `do` with the client.

        It is tried once more than there are `pauses`.

        Raises:
            StoreUnavailableError: The server cannot be reached, or is too busy, after all tries.
            StoreError: The server refuses.
        """
        for pause in (*self._pauses, None):
            try:
                with self._under_way:
                    return do(self._client)
            except (ApiException, ResourceExhaustedResponse, JSONDecodeError) as error:
                if not _is_passing(error):
                    raise StoreError(self._refusal(error)) from error
                if pause is None or _asked(error) > MAX_ASKED:
                    raise StoreUnavailableError(self._silence(error)) from error
                time.sleep(_jittered(pause, error))
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def _silence(self, error: Exception) -> str:
        tries = f"{len(self._pauses) + 1} tries" if self._pauses else "one try"
        return (
            f"the Qdrant server at {self.where} did not answer after {tries} "
            f"({_detail(error)}); check that it runs, or try again later"
        )

    def _refusal(self, error: Exception) -> str:
        # An answer that cannot be read.
        if isinstance(getattr(error, "source", error), ValueError):
            return (
                f"what answers at {self.where} is no Qdrant server, or one that this version of "
                f"qdrant-client does not understand ({_detail(error)}); check the address"
            )
        if is_status(error, HTTPStatus.UNAUTHORIZED) or is_status(error, HTTPStatus.FORBIDDEN):
            return (
                f"the Qdrant server at {self.where} refused the API key, or the key may not do this "
                f"({_detail(error)}); check api_key"
            )
        return f"the Qdrant server at {self.where} refused: {_detail(error)}"


def is_status(error: BaseException | None, status: HTTPStatus) -> bool:
    """Return whether an error is the server's answer with this status."""
    return isinstance(error, UnexpectedResponse) and error.status_code == status


def _is_passing(error: Exception) -> bool:
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, TransportError)
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        busy = status == HTTPStatus.TOO_MANY_REQUESTS
        return busy or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, ResourceExhaustedResponse)


def _jittered(pause: float, error: Exception) -> float:
    jitter = 1 + random.random()  # noqa: S311 - so that clients do not come back all at once
    waits = min(MAX_PAUSE, pause * jitter)
    return max(waits, _asked(error))


def _asked(error: Exception) -> float:
    """Return how many seconds the server asks to wait."""
    return float(error.retry_after_s) if isinstance(error, ResourceExhaustedResponse) else 0.0


def _detail(error: Exception) -> str:
    """Return the words of the server or the transport; never the request, which carries the key."""
    if isinstance(error, ResponseHandlingException):
        return f"{type(error.source).__name__}: {error.source}"[:MAX_DETAIL]
    if isinstance(error, UnexpectedResponse):
        answer = error.content.decode("utf-8", "replace")
        return f"{error.status_code} {error.reason_phrase}: {answer}"[:MAX_DETAIL]
    return str(error)[:MAX_DETAIL]


def connect(
    location: str,
    api_key: str | None,
    options: Mapping[str, Any],
    *,
    pauses: Sequence[float],
    connections: int,
    allow_insecure: bool,
) -> Connection:
    """Return the connection to a server.

    Raises:
        ConfigurationError: The location is no URL, the key would travel in the clear, or an option is unknown.
    """
    address = checked_address(location, api_key, allow_insecure=allow_insecure)
    settings = _client_settings(api_key, options, connections)
    try:
        client = QdrantClient(url=location, **settings)
    except (TypeError, ValueError, OSError) as error:
        raise ConfigurationError(f"QdrantClient does not take these options: {error}") from error
    return Connection(address, pauses=pauses, client=client, connections=connections)


def _client_settings(
    api_key: str | None, options: Mapping[str, Any], connections: int
) -> dict[str, Any]:
    """Return the arguments of a client that speaks REST, checks nothing in the background and carries the key."""
    # A compressed answer comes in several small pieces, between which the kernel waits 40 ms.
    headers = {"accept-encoding": "identity", **(options.get("headers") or {})}
    if api_key is not None:
        headers["api-key"] = api_key  # as `api_key` does, which warns about localhost too
    settings = {"timeout": TIMEOUT, **options, "headers": headers, "check_compatibility": False}
    if settings.get("prefer_grpc"):
        raise ConfigurationError(
            "prefer_grpc is not supported; it gains nothing for requests of our size"
        )
    if "pool_size" not in settings:  # else the client keeps no connection to localhost
        limits = Limits(max_connections=connections, max_keepalive_connections=connections)
        settings.setdefault("limits", limits)
    return settings


def checked_address(location: str, api_key: str | None, *, allow_insecure: bool) -> str:
    """Return the address without what is secret in it.

    Raises:
        ConfigurationError: It is no URL, or the key would travel in the clear.
    """
    try:
        parts = urlsplit(location)
        port = parts.port or 6333
    except ValueError as error:
        raise ConfigurationError(f"{location!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"a Qdrant server is given as 'http://host:6333' or 'https://…', not {location!r}"
        )
    address = f"{parts.scheme}://{parts.hostname}:{port}"
    exposed = parts.scheme == "http" and parts.hostname not in LOCALHOST
    if api_key is not None and exposed and not allow_insecure:
        raise ConfigurationError(
            f"the API key would travel unencrypted to {address}; use https, or allow_insecure=True"
        )
    return address
