"""Calls to Qdrant's client: repeated where that helps, its errors translated, in this one place."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

from httpx import RemoteProtocolError, TransportError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from ..errors import ConfigurationError, StoreError, StoreUnavailableError

T = TypeVar("T")

TIMEOUT = 15  # seconds for one request
LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1"})

MAX_PAUSE = 10.0  # seconds between two tries, also where the server asks for more
MAX_DETAIL = 300  # characters of a server's answer in a message


class Connection:
    """A client, and how patiently it is used.

    All writes of the store are idempotent, so any call may be repeated. Local mode is not thread-safe:
    there `guard` is one lock round every call.
    """

    def __init__(
        self,
        client: QdrantClient,
        where: str,
        *,
        pauses: Sequence[float],
        guard: AbstractContextManager[object],
    ) -> None:
        self._client, self._where, self._guard = client, where, guard
        self._pauses = pauses

    def call(self, do: Callable[[QdrantClient], T]) -> T:
        """Return what `do` returns of the client.

        Raises:
            StoreUnavailableError: The server cannot be reached, or is too busy, after all tries.
            StoreError: The server refuses.
            ConfigurationError: The certificate is not trusted, or http and https are mixed up.
        """
        for pause in (*self._pauses, None):
            try:
                with self._guard:
                    return do(self._client)
            except (ApiException, ResourceExhaustedResponse) as error:
                if advice := _advice(error):
                    raise ConfigurationError(
                        f"{self._where}: {advice} ({_detail(error)})"
                    ) from error
                if not _is_passing(error):
                    raise StoreError(self._refusal(error)) from error
                if pause is None:
                    raise StoreUnavailableError(self._silence(error)) from error
                time.sleep(_jittered(pause, error))
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def close(self) -> None:
        """Close the client."""
        with self._guard:
            self._client.close()

    def _silence(self, error: Exception) -> str:
        disconnected = isinstance(getattr(error, "source", None), RemoteProtocolError)
        https = ", and whether it wants https://" if disconnected else ""
        tries = f"{len(self._pauses) + 1} tries" if self._pauses else "one try"
        return (
            f"the Qdrant server at {self._where} did not answer after {tries} ({_detail(error)}); "
            f"check that it runs{https}, or try again later"
        )

    def _refusal(self, error: Exception) -> str:
        if isinstance(error, UnexpectedResponse) and error.status_code in (
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
        ):
            return (
                f"the Qdrant server at {self._where} refused the API key, or the key may not do this "
                f"({_detail(error)}); check api_key"
            )
        return f"the Qdrant server at {self._where} refused: {_detail(error)}"


def is_status(error: BaseException | None, status: HTTPStatus) -> bool:
    """Return whether an error is the server's answer with this status."""
    return isinstance(error, UnexpectedResponse) and error.status_code == status


def _advice(error: Exception) -> str | None:
    """Return what to do about a connection that will not work at the next try either, if it is one."""
    if not isinstance(error, ResponseHandlingException):
        return None
    text = str(error.source)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            "the server's certificate is not trusted; give verify='path/to/ca.pem' (verify=False trusts "
            "any server, and is for tests only)"
        )
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return "the server does not speak TLS at this port; use http:// instead of https://"
    if isinstance(error.source, RemoteProtocolError) and "illegal" in text:
        return "the answer is not HTTP; if the server speaks TLS at this port, use https:// instead"
    return None


def _is_passing(error: Exception) -> bool:
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, TransportError)
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, ResourceExhaustedResponse)


def _jittered(pause: float, error: Exception) -> float:
    asked = float(error.retry_after_s) if isinstance(error, ResourceExhaustedResponse) else 0.0
    jitter = 1 + random.random()  # noqa: S311 - so that clients do not come back all at once
    return min(MAX_PAUSE, max(asked, pause * jitter))


def _detail(error: Exception) -> str:
    """Return what the server or the transport says; never the request, which carries the key."""
    if isinstance(error, ResponseHandlingException):
        return f"{type(error.source).__name__}: {error.source}"[:MAX_DETAIL]
    if isinstance(error, UnexpectedResponse):
        answer = error.content.decode("utf-8", "replace")
        return f"{error.status_code} {error.reason_phrase}: {answer}"[:MAX_DETAIL]
    return str(error)[:MAX_DETAIL]


def client_for(location: str, api_key: str | None, options: Mapping[str, Any]) -> QdrantClient:
    """Return a client that speaks REST, checks nothing in the background and carries the key."""
    headers = dict(options.get("headers") or {})
    if api_key is not None:
        headers["api-key"] = api_key  # as `api_key` does, which warns about localhost too
    settings = {"timeout": TIMEOUT, **options, "headers": headers, "check_compatibility": False}
    if settings.get("prefer_grpc"):
        message = "prefer_grpc is not supported; it gains nothing for requests of our size"
        raise ConfigurationError(message)
    try:
        if isinstance(verify := settings.get("verify"), str):
            settings["verify"] = ssl.create_default_context(cafile=verify)
        return QdrantClient(url=location, **settings)
    except (TypeError, ValueError, OSError) as error:
        message = f"QdrantClient does not take these options: {error}"
        raise ConfigurationError(message) from error


def checked_address(location: str, api_key: str | None, *, allow_insecure: bool) -> str:
    """Return the address without what is secret in it.

    Raises:
        ConfigurationError: It is no URL, or the key would travel in the clear.
    """
    parts = urlsplit(location)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = f"a Qdrant server is given as 'http://host:6333' or 'https://…', not {location!r}"
        raise ConfigurationError(message)
    address = f"{parts.scheme}://{parts.hostname}:{parts.port or 6333}"
    exposed = parts.scheme == "http" and parts.hostname not in LOCALHOST
    if api_key is not None and exposed and not allow_insecure:
        message = (
            f"the API key would travel unencrypted to {address}; use https, or allow_insecure=True"
        )
        raise ConfigurationError(message)
    return address
