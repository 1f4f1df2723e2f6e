"""What a recall costs through each adapter, beside the core's own search: `python -m benchmarks.adapters [NOTES]`.

All are measured by turns, in one process and over one folder. The embedder is a stand-in that costs little, which makes
the ratio harsher than in use. The aim is 1.5 times the core's own search, and 1 ms.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory, StaticMemoryBlock

import langchain_amem
import llamaindex_amem
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

from .timing import by_turns, print_ratio

NOTES, K, ROUNDS = 2000, 10, 200
ANN, ITEMS = ("ann",), ("items", "ann")
RATIO, GRACE_MS = 1.5, 1.0
# A memory of LlamaIndex with a block of fixed text is the framework's own cost, which is taken off that of ours.
STOCK, OURS = "llamaindex: Memory", "llamaindex: AMemMemory, net"
WORDS = [f"word{n}" for n in range(2000)]

Ask = Callable[[str], object]
Run = Callable[[Coroutine[Any, Any, object]], object]


def main(notes: int = NOTES, rounds: int = ROUNDS) -> None:
    """Print what each way to recall costs."""
    dice = random.Random(1)
    with (
        TemporaryDirectory(prefix="amem-bench-") as folder,
        AgenticMemory.open(folder, embedder=HashEmbedder(384)) as memory,
        asyncio.Runner() as runner,
    ):
        memory.add_many([_sentence(dice) for _ in range(notes)], namespace=ANN, evolve=False)
        asks = _notes(memory, runner.run) | _items(memory, notes, dice)
        questions = [_sentence(dice) for _ in range(rounds)]
        times = by_turns(
            {name: lambda n, ask=ask: ask(questions[n]) for name, ask in asks.items()},  # type: ignore[misc]
            rounds,
        )
    framework = times.pop(STOCK)
    times[OURS] = [ours - stock for ours, stock in zip(times[OURS], framework, strict=True)]
    print(
        f"{notes} notes, k={K}, {rounds} questions\n{'':36}{'core':>12}{'adapter':>12}{'ratio':>8}"
    )
    for name, taken in times.items():
        if name.startswith("core"):
            base = taken
        print_ratio(name, base, taken, aim=RATIO, grace=GRACE_MS)


def _notes(memory: AgenticMemory, run: Run) -> dict[str, Ask]:
    """Return the ways to search notes by name, the core's own first."""
    retriever = langchain_amem.AMemRetriever(memory=memory, namespace=ANN, k=K)
    chain = langchain_amem.AMemMemory(memory=memory, namespace=ANN, k=K)
    node = langchain_amem.recall_node(memory, namespace=ANN, k=K)
    (tool,) = langchain_amem.memory_tools(memory, namespace=ANN, kinds=["search"], k=K)
    index = llamaindex_amem.AMemRetriever(memory, ANN)
    block = llamaindex_amem.AMemMemoryBlock(memory, ANN)
    ours = llamaindex_amem.AMemMemory.from_defaults(memory=memory, namespace=ANN)
    text = str(run(block.aget([_said("word1 word2")])))
    static = StaticMemoryBlock(name="static", static_content=text)
    stock = Memory.from_defaults(memory_blocks=[static])
    return {
        "core: search": lambda text: memory.search(text, namespace=ANN, k=K),
        "langchain: AMemRetriever.invoke": retriever.invoke,
        "langchain: AMemMemory": lambda text: chain.load_memory_variables({"input": text}),
        "langchain: recall_node.invoke": lambda text: node.invoke(_state(text)),
        "langchain: search_memory": lambda text: tool.invoke({"query": text}),
        "llamaindex: AMemRetriever.retrieve": index.retrieve,
        "core: asearch": lambda text: run(memory.asearch(text, namespace=ANN, k=K)),
        "langchain: AMemRetriever.ainvoke": lambda text: run(retriever.ainvoke(text)),
        "langchain: recall_node.ainvoke": lambda text: run(node.ainvoke(_state(text))),
        "llamaindex: AMemRetriever.aretrieve": lambda text: run(index.aretrieve(text)),
        "llamaindex: AMemMemoryBlock.aget": lambda text: run(block.aget([_said(text)])),
        STOCK: lambda text: run(stock.aget(input=text)),
        OURS: lambda text: run(ours.aget(input=text)),
    }


def _items(memory: AgenticMemory, notes: int, dice: random.Random) -> dict[str, Ask]:
    """Return the ways to search the items of a LangGraph store."""
    store = langchain_amem.AMemStore(memory)
    for number in range(notes):
        store.put(ITEMS, str(number), {"text": _sentence(dice)})
    return {
        "core: search of items": lambda text: memory.search(text, namespace=ITEMS, k=K),
        "langgraph: AMemStore.search": lambda text: store.search(ITEMS, query=text, limit=K),
    }


def _sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=10))


def _state(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def _said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
