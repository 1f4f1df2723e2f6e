"""A Qdrant server as far as `ServerStore` needs one: its REST interface over qdrant-client's local mode.

Requests are read with the client's own models, so what a real server would not parse fails here too. As a
server in strict mode does, it refuses filters by a field that has no index of a fitting type. Texts of errors are
those of Qdrant 1.19. `faults` are played one per request, before anything else is answered.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models
from support.qdrant_strict import missing_index

_SHARD_FAILED = (
    "1 out of 2 shards failed to apply operation. First error captured: Service internal error: The replica set for "
    "shard 1 on peer 1 has no active replica"
)
Answer = tuple[int, dict[str, Any] | str]
NO_KEY = "Must provide an API key or an Authorization bearer token"
WRONG_KEY = "Invalid API key or JWT"
READ_ONLY = "Forbidden: Global manage access is required"


class ShardFailedError(Exception):
    """A shard did not take a write, the other one did."""


@dataclass
class Fault:
    """What goes wrong with one request: a status, or a connection that breaks after the work is done.

    `text` is the error as the server words it; `plain` sends it as it is, not as JSON.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    works: bool = False
    path: str = ""  # only requests whose path ends so
    method: str = ""  # only requests by this method
    text: str = "told to fail"
    plain: bool = False

    @property
    def body(self) -> dict[str, Any] | str:
        return self.text if self.plain else _error(self.text)


def rate_limited(seconds: int) -> Fault:
    """The answer to a client that asks too often."""
    text = "Rate limiting exceeded: Write rate limit exceeded, try again later"
    return Fault(status=429, headers={"retry-after": str(seconds)}, text=text)


@dataclass
class FakeQdrant:
    """The state behind the server.

    With `api_key` every request must bring it, or `read_only_key`.
    """

    version: str = "1.20.0"
    api_key: str | None = None
    read_only_key: str | None = None
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)
    before_write: Callable[[], None] | None = None
    url: str = ""
    refused: list[Answer] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0
    on_request: Callable[[float], None] = lambda _time: None
    down_for_notes: bool = False  # a shard that has every second point takes no writes of notes

    def __post_init__(self) -> None:
        self.collections: dict[str, models.CreateCollection] = {}
        self._client = QdrantClient(":memory:")
        self._lock = threading.RLock()
        self._at_once = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a request that is being worked on."""
        self.on_request(time.monotonic())
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield
        finally:
            self._at_once -= 1

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count the requests made meanwhile, by method and path without the collection."""
        counted: Counter[str] = Counter()
        start = len(self.requests)
        yield counted
        for method, url, _ in self.requests[start:]:
            _, _, _, *rest = [*urlsplit(url).path.split("/"), "", ""]
            counted[f"{method} {'/'.join(filter(None, rest))}"] += 1

    def answer(self, method: str, path: str, body: Any, key: str | None = None) -> Answer:
        if refusal := self._refused(method, path, key):
            return refusal
        if path == "/":
            return 200, {"title": "qdrant", "version": self.version, "commit": "fake"}
        if path == "/collections":
            return _done({"collections": [{"name": name} for name in list(self.collections)]})
        _, _, name, *rest = path.split("/")
        if (method, rest) == ("PUT", ["points"]) and self.before_write:
            once, self.before_write = self.before_write, None
            once()
        with self._lock:
            status, given = self._answer(method, name, rest, body)
            if status != 200:
                self.refused.append((status, given))
            return status, given

    def _answer(self, method: str, name: str, rest: list[str], body: Any) -> Answer:
        action = getattr(self, f"_{method}_{'_'.join(rest)}".lower(), None)
        if action is None:
            return 404, ""
        is_made = name in self.collections
        if method == "PUT" and not rest and is_made:
            return 409, _error(f"Wrong input: Collection `{name}` already exists!")
        if rest != ["exists"] and not is_made and (method != "PUT" or rest):
            return 404, _error(f"Not found: Collection `{name}` doesn't exist!")
        if missing := missing_index(self.indexes.get(name, {}), body, rest):
            return 400, _error(f"Bad request: {missing}")
        try:
            return _done(action(name, body))
        except ShardFailedError:
            return 500, _error(f"Service internal error: {_SHARD_FAILED}")

    def _refused(self, method: str, path: str, key: str | None) -> Answer | None:
        if self.api_key is not None and key != self.api_key:
            if key is None:
                return 401, NO_KEY
            if key != self.read_only_key:
                return 401, WRONG_KEY
            reading = path.endswith(("/scroll", "/count", "/facet", "/query/batch", "/points"))
            if not (method == "GET" or (method == "POST" and reading)):
                return 403, _error(READ_ONLY)
        return None

    def _get_exists(self, name: str, body: Any) -> Any:
        return {"exists": name in self.collections}

    def _put_(self, name: str, body: Any) -> Any:
        wanted = models.CreateCollection.model_validate(body)
        kinds = (wanted.vectors, wanted.sparse_vectors)
        self._client.create_collection(name, *kinds, metadata=wanted.metadata)
        self.collections[name], self.indexes[name] = wanted, {}
        return True

    def _patch_(self, name: str, body: Any) -> Any:
        new = models.UpdateCollection.model_validate(body).metadata
        self.collections[name].metadata = {**(self.collections[name].metadata or {}), **new}
        return True

    def _delete_(self, name: str, body: Any) -> Any:
        del self.collections[name], self.indexes[name]
        return self._client.delete_collection(name)

    def _get_(self, name: str, body: Any) -> Any:
        made, asked = (
            one.model_dump(mode="json", exclude_none=True)
            for one in (self._client.get_collection(name), self.collections[name])
        )
        graph = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
        config = {
            "optimizer_config": _OPTIMIZER,
            **made["config"],
            "metadata": asked.get("metadata"),
        }
        config |= {"hnsw_config": graph | asked.get("hnsw_config", {})}
        config |= {"params": {key: asked[key] for key in _PARAMETERS if key in asked}}
        if "quantization_config" in asked:
            config["quantization_config"] = asked["quantization_config"]
        schema = {key: {"data_type": kind, "points": 0} for key, kind in self.indexes[name].items()}
        return {**made, "config": config, "payload_schema": schema}

    def _put_index(self, name: str, body: Any) -> Any:
        wanted = models.CreateFieldIndex.model_validate(body)
        self.indexes[name][wanted.field_name] = wanted.field_schema.type
        return _COMPLETED

    def _put_points(self, name: str, body: Any) -> Any:
        wanted = models.PointsList.model_validate(body)
        failing = self.down_for_notes and not name.endswith("-journal")
        points = [one for one in wanted.points if not (failing and UUID(one.id).int % 2)]
        how = {"update_filter": wanted.update_filter, "update_mode": wanted.update_mode}
        if points:
            self._client.upsert(name, points, **how)
        if len(points) < len(wanted.points):
            raise ShardFailedError
        return _COMPLETED

    def _post_points_delete(self, name: str, body: Any) -> Any:
        self._client.delete(name, TypeAdapter(models.PointsSelector).validate_python(body))
        return _COMPLETED

    def _post_points(self, name: str, body: Any) -> Any:
        wanted = models.PointRequest.model_validate(body)
        return self._client.retrieve(name, wanted.ids, wanted.with_payload, wanted.with_vector)

    def _post_points_count(self, name: str, body: Any) -> Any:
        wanted = models.CountRequest.model_validate(body)
        return self._client.count(name, wanted.filter, exact=True)

    def _post_points_scroll(self, name: str, body: Any) -> Any:
        wanted = models.ScrollRequest.model_validate(body)
        where = (wanted.filter, wanted.limit or 10, wanted.order_by, wanted.offset)
        points, offset = self._client.scroll(name, *where, wanted.with_payload, wanted.with_vector)
        return {"points": [_plain(point) for point in points], "next_page_offset": offset}

    def _post_points_query_batch(self, name: str, body: Any) -> Any:
        wanted = models.QueryRequestBatch.model_validate(body)
        return [_plain(found) for found in self._client.query_batch_points(name, wanted.searches)]

    def _post_facet(self, name: str, body: Any) -> Any:
        wanted = models.FacetRequest.model_validate(body)
        return self._client.facet(name, wanted.key, wanted.filter, wanted.limit or 10, exact=True)


_COMPLETED = {"operation_id": 1, "status": "completed"}
_OPTIMIZER = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "flush_interval_sec": 5,
}
_PARAMETERS = (
    "vectors",
    "sparse_vectors",
    "shard_number",
    "replication_factor",
    "write_consistency_factor",
    "on_disk_payload",
)


def _error(text: str) -> dict[str, Any]:
    return {"status": {"error": text}, "time": 0.0}


def _done(result: Any) -> Answer:
    return 200, {"result": _plain(result), "status": "ok", "time": 0.0}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return TypeAdapter(Any).dump_python(value, mode="json")


@contextmanager
def serving(fake: FakeQdrant) -> Iterator[FakeQdrant]:
    """Serve `fake` on loopback; its `url` says where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # an answer is one piece

        def setup(self) -> None:
            fake.connections += 1
            super().setup()

        def handle_any(self) -> None:
            with fake.working():
                self.handle_one()

        def handle_one(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.loads(content) if content else None
            path = urlsplit(self.path).path
            fake.requests.append((self.command, self.path, dict(self.headers)))
            fake.bodies.append(body)
            fault = fake.faults.popleft() if _hits(fake.faults, self.command, path) else None
            if fault is None or fault.works:
                answer = fake.answer(self.command, path, body, self.headers.get("api-key"))
            if fault is None:
                self.reply(*answer, {})
            elif fault.status is None:
                self.close_connection = True  # without a word
            else:
                self.reply(fault.status, fault.body, fault.headers)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815 - names given by http.server

        def reply(
            self, status: int, answer: Mapping[str, Any] | str, headers: dict[str, str]
        ) -> None:
            content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        fake.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


def _hits(faults: deque[Fault], method: str, path: str) -> bool:
    if not faults:
        return False
    return path.endswith(faults[0].path) and method.endswith(faults[0].method)
