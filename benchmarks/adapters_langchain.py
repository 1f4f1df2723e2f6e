"""What a recall costs through each LangChain and LangGraph door, beside the core's own search.

Run: python benchmarks/adapters_langchain.py [notes]. Prints one line a door: the median of many recalls in
one run, and the ratio to the core's. The budget is 1.5 times the core's own search, plus 1 ms.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from langchain_core.messages import HumanMessage

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMemory, AMemRetriever, AMemStore, memory_tools, recall_node

ANN = ("ann",)
ITEMS = ("items", "ann")
K = 10
ROUNDS = 300
BUDGET = (1.5, 1.0)
WORDS = [f"word{n}" for n in range(20)]


def sentence(dice: random.Random) -> str:
    """Return eight words that may mean anything."""
    return " ".join(dice.choices(WORDS, k=8))


def filled(folder: str, notes: int) -> AgenticMemory:
    """Return a memory with so many raw notes."""
    memory = AgenticMemory.open(folder, embedder=HashEmbedder(384))
    dice = random.Random(1)
    for start in range(0, notes, 500):
        texts = [f"{sentence(dice)} {start + i}" for i in range(min(500, notes - start))]
        memory.add_many(texts, namespace=ANN, evolve=False)
    return memory


def doors(
    memory: AgenticMemory, loop: asyncio.AbstractEventLoop
) -> dict[str, Callable[[str], Any]]:
    """Return by name the ways to recall; each does what a user of it would have done."""
    retriever = AMemRetriever(memory=memory, namespace=ANN, k=K)
    classic = AMemMemory(memory=memory, namespace=ANN, k=K)
    node = recall_node(memory, namespace=ANN, k=K)
    (search,) = memory_tools(memory, namespace=ANN, kinds=["search"], k=K)

    def state(query: str) -> dict[str, Any]:
        return {"messages": [HumanMessage(query)]}

    return {
        "core: search": lambda query: memory.search(query, namespace=ANN, k=K),
        "AMemRetriever.invoke": retriever.invoke,
        "AMemMemory.load_memory_variables": lambda q: classic.load_memory_variables({"input": q}),
        "recall_node.invoke": lambda query: node.invoke(state(query)),
        "search_memory.invoke": lambda query: search.invoke({"query": query}),
        "core: asearch": lambda q: loop.run_until_complete(memory.asearch(q, namespace=ANN, k=K)),
        "AMemRetriever.ainvoke": lambda query: loop.run_until_complete(retriever.ainvoke(query)),
        "recall_node.ainvoke": lambda query: loop.run_until_complete(node.ainvoke(state(query))),
    }


def store_doors(memory: AgenticMemory, notes: int) -> dict[str, Callable[[str], Any]]:
    """Return the same for a LangGraph store of as many items."""
    store, dice = AMemStore(memory), random.Random(1)
    for number in range(notes):
        store.put(ITEMS, str(number), {"text": f"{sentence(dice)} {number}"})
    return {
        "core: search of items": lambda query: memory.search(query, namespace=ITEMS, k=K),
        "AMemStore.search": lambda query: store.search(ITEMS, query=query, limit=K),
    }


def measure(calls: dict[str, Callable[[str], Any]]) -> dict[str, float]:
    """Return the median milliseconds of each call, taken in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    dice = random.Random(2)
    for _ in range(ROUNDS):
        query = sentence(dice)
        for name, call in calls.items():
            begun = time.perf_counter()
            call(query)
            times[name].append((time.perf_counter() - begun) * 1000)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main(notes: int = 2000) -> None:
    """Print what each door costs."""
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as folder, filled(folder, notes) as memory:
        taken = measure(doors(memory, loop)) | measure(store_doors(memory, notes))
    loop.close()
    print(f"{notes} notes, k={K}, {ROUNDS} rounds; median ms")
    factor, extra = BUDGET
    own = 1.0  # of the last core line: the doors after it are measured by it
    for name, ms in taken.items():
        own = ms if name.startswith("core:") else own
        verdict = "within" if ms <= factor * own + extra else "OVER"
        print(f"  {name:<34} {ms:6.2f}  ratio {ms / own:4.2f}  {verdict} 1.5x + 1 ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
