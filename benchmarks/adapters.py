"""What a recall and a whole turn cost through each adapter, beside the core's own.

All are measured by turns, in one process and over one folder, in milliseconds of its processor time. A turn recalls notes for a
question and stores the question and the answer, which evolve when it has been timed; it stands beside one search and two raw
adds. The time of the embedder is taken off both. Taken off a turn is also what the framework takes for the turn without long-term
memory: LangChain an agent without a middleware, LlamaIndex a `Memory` without blocks over a history that is kept as ours is.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

import langchain_amem
import llamaindex_amem
from amem_integrations import AgenticMemory
from amem_integrations.stored_note import Vector
from amem_integrations.testing import HashEmbedder

from .command import script
from .timing import by_turns, print_ratio

K = 10
ANN, ITEMS = ("ann",), ("items", "ann")
RATIO, GRACE_MS, CALLS = 1.5, 1.0, 2
WORDS = [f"word{n}" for n in range(2000)]

Act = Callable[[str], object]
Run = Callable[[Coroutine[Any, Any, object]], object]
# By the name of what is measured: the core's own, ours, and what the framework does without us.
Acts = dict[str, tuple[Act, Act, Act | None]]


class Counted(HashEmbedder):
    """An embedder that adds up its calls and the milliseconds that they take of the processor."""

    def __init__(self) -> None:
        super().__init__(384)
        self.calls, self.ms = 0, 0.0
        self._vectors = HashEmbedder(384)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of the texts."""
        return self._counted(lambda: self._vectors.embed_documents(texts))

    def embed_query(self, text: str) -> Vector:
        """Return the vector of the text."""
        return self._counted(lambda: self._vectors.embed_query(text))

    def _counted(self, embed: Callable[[], Vector]) -> Vector:
        start = time.process_time()
        vectors = embed()
        self.calls += 1
        self.ms += (time.process_time() - start) * 1000
        return vectors


def measure(notes: int, rounds: int) -> None:
    """Print what each way to recall costs, and what a turn does."""
    dice, embedder = random.Random(1), Counted()
    with (
        TemporaryDirectory(prefix="amem-bench-") as folder,
        AgenticMemory.open(folder, embedder=embedder) as memory,
        asyncio.Runner() as runner,
    ):
        memory.add_many([_sentence(dice) for _ in range(notes)], namespace=ANN)
        acts = _recalls(memory, runner.run) | _items(memory, notes, dice)
        turns = _turns(memory, runner.run)
        print(
            f"{notes} notes, k={K}, {rounds} rounds\n{'':36}{'core':>12}{'adapter':>12}{'ratio':>8}"
        )
        compare(acts, memory, embedder, rounds, dice, grace=GRACE_MS)
        compare(turns, memory, embedder, rounds, dice)
        for name, (_, ours, _) in turns.items():
            before = embedder.calls
            ours(_sentence(dice))
            met = "aim met" if (calls := embedder.calls - before) <= CALLS else "AIM MISSED"
            print(f"{name}: {calls} calls of the embedder  {met}")


def compare(
    acts: Acts,
    memory: AgenticMemory,
    embedder: Counted,
    rounds: int,
    dice: random.Random,
    grace: float = 0,
) -> None:
    """Print a line for each: the milliseconds of the core and of the adapter, less those of embedder and framework."""

    def timed(act: Callable[[], object]) -> float:
        before, start = embedder.ms, time.process_time()
        act()
        taken = (time.process_time() - start) * 1000 - (embedder.ms - before)
        memory.evolve(namespace=ANN)
        return taken

    for name, some in acts.items():
        parts = {str(n): act for n, act in enumerate(some) if act is not None}
        for act in parts.values():
            act(f"warm {_sentence(dice)}")
        # No two of them say the same: what one has stored, another would find again.
        said = {n: [_sentence(dice) for _ in range(rounds)] for n in parts}
        operations = {n: lambda number, n=n: parts[n](said[n][number]) for n in parts}  # noqa: B023
        core, ours, *stock = by_turns(operations, rounds, timed).values()
        for framework in stock:
            ours = [one - other for one, other in zip(ours, framework, strict=True)]
        print_ratio(name, core, ours, aim=RATIO, grace=grace)


def _recalls(memory: AgenticMemory, run: Run) -> Acts:
    """Return the ways to search notes."""
    retriever = langchain_amem.AMemRetriever(memory=memory, namespace=ANN, k=K)
    chain = langchain_amem.AMemMemory(memory=memory, namespace=ANN, k=K)
    node = langchain_amem.recall_node(memory, namespace=ANN, k=K)
    (tool,) = langchain_amem.memory_tools(memory, namespace=ANN, kinds=["search"], k=K)
    index = llamaindex_amem.AMemRetriever(memory, ANN)
    block = llamaindex_amem.AMemMemoryBlock(memory=memory, namespace=ANN, k=K)
    search: Act = lambda text: memory.search(text, namespace=ANN, k=K)  # noqa: E731
    asearch: Act = lambda text: run(memory.asearch(text, namespace=ANN, k=K))  # noqa: E731
    ways: dict[str, tuple[Act, Act]] = {
        "langchain: AMemRetriever.invoke": (search, retriever.invoke),
        "langchain: AMemMemory": (
            search,
            lambda text: chain.load_memory_variables({"input": text}),
        ),
        "langchain: recall_node.invoke": (search, lambda text: node.invoke(_state(text))),
        "langchain: search_memory": (search, lambda text: tool.invoke({"query": text})),
        "llamaindex: AMemRetriever.retrieve": (search, index.retrieve),
        "langchain: AMemRetriever.ainvoke": (asearch, lambda text: run(retriever.ainvoke(text))),
        "langchain: recall_node.ainvoke": (asearch, lambda text: run(node.ainvoke(_state(text)))),
        "llamaindex: AMemRetriever.aretrieve": (asearch, lambda text: run(index.aretrieve(text))),
        "llamaindex: AMemMemoryBlock.aget": (asearch, lambda text: run(block.aget([_said(text)]))),
    }
    return {name: (core, ours, None) for name, (core, ours) in ways.items()}


def _items(memory: AgenticMemory, notes: int, dice: random.Random) -> Acts:
    """Return the way to search the items of a LangGraph store."""
    store = langchain_amem.AMemStore(memory)
    for number in range(notes):
        store.put(ITEMS, str(number), {"text": _sentence(dice)})
    core: Act = lambda text: memory.search(text, namespace=ITEMS, k=K)  # noqa: E731
    ours: Act = lambda text: store.search(ITEMS, query=text, limit=K)  # noqa: E731
    return {"langgraph: AMemStore.search": (core, ours, None)}


def _turns(memory: AgenticMemory, run: Run) -> Acts:
    """Return a turn of an agent of LangChain, and one of a memory of LlamaIndex."""

    def core(text: str) -> None:
        memory.search(text, namespace=ANN, k=K)
        for said in (text, f"Yes, {text}"):
            memory.add(said, namespace=ANN, evolve=False)

    async def acore(text: str) -> None:
        await memory.asearch(text, namespace=ANN, k=K)
        for said in (text, f"Yes, {text}"):
            await memory.aadd(said, namespace=ANN, evolve=False)

    async def chat(history: Memory, text: str) -> None:
        await history.aput(_said(text))
        await history.aget(input=text)
        await history.aput(ChatMessage(role="assistant", content=f"So you say: {text}"))

    middleware = langchain_amem.AMemMiddleware(memory, namespace=ANN, k=K, evolve=False)
    agents = [create_agent(_answering(), middleware=some) for some in ([middleware], [])]
    ours = llamaindex_amem.AMemMemory.from_defaults(memory=memory, namespace=ANN, k=K, evolve=False)
    # LlamaIndex's own store of a history is a SQL database, which costs more than all the rest.
    stock = Memory.from_defaults(chat_store=type(ours.sql_store)())
    invokes: list[Act] = [lambda text, agent=agent: agent.invoke(_state(text)) for agent in agents]  # type: ignore[misc]
    return {
        "langchain: a turn of AMemMiddleware": (core, invokes[0], invokes[1]),
        "llamaindex: a turn of AMemMemory": (
            lambda text: run(acore(text)),
            lambda text: run(chat(ours, text)),
            lambda text: run(chat(stock, text)),
        ),
    }


def _answering() -> GenericFakeChatModel:
    """Return a chat model that answers at once, each time another thing."""
    return GenericFakeChatModel(messages=(AIMessage(f"It is {n}.") for n in count()))


def _sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=10))


def _state(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def _said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


main = script("adapters", __doc__, measure, notes=1000, rounds=100)

if __name__ == "__main__":
    sys.exit(main())
