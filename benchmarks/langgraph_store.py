"""What mixed operations cost in `AMemStore`, beside LangGraph's SQLite store in the same run.

Run: python benchmarks/langgraph_store.py [operations] [minilm]. So many operations, a third each of put, get and
search by meaning, by 50 asynchronous workers for 20 users; both stores encode what is put and what is asked by the
same embedder (hashed words, or all-MiniLM-L6-v2), and keep their data in a folder. The budget is 5 times the SQLite
store. Where Python cannot load extensions of SQLite, its vectors are compared by numpy instead of sqlite-vec.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import aiosqlite
import numpy as np
from adapters_langchain import sentence
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result, SearchOp
from langgraph.store.sqlite import AsyncSqliteStore

from amem_integrations import AgenticMemory, Embedder, MiniLmEmbedder
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemStore

OPERATIONS, WORKERS, USERS = 6000, 50, 20
BUDGET = 5.0
PATH = "text"


class EncodingSqliteStore(AsyncSqliteStore):
    """The SQLite store with vectors that numpy compares, all of a namespace by one product."""

    def __init__(self, connection: object, embedder: Embedder) -> None:
        super().__init__(connection)  # type: ignore[arg-type]
        self._embedder = embedder
        self._vectors: dict[tuple[str, ...], dict[str, np.ndarray]] = {}

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Encode what is put and asked, then do as the SQLite store does with what was found."""
        ops = list(ops)
        puts = [op for op in ops if isinstance(op, PutOp) and op.value is not None]
        queries = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        asked = iter([self._embedder.embed_query(query) for query in queries])
        found = [self._nearest(op, next(asked)) if _by_meaning(op) else [op] for op in ops]
        if puts:
            rows = self._embedder.embed_documents([str(op.value[PATH]) for op in puts])  # type: ignore[index]
            for op, row in zip(puts, rows, strict=True):
                self._vectors.setdefault(op.namespace, {})[op.key] = row
        results = iter(await super().abatch([op for some in found for op in some]))
        taken = [[next(results) for _ in some] for some in found]
        return [some if _by_meaning(op) else some[0] for op, some in zip(ops, taken, strict=True)]  # type: ignore[misc]

    def _nearest(self, op: SearchOp, vector: np.ndarray) -> list[Op]:
        held = self._vectors.get(op.namespace_prefix, {})
        if not held:
            return []
        cosines = np.stack(list(held.values())) @ vector
        keys = list(held)
        return [GetOp(op.namespace_prefix, keys[i]) for i in np.argsort(-cosines)[: op.limit]]


def _by_meaning(op: Op) -> bool:
    return isinstance(op, SearchOp) and bool(op.query)


async def work(store: BaseStore, worker: int, operations: int) -> None:
    """Put, get and search in turn, for one user."""
    dice, space = random.Random(worker), ("memories", f"user{worker % USERS}")
    for number in range(operations // 3):
        key = f"{worker}-{number}"
        await store.aput(space, key, {PATH: f"{sentence(dice)} {key}", "n": number})
        item = await store.aget(space, key)
        found = await store.asearch(space, query=sentence(dice), limit=5)
        if item is None or not found:
            raise RuntimeError(f"{key} was lost")


async def seconds(store: BaseStore, operations: int) -> tuple[float, float]:
    """Return how long the workers take, and how long the processor was at work for them."""
    begun, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(store, w, operations // WORKERS) for w in range(WORKERS)))
    return time.perf_counter() - begun, time.process_time() - used


def sqlite_store(path: Path, embedder: Embedder) -> object:
    """Return LangGraph's SQLite store, with vectors of the embedder."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(x) for x in row] for row in embedder.embed_documents(texts)]

    if hasattr(sqlite3.Connection, "enable_load_extension"):
        index = {"dims": embedder.dimensions, "embed": embed, "fields": [PATH]}
        return AsyncSqliteStore.from_conn_string(str(path), index=index)  # type: ignore[arg-type]

    class Opened:
        async def __aenter__(self) -> BaseStore:
            self.connection = await aiosqlite.connect(str(path), isolation_level=None)
            self.store = EncodingSqliteStore(self.connection, embedder)
            await self.store.setup()
            return self.store

        async def __aexit__(self, *_: object) -> None:
            await self.connection.close()

    return Opened()


async def main(operations: int = OPERATIONS, kind: str = "hash") -> None:
    """Print what both take, and the ratio."""

    def embedder() -> Embedder:  # each store has one of its own, since vectors are kept for a while
        return MiniLmEmbedder() if kind == "minilm" else HashEmbedder(384)

    with tempfile.TemporaryDirectory() as folder:
        with AgenticMemory.open(f"{folder}/memory", embedder=embedder()) as memory:
            ours = await seconds(AMemStore(memory, fields=[PATH]), operations)
        async with sqlite_store(Path(folder, "store.db"), embedder()) as other:  # type: ignore[attr-defined]
            theirs = await seconds(other, operations)
    print(f"{operations} operations, {WORKERS} workers, {USERS} users, embedder: {kind}")
    for what, mine, other_ in zip(("elapsed", "processor"), ours, theirs, strict=True):
        verdict = "within" if mine <= BUDGET * other_ else "OVER"
        print(f"  {what:<9}  AMemStore {mine:6.2f} s, SQLite {other_:6.2f} s", end="")
        print(f"  ratio {mine / other_:5.2f}  {verdict} {BUDGET:g}x")


if __name__ == "__main__":
    asyncio.run(main(int((sys.argv[1:] or ["6000"])[0]), *sys.argv[2:]))
