"""What a recall through LlamaIndex costs beside the core's own search. Prints ratios of one run.

    python benchmarks/adapters_llamaindex.py [notes]

The limit is 1.5 times the core's search and 1 ms. All are measured in turn, in one process and over one
embedded store, so that a slow machine slows them alike; the embedder is a stand-in that costs little, which
makes the ratio harsher than in use.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory, StaticMemoryBlock

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory, AMemMemoryBlock, AMemRetriever

ROUNDS = 200
SPACE = ("ann",)
WORDS = [f"word{n}" for n in range(2000)]
LIMIT, GRACE = 1.5, 1.0


def sentence() -> str:
    """Return a sentence of ten words."""
    return " ".join(random.choices(WORDS, k=10))


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1000


async def amilliseconds(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long something takes that is awaited."""
    start = perf_counter()
    await work()
    return (perf_counter() - start) * 1000


async def measure(memory: AgenticMemory) -> dict[str, list[float]]:
    """Return the times of each way to recall, taken in turn."""
    block = AMemMemoryBlock(memory, SPACE)
    retriever = AMemRetriever(memory, SPACE)
    own = AMemMemory.from_defaults(memory=memory, namespace=SPACE)
    # The framework's own cost of a block with as much text.
    text = await block.aget([ChatMessage(role="user", content=sentence())])
    static = StaticMemoryBlock(name="static", static_content=text)
    stock = Memory.from_defaults(memory_blocks=[static])
    talk = [ChatMessage(role="user", content=sentence()) for _ in range(60)]
    times: dict[str, list[float]] = {}

    def keep(name: str, took: float) -> None:
        times.setdefault(name, []).append(took)

    for _ in range(ROUNDS):
        question = sentence()
        asked = [ChatMessage(role="user", content=question)]
        keep("core search", milliseconds(lambda q=question: memory.search(q, namespace=SPACE)))
        keep(
            "core asearch",
            await amilliseconds(lambda q=question: memory.asearch(q, namespace=SPACE)),
        )
        keep("retriever, sync", milliseconds(lambda q=question: retriever.retrieve(q)))
        keep("retriever, async", await amilliseconds(lambda q=question: retriever.aretrieve(q)))
        keep("block", await amilliseconds(lambda m=asked: block.aget(m, session_id="s")))
        keep(
            "block, read again", await amilliseconds(lambda m=asked: block.aget(m, session_id="s"))
        )
        question = sentence()
        long = [*talk, ChatMessage(role="user", content=question)]
        keep("block, 60 messages in the prompt", await amilliseconds(lambda m=long: block.aget(m)))
        framework = await amilliseconds(lambda q=question: stock.aget(input=q))
        whole = await amilliseconds(lambda q=question: own.aget(input=q))
        keep("AMemMemory, without the framework", whole - framework)
    return times


def main() -> None:
    """Measure and print."""
    random.seed(7)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with (
        tempfile.TemporaryDirectory() as folder,
        AgenticMemory.open(folder, embedder=HashEmbedder(384)) as memory,
    ):
        memory.add_many([sentence() for _ in range(count)], namespace=SPACE, evolve=False)
        times = asyncio.run(measure(memory))
    core = median(times.pop("core search"))
    print(f"{count} notes, {ROUNDS} questions; core search: {core:.2f} ms (median)")
    for name, some in times.items():
        took = median(some)
        allowed = LIMIT * core + GRACE
        verdict = "within" if took <= allowed else "OVER"
        print(f"{name:34} {took:6.2f} ms  {took / core:5.2f} x  {verdict} 1.5 x + 1 ms")


if __name__ == "__main__":
    main()
