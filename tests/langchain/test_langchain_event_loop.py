"""No asynchronous path does Python I/O on the event loop, and none calls a model or an embedder there."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockingError, blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
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
    open_memory,
    recall_node,
    remember_node,
)


class Embedder(HashEmbedder):
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
    model, embedder = Thinker(scripted().generate), Embedder()
    model.workers = embedder.workers = workers
    with AgenticMemory.open(str(tmp_path / "memory"), model=model, embedder=embedder) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        yield memory


class Slow(Embeddings):
    """Embeddings that wait, as those do that ask a server."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        time.sleep(0)
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def by_retriever(memory: AgenticMemory, text: str) -> None:
    await AMemRetriever(memory=memory, namespace=ANN).ainvoke(text)


async def by_classic_memory(memory: AgenticMemory, text: str) -> None:
    classic = AMemMemory(memory=memory, namespace=ANN)
    await classic.aload_memory_variables({"input": text})
    await classic.asave_context({"input": text}, {"output": "Yes."})
    await classic.aclear()
    await memory.aadd(text, namespace=ANN)


async def by_middleware(memory: AgenticMemory, text: str) -> None:
    for remember in (True, False):
        middleware = AMemMiddleware(memory, namespace=user, remember=remember)
        agent = create_agent(
            Talker(answer=oslo),
            [],
            middleware=[middleware],
            context_schema=User,
            checkpointer=InMemorySaver(),
        )
        config: Any = {"configurable": {"thread_id": "1"}}
        for asked in (text, f"{text} Really."):
            await agent.ainvoke({"messages": [HumanMessage(asked)]}, config, context=User("ann"))
        await memory.aflush(timeout=10)


async def by_agent_with_tools(memory: AgenticMemory, text: str) -> None:
    def act(messages: list[Any]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage("Done.")
        call = {"name": "remember", "args": {"content": text}, "id": "1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    kit = memory_tools(memory, namespace=user)
    agent = create_agent(Talker(answer=act), kit, context_schema=User)
    await agent.ainvoke({"messages": [HumanMessage(text)]}, context=User("ann"))


async def by_tools(memory: AgenticMemory, text: str) -> None:
    search, remember, correct, forget = memory_tools(memory, namespace=ANN)
    await search.ainvoke({"query": text})
    await remember.ainvoke({"content": text})
    note = (await memory.aget_all(namespace=ANN))[-1]
    await correct.ainvoke({"note_id": note.id, "content": f"{text} Truly."})
    await forget.ainvoke({"note_id": note.id})


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
    store = AMemStore(memory, evolve=True)
    await store.aput(("items",), text, {"text": text}, ttl=60)
    await store.aput(("items",), f"{text} hidden", {"text": text}, index=False)
    await store.aget(("items",), text, refresh_ttl=True)
    await store.asearch(("items",), query=text)
    await store.asearch((), limit=3)
    await store.alist_namespaces()
    await store.adelete(("items",), text)


async def by_langchains_models(memory: AgenticMemory, text: str) -> None:
    """Work with a chat model and embeddings of LangChain, which have no asynchronous form of their own."""
    reply = AIMessage(
        '{"notes": [{"id": "n1", "context": "A taste.", "keywords": [], "tags": []}]}'
    )
    chat = GenericFakeChatModel(messages=iter([reply] * 9))
    options: Any = {"model": chat, "embedder": Slow()}
    async with await asyncio.to_thread(open_memory, ":memory:", **options) as other:
        await other.aadd(text, namespace=ANN)
        await other.asearch(text, namespace=ANN)
    await memory.asearch(text, namespace=ANN)


@pytest.mark.parametrize(
    "door",
    [
        by_retriever,
        by_classic_memory,
        by_middleware,
        by_tools,
        by_agent_with_tools,
        by_nodes,
        by_evolution_graph,
        by_store,
        by_langchains_models,
    ],
)
async def test_a_door_blocks_nothing(
    disk: AgenticMemory, workers: set[int], caplog: pytest.LogCaptureFixture, door: Any
) -> None:
    await door(disk, "I like Oslo.")  # once before, for what is imported on first use
    workers.clear()
    with blockbuster_ctx():
        await door(disk, "I like jazz.")
    # A door that tolerates failures would go on after a blocking call, and say so.
    assert caplog.records == []
    assert workers
    assert threading.get_ident() not in workers


def write(path: Path) -> None:
    (path / "file").write_text("x", encoding="utf-8")


def ask_a_database(path: Path) -> None:
    sqlite3.connect(":memory:").execute("SELECT 1")


def sleep(_: Path) -> None:
    time.sleep(0)


def look_for_a_file(path: Path) -> None:
    (path / "file").exists()


@pytest.mark.parametrize("block", [write, ask_a_database, sleep, look_for_a_file])
async def test_the_watch_sees_what_it_is_there_for(tmp_path: Path, block: Any) -> None:
    with blockbuster_ctx(), pytest.raises(BlockingError):
        block(tmp_path)
