"""By any of the doors two users never see each other's notes, and nothing works on the event loop."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_classic")

from blockbuster import BlockingError, blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import ConfigurableField
from langchain_kit import ANN, Talker, User, scripted, sequence, system_text, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import (
    AMemMemory,
    AMemMiddleware,
    AMemRetriever,
    AMemStore,
    MemoryState,
    build_evolution_graph,
    evolve_node,
    memory_tools,
    open_memory,
    recall_node,
    remember_node,
)

# Says something, as a user in a conversation, and returns all that the memory showed for it.
Say = Callable[[str, str, str], Awaitable[str]]

SECRETS = {"ann": "heron", "bob": "badger"}
QUESTION = "What is the code word?"


class State(MessagesState, MemoryState):
    """A conversation, and what the memory adds to it."""


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def within(thread: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def by_retriever(memory: AgenticMemory) -> Say:
    retriever = AMemRetriever(memory=memory)

    async def say(who: str, text: str, thread: str) -> str:
        found = await retriever.ainvoke(text, namespace=(who,))
        await memory.aadd(text, namespace=(who,), thread=thread)
        return shown(found)

    return say


def by_configured_retriever(memory: AgenticMemory) -> Say:
    retriever = AMemRetriever(memory=memory).configurable_fields(
        namespace=ConfigurableField(id="whose")
    )

    async def say(who: str, text: str, thread: str) -> str:
        found = await retriever.ainvoke(text, within(thread, whose=(who,)))
        await memory.aadd(text, namespace=(who,), thread=thread)
        return shown(found)

    return say


def by_classic_memory(memory: AgenticMemory) -> Say:
    async def say(who: str, text: str, thread: str) -> str:
        mine = AMemMemory(memory=memory, namespace=(who,), thread=thread)
        found = await mine.aload_memory_variables({"input": text})
        await mine.asave_context({"input": text}, {"output": "I see."})
        return str(found["history"])

    return say


def by_middleware(memory: AgenticMemory) -> Say:
    model = Talker(answer=lambda _: "I see.", seen=[])
    middleware = AMemMiddleware(memory, namespace=user)
    options: dict[str, Any] = {"context_schema": User, "checkpointer": InMemorySaver()}
    agent = create_agent(model, [], middleware=[middleware], **options)

    async def say(who: str, text: str, thread: str) -> str:
        await agent.ainvoke(ask(text), within(thread), context=User(who))
        assert await memory.aflush(10)
        mine = [seen for seen in model.seen if seen[-1].text == text]
        return system_text(mine[-1])

    return say


def by_tools(memory: AgenticMemory) -> Say:
    def act(messages: list[BaseMessage]) -> AIMessage:
        """Search for what is asked, then remember it."""
        text = next(m.text for m in reversed(messages) if m.type == "human")
        done = messages[::-1].index(next(m for m in reversed(messages) if m.type == "human"))
        calls = [("search_memory", {"query": text}), ("remember", {"content": text})]
        if done // 2 == len(calls):
            return AIMessage("I see.")
        name, arguments = calls[done // 2]
        call = {"name": name, "args": arguments, "id": str(done), "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    options: dict[str, Any] = {"context_schema": User, "checkpointer": InMemorySaver()}
    agent = create_agent(Talker(answer=act), memory_tools(memory, namespace=user), **options)

    async def say(who: str, text: str, thread: str) -> str:
        state = await agent.ainvoke(ask(text), within(thread), context=User(who))
        searched, _ = [m for m in state["messages"] if m.type == "tool"][-2:]
        return str(searched.text) + json.dumps(searched.artifact)

    return say


def by_nodes(memory: AgenticMemory) -> Say:
    steps = {
        "recall": recall_node(memory, namespace=user),
        "answer": lambda _: {"messages": [AIMessage("I see.")]},
        "remember": remember_node(memory, namespace=user),
        "evolve": evolve_node(memory, namespace=user),
    }
    graph = sequence(State, **steps)

    async def say(who: str, text: str, thread: str) -> str:
        state = await graph.ainvoke(ask(text), within(thread), context=User(who))
        return str(state["memories"])

    return say


def by_evolution_graph(memory: AgenticMemory) -> Say:
    saver = InMemorySaver()
    graph = build_evolution_graph(memory, namespace=user, review=True, checkpointer=saver)

    async def say(who: str, text: str, thread: str) -> str:
        await memory.aadd(text, namespace=(who,), evolve=False)
        context: Any = User(who)
        result = await graph.ainvoke({}, within(thread), context=context)
        entries = [pending.value["entries"] for pending in result.get("__interrupt__", ())]
        if entries:
            await graph.ainvoke(Command(resume=True), within(thread), context=context)
        return json.dumps(entries)

    return say


def by_store(memory: AgenticMemory) -> Say:
    store = AMemStore(memory, evolve=True)

    async def say(who: str, text: str, thread: str) -> str:
        found = await store.asearch((who,), query=text)
        found += await store.asearch((who,))
        known = await store.aget((who,), "last")
        await store.aput((who,), "last", {"text": text})
        await store.aput((who,), text, {"text": text})
        return json.dumps([item.dict() for item in (*found, *([known] if known else []))])

    return say


def shown(found: list[Document]) -> str:
    return json.dumps([document.model_dump() for document in found])


DOORS = [
    by_retriever,
    by_configured_retriever,
    by_classic_memory,
    by_middleware,
    by_tools,
    by_nodes,
    by_evolution_graph,
    by_store,
]


@pytest.fixture
def both() -> Iterator[AgenticMemory]:
    with AgenticMemory.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        yield memory


def check(memory: AgenticMemory, told: dict[str, list[str]]) -> None:
    """Check that each was shown and keeps what is theirs, and nothing else."""
    for who, secret in SECRETS.items():
        (other,) = set(SECRETS) - {who}
        assert any(secret in text for text in told[who])
        assert not any(SECRETS[other] in text for text in told[who])
        notes = memory.get_all(namespace=(who,))
        kept = json.dumps([[n.content, [entry.text for entry in n.contexts]] for n in notes])
        assert secret in kept
        assert SECRETS[other] not in kept
        assert {target for note in notes for target in note.links} <= {note.id for note in notes}
    assert set(memory.namespaces()) == {(who,) for who in SECRETS}


@pytest.mark.parametrize("door", DOORS)
async def test_one_after_the_other_in_one_conversation(both: AgenticMemory, door: Any) -> None:
    say: Say = door(both)
    told: dict[str, list[str]] = {who: [] for who in SECRETS}
    for who, secret in SECRETS.items():
        told[who].append(await say(who, f"The code word is {secret}.", "shared"))
    for number, who in enumerate((*SECRETS, *SECRETS)):
        # What the conversation shows is not recalled in it, but in another one.
        told[who].append(
            await say(who, f"{QUESTION} {number}", "shared" if number < 2 else "later")
        )
    check(both, told)


@pytest.mark.parametrize("door", DOORS)
async def test_at_the_same_time_on_one_event_loop(both: AgenticMemory, door: Any) -> None:
    say: Say = door(both)

    # LangGraph does one thing at a time in a conversation, so here each user has one of their own.
    async def talk(who: str) -> list[str]:
        texts = [f"The code word is {SECRETS[who]}.", *[f"{QUESTION} {i} {who}" for i in range(4)]]
        return [await say(who, text, f"{who} {i // 3}") for i, text in enumerate(texts)]

    told = await asyncio.gather(*map(talk, SECRETS))
    check(both, dict(zip(SECRETS, told, strict=True)))


# On the event loop


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


def by_all_tools(memory: AgenticMemory) -> Say:
    async def say(_who: str, text: str, _thread: str) -> str:
        search, remember, correct, forget = memory_tools(memory, namespace=ANN)
        await search.ainvoke({"query": text})
        await remember.ainvoke({"content": text})
        note = (await memory.aget_all(namespace=ANN))[-1]
        await correct.ainvoke({"note_id": note.id, "content": f"{text} Truly."})
        await forget.ainvoke({"note_id": note.id})
        return ""

    return say


def by_langchains_models(memory: AgenticMemory) -> Say:
    """Work with a chat model and embeddings of LangChain, which have no asynchronous form of their own."""

    async def say(_who: str, text: str, _thread: str) -> str:
        reply = AIMessage(
            '{"notes": [{"id": "n1", "context": "A taste.", "keywords": [], "tags": []}]}'
        )
        chat = GenericFakeChatModel(messages=iter([reply] * 9))
        options: Any = {"model": chat, "embedder": Slow()}
        async with await asyncio.to_thread(open_memory, ":memory:", **options) as other:
            await other.aadd(text, namespace=ANN)
            await other.asearch(text, namespace=ANN)
        await memory.asearch(text, namespace=ANN)
        return ""

    return say


@pytest.mark.parametrize("door", [*DOORS, by_all_tools, by_langchains_models])
async def test_a_door_blocks_nothing(
    disk: AgenticMemory, workers: set[int], caplog: pytest.LogCaptureFixture, door: Any
) -> None:
    say: Say = door(disk)
    await say("ann", "I like Oslo.", "1")  # once before, for what is imported on first use
    workers.clear()
    with blockbuster_ctx():
        await say("ann", "I like jazz.", "2")
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
