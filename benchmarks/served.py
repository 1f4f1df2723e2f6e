"""What the served store adds to the bare client: calls a second of both, sending the same requests in the same run.

A server in a process of its own gives canned answers, so that its own time does not count. Measured are searches (one
request) by one thread, by 32 threads and by 200 tasks, and replaced notes (two requests). Both sides take turns. On a
busy machine the last column, by the processor time of the client's process, is the steadier one.

    python benchmarks/served.py [calls]
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from qdrant_client import AsyncQdrantClient, QdrantClient, models

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.qdrant_server import FakeQdrant, serving  # noqa: E402

from amem_integrations import AgenticMemory  # noqa: E402
from amem_integrations.ports import Bring, Indexed, Query  # noqa: E402
from amem_integrations.stores import QdrantStore  # noqa: E402
from amem_integrations.stores.connection import _client_settings  # noqa: E402
from amem_integrations.testing import HashEmbedder  # noqa: E402

ANN = ("ann",)
NOTES, ROUNDS, THREADS, TASKS = 200, 5, 32, 200

# Answers by method and path, from a file; each connection is kept.
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
            if length:
                await reader.readexactly(length)
            body = answers[(method + b" " + path.split(b"?")[0]).decode()]
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


def recorded(folder: Path) -> tuple[Path, Indexed]:
    """Return a file of answers to what is measured, and the note that is replaced."""
    with serving(FakeQdrant()) as fake:
        answer, answers = fake.answer, dict[str, str]()

        def remember(method: str, path: str, body: Any, key: str | None = None) -> Any:  # noqa: ANN401
            status, given = answer(method, path, body, key)
            answers[f"{method} {path}"] = json.dumps(given)
            return status, given

        fake.answer = remember  # type: ignore[method-assign]
        embedder = HashEmbedder(384)
        with AgenticMemory.open(fake.url, embedder=embedder) as memory:
            made = memory.add_many(
                [f"Thing {n} is in the old room {n % 9}" for n in range(NOTES)],
                namespace=ANN,
                evolve=False,
            )
            store = memory._runtime.store  # noqa: SLF001
            store.search(ANN, [question()])
            note = made[0].revised(revision=made[0].revision + 1, ops=("op",))
            item = Indexed(note=note, vector=embedder.embed_query(note.content), text=note.content)
            store.replace(ANN, [item], [])
        file = folder / "answers.json"
        file.write_text(json.dumps(answers))
    return file, item


def question() -> Query:
    """Return what is searched for, as a search of a memory asks it."""
    vector = HashEmbedder(384).embed_query("the old room")
    return Query(vector=vector, text="old room", limit=100, bring=Bring(limit=30, k=10))


class Bare:
    """Clients as they are, and the calls of them that the store makes."""

    def __init__(self, url: str) -> None:
        settings = _client_settings(None, {}, THREADS)
        self.client = QdrantClient(url=url, **settings)
        self.make_async = lambda: AsyncQdrantClient(url=url, **settings)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def record(self, store: QdrantStore, call: Callable[[], object]) -> None:
        """Remember which methods of the client a call of the store uses, with which arguments."""
        self.calls = []
        connection = store._connection  # noqa: SLF001
        real, calls = connection._client, self.calls  # noqa: SLF001

        class Watching:
            def __getattr__(self, name: str) -> Any:  # noqa: ANN401
                def method(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                    calls.append((name, args, kwargs))
                    return getattr(real, name)(*args, **kwargs)

                return method

            @property
            def http(self) -> Watching:
                return self

            @property
            def search_api(self) -> Watching:
                return self

            def query_batch_points(
                self,
                name: str,
                *,
                query_request_batch: models.QueryRequestBatch,
                **how: Any,  # noqa: ANN401
            ) -> Any:  # noqa: ANN401
                # The store sends it past what the client does with texts; others call the client itself.
                calls.append(("query_batch_points", (name, query_request_batch.searches), how))
                asked = {"query_request_batch": query_request_batch, **how}
                return real.http.search_api.query_batch_points(name, **asked)

        connection._client = Watching()  # type: ignore[assignment]  # noqa: SLF001
        call()
        connection._client = real  # noqa: SLF001

    def call(self) -> None:
        """Send the same requests."""
        for name, args, kwargs in self.calls:
            getattr(self.client, name)(*args, **kwargs)

    async def acall(self, client: AsyncQdrantClient) -> None:
        """Send the same requests on a loop."""
        for name, args, kwargs in self.calls:
            await getattr(client, name)(*args, **kwargs)


Rates = tuple[float, float]  # calls in a second, and in a second of this process's own time


def start() -> Rates:
    """Return the time, and this process's own."""
    return time.perf_counter(), time.process_time()


def rates(since: Rates, calls: int) -> Rates:
    """Return calls a second."""
    now, own = start()
    return calls / (now - since[0]), calls / (own - since[1])


def a_second(run: Callable[[], object], calls: int) -> Rates:
    """Return calls a second."""
    since = start()
    run()
    return rates(since, calls)


def by_threads(call: Callable[[], object], calls: int, threads: int) -> None:
    """Make so many calls."""
    if threads == 1:
        for _ in range(calls):
            call()
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: call(), range(calls)))


async def by_tasks(call: Callable[[], Awaitable[object]], calls: int) -> None:
    """Make so many calls, by tasks that are there all the time."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(work() for _ in range(TASKS)))


async def asynchronously(store: QdrantStore, bare: Bare, calls: int) -> list[list[Rates]]:
    """Return calls a second of the store and of the bare client, by tasks of one loop."""
    client, gate = bare.make_async(), asyncio.Semaphore(THREADS)

    async def theirs() -> None:
        async with gate:  # or most of them would wait for a connection in vain
            await bare.acall(client)

    asked, pairs = question(), list[list[Rates]]()
    for _ in range(ROUNDS):
        pairs.append([])
        for call in (lambda: store.asearch(ANN, [asked]), theirs):
            since = start()
            await by_tasks(call, calls)
            pairs[-1].append(rates(since, calls))
    await client.close()
    return pairs


def show(what: str, pairs: list[list[Rates]]) -> None:
    """Print one line: the medians of the rounds."""
    (ours, own), (bare, theirs) = (
        [median(pair[side][kind] for pair in pairs) for kind in range(2)] for side in range(2)
    )
    print(f"{what:28} {ours:8.0f} {bare:8.0f} {ours / bare:6.2f} {own / theirs:8.2f}", flush=True)


def main(calls: int) -> None:
    """Print calls a second of the store and of the bare client, and how they compare."""
    with TemporaryDirectory() as folder:
        answers, item = recorded(Path(folder))
        command = [sys.executable, "-c", CANNED, str(answers)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            port = server.stdout.readline() if server.stdout else ""
            url = f"http://127.0.0.1:{port.strip()}"
            try:
                measure(url, item, calls)
            finally:
                server.terminate()


def measure(url: str, item: Indexed, calls: int) -> None:
    """Measure against the server of canned answers."""
    store, bare = QdrantStore(url, dimensions=384, embedder="hash"), Bare(url)
    print(f"{'calls a second':28} {'store':>8} {'client':>8} {'ratio':>6} {'by CPU':>8}")
    asked = question()
    jobs: list[tuple[str, Callable[[], object]]] = [
        ("search", lambda: store.search(ANN, [asked])),
        ("replace a note", lambda: store.replace(ANN, [item], [])),
    ]
    for what, call in jobs:
        bare.record(store, call)
        for threads in (1, THREADS):
            pairs = [
                [
                    a_second(partial(by_threads, one, calls, threads), calls)
                    for one in (call, bare.call)
                ]
                for _ in range(ROUNDS)
            ]
            show(f"{what}, {threads} thread{'s' * (threads > 1)}", pairs)
    bare.record(store, jobs[0][1])
    show(f"search, {TASKS} tasks", asyncio.run(asynchronously(store, bare, calls)))
    store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
