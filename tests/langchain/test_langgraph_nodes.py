"""recall → answer → remember → evolve: evolution is a step of its own, after the answer."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_kit import ANN, BOB, Contents, Silent, User, scripted, sequence, user
from langgraph.graph import MessagesState
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from amem_integrations import (
    AgenticMemory,
    MemoryConfig,
    ModelUnavailableError,
    NamespaceError,
)
from amem_integrations.adapting import LEFT_OVERS
from amem_integrations.conversation import message_key
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import MemoryState, evolve_node, failures, recall_node, remember_node

# The time of this message is none in UTC, so the message cannot be stored.


class State(MessagesState, MemoryState):
    """A conversation, and what the memory adds to it."""

    plan: str


def answer(state: State) -> dict[str, Any]:
    """Answer with what was recalled."""
    known = "Oslo" in state["memories"]
    return {"messages": [AIMessage("In Oslo." if known else "I do not know.")]}


def build(memory: AgenticMemory, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph in which the memory takes three of four steps."""
    options = {"namespace": user, **options}
    return sequence(
        State,
        recall=recall_node(memory, **options),
        answer=answer,
        remember=remember_node(memory, **options),
        evolve=evolve_node(memory, namespace=options["namespace"]),
    )


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def ask(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.mark.on_a_server
def test_notes_are_raw_when_the_answer_is_given_and_done_after_evolve(
    memory: AgenticMemory, model: ScriptedModel
) -> None:
    graph = build(memory)
    steps = graph.stream(
        ask("I moved to Oslo."), thread("1"), context=User("ann"), stream_mode="updates"
    )
    seen: dict[str, tuple[int, list[str]]] = {}
    for step in steps:
        (name,) = step
        states = [note.state for note in memory.get_all(namespace=ANN)]
        seen[name] = (len(model.requests), states)
    assert seen["answer"] == (0, [])
    assert seen["remember"] == (0, ["pending", "pending"])
    assert seen["evolve"] == (2, ["done", "done"])


@pytest.mark.on_a_server
def test_evolution_changes_earlier_notes_and_reports_it(memory: AgenticMemory) -> None:
    graph = build(memory)
    state = graph.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    first = state["remembered"][0]
    assert state["evolution"]["links"] == 1
    assert state["evolution"]["evolved"] == [first]
    assert "evolved" in memory.get(first, namespace=ANN).tags


def test_a_note_carries_the_key_thread_and_speaker_of_its_message(memory: AgenticMemory) -> None:
    graph = build(memory)
    message = HumanMessage("I moved to Oslo.", id="message-1", name="Ann")
    graph.invoke({"messages": [message]}, thread("t"), context=User("ann"))
    note, reply = memory.get_all(namespace=ANN)
    assert note.key == message_key("t", "user", "message-1")
    assert (note.thread, note.speaker, note.source) == ("t", "Ann", "user")
    assert (reply.speaker, reply.source) == ("assistant", "assistant")


def test_tool_calls_results_and_summaries_are_not_remembered(memory: AgenticMemory) -> None:
    node = remember_node(memory, namespace=ANN)
    call = {"name": "f", "args": {}, "id": "1", "type": "tool_call"}
    messages = [
        HumanMessage("Look it up.", id="1"),
        AIMessage("One moment.", tool_calls=[call], id="2"),
        ToolMessage("42", tool_call_id="1", id="3"),
        HumanMessage("A summary.", additional_kwargs={"lc_source": "summarization"}, id="4"),
        HumanMessage([{"type": "image", "url": "http://x/y.png"}], id="5"),
        AIMessage("It is 42.", id="6"),
    ]
    node.invoke({"messages": messages})
    assert [n.content for n in memory.get_all(namespace=ANN)] == [
        "Look it up.",
        "One moment.",
        "It is 42.",
    ]


def test_state_keys_are_the_users_choice(memory: AgenticMemory) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    recall = recall_node(memory, namespace=ANN, messages_key="chat", output_key="notes")
    assert "Oslo" in recall.invoke({"chat": [("user", "Oslo?")]})["notes"]
    remember = remember_node(memory, namespace=ANN, messages_key="chat", output_key="ids")
    assert len(remember.invoke({"chat": [("user", "Hello there.")]})["ids"]) == 1
    evolve = evolve_node(memory, namespace=ANN, output_key="report")
    assert len(evolve.invoke({})["report"]["done"]) == 1


def test_the_namespace_may_come_from_the_state_or_the_configuration(memory: AgenticMemory) -> None:
    by_state = remember_node(memory, namespace=lambda run: (run.state["who"],))
    by_state.invoke({"who": "ann", "messages": [("user", "One.")]})
    by_config = remember_node(
        memory, namespace=lambda run: (run.config["configurable"]["user_id"],)
    )
    by_config.invoke({"messages": [("user", "Two.")]}, config={"configurable": {"user_id": "ann"}})
    assert [note.content for note in memory.get_all(namespace=ANN)] == ["One.", "Two."]


@pytest.mark.parametrize("context", [None, User("")])
def test_a_run_that_does_not_say_whose_memory_it_is_fails(
    memory: AgenticMemory, context: User | None
) -> None:
    with pytest.raises(NamespaceError):
        build(memory).invoke(ask("Hello."), thread("1"), context=context)
    assert memory.namespaces() == []


@pytest.mark.on_a_server
@pytest.mark.parametrize("noted", [True, False], ids=["turn noted", "no turn_key in the state"])
def test_two_users_of_one_graph_and_one_thread_never_share_notes(
    memory: AgenticMemory, contents: Contents, noted: bool
) -> None:
    options = {} if noted else {"turn_key": "not_in_the_state"}
    graph = build(memory, **options)
    graph.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    state = graph.invoke(ask("Where did Ann move to?"), thread("1"), context=User("bob"))
    assert state["memories"] == ""
    graph.invoke(ask("I like Oslo."), thread("1"), context=User("ann"))
    assert contents(BOB) == ["Where did Ann move to?", "I do not know."]
    mine = [text for text in contents(ANN) if text != "I do not know."]
    assert mine == ["I moved to Oslo.", "I like Oslo."]


def test_what_could_not_be_stored_is_stored_with_the_next_turn_of_the_same_user() -> None:
    with Silent.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        graph = build(memory)
        memory.down = True
        graph.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
        memory.down = False
        graph.invoke(ask("I like it."), thread("1"), context=User("ann"))
        said = [note.content for note in memory.get_all(namespace=ANN) if note.source == "user"]
        assert said == ["I moved to Oslo.", "I like it."]
        memory.down = True
        graph.invoke(ask("I bought a boat."), thread("1"), context=User("ann"))
        memory.down = False
        graph.invoke(ask("Hello."), thread("1"), context=User("bob"))
        assert memory.get_all(namespace=BOB)[0].content == "Hello."


def test_what_a_person_adds_during_a_run_belongs_to_the_turn(
    memory: AgenticMemory, contents: Contents
) -> None:
    def clarify(_: State) -> dict[str, Any]:
        question = AIMessage("Which Oslo?")
        return {"messages": [question, HumanMessage(interrupt(question.text))]}

    remember = remember_node(memory, namespace=ANN)
    recall = recall_node(memory, namespace=ANN)
    compiled = sequence(State, recall=recall, clarify=clarify, answer=answer, remember=remember)
    compiled.invoke(ask("I moved to Oslo."), thread("1"))
    compiled.invoke(Command(resume="The one in Norway."), thread("1"))
    assert contents(ANN) == [
        "I moved to Oslo.",
        "Which Oslo?",
        "The one in Norway.",
        "I do not know.",
    ]


def waiting(memory: AgenticMemory, adds: bool) -> Any:
    """Return a graph that waits for somebody between the question and the answer."""

    def wait(_: State) -> dict[str, Any]:
        said = interrupt("Is that so?")
        return {"messages": [HumanMessage(said)] if adds else []}

    recall, remember = recall_node(memory, namespace=user), remember_node(memory, namespace=user)
    return sequence(State, recall=recall, wait=wait, answer=answer, remember=remember)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("adds", [False, True], ids=["approves", "adds something"])
async def test_resumed_by_somebody_else_a_question_is_stored_for_whom_it_was_asked(
    memory: AgenticMemory, contents: Contents, adds: bool, asynchronous: bool
) -> None:
    graph = waiting(memory, adds)
    graph.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    go = Command(resume="I am Bob, and it is so.")
    if asynchronous:
        await graph.ainvoke(go, thread("1"), context=User("bob"))
    else:
        graph.invoke(go, thread("1"), context=User("bob"))
    answered = ["I do not know."]
    assert contents(ANN) == ["I moved to Oslo.", *([] if adds else answered)]
    assert contents(BOB) == (["I am Bob, and it is so.", *answered] if adds else [])


def test_resumed_without_saying_by_whom_nothing_is_stored_and_it_can_be_resumed_again(
    memory: AgenticMemory, contents: Contents
) -> None:
    graph = waiting(memory, adds=False)
    graph.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    with pytest.raises(NamespaceError, match="resumed"):
        graph.invoke(Command(resume="yes"), thread("1"))
    assert memory.namespaces() == []
    graph.invoke(None, thread("1"), context=User("ann"))
    assert contents(ANN) == ["I moved to Oslo.", "I do not know."]


def test_resumed_by_somebody_else_nothing_is_stored_where_two_memories_could_be_meant(
    memory: AgenticMemory,
) -> None:
    def diary(run: Any) -> tuple[str, ...]:
        return ("diary", run.context.user_id)

    def wait(_: State) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("Is that so?"))]}

    graph = sequence(
        State,
        recall=recall_node(memory, namespace=user),
        read=recall_node(memory, namespace=diary, output_key="plan"),
        wait=wait,
        remember=remember_node(memory, namespace=user),
    )
    graph.invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    with pytest.raises(NamespaceError, match="begun by somebody else"):
        graph.invoke(Command(resume="Yes."), thread("1"), context=User("bob"))
    assert memory.namespaces() == []
    graph.invoke(None, thread("1"), context=User("ann"))
    assert memory.namespaces() == [ANN]


def test_every_step_tells_the_stream_what_it_did(memory: AgenticMemory) -> None:
    graph = build(memory)
    events = list(
        graph.stream(ask("I am Ann."), thread("1"), context=User("ann"), stream_mode="custom")
    )
    assert [event["amem"] for event in events] == ["recall", "remember", "evolve"]
    assert len(events[2]["done"]) == 2


def down(_request: object) -> ModelUnavailableError:
    return ModelUnavailableError("the model is down")


def test_with_the_model_down_the_answer_is_given_and_the_notes_wait() -> None:
    model = ScriptedModel({"construct": down})
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        state = build(memory).invoke(ask("I am Ann."), thread("1"), context=User("ann"))
        assert state["messages"][-1].text == "I do not know."
        assert "down" in state["evolution"]["interrupted"]
        assert {note.state for note in memory.get_all(namespace=ANN)} == {"pending"}


def test_what_failed_is_counted_and_said() -> None:
    before = failures().get("evolve", 0)
    model = ScriptedModel({"construct": down})
    config = MemoryConfig(on_model_error="raise")
    with AgenticMemory.open(
        ":memory:", model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        memory.add("I am Ann.", namespace=ANN, evolve=False)
        report = evolve_node(memory, namespace=ANN).invoke({})["evolution"]
    assert report["interrupted"] == "evolve: the model is down"
    assert failures()["evolve"] == before + 1


def test_a_turn_also_finishes_a_bounded_number_of_notes_that_earlier_ones_left(
    memory: AgenticMemory,
) -> None:
    memory.add_many([f"Fact {i}." for i in range(20)], namespace=ANN, evolve=False)
    state = build(memory).invoke(ask("I moved to Oslo."), thread("1"), context=User("ann"))
    done = state["evolution"]["done"]
    assert set(state["remembered"]) <= set(done)
    assert len(done) == 2 + LEFT_OVERS
