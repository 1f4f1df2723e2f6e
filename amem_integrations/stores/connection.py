"""The connection to a Qdrant server: its client, how patiently the client is used, and what errors mean.

Calls to the client are repeated where that helps, and its errors translated, here alone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from json import JSONDecodeError
from typing import Any
from urllib.parse import urlsplit

from httpx import Client, Limits, TransportError
from pydantic_core import to_json
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http import exceptions as http

from ..errors import (
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
    status_of,
    without_secrets,
)
from ..runtime import GIVEN_UP

TIMEOUT = 15  # seconds for one request
CONNECTIONS = 32  # at once, by all threads together
LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1"})
# The classes that know the options of a client: the first hands on to the second what it does not know itself.
CLIENTS = (QdrantClient, Client)

MAX_PAUSE = 10.0  # seconds between two tries
MAX_ASKED = 60.0  # seconds that are waited where the server asks; who asks for more is unavailable
MAX_DETAIL = 300  # characters of a server's answer in a message
# OpenSSL's words for a certificate that is not trusted, and for a server that does not speak https.
_WRONG_ADDRESS = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER")
# The client calls a server that is too busy a `QdrantException`, also where it cannot read how long to wait: many a proxy
# names a date.
_ERRORS = (http.ApiException, QdrantException, JSONDecodeError, UnicodeDecodeError, KeyError)


class Connection:
    """The client of a server, for all threads.

    All writes of the store are idempotent, so any call may be repeated.

    Args:
        location: The URL.
        api_key: Sent with every request; over plain http only to localhost, or with `allow_insecure`.
        allow_insecure: Send the key over plain http anyway.
        pauses: Seconds to wait before each repeat of a call when the server does not answer, is too
            busy or fails; a random part is added, and what the server asks for is kept to.
        connections: Most requests at once, by all threads; others wait.
        options: Passed on to `QdrantClient` (`timeout`, `prefix`, `https`, …).

    Attributes:
        where: The address, without what is secret in it.

    Raises:
        ConfigurationError: The location is no URL, the key would travel in the clear, or an option is unknown.
    """

    def __init__(
        self,
        location: str,
        *,
        api_key: str | None = None,
        allow_insecure: bool = False,
        pauses: Sequence[float] = (0.2, 0.4, 0.8, 1.6, 3.2),
        connections: int = CONNECTIONS,
        **options: Any,  # noqa: ANN401 - of QdrantClient
    ) -> None:
        if connections < 1:
            raise ConfigurationError(f"connections={connections!r} must be more than 0")
        self.where = _address(location, is_open=api_key is None or allow_insecure)
        self._pauses, self._key = pauses, api_key
        self._under_way = threading.BoundedSemaphore(connections)
        # A compressed answer comes in several small pieces, between which the kernel waits 40 ms.
        headers = {"accept-encoding": "identity", **(options.get("headers") or {})}
        if api_key is not None:
            headers["api-key"] = api_key  # as `api_key` does, which warns about localhost too
        settings: dict[str, Any] = {
            "timeout": TIMEOUT,
            **options,
            "headers": headers,
            "check_compatibility": False,
        }
        if settings.get("prefer_grpc"):
            raise ConfigurationError(
                "prefer_grpc is not supported; it gains nothing for requests of our size"
            )
        if "pool_size" not in settings:  # else the client keeps no connection to localhost
            limits = Limits(max_connections=connections, max_keepalive_connections=connections)
            settings.setdefault("limits", limits)
        try:
            self._client = QdrantClient(url=location, **settings)
        except (TypeError, ValueError, OSError) as error:
            raise ConfigurationError(f"QdrantClient takes no such options: {error}") from error

    def request(
        self,
        method: str,
        collection: str,
        path: str,
        body: Mapping[str, Any],
        params: Mapping[str, str],
    ) -> Any:  # noqa: ANN401 - JSON
        """Return the result of a request about a collection.

        The client's own methods copy every request and every answer, numbers and all, into models.
        """
        how: dict[str, Any] = {"type_": dict[str, Any], "method": method, "params": params}
        how |= {"url": "/collections/{name}" + path, "path_params": {"name": collection}}
        how |= {"content": to_json(body), "headers": {"content-type": "application/json"}}
        return self.call(lambda client: client.http.client.request(**how)["result"])

    def call(self, do: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - of the client
        """Return the result of `do` with the client.

        It is tried once more than there are `pauses`, unless the caller gives it up.

        Raises:
            StoreUnavailableError: The server cannot be reached, or is too busy, after all tries.
            StoreError: The server refuses.
        """
        for pause in (*self._pauses, None):
            try:
                with self._under_way:
                    return do(self._client)
            except _ERRORS as error:
                if not _is_passing(error):
                    raise StoreError(self._refusal(error)) from error
                # The server may say how many seconds it asks to wait.
                asked = float(getattr(error, "retry_after_s", 0))
                if pause is None or asked > MAX_ASKED:
                    tries = f"{len(self._pauses) + 1} tries" if self._pauses else "one try"
                    raise StoreUnavailableError(
                        f"the Qdrant server at {self.where} did not answer after {tries} "
                        f"({self._detail(error)}); check that it runs, or try again later"
                    ) from error
                jitter = 1 + random.random()  # noqa: S311 - so that clients do not come back all at once
                if GIVEN_UP.get().wait(max(asked, min(MAX_PAUSE, pause * jitter))):
                    raise StoreUnavailableError("nobody waits for the answer any more") from error
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def _refusal(self, error: Exception) -> str:
        # An answer that cannot be read.
        if isinstance(getattr(error, "source", error), ValueError | KeyError):
            return (
                f"what answers at {self.where} is no Qdrant server, or one that this version of "
                f"qdrant-client does not understand ({self._detail(error)}); check the address"
            )
        if status_of(error) in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return (
                f"the Qdrant server at {self.where} refused the API key, or the key may not do this "
                f"({self._detail(error)}); check api_key"
            )
        return f"the Qdrant server at {self.where} refused: {self._detail(error)}"

    def _detail(self, error: Exception) -> str:
        """Return the words of the server or the transport, without the key; never the request, which carries it."""
        text = str(error)
        if isinstance(error, http.ResponseHandlingException):
            text = f"{type(error.source).__name__}: {error.source}"
        elif isinstance(error, http.UnexpectedResponse):
            answer = error.content.decode("utf-8", "replace")
            text = f"{error.status_code} {error.reason_phrase}: {answer}"
        line = " ".join(text.split())  # what a server says writes no line of its own into a log
        return (line.replace(self._key, "…") if self._key else line)[:MAX_DETAIL]


def _is_passing(error: Exception) -> bool:
    if isinstance(error, http.ResponseHandlingException):
        is_wrong = any(reason in str(error.source) for reason in _WRONG_ADDRESS)
        return isinstance(error.source, TransportError) and not is_wrong
    status, busy = status_of(error) or 0, isinstance(error, QdrantException)
    return (
        busy or status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


def _address(location: str, *, is_open: bool) -> str:
    """Return the address without what is secret in it; where it is not `is_open` to all, nobody else may listen.

    Raises:
        ConfigurationError: It is no URL, or the key would travel in the clear.
    """
    try:
        parts = urlsplit(location)
        address = f"{parts.scheme}://{parts.hostname}:{parts.port or 6333}"
    except ValueError:  # the port is no number
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"a Qdrant server is given as 'http://host:6333' or 'https://…', not "
            f"{without_secrets(location)!r}"
        )
    if parts.scheme == "http" and parts.hostname not in LOCALHOST and not is_open:
        raise ConfigurationError(
            f"the API key would travel unencrypted to {address}; use https, or allow_insecure=True"
        )
    return address
