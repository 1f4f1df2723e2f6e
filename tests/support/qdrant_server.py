"""A Qdrant server as far as `QdrantStore` needs one: its REST interface over qdrant-client's local mode.

Requests are read with the client's own models, so what a real server would not parse fails here too. As a
server in strict mode does, it refuses filters by a field that has no index of a fitting type. `faults` are
played one per request, before anything else is answered.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

Answer = tuple[int, dict[str, Any]]


@dataclass
class Fault:
    """What goes wrong with one request: a status, or a connection that breaks after the work is done."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    works: bool = False
    path: str = ""  # only requests whose path ends so


class FakeQdrant:
    """The state behind the server."""

    def __init__(self, version: str = "1.20.0") -> None:
        self.version = version
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.indexes: dict[str, dict[str, Any]] = {}
        self.before_write: Callable[[], None] | None = None
        self.url = ""
        self._client = QdrantClient(":memory:")
        self._lock = threading.RLock()

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count the requests made meanwhile, by method and path without the collection."""
        counted: Counter[str] = Counter()
        start = len(self.requests)
        yield counted
        for method, url, _ in self.requests[start:]:
            _, _, _, *rest = [*urlsplit(url).path.split("/"), "", ""]
            counted[f"{method} {'/'.join(filter(None, rest))}"] += 1

    def answer(self, method: str, path: str, body: Any) -> Answer:
        if path == "/":
            return 200, {"title": "qdrant", "version": self.version, "commit": "fake"}
        _, _, name, *rest = path.split("/")
        action = getattr(self, f"_{method}_{'_'.join(rest)}".lower())
        if rest == ["points"] and method == "PUT" and self.before_write:
            once, self.before_write = self.before_write, None
            once()
        with self._lock:
            if rest != ["exists"] and method != "PUT" and not self._client.collection_exists(name):
                return 404, {"status": {"error": f"Not found: Collection `{name}` doesn't exist!"}}
            if missing := self._missing_index(name, body, rest):
                return 400, {"status": {"error": f"Bad request: {missing}"}, "time": 0.0}
            return 200, {"result": _plain(action(name, body)), "status": "ok", "time": 0.0}

    def _missing_index(self, name: str, body: Any, rest: list[str]) -> str | None:
        """Return what a server in strict mode says of a request by a field without an index."""
        made = self.indexes.get(name, {})
        for key, kinds in _needed_indexes(body):
            if made.get(key) not in kinds:
                return (
                    f'Index required but not found for "{key}" of one of the following types: '
                    f"[{', '.join(kinds)}]. Help: Create an index for this key or use a different filter."
                )
        if rest == ["points", "scroll"] and (order := body.get("order_by")):
            key = order if isinstance(order, str) else order["key"]
            if made.get(key) not in _RANGES:
                return f"No range index for `order_by` key: `{key}`. Please create one to use `order_by`"
        if rest == ["facet"] and made.get(body["key"]) not in _ANY:
            return f"No appropriate index for faceting: `{body['key']}`. Please create one to facet"
        return None

    def _get_exists(self, name: str, body: Any) -> Any:
        return {"exists": self._client.collection_exists(name)}

    def _put_(self, name: str, body: Any) -> Any:
        wanted = models.CreateCollection.model_validate(body)
        self.indexes[name] = {}
        return self._client.create_collection(
            name, wanted.vectors, wanted.sparse_vectors, metadata=wanted.metadata
        )

    def _get_(self, name: str, body: Any) -> Any:
        info = self._client.get_collection(name)
        schema = {key: {"data_type": kind, "points": 0} for key, kind in self.indexes[name].items()}
        return {**_plain(info), "payload_schema": schema}

    def _put_index(self, name: str, body: Any) -> Any:
        wanted = models.CreateFieldIndex.model_validate(body)
        self.indexes[name][wanted.field_name] = wanted.field_schema.type
        return _COMPLETED

    def _put_points(self, name: str, body: Any) -> Any:
        wanted = models.PointsList.model_validate(body)
        self._client.upsert(
            name, wanted.points, update_filter=wanted.update_filter, update_mode=wanted.update_mode
        )
        return _COMPLETED

    def _post_points(self, name: str, body: Any) -> Any:
        wanted = models.PointRequest.model_validate(body)
        return self._client.retrieve(name, wanted.ids, wanted.with_payload, wanted.with_vector)

    def _post_points_delete(self, name: str, body: Any) -> Any:
        self._client.delete(name, models.FilterSelector.model_validate(body))
        return _COMPLETED

    def _post_points_count(self, name: str, body: Any) -> Any:
        wanted = models.CountRequest.model_validate(body)
        return self._client.count(name, wanted.filter, exact=wanted.exact)

    def _post_points_scroll(self, name: str, body: Any) -> Any:
        wanted = models.ScrollRequest.model_validate(body)
        points, offset = self._client.scroll(
            name,
            wanted.filter,
            wanted.limit,
            wanted.order_by,
            wanted.offset,
            wanted.with_payload,
            wanted.with_vector,
        )
        return {"points": [_plain(point) for point in points], "next_page_offset": offset}

    def _post_points_query_batch(self, name: str, body: Any) -> Any:
        wanted = models.QueryRequestBatch.model_validate(body)
        return self._client.query_batch_points(name, wanted.searches)

    def _post_facet(self, name: str, body: Any) -> Any:
        wanted = models.FacetRequest.model_validate(body)
        return self._client.facet(name, wanted.key, wanted.filter, wanted.limit, wanted.exact)


_ANY = ("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid")
_RANGES = ("integer", "float", "datetime")


def _needed_indexes(body: Any) -> Iterator[tuple[str, Iterable[str]]]:
    """Return the fields of all conditions in a request, and which types of index each may have."""
    if isinstance(body, list):
        for item in body:
            yield from _needed_indexes(item)
    if not isinstance(body, Mapping) or "payload" in body:  # a point: its payload is no condition
        return
    if isinstance(body.get("key"), str) and (body.get("match") or body.get("range")):
        yield body["key"], _kinds(body)
    for empty in (body.get("is_empty"), body.get("is_null")):
        if empty:
            yield empty["key"], _ANY
    for value in body.values():
        yield from _needed_indexes(value)


def _kinds(condition: Mapping[str, Any]) -> Iterable[str]:
    if bounds := condition.get("range"):
        texts = any(isinstance(bound, str) for bound in bounds.values())
        return ("datetime",) if texts else ("float", "integer")
    match = condition["match"]
    values = match.get("any") or match.get("except") or [match.get("value")]
    if all(isinstance(value, bool) for value in values):
        return ("bool",)
    return ("keyword", "uuid") if isinstance(values[0], str) else ("integer",)


_COMPLETED = {"operation_id": 1, "status": "completed"}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return TypeAdapter(Any).dump_python(value, mode="json")


@contextmanager
def serving(fake: FakeQdrant, tls: ssl.SSLContext | None = None) -> Iterator[FakeQdrant]:
    """Serve `fake` on loopback; its `url` says where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = urlsplit(self.path).path
            fake.requests.append((self.command, self.path, dict(self.headers)))
            fault = fake.faults.popleft() if _hits(fake.faults, path) else None
            if fault is None or fault.works:
                answer = fake.answer(self.command, path, json.loads(body) if body else None)
            if fault is None:
                self.reply(*answer, {})
            elif fault.status is None:
                self.close_connection = True  # without a word
            else:
                self.reply(fault.status, {"status": {"error": "told to fail"}}, fault.headers)

        do_GET = do_PUT = do_POST = handle_any  # noqa: N815 - names given by http.server

        def reply(self, status: int, answer: dict[str, Any], headers: dict[str, str]) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign] - a refused handshake
        if tls is not None:
            server.socket = tls.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        fake.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


def _hits(faults: deque[Fault], path: str) -> bool:
    return bool(faults) and path.endswith(faults[0].path)
