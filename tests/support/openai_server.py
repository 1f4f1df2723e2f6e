"""An OpenAI-compatible endpoint on 127.0.0.1 for tests, with manners and failures to order."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest

from amem_integrations.testing import HashEmbedder

Payload = dict[str, Any]
Manners = Literal["schema", "json", "words"]

_TAKEN: dict[Manners, set[str | None]] = {
    "schema": {"json_schema", "json_object", None},
    "json": {"json_object", None},
    "words": {None},
}


@dataclass
class OpenAIServer:
    """What the endpoint does, and what it has seen.

    - `manners`: which `response_format` it takes; others are refused with 400.
    - `answer`: the text of a chat completion, from the request's payload.
    - `refuse`: a reason to refuse this payload with 400, or None.
    - `failures`: used up first, one per request: an HTTP status, `"hang"`, `"drop"` (the connection
      ends without an answer), or a text (sent as it is, with status 200).
    - `requests`: the payloads so far, refused ones too; `headers`: those of each request.
    """

    base_url: str = ""
    manners: Manners = "schema"
    answer: Callable[[Payload], str | None] = lambda _: "{}"
    refuse: Callable[[Payload], str | None] = lambda _: None
    failures: deque[int | str] = field(default_factory=deque)
    requests: list[Payload] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    message: Payload = field(default_factory=dict)
    dimensions: int = 8
    closing: threading.Event = field(default_factory=threading.Event)

    def complaint(self, payload: Payload) -> str | None:
        """Return why a payload is refused, if it is."""
        wanted = payload.get("response_format", {}).get("type")
        if wanted not in _TAKEN[self.manners]:
            return f"response_format type {wanted!r} is not supported"
        return self.refuse(payload)

    def completion(self, payload: Payload) -> Payload:
        """Return a chat completion."""
        text = self.answer(payload)
        shown = sum(len(message["content"]) for message in payload["messages"])
        message = {"role": "assistant", "content": text, **self.message}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": payload["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": shown,
                "completion_tokens": len(text or ""),
                "total_tokens": shown + len(text or ""),
            },
        }

    def embeddings(self, payload: Payload) -> Payload:
        """Return vectors of length 2 in another order than asked for, as endpoints may."""
        rows = HashEmbedder(payload.get("dimensions", self.dimensions)).embed_documents(
            payload["input"]
        )
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
        if self.endpoint.failures:
            self._fail(self.endpoint.failures.popleft())
        elif complaint := self.endpoint.complaint(payload):
            self._send(400, {"error": {"message": complaint, "type": "invalid_request_error"}})
        elif self.path.endswith("/embeddings"):
            self._send(200, self.endpoint.embeddings(payload))
        else:
            self._send(200, self.endpoint.completion(payload))

    def _fail(self, failure: int | str) -> None:
        if isinstance(failure, int):
            key = self.headers.get("Authorization", "")
            self._send(failure, {"error": {"message": f"failure to order, {key}"}})
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


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    """Run an endpoint for one test, which has to be marked `enable_socket`."""
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
