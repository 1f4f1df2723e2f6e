"""The connection to a Qdrant server or cluster: its clients, how patiently they are used, and what errors mean.

Calls to the client are repeated where that helps, and its errors translated, here alone.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from json import JSONDecodeError
from typing import Any, NoReturn
from urllib.parse import urlsplit

from httpx import Limits, RemoteProtocolError, TransportError
from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from ..errors import ConfigurationError, StoreError, StoreUnavailableError
from .reads import is_awaiting, wait

TIMEOUT = 15  # seconds for one request
CONNECTIONS = 32  # at once, by all threads together, and by the tasks of each loop
LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1"})

MAX_PAUSE = 10.0  # seconds between two tries
MAX_ASKED = (
    60.0  # seconds that are waited where the server asks for it; who asks for more is unavailable
)
MAX_DETAIL = 300  # characters of a server's answer in a message


@dataclass(slots=True)
class _OfLoop:
    """What one event loop holds: a client for each address, and the gate to them."""

    loop: asyncio.AbstractEventLoop
    clients: asyncio.Task[list[AsyncQdrantClient]]
    gate: asyncio.Semaphore
    lifetime: AsyncGenerator[None]


class Connection:
    """Clients of a server, or of the nodes of a cluster: one for all threads, and one for each event loop.

    All writes of the store are idempotent, so any call may be repeated; where a node does not answer the next
    one is asked. At most `connections` requests are on their way at once. Local mode is not thread-safe:
    there `guard` is one lock round every call.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        pauses: Sequence[float],
        clients: Sequence[QdrantClient],
        make_async: Sequence[Callable[[], AsyncQdrantClient]] = (),
        connections: int = CONNECTIONS,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self._addresses, self._pauses = addresses, pauses
        self._clients, self._make_async = clients, make_async
        self._connections, self._at = connections, 0
        self._guard = guard or threading.BoundedSemaphore(connections)
        self._loops: dict[int, _OfLoop] = {}

    @property
    def is_local(self) -> bool:
        """Whether there is no server: qdrant-client's local mode."""
        return not self._make_async

    @property
    def where(self) -> str:
        """The address, or that of the node which is asked at present."""
        return self._addresses[self._at]

    async def call(self, do: Callable[[Any], Any], tries: int | None = None) -> Any:  # noqa: ANN401 - of the client
        """Return what `do` returns of the client; in an asynchronous call that is awaited.

        It is tried as often as there are nodes and `pauses`, or at most `tries` times.

        Raises:
            StoreUnavailableError: The server cannot be reached, or is too busy, after all tries.
            StoreError: The server refuses.
            ConfigurationError: The certificate is not trusted, or http and https are mixed up.
        """
        # The other nodes at once, before the first pause.
        pauses = [*[0.0] * (len(self._addresses) - 1), *self._pauses]
        for pause in (*(pauses if tries is None else pauses[: tries - 1]), None):
            at = self._at
            try:
                if is_awaiting():
                    return await self._awaited(do, at)
                with self._guard:
                    return do(self._clients[at])
            except (ApiException, ResourceExhaustedResponse, JSONDecodeError) as error:
                self._check_passing(error)
                if pause is None or _asked(error) > MAX_ASKED:
                    raise StoreUnavailableError(self._silence(error)) from error
                if not _is_busy(error):
                    self._at = (at + 1) % len(self._addresses)
                await wait(_jittered(pause, error))
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def close(self) -> None:
        """Close the synchronous clients. Those of a loop are closed by `aclose`, or when the loop ends."""
        self._loops = {k: held for k, held in self._loops.items() if not held.loop.is_closed()}
        for client in self._clients:
            client.close()

    async def aclose(self) -> None:
        """Close what the running loop holds."""
        held = self._loops.pop(id(asyncio.get_running_loop()), None)
        if held is not None:
            await held.lifetime.aclose()

    async def _awaited(self, do: Callable[[Any], Any], at: int) -> Any:  # noqa: ANN401
        held = await self._of_loop()
        clients = await asyncio.shield(held.clients)  # others wait for them too
        async with held.gate:
            return await do(clients[at])

    async def _of_loop(self) -> _OfLoop:
        """Return the clients of the running loop; connections cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        held = self._loops.get(id(loop))
        if held is None or held.loop is not loop:
            for key, other in list(self._loops.items()):
                if other.loop.is_closed():
                    self._loops.pop(key, None)
            # A client reads files when it is made, such as certificates.
            making = asyncio.to_thread(lambda: [make() for make in self._make_async])
            clients = asyncio.create_task(making)
            gate = asyncio.Semaphore(self._connections)
            held = _OfLoop(loop, clients, gate, self._lifetime(id(loop), clients))
            self._loops[id(loop)] = held
            await anext(held.lifetime)
        return held

    async def _lifetime(
        self, key: int, clients: asyncio.Task[list[AsyncQdrantClient]]
    ) -> AsyncGenerator[None]:
        """Close clients with their loop, which ends its asynchronous generators before it is closed."""
        try:
            yield
        finally:
            self._loops.pop(key, None)
            for client in () if clients.cancelled() else await clients:
                with suppress(RuntimeError):  # the loop is closed already
                    await client.close()

    def _check_passing(self, error: Exception) -> None:
        """Raise what an error means, if another try would not help."""
        if advice := _advice(error):
            raise ConfigurationError(f"{self.where}: {advice} ({_detail(error)})") from error
        if not _is_passing(error):
            raise StoreError(self._refusal(error)) from error

    def _silence(self, error: Exception) -> str:
        disconnected = isinstance(getattr(error, "source", None), RemoteProtocolError)
        https = ", and whether it wants https://" if disconnected else ""
        tries = f"{len(self._pauses) + 1} tries" if self._pauses else "one try"
        return (
            f"the Qdrant server at {', '.join(self._addresses)} did not answer after {tries} "
            f"({_detail(error)}); check that it runs{https}, or try again later"
        )

    def _refusal(self, error: Exception) -> str:
        # What is read is not as it should be.
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


def _is_busy(error: Exception) -> bool:
    """Return whether the server answered that too much is asked of it: another node would say the same."""
    return isinstance(error, ResourceExhaustedResponse) or is_status(
        error, HTTPStatus.TOO_MANY_REQUESTS
    )


def _is_passing(error: Exception) -> bool:
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, TransportError)
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        return _is_busy(error) or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, ResourceExhaustedResponse)


def _jittered(pause: float, error: Exception) -> float:
    jitter = 1 + random.random()  # noqa: S311 - so that clients do not come back all at once
    waits = min(MAX_PAUSE, pause * jitter)
    return max(waits, _asked(error))


def _asked(error: Exception) -> float:
    """Return how many seconds the server asks to wait."""
    return float(error.retry_after_s) if isinstance(error, ResourceExhaustedResponse) else 0.0


def _detail(error: Exception) -> str:
    """Return what the server or the transport says; never the request, which carries the key."""
    if isinstance(error, ResponseHandlingException):
        return f"{type(error.source).__name__}: {error.source}"[:MAX_DETAIL]
    if isinstance(error, UnexpectedResponse):
        answer = error.content.decode("utf-8", "replace")
        return f"{error.status_code} {error.reason_phrase}: {answer}"[:MAX_DETAIL]
    return str(error)[:MAX_DETAIL]


def connect(
    locations: Sequence[str],
    api_key: str | None,
    options: Mapping[str, Any],
    *,
    pauses: Sequence[float],
    connections: int,
    allow_insecure: bool,
) -> Connection:
    """Return the connection to a server, or to the nodes of a cluster.

    Raises:
        ConfigurationError: An address is no URL, the key would travel in the clear, or an option is unknown.
    """
    addresses = [
        checked_address(each, api_key, allow_insecure=allow_insecure) for each in locations
    ]
    settings = _client_settings(api_key, options, connections)
    try:
        clients = [QdrantClient(url=location, **settings) for location in locations]
    except (TypeError, ValueError, OSError) as error:
        _refuse_options(error)
    makers = [
        lambda location=location: AsyncQdrantClient(url=location, **settings)
        for location in locations
    ]
    return Connection(
        addresses, pauses=pauses, clients=clients, make_async=makers, connections=connections
    )


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
    try:
        if isinstance(verify := settings.get("verify"), str):
            settings["verify"] = ssl.create_default_context(cafile=verify)
    except OSError as error:
        _refuse_options(error)
    return settings


def _refuse_options(error: Exception) -> NoReturn:
    raise ConfigurationError(f"QdrantClient does not take these options: {error}") from error


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


def locations(given: str | Sequence[str]) -> list[str]:
    """Return the URLs of the nodes; they may be one text, separated by commas."""
    listed = given.split(",") if isinstance(given, str) else list(given)
    return [each.strip() for each in listed if each.strip()] or [""]
