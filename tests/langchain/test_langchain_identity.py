"""One message is one note, whichever door it comes through, and two messages are two."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("langchain_classic")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_kit import ANN, Contents, Talker

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import (
    AMemMemory,
    AMemMiddleware,
    remember_node,
)

THREAD = "t"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}
TURNS = [("user", "I moved to Oslo."), ("assistant", "ok"), ("user", "ok"), ("assistant", "ok")]

Store = Callable[[AgenticMemory, list[tuple[str, str]], bool], None]


def messages(turns: list[tuple[str, str]], with_ids: bool) -> list[BaseMessage]:
    kinds: dict[str, Any] = {"user": HumanMessage, "assistant": AIMessage}
    return [
        kinds[role](text, id=str(number) if with_ids else None)
        for number, (role, text) in enumerate(turns)
    ]


def by_core(memory: AgenticMemory, turns: list[tuple[str, str]], with_ids: bool) -> None:
    dicts = [
        {"role": role, "content": text, **({"id": str(number)} if with_ids else {})}
        for number, (role, text) in enumerate(turns)
    ]
    memory.add_messages(dicts, namespace=ANN, thread=THREAD)


def by_node(memory: AgenticMemory, turns: list[tuple[str, str]], with_ids: bool) -> None:
    node = remember_node(memory, namespace=ANN)
    said = messages(turns, with_ids)
    for end in range(2, len(said) + 1, 2):
        node.invoke({"messages": said[:end]}, CONFIG)


def by_classic_memory(memory: AgenticMemory, turns: list[tuple[str, str]], with_ids: bool) -> None:
    said = messages(turns, with_ids)
    for number in range(0, len(said), 2):
        mine = AMemMemory(memory=memory, namespace=ANN, thread=THREAD, evolve=False)
        asked, answered = said[number : number + 2]
        given: Any = (asked, answered) if with_ids else (asked.text, answered.text)
        mine.save_context({"input": given[0]}, {"output": given[1]})


def by_middleware(memory: AgenticMemory, turns: list[tuple[str, str]], with_ids: bool) -> None:
    said = messages(turns, with_ids)
    replies = iter(said[1::2])
    middleware = AMemMiddleware(memory, namespace=ANN, evolve=False)
    agent = create_agent(Talker(answer=lambda _: next(replies)), [], middleware=[middleware])  # type: ignore[arg-type,return-value]
    history: list[Any] = []
    for asked in said[::2]:
        history = agent.invoke({"messages": [*history, asked]}, CONFIG)["messages"]


DOORS: dict[str, tuple[Store, ...]] = {
    "with ids": (by_core, by_node, by_classic_memory, by_middleware),
    "without ids": (by_core, by_node, by_classic_memory),  # an agent gives every message an id
}


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [(k, a, b) for k, doors in DOORS.items() for a in doors for b in doors if a is not b],
)
def test_the_same_messages_by_two_doors_are_the_same_notes(
    memory: AgenticMemory, kind: str, first: Store, second: Store
) -> None:
    first(memory, TURNS, kind == "with ids")
    notes = memory.get_all(namespace=ANN)
    assert [note.content for note in notes] == [text for _, text in TURNS]
    if second is by_classic_memory and kind == "without ids":
        return  # it counts what is stored: a chain that says the same again goes on with the thread
    second(memory, TURNS, kind == "with ids")
    assert [note.id for note in memory.get_all(namespace=ANN)] == [note.id for note in notes]


def test_two_threads_of_one_user_may_use_the_same_message_ids(
    memory: AgenticMemory, contents: Contents
) -> None:
    node = remember_node(memory, namespace=ANN)
    for thread, text in (("monday", "I moved to Oslo."), ("tuesday", "I like jazz.")):
        config: Any = {"configurable": {"thread_id": thread}}
        node.invoke({"messages": [HumanMessage(text, id="1"), AIMessage("ok", id="1")]}, config)
    assert contents(ANN) == ["I moved to Oslo.", "ok", "I like jazz.", "ok"]


TEXTS = st.lists(st.sampled_from(["ok", "yes", "I moved to Oslo."]), min_size=1, max_size=5)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(threads=st.lists(TEXTS, min_size=1, max_size=3))
def test_each_turn_that_a_chain_saves_is_one_more_of_its_thread(threads: list[list[str]]) -> None:
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        names = [None, "a", "b"][: len(threads)]
        for thread, texts in zip(names, threads, strict=True):
            for text in texts:
                mine = AMemMemory(memory=memory, namespace=ANN, thread=thread, evolve=False)
                mine.save_context({"input": text}, {"output": text})
        for thread, texts in zip(names, threads, strict=True):
            stored = memory.get_all(namespace=ANN, where={"thread": thread})
            assert [note.content for note in stored] == [t for text in texts for t in (text, text)]


TIME = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    "carried",
    [
        {"additional_kwargs": {"created_at": TIME.isoformat()}},
        {"additional_kwargs": {"timestamp": TIME}},
        {"response_metadata": {"created_at": "2023-05-08T13:56:00.000000000Z"}},
        {"response_metadata": {"timestamp": TIME.timestamp()}},
        {"response_metadata": {"timestamp": int(TIME.timestamp() * 1000)}},
    ],
)
def test_a_note_has_the_time_that_its_message_carries(memory: AgenticMemory, carried: Any) -> None:
    message = HumanMessage("I moved to Oslo yesterday.", **carried)
    remember_node(memory, namespace=ANN).invoke({"messages": [message]})
    assert memory.get_all(namespace=ANN)[0].at == TIME


@pytest.mark.parametrize(
    "carried", [None, "soon", "2023-05-08T13:56:00", "0001-01-01T00:00:00+14:00", True, 1e300]
)
def test_a_message_without_a_usable_time_was_said_now(memory: AgenticMemory, carried: Any) -> None:
    before = datetime.now(UTC)
    message = HumanMessage("I moved to Oslo.", id="1", additional_kwargs={"created_at": carried})
    node = remember_node(memory, namespace=ANN)
    node.invoke({"messages": [message]})
    at = memory.get_all(namespace=ANN)[0].at
    assert at is not None
    assert before <= at <= datetime.now(UTC)
    node.invoke({"messages": [message]})
    assert memory.get_all(namespace=ANN)[0].at == at
