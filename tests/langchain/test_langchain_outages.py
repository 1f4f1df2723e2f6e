"""What a run could not store is stored later: for whom it was said to, and with the time at which it was said."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain_classic")

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_kit import ANN, BOB, Silent, Talker, User, sequence, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMemory, AMemMiddleware, MemoryState, recall_node, remember_node

THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(MessagesState, MemoryState):
    """A conversation, and what the memory adds to it."""


class WithoutIds(MemoryState):
    """A conversation whose messages have no ids."""

    messages: Annotated[list[Any], operator.add]


@pytest.fixture
def flaky() -> Iterator[Silent]:
    with Silent.open(":memory:", embedder=HashEmbedder()) as memory:
        yield memory


def answered(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(f"re: {state['messages'][-1].text}")]}


def by_remember_node(memory: AgenticMemory, **options: Any) -> Any:
    remember = remember_node(memory, namespace=user, **options)
    return sequence(State, answer=answered, remember=remember)


def by_both_nodes(memory: AgenticMemory, **options: Any) -> Any:
    remember = remember_node(memory, namespace=user, **options)
    recall = recall_node(memory, namespace=user)
    return sequence(State, recall=recall, answer=answered, remember=remember)


def by_node_without_ids(memory: AgenticMemory, **options: Any) -> Any:
    remember = remember_node(memory, namespace=user, **options)
    return sequence(WithoutIds, answer=answered, remember=remember)


def by_middleware(memory: AgenticMemory, **options: Any) -> Any:
    return create_agent(
        Talker(answer=lambda messages: f"re: {messages[-1].text}"),
        [],
        middleware=[AMemMiddleware(memory, namespace=user, **options)],
        context_schema=User,
        checkpointer=InMemorySaver(),
    )


DOORS = [by_remember_node, by_both_nodes, by_node_without_ids, by_middleware]
all_doors = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)


def say(graph: Any, memory: Silent, text: str, who: str = "ann", *, down: bool = False) -> None:
    memory.down = down
    graph.invoke({"messages": [HumanMessage(text)]}, THREAD, context=User(who))
    memory.down = False


def kept(memory: AgenticMemory, namespace: tuple[str, ...]) -> list[str]:
    return [note.content for note in memory.get_all(namespace=namespace)]


def turns(*said: str) -> list[str]:
    return [text for one in said for text in (one, f"re: {one}")]


@all_doors
@pytest.mark.parametrize("outage", [{"1."}, {"1.", "2."}, {"2.", "3."}], ids=sorted)
def test_turns_of_an_outage_are_stored_after_it(flaky: Silent, door: Any, outage: set[str]) -> None:
    graph = door(flaky)
    for text in ("1.", "2.", "3.", "4."):
        say(graph, flaky, text, down=text in outage)
    assert kept(flaky, ANN) == turns("1.", "2.", "3.", "4.")


@pytest.mark.parametrize("door", [by_remember_node, by_both_nodes])
def test_what_an_outage_left_is_not_evolved_all_at_once(flaky: Silent, door: Any) -> None:
    graph = door(flaky)
    for text in ("1.", "2.", "3."):
        say(graph, flaky, text, down=True)
    say(graph, flaky, "4.")
    ids = graph.get_state(THREAD).values["remembered"]
    contents = [flaky.get(note_id, namespace=ANN).content for note_id in ids]
    assert contents == turns("4.")  # the others are left-overs, of which each turn takes some


@all_doors
def test_an_outage_of_the_first_turn_of_an_awaited_run(flaky: Silent, door: Any) -> None:
    graph = door(flaky)

    async def talk() -> None:
        for text in ("1.", "2."):
            flaky.down = text == "1."
            await graph.ainvoke({"messages": [HumanMessage(text)]}, THREAD, context=User("ann"))

    asyncio.run(talk())
    assert kept(flaky, ANN) == turns("1.", "2.")


@all_doors
def test_after_an_outage_each_user_has_their_own_turns(flaky: Silent, door: Any) -> None:
    graph = door(flaky)
    for text, who in (("1.", "ann"), ("2.", "bob"), ("3.", "ann")):
        say(graph, flaky, text, who, down=True)
    say(graph, flaky, "4.", "bob")
    assert kept(flaky, ANN) == []
    assert kept(flaky, BOB) == turns("2.", "4.")
    say(graph, flaky, "5.", "ann")
    assert kept(flaky, ANN) == turns("1.", "3.", "5.")
    assert kept(flaky, BOB) == turns("2.", "4.")


@all_doors
def test_what_is_stored_later_has_the_time_at_which_it_was_said(flaky: Silent, door: Any) -> None:
    graph = door(flaky)
    say(graph, flaky, "1.", down=True)
    say(graph, flaky, "2.")
    times = [note.at for note in flaky.get_all(namespace=ANN)]
    assert times[0] <= times[1] < times[2] <= times[3]


def test_a_turn_is_stored_later_although_the_one_before_was_trimmed(flaky: Silent) -> None:
    graph = by_remember_node(flaky)
    say(graph, flaky, "1.")
    say(graph, flaky, "2.", down=True)
    first, second, *_ = graph.get_state(THREAD).values["messages"]
    removed = [RemoveMessage(id=first.id), RemoveMessage(id=second.id)]
    graph.update_state(THREAD, {"messages": removed})
    say(graph, flaky, "3.")
    assert kept(flaky, ANN) == turns("1.", "2.", "3.")


def test_a_question_that_was_removed_lets_nobody_have_the_turns_of_others(flaky: Silent) -> None:
    graph = by_both_nodes(flaky)
    say(graph, flaky, "1.", "bob")
    say(graph, flaky, "2.", "ann", down=True)
    question = graph.get_state(THREAD).values["messages"][2]
    graph.update_state(THREAD, {"messages": [RemoveMessage(id=question.id)]})
    say(graph, flaky, "3.", "ann")
    assert kept(flaky, BOB) == turns("1.")
    assert kept(flaky, ANN)[-2:] == turns("3.")
    assert not set(turns("1.")) & set(kept(flaky, ANN))


def test_what_was_asked_before_an_interrupt_stays_with_whom_it_began_in_an_outage(
    flaky: Silent,
) -> None:
    def approved(state: Any) -> dict[str, Any]:
        interrupt("May I?")
        return answered(state)

    nodes = [recall_node(flaky, namespace=user), remember_node(flaky, namespace=user)]
    graph = sequence(State, recall=nodes[0], answer=approved, remember=nodes[1])
    say(graph, flaky, "1.", "ann")
    flaky.down = True
    graph.invoke(Command(resume=True), THREAD, context=User("bob"))
    say(graph, flaky, "2.", "bob")
    graph.invoke(Command(resume=True), THREAD, context=User("bob"))
    say(graph, flaky, "3.", "ann")
    graph.invoke(Command(resume=True), THREAD, context=User("ann"))
    assert kept(flaky, ANN) == turns("1.", "3.")
    assert kept(flaky, BOB) == turns("2.")


def test_two_nodes_whose_namespaces_are_lambdas_keep_to_their_own(flaky: Silent) -> None:
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as other:
        mine = remember_node(flaky, namespace=lambda run: (run.context.user_id,))
        team = remember_node(other, namespace=lambda run: ("team", run.context.user_id))
        graph = sequence(State, answer=answered, mine=mine, team=team)
        say(graph, flaky, "1.", down=True)
        say(graph, flaky, "2.")
        assert kept(flaky, ANN) == kept(other, ("team", "ann")) == turns("1.", "2.")
        assert [*flaky.namespaces(), *other.namespaces()] == [ANN, ("team", "ann")]


@pytest.mark.parametrize("door", [by_remember_node, by_both_nodes, by_middleware])
def test_a_message_that_was_edited_after_its_turn_changes_its_note(
    flaky: Silent, door: Any
) -> None:
    graph = door(flaky)
    for text in ("I live in Rome.", "I live in Oslo."):
        message = HumanMessage(text, id="1")
        graph.invoke({"messages": [message]}, THREAD, context=User("ann"))
    assert kept(flaky, ANN)[0] == "I live in Oslo."
    assert kept(flaky, ANN).count("I live in Rome.") == 0


def test_without_a_checkpointer_what_waits_is_stored_by_the_next_run_of_the_same_user(
    flaky: Silent,
) -> None:
    model = Talker(answer=lambda messages: f"re: {messages[-1].text}")
    middleware: Any = [AMemMiddleware(flaky, namespace=user)]
    agent = create_agent(model, [], middleware=middleware, context_schema=User)
    say(agent, flaky, "1.", "ann", down=True)
    say(agent, flaky, "2.", "bob", down=True)
    for text, who in (("3.", "bob"), ("4.", "ann")):
        say(agent, flaky, text, who)
    assert kept(flaky, ANN) == turns("1.", "4.")
    assert kept(flaky, BOB) == turns("2.", "3.")


def test_an_agent_within_a_graph_whose_state_is_not_kept_loses_nothing(flaky: Silent) -> None:
    agent = create_agent(
        Talker(answer=lambda messages: f"re: {messages[-1].text}"),
        [],
        middleware=[AMemMiddleware(flaky, namespace=user)],
        context_schema=User,
    )
    graph = sequence(State, agent=agent)
    for text in ("1.", "2.", "3."):
        say(graph, flaky, text, down=text == "2.")
    assert kept(flaky, ANN) == turns("1.", "2.", "3.")


@pytest.mark.parametrize("thread", [None, "monday"])
def test_the_memory_of_a_classic_chain_stores_the_turns_of_an_outage_after_it(
    flaky: Silent, thread: str | None
) -> None:
    memory = AMemMemory(memory=flaky, namespace=ANN, thread=thread)
    for text in ("1.", "2.", "3.", "3."):
        flaky.down = text in ("1.", "2.")
        memory.save_context({"input": text}, {"output": f"re: {text}"})
    assert kept(flaky, ANN) == turns("1.", "2.", "3.", "3.")
    assert flaky.flush(timeout=10)
    assert {note.state for note in flaky.get_all(namespace=ANN)} == {"done"}
