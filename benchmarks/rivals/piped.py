"""Any other memory, in a Python of its own: a class in a file, spoken to in lines of JSON over pipes.

Its process is told where to find a chat model and an embedder: an OpenAI-compatible endpoint on loopback, which keeps and
counts replies, and encodes with the encoder that all systems share. See `piped_child.py` for what the class is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from amem_integrations import NoteInput
from amem_integrations.errors import AmemError, InvalidInputError
from amem_integrations.runtime import resolve, run

from ..answering import Served
from ..cache import key_of
from ..data import Spent
from .base import Rival, said

TIMEOUT_S = 600.0


class Piped:
    """The process of a memory, from its first turn until it is closed."""

    def __init__(self, rival: Rival, *, system: str, python: str, served: Served) -> None:
        file, _, name = system.rpartition(":")
        if not Path(file).is_file():
            raise InvalidInputError(f"system={system!r} must be path/to/file.py:Class")
        self._lock, self._folder = threading.Lock(), TemporaryDirectory(prefix="amem-rival-")
        self._server = _endpoint(rival, served)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        told = {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self._server.server_port}/v1",
            "OPENAI_API_KEY": "none",  # the endpoint has the key
            "AMEM_MODEL": served.model,
            "AMEM_DIMENSIONS": str(rival.embedder.dimensions),
            "HOME": self._folder.name,
        }
        child = Path(__file__).with_name("piped_child.py")
        self._process = subprocess.Popen(  # noqa: S603 - what the user named
            [Path(shutil.which(python) or python).absolute(), child, Path(file).absolute(), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            cwd=self._folder.name, env={**os.environ, **told},
        )  # fmt: skip

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Tell the memory turns, session by session."""
        for _, session in groupby(turns, key=lambda turn: turn.thread):
            self._tell("add", [_told(turn) for turn in session])

    def recall(self, question: str) -> str:
        """Return what the memory says to a question."""
        return str(self._tell("recall", question))

    def close(self) -> None:
        """End the process, and what it was served."""
        self._process.communicate()
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def _tell(self, verb: str, value: object) -> Any:  # noqa: ANN401 - a JSON value
        with self._lock:
            into, out = self._process.stdin, self._process.stdout
            assert into and out  # noqa: S101, PT018 - both are pipes
            with suppress(BrokenPipeError):  # its status says why
                print(json.dumps({verb: value}), file=into, flush=True)
            if not (line := out.readline()):
                raise AmemError(
                    f"the process of the memory ended with status {self._process.wait()} at {verb!r}; "
                    "what it printed says why"
                )
            return json.loads(line)["done"]


def _told(turn: NoteInput) -> dict[str, str | None]:
    at = turn.at.isoformat() if turn.at else ""
    text = f"[{at[:10]}] {said(turn)}"
    return {"speaker": turn.speaker, "content": turn.content, "at": at or None, "text": text}


def _endpoint(rival: Rival, served: Served) -> ThreadingHTTPServer:
    """Return the endpoint of a memory: its chat completions are those of `served`, kept and counted."""
    from openai import APIStatusError, OpenAI  # noqa: PLC0415 - the extra

    secret = os.environ.get("OPENAI_API_KEY", "none")
    client = OpenAI(api_key=secret, base_url=served.address, timeout=TIMEOUT_S)

    def completed(body: dict[str, Any]) -> bytes:
        body |= {"model": served.model, "temperature": served.temperature, "stream": False}
        key, kept = key_of(served.identity, body), rival.kept
        if not (known := kept.get([key])):
            reply = client.post("/chat/completions", body=body, cast_to=httpx.Response)
            kept.add(known := {key: reply.content})
        usage = json.loads(known[key]).get("usage") or {}
        tokens = (usage.get(f"{name}_tokens") or 0 for name in ("prompt", "completion"))
        rival.count(Spent(1, *map(int, tokens)))
        return known[key]

    def encoded(body: dict[str, Any]) -> bytes:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        rows = run(resolve(rival.embedder.embed_documents(texts))).tolist()
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        whole = {"object": "list", "data": data, "model": body.get("model"), "usage": usage}
        return json.dumps(whole).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            work = encoded if self.path.endswith("/embeddings") else completed
            try:
                status, reply = 200, work(body)
            except APIStatusError as error:
                status, reply = error.status_code, error.response.content
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
