"""No asynchronous path does Python I/O on the event loop, and none calls a model or an encoder there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_kit import ANN, Talker, User, oslo, scripted, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import (
    AMemMemory,
    AMemMiddleware,
    AMemRetriever,
    AMemStore,
    build_evolution_graph,
    evolve_node,
    memory_tools,
    recall_node,
    remember_node,
)

BLOCKING = ("open", "socket.", "sqlite3.", "subprocess.", "time.sleep", "shutil.", "os.")

watched: set[int] = set()
seen: list[str] = []


def audit(event: str, _: Any) -> None:
    if threading.get_ident() in watched and event.startswith(BLOCKING):
        seen.append(event)


sys.addaudithook(audit)  # it cannot be taken away again; with nobody watched it does nothing


class Loop:
    """Says what was done on the event loop that should not be."""

    def __enter__(self) -> Self:
        seen.clear()
        watched.add(threading.get_ident())
        return self

    def __exit__(self, *error: object) -> None:
        watched.clear()


class Encoder(HashEmbedder):
    """Notes in which threads it works."""

    workers: set[int]

    def embed_query(self, text: str) -> Any:
        self.workers.add(threading.get_ident())
        return super().embed_query(text)


class Thinker(ScriptedModel):
    """Notes in which threads it works."""

    workers: set[int]

    def generate(self, request: Any) -> Any:
        self.workers.add(threading.get_ident())
        return super().generate(request)


@pytest.fixture
def workers() -> set[int]:
    return set()


@pytest.fixture
def disk(tmp_path: Path, workers: set[int]) -> Iterator[AgenticMemory]:
    model, embedder = Thinker(scripted().generate), Encoder()
    model.workers = embedder.workers = workers
    with AgenticMemory.open(str(tmp_path / "memory"), model=model, embedder=embedder) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        yield memory


async def by_retriever(memory: AgenticMemory, text: str) -> None:
    await AMemRetriever(memory=memory, namespace=ANN).ainvoke(text)


async def by_classic_memory(memory: AgenticMemory, text: str) -> None:
    classic = AMemMemory(memory=memory, namespace=ANN)
    await classic.aload_memory_variables({"input": text})
    await classic.asave_context({"input": text}, {"output": "Yes."})


async def by_middleware(memory: AgenticMemory, text: str) -> None:
    middleware = AMemMiddleware(memory, namespace=user)
    agent = create_agent(Talker(answer=oslo), [], middleware=[middleware], context_schema=User)
    await agent.ainvoke({"messages": [HumanMessage(text)]}, context=User("ann"))


async def by_tools(memory: AgenticMemory, text: str) -> None:
    search, remember, *_ = memory_tools(memory, namespace=ANN)
    await search.ainvoke({"query": text})
    await remember.ainvoke({"content": text})


async def by_nodes(memory: AgenticMemory, text: str) -> None:
    state = {"messages": [HumanMessage(text)]}
    for make in (recall_node, remember_node, evolve_node):
        await make(memory, namespace=ANN).ainvoke(state)  # type: ignore[operator]


async def by_evolution_graph(memory: AgenticMemory, text: str) -> None:
    await memory.aadd(text, namespace=ANN, evolve=False)
    graph = build_evolution_graph(memory, review=True, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": text}}
    await graph.ainvoke({"namespace": list(ANN)}, config)
    await graph.ainvoke(Command(resume=True), config)


async def by_store(memory: AgenticMemory, text: str) -> None:
    store = AMemStore(memory, evolve_on_put=True)
    await store.aput(("items",), text, {"text": text})
    await store.asearch(("items",), query=text)


@pytest.mark.parametrize(
    "door",
    [
        by_retriever,
        by_classic_memory,
        by_middleware,
        by_tools,
        by_nodes,
        by_evolution_graph,
        by_store,
    ],
)
async def test_a_door_blocks_nothing(disk: AgenticMemory, workers: set[int], door: Any) -> None:
    await door(disk, "I like Oslo.")  # once before, for what is imported on first use
    workers.clear()
    with Loop():
        await door(disk, "I like jazz.")
    assert seen == []
    assert workers
    assert threading.get_ident() not in workers


def test_the_watch_sees_what_it_is_there_for(tmp_path: Path) -> None:
    with Loop():
        (tmp_path / "file").write_text("x", encoding="utf-8")
    assert seen
