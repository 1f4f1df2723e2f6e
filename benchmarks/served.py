"""Searches a second over a server, beside those of the bare client.

A server in a process of its own gives canned answers, so that its own time does not count. The bare client sends the
requests of a search and reads the answers; the memory also encodes, ranks and makes notes of them. Both take turns. On a
busy machine the last column, by the processor time of this process, is the steadier one.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.models import QueryRequest

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

from .command import script

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from support.qdrant_server import FakeQdrant, serving  # noqa: E402

ANN, QUESTION = ("ann",), "the old room"
NOTES, ROUNDS, THREADS, TASKS = 200, 5, 32, 200
# Answers by method, path and body, or the last one by method and path, from a file; each connection is kept.
CANNED = """
import asyncio, json, sys
answers = {key: value.encode() for key, value in json.load(open(sys.argv[1])).items()}
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            method, path, _ = head.split(b" ", 2)
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 : lower.index(b"\\r", at)]) if at >= 0 else 0
            sent = json.loads(await reader.readexactly(length) or b"null")
            called = f"{method.decode()} {path.split(b'?')[0].decode()}"
            body = answers.get(f"{called} {json.dumps(sent)}") or answers[called]
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

Request = tuple[str, dict[str, Any]]  # a method of the client, and its arguments
Rates = tuple[float, float]  # calls in a second, and in a second of this process's own time


def compare(calls: int) -> None:
    """Print searches a second of the memory and of the bare client, and how they compare."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "answers.json")
        requests = record(file)
        command = [sys.executable, "-c", CANNED, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            try:
                port = server.stdout.readline() if server.stdout else ""
                measure(f"http://127.0.0.1:{port.strip()}", requests, calls)
            finally:
                server.terminate()


def record(file: Path) -> list[Request]:
    """Write a file with the answers of a server to all that is measured, and return the requests of a search."""
    with serving(FakeQdrant()) as fake:
        answer, answers = fake.answer, dict[str, str]()

        def remember(method: str, path: str, body: Any, key: str | None = None) -> Any:  # noqa: ANN401
            status, given = answer(method, path, body, key)
            called = f"{method} {path}"  # the client may word the same body in another way
            answers[called] = answers[f"{called} {json.dumps(body)}"] = json.dumps(given)
            return status, given

        fake.answer = remember
        with opened(fake.url) as memory:
            texts = [f"Thing {n} is in the old room {n % 9}" for n in range(NOTES)]
            memory.add_many(texts, namespace=ANN, evolve=False)
        with opened(fake.url) as memory:  # as it is opened when it is there
            before = len(fake.requests)
            memory.search(QUESTION, namespace=ANN)
        asked = zip(fake.requests[before:], fake.bodies[before:], strict=True)
        requests = [_request(path.partition("?")[0], body) for (_, path, _), body in asked]
    file.write_text(json.dumps(answers), encoding="utf-8")
    return requests


def _request(path: str, body: dict[str, Any]) -> Request:
    """Return the method of a client that makes a request, and its arguments."""
    _, _, collection, kind = path.split("/", 3)
    if kind == "points/query/batch":
        searches = [QueryRequest(**one) for one in body["searches"]]
        return "query_batch_points", {"collection_name": collection, "requests": searches}
    if kind == "points":
        return "retrieve", {"collection_name": collection, "ids": body["ids"]}
    raise NotImplementedError(f"a search asks for {path!r}: name the client's method for it here")


def opened(url: str) -> AgenticMemory:
    """Return a memory on a server."""
    return AgenticMemory.open(url, embedder=HashEmbedder(384))


def measure(url: str, requests: Sequence[Request], calls: int) -> None:
    """Measure against the server of canned answers."""
    print(f"{'searches a second':28} {'memory':>8} {'client':>8} {'ratio':>6} {'by CPU':>8}")
    client = QdrantClient(url=url, check_compatibility=False, pool_size=THREADS)
    with opened(url) as memory:
        ours = partial(memory.search, QUESTION, namespace=ANN)

        def theirs() -> None:
            for method, given in requests:
                getattr(client, method)(**given)

        for threads in (1, THREADS):
            rate = partial(by_threads, calls=calls, threads=threads)
            name = f"{threads} thread{'s' * (threads > 1)}"
            show(name, [(rate(ours), rate(theirs)) for _ in range(ROUNDS)])
        show(f"{TASKS} tasks", asyncio.run(in_tasks(memory, url, requests, calls)))
    client.close()


def by_threads(call: Callable[[], object], *, calls: int, threads: int) -> Rates:
    """Return how many calls a second some threads make."""
    start = _now()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: call(), range(calls)))
    return _rates(start, calls)


async def in_tasks(
    memory: AgenticMemory, url: str, requests: Sequence[Request], calls: int
) -> list[tuple[Rates, Rates]]:
    """Return how many searches a second the tasks of one loop make, of the memory and of the bare client."""
    client = AsyncQdrantClient(url=url, check_compatibility=False, pool_size=THREADS)
    gate = asyncio.Semaphore(THREADS)

    async def theirs() -> None:
        async with gate:  # or most of them would wait for a connection in vain
            for method, given in requests:
                await getattr(client, method)(**given)

    async def rate(call: Callable[[], Awaitable[object]]) -> Rates:
        left = iter(range(calls))

        async def work() -> None:
            for _ in left:
                await call()

        start = _now()
        await asyncio.gather(*(work() for _ in range(TASKS)))
        return _rates(start, calls)

    ours = partial(memory.asearch, QUESTION, namespace=ANN)
    pairs = [(await rate(ours), await rate(theirs)) for _ in range(ROUNDS)]
    await client.close()
    return pairs


def show(name: str, pairs: list[tuple[Rates, Rates]]) -> None:
    """Print a line: the medians of the rounds."""
    (ours, own), (bare, theirs) = (
        [median(pair[side][kind] for pair in pairs) for kind in range(2)] for side in range(2)
    )
    print(f"{name:28} {ours:8.0f} {bare:8.0f} {ours / bare:6.2f} {own / theirs:8.2f}", flush=True)


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _rates(start: tuple[float, float], calls: int) -> Rates:
    now, used = _now()
    return calls / (now - start[0]), calls / (used - start[1])


main = script("served", __doc__, compare, calls=300)

if __name__ == "__main__":
    sys.exit(main())
