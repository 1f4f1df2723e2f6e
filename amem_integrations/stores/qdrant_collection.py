"""A collection of points on a Qdrant server, or in qdrant-client's local mode, and the connection to it.

Calls to the client are repeated where that helps, and its errors translated, in `Connection` alone.
"""

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
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from ..errors import ConfigurationError, StoreError, StoreUnavailableError
from .bm25 import Sparse
from .collection import Nearest, is_written
from .conditions import Dialect, Filter, IndexKind
from .payloads import DENSE, LEXICAL, Point, points_of

T = TypeVar("T")

TIMEOUT = 15  # seconds for one request
LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1"})

MAX_PAUSE = 10.0  # seconds between two tries, also where the server asks for more
PAGE = 256  # points in one request
MAX_NAMESPACES = 1_000_000
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
        if is_status(error, HTTPStatus.UNAUTHORIZED) or is_status(error, HTTPStatus.FORBIDDEN):
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
        raise ConfigurationError(
            "prefer_grpc is not supported; it gains nothing for requests of our size"
        )
    try:
        if isinstance(verify := settings.get("verify"), str):
            settings["verify"] = ssl.create_default_context(cafile=verify)
        return QdrantClient(url=location, **settings)
    except (TypeError, ValueError, OSError) as error:
        raise ConfigurationError(f"QdrantClient does not take these options: {error}") from error


def checked_address(location: str, api_key: str | None, *, allow_insecure: bool) -> str:
    """Return the address without what is secret in it.

    Raises:
        ConfigurationError: It is no URL, or the key would travel in the clear.
    """
    parts = urlsplit(location)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"a Qdrant server is given as 'http://host:6333' or 'https://…', not {location!r}"
        )
    address = f"{parts.scheme}://{parts.hostname}:{parts.port or 6333}"
    exposed = parts.scheme == "http" and parts.hostname not in LOCALHOST
    if api_key is not None and exposed and not allow_insecure:
        raise ConfigurationError(
            f"the API key would travel unencrypted to {address}; use https, or allow_insecure=True"
        )
    return address


def client_dialect(ordered: Mapping[str, IndexKind] | None) -> Dialect:
    """Return what makes the filters for qdrant-client."""

    def has_id(ids: Sequence[str]) -> Filter:
        return models.HasIdCondition(has_id=list(ids))

    return Dialect(models, models.Range, models.DatetimeRange, has_id, ordered)


class QdrantCollection:
    """A `Collection` by qdrant-client, which other processes may write to as well.

    Writes are acknowledged when applied, and those that depend on a revision go through the leader of
    the replicas. A conditional write never says what it changed: what was written is read back.
    """

    def __init__(self, connection: Connection, name: str, dialect: Dialect) -> None:
        self._connection, self._name, self.dialect = connection, name, dialect

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, *, vectors: bool = False
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some payload fields."""
        payload = True if fields is None else list(fields)
        records: list[models.Record] = []
        for some in _pages(ids):
            records += self._connection.call(
                lambda client, some=some: client.retrieve(self._name, some, payload, vectors)  # type: ignore[misc]
            )
        return {point.id: point for point in points_of(records)}

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points, replacing those there are."""
        for page in _pages(points):
            self._write(page)

    def insert(self, points: Sequence[Point]) -> set[str]:
        """Write new points; return the ids that another writer took first.

        `seq` is in nanoseconds and no version of a note changes it, so it tells whose note is stored.
        """
        for page in _pages(points):
            self._write(page, update_mode=models.UpdateMode.INSERT_ONLY)
        stored = self.retrieve([point.id for point in points], ("seq",))
        return {
            point.id
            for point in points
            if point.id not in stored or stored[point.id].payload["seq"] != point.payload["seq"]
        }

    def swap(self, points: Sequence[Point]) -> set[str]:
        """Replace points whose stored `revision` is one less; return the ids where it was not."""
        for page in _pages(points):
            self._write(
                page,
                update_mode=models.UpdateMode.UPDATE_ONLY,
                update_filter=self.dialect.some([self._unchanged(point) for point in page]),
                ordering=models.WriteOrdering.STRONG,
            )
        stored = self.retrieve([point.id for point in points], ("revision", "ops"))
        return {point.id for point in points if not is_written(point, stored.get(point.id))}

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        selector = models.FilterSelector(filter=which)
        self._connection.call(lambda client: client.delete(self._name, selector, wait=True))

    def nearest(self, queries: Sequence[Nearest]) -> list[list[tuple[str, float]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""
        if not (requests := [_request(query) for query in queries]):
            return []
        answers = self._connection.call(lambda c: c.query_batch_points(self._name, requests))
        hits = [[(str(point.id), point.score) for point in answer.points] for answer in answers]
        return [sorted(found, key=lambda hit: (-hit[1], hit[0])) for found in hits]

    def scroll(
        self, which: Filter | None, *, limit: int | None = None, newest_first: bool | None = None
    ) -> list[Point]:
        """Return matching points: all of them in any order, or `limit` of them in order of `seq`."""
        if limit is not None:
            direction = models.Direction.DESC if newest_first else models.Direction.ASC
            order = models.OrderBy(key="seq", direction=direction)
            return self._page(which, limit, order_by=order)[0]
        points, offset = self._page(which, PAGE)
        while offset is not None:
            page, offset = self._page(which, PAGE, offset=offset)
            points += page
        return points

    def count(self, which: Filter | None = None) -> int:
        """Return how many points match, exactly."""
        return self._connection.call(lambda c: c.count(self._name, which, exact=True).count)

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        found = self._connection.call(
            lambda client: client.facet(self._name, key, which, limit=MAX_NAMESPACES, exact=True)
        )
        return [str(hit.value) for hit in found.hits if hit.count]

    def _unchanged(self, point: Point) -> Filter:
        revision = self.dialect.integer("revision", point.payload["revision"] - 1)
        return self.dialect.every([self.dialect.ids([point.id]), revision])

    def _write(self, points: Sequence[Point], **how: Any) -> None:  # noqa: ANN401 - of `upsert`
        structs = [_struct(point) for point in points]
        self._connection.call(lambda client: client.upsert(self._name, structs, wait=True, **how))

    def _page(self, which: Filter | None, limit: int, **how: Any) -> tuple[list[Point], Any]:  # noqa: ANN401 - of `scroll`
        records, offset = self._connection.call(
            lambda client: client.scroll(self._name, which, limit, with_payload=True, **how)
        )
        return list(points_of(records)), offset


def _pages(items: Sequence[Any]) -> list[list[Any]]:
    return [list(items[start : start + PAGE]) for start in range(0, len(items), PAGE)]


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = [float(number) for number in point.dense]
    if point.lexical is not None:
        vectors[LEXICAL] = _sparse(point.lexical)
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def _sparse(terms: Sparse) -> models.SparseVector:
    return models.SparseVector(indices=terms[0], values=terms[1])


def _request(query: Nearest) -> models.QueryRequest:
    how: dict[str, Any]
    if isinstance(query.vector, tuple):
        params = models.SearchParams(idf=models.IdfCorpusParams(corpus=query.corpus))
        how = {"query": _sparse(query.vector), "using": LEXICAL, "params": params}
    else:
        how = {"query": query.vector.tolist(), "using": DENSE}
    return models.QueryRequest(filter=query.filter, limit=query.limit, **how)
