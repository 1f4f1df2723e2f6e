"""By any of the doors two users never see each other's notes, one message is one note, and nothing works on the event loop."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import product

import langchain_kit as kit
import pytest
from blockbuster import BlockingError, blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import langchain_amem as amem
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

# Says something, as a user in a conversation, and returns all that the memory showed for it.
Say = Callable[[str, str, str], Awaitable[str]]

SECRETS = {"ann": "heron", "bob": "badger"}
QUESTION = "What is the code word?"


def by_retriever(memory):
    retriever = amem.AMemRetriever(memory=memory)

    async def say(who, text, thread):
        found = await retriever.ainvoke(text, namespace=(who,))
        await memory.aadd(text, namespace=(who,), thread=thread)
        return json.dumps([document.model_dump() for document in found])

    return say


def by_classic_memory(memory):
    async def say(who, text, thread):
        mine = amem.AMemMemory(memory=memory, namespace=(who,), thread=thread)
        found = await mine.aload_memory_variables({"input": text})
        await mine.asave_context({"input": text}, {"output": "I see."})
        return str(found["history"])

    return say


def by_middleware(memory):
    model = kit.Talker(answer=lambda _: "I see.")
    agent = kit.agent_of(memory, model)

    async def say(who, text, thread):
        await kit.asay(agent, text, who, thread)
        assert await memory.aflush(10)
        return kit.system_text([seen for seen in model.seen if seen[-1].text == text][-1])

    return say


def by_tools(memory):
    def act(messages):
        """Search for what is asked, then remember it."""
        asked = max(n for n, message in enumerate(messages) if message.type == "human")
        text, done = messages[asked].text, len(messages) - asked - 1
        calls = [kit.called("search_memory", query=text), kit.called("remember", content=text)]
        return calls[done // 2] if done // 2 < len(calls) else "I see."

    options = {"context_schema": kit.User, "checkpointer": InMemorySaver()}
    agent = create_agent(
        kit.Talker(answer=act), amem.memory_tools(memory, namespace=kit.user), **options
    )

    async def say(who, text, thread):
        state = await kit.asay(agent, text, who, thread)
        searched, _ = [m for m in state["messages"] if m.type == "tool"][-2:]
        return str(searched.text) + json.dumps(searched.artifact)

    return say


def by_nodes(memory):
    after = {"evolve": amem.evolve_node(memory, namespace=kit.user)}
    graph = kit.around(memory, answer=lambda _: {"messages": [AIMessage("I see.")]}, after=after)

    async def say(who, text, thread):
        return str((await kit.asay(graph, text, who, thread))["memories"])

    return say


def by_evolution_graph(memory):
    saver = InMemorySaver()
    graph = amem.build_evolution_graph(memory, namespace=kit.user, review=True, checkpointer=saver)

    async def say(who, text, thread):
        await memory.aadd(text, namespace=(who,), evolve=False)
        result = await kit.asay(graph, {}, who, thread)
        entries = [pending.value["entries"] for pending in result.get("__interrupt__", ())]
        if entries:
            await kit.asay(graph, Command(resume=True), who, thread)
        return json.dumps(entries)

    return say


def by_store(memory):
    store = amem.AMemStore(memory, evolve=True)

    async def say(who, text, thread):
        found = [*await store.asearch((who,), query=text), *await store.asearch((who,))]
        known = await store.aget((who,), "last")
        await store.aput((who,), "last", {"text": text})
        await store.aput((who,), text, {"text": text})
        return json.dumps([item.dict() for item in (*found, *([known] if known else []))])

    return say


DOORS = [by_retriever, by_classic_memory, by_middleware, by_tools, by_nodes]
DOORS += [by_evolution_graph, by_store]


@pytest.mark.parametrize("door", DOORS)
async def test_two_users_never_see_each_others_notes(door):
    async def talk(say, who):
        texts = [f"The code word is {SECRETS[who]}.", *[f"{QUESTION} {i} {who}" for i in range(4)]]
        return [await say(who, text, f"{who} {i // 3}") for i, text in enumerate(texts)]

    for at_once in (False, True):
        with AgenticMemory.open(
            ":memory:", model=kit.scripted(), embedder=HashEmbedder()
        ) as memory:
            say, told = door(memory), dict[str, list[str]]()
            if at_once:
                # LangGraph does one thing at a time in a conversation, so here each user has one of their own.
                said = await asyncio.gather(*(talk(say, who) for who in SECRETS))
                told = dict(zip(SECRETS, said, strict=True))
            else:
                for who, secret in SECRETS.items():
                    told[who] = [await say(who, f"The code word is {secret}.", "shared")]
                for number, who in enumerate((*SECRETS, *SECRETS)):
                    # What the conversation shows is not recalled in it, but in another one.
                    place = "shared" if number < 2 else "later"
                    told[who].append(await say(who, f"{QUESTION} {number}", place))
            assert set(memory.namespaces()) == {(who,) for who in SECRETS}
            for who, other in (("ann", "bob"), ("bob", "ann")):
                notes = memory.get_all(namespace=(who,))
                stored = [[n.content, [entry.text for entry in n.contexts]] for n in notes]
                for shown in (str(told[who]), str(stored)):
                    assert (SECRETS[who] in shown, SECRETS[other] in shown) == (True, False)
                ids = {note.id for note in notes}
                assert {target for note in notes for target in note.links} <= ids


# On the event loop


class Slow(Embeddings):
    """Embeddings that wait, as those do that ask a server."""

    def embed_documents(self, texts):
        time.sleep(0)
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def by_all_tools(memory):
    async def say(_who, text, _thread):
        search, remember, correct, forget = amem.memory_tools(memory, namespace=ANN)
        await search.ainvoke({"query": text})
        await remember.ainvoke({"content": text})
        note = (await memory.aget_all(namespace=ANN))[-1]
        await correct.ainvoke({"note_id": note.id, "content": f"{text} Truly."})
        await forget.ainvoke({"note_id": note.id})
        return ""

    return say


def by_langchains_models(memory):
    """Work with a chat model and embeddings of LangChain, which have no asynchronous form of their own."""
    reply = '{"notes": [{"id": "n1", "context": "A taste.", "keywords": [], "tags": []}]}'

    async def say(_who, text, _thread):
        chat = GenericFakeChatModel(messages=iter([AIMessage(reply)] * 9))
        options = {"model": chat, "embedder": Slow()}
        async with await asyncio.to_thread(amem.open_memory, ":memory:", **options) as other:
            await other.aadd(text, namespace=ANN)
            await other.asearch(text, namespace=ANN)
        await memory.asearch(text, namespace=ANN)
        return ""

    return say


@pytest.fixture
def disk(tmp_path):
    workers, model, embedder = set[int](), kit.scripted(), HashEmbedder()

    def noting(work):
        """Return the work, which notes in which thread it is done."""

        def noted(given):
            workers.add(threading.get_ident())
            return work(given)

        return noted

    model.generate, embedder.embed_query = noting(model.generate), noting(embedder.embed_query)
    with AgenticMemory.open(str(tmp_path / "memory"), model=model, embedder=embedder) as memory:
        memory.add("I moved to Oslo.", namespace=ANN)
        yield memory, workers


@pytest.mark.parametrize("door", [*DOORS, by_all_tools, by_langchains_models])
async def test_a_door_blocks_nothing(disk, caplog, door):
    memory, workers = disk
    say = door(memory)
    await say("ann", "I like Oslo.", "1")  # once before, for what is imported on first use
    workers.clear()
    with blockbuster_ctx():
        await say("ann", "I like jazz.", "2")
    # A door that tolerates failures would go on after a blocking call, and say so.
    assert caplog.records == []
    assert workers
    assert threading.get_ident() not in workers


async def test_the_watch_sees_what_it_is_there_for(tmp_path):
    file = tmp_path / "file"
    for block in (
        lambda: file.write_text("x", encoding="utf-8"),
        lambda: sqlite3.connect(":memory:").execute("SELECT 1"),
        lambda: time.sleep(0),
        file.exists,
    ):
        with blockbuster_ctx(), pytest.raises(BlockingError):
            block()


# One message is one note, whichever door it comes through, and two messages are two

TURNS = [
    (HumanMessage, "I moved to Oslo."),
    (AIMessage, "ok"),
    (HumanMessage, "ok"),
    (AIMessage, "ok"),
]


def core_stores(memory, said, space):
    roles = {"human": "user", "ai": "assistant"}
    dicts = [{"role": roles[one.type], "content": one.text, "id": one.id} for one in said]
    memory.add_messages(dicts, namespace=space, thread="1")


def node_stores(memory, said, space):
    node = amem.remember_node(memory, namespace=space)
    for end in (2, 4):
        node.invoke({"messages": said[:end]}, kit.within())


def chain_stores(memory, said, space):
    for pair in (said[:2], said[2:]):
        mine = amem.AMemMemory(memory=memory, namespace=space, thread="1", evolve=False)
        asked, answered = (one if one.id else one.text for one in pair)
        mine.save_context({"input": asked}, {"output": answered})


def agent_stores(memory, said, space):
    replies, history = iter(said[1::2]), []
    model = kit.Talker(answer=lambda _: next(replies))
    agent = kit.agent_of(memory, model, namespace=space, evolve=False, keeps=False)
    for asked in said[::2]:
        history = agent.invoke({"messages": [*history, asked]}, kit.within())["messages"]


@pytest.mark.parametrize("with_ids", [True, False])
def test_the_same_messages_by_two_doors_are_the_same_notes(memory, with_ids):
    said = [kind(text, id=str(n) if with_ids else None) for n, (kind, text) in enumerate(TURNS)]
    # Without ids an agent gives each message one, and a chain that says the same again goes on with its thread.
    first = [core_stores, node_stores, chain_stores, *([agent_stores] if with_ids else [])]
    second = [core_stores, node_stores, *([chain_stores, agent_stores] if with_ids else [])]
    for one, other in product(first, second):
        one(memory, said, space := (one.__name__, other.__name__))
        notes = memory.get_all(namespace=space)
        assert [note.content for note in notes] == [text for _, text in TURNS]
        other(memory, said, space)
        assert [note.id for note in memory.get_all(namespace=space)] == [n.id for n in notes]


TIME = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
CARRIED = [
    {"additional_kwargs": {"created_at": TIME.isoformat()}},
    {"additional_kwargs": {"timestamp": TIME}},
    {"response_metadata": {"created_at": "2023-05-08T13:56:00.000000000Z"}},
    {"response_metadata": {"timestamp": TIME.timestamp()}},
    {"response_metadata": {"timestamp": int(TIME.timestamp() * 1000)}},
]
UNUSABLE = [None, "soon", "2023-05-08T13:56:00", "0001-01-01T00:00:00+14:00", True, 1e300]


def test_a_note_has_the_time_that_its_message_carries(memory):
    node = amem.remember_node(memory, namespace=ANN)

    def stored(message):
        node.invoke({"messages": [message]}, kit.within())
        return memory.get_all(namespace=ANN)[-1].at

    for number, carried in enumerate(CARRIED):
        assert stored(HumanMessage("We met yesterday.", id=f"with {number}", **carried)) == TIME
    for number, time_ in enumerate(UNUSABLE):  # it was said now
        before, extra = datetime.now(UTC), {"created_at": time_}
        message = HumanMessage("We met.", id=f"without {number}", additional_kwargs=extra)
        assert before <= (at := stored(message)) <= datetime.now(UTC)
        assert stored(message) == at
