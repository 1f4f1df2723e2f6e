"""An OpenAI-compatible endpoint on 127.0.0.1 for tests, with response formats and failures on demand."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import pytest

from amem_integrations.testing import HashEmbedder

from .dialects import Dialect, Payload, form, length

Strictness = Literal["schema", "words"]

_ACCEPTED = {"schema": {"json_schema", None}, "words": {None}}


@dataclass
class OpenAIServer:
    """The behaviour of the endpoint, and the requests so far.

    - `accepts`: the strictest response format that is not refused with 400.
    - `dialect`: the server whose messages it sends, and what else that refuses.
    - `key`: the only key it accepts, if it requires one.
    - `answer`: the text of a chat completion, from the request's payload.
    - `message`: fields of the answer's message to send unchanged; `finish`: its `finish_reason`.
    - `refuse`: a reason to refuse this payload with 400, or None.
    - `failures`: used first, one per request: an HTTP status, `"hang"`, `"drop"` (the connection
      ends without an answer), or a text (sent unchanged, with status 200).
    - `requests`: the payloads, refused ones too; `headers`: those of each request.
    """

    base_url: str = ""
    accepts: Strictness = "schema"
    dialect: Dialect = field(default_factory=Dialect)
    key: str | None = None
    answer: Callable[[Payload], str | None] = lambda _: "{}"
    refuse: Callable[[Payload], str | None] = lambda _: None
    failures: deque[int | str] = field(default_factory=deque)
    requests: list[Payload] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    message: Payload = field(default_factory=dict)
    finish: str = "stop"
    dimensions: int = 8
    closing: threading.Event = field(default_factory=threading.Event)

    def refusal(self, payload: Payload, key: str) -> tuple[int, str] | None:
        """Return the status and the message with which a request is refused, if it is."""
        if self.key not in {None, key}:
            return 401, f"Incorrect API key provided: {key}"
        if reason := self.refuse(payload):
            return 400, reason
        if "messages" not in payload:
            return None
        if form(payload) not in _ACCEPTED[self.accepts]:
            return 400, f"{form(payload)!r} is not supported"
        return self.dialect.refusal(payload)

    def completion(self, payload: Payload) -> Payload:
        """Return a chat completion."""
        text = self.answer(payload)
        message = {"role": "assistant", **self.dialect.message(payload, text), **self.message}
        counts = {"prompt_tokens": length(payload), "completion_tokens": len(text or "")}
        counts["total_tokens"] = sum(counts.values())
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": payload["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish}],
            **({"usage": counts} if self.dialect.counts else {}),
        }

    def embeddings(self, payload: Payload) -> Payload:
        """Return vectors of length 2 in another order than requested, as endpoints may."""
        embedder = HashEmbedder(payload.get("dimensions", self.dimensions))
        rows = embedder.embed_documents(payload["input"])
        data = [
            {"object": "embedding", "index": index, "embedding": (row * 2).tolist()}
            for index, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": data[::-1], "model": payload["model"], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: OpenAIServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        payload = json.loads(self.rfile.read(length))
        self.endpoint.requests.append(payload)
        self.endpoint.headers.append(dict(self.headers))
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.endpoint.failures:
            self._fail(self.endpoint.failures.popleft(), key)
        elif refusal := self.endpoint.refusal(payload, key):
            self._send(refusal[0], self.endpoint.dialect.error(*refusal))
        elif self.path.endswith("/embeddings"):
            self._send(200, self.endpoint.embeddings(payload))
        else:
            self._send(200, self.endpoint.completion(payload))

    def _fail(self, failure: int | str, key: str) -> None:
        if isinstance(failure, int):
            error = self.endpoint.dialect.error(failure, f"failure on demand, {key}")
            self._send(failure, error)
        elif failure in {"hang", "drop"}:
            if failure == "hang":
                self.endpoint.closing.wait(30)
            self.close_connection = True
        else:
            self._send(200, failure)

    def _send(self, status: int, body: Payload | str) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        kind = "text/html" if isinstance(body, str) and "<" in body else "application/json"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("retry-after-ms", "1")  # the SDK's pauses would slow the tests down
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface
        """Keep the output of the tests clean."""


@contextmanager
def serving() -> Iterator[OpenAIServer]:
    """Run an endpoint; sockets have to be allowed."""
    endpoint = OpenAIServer()
    handler = type("Handler", (_Handler,), {"endpoint": endpoint})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    endpoint.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def openai_server(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenAIServer]:
    """Run an endpoint for one test, which has to be marked `enable_socket`."""
    # Without it each client reads all certificate authorities, which takes longer than most tests.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path_factory.getbasetemp()))
    with serving() as endpoint:
        yield endpoint
