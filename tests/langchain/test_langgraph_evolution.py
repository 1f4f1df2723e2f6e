"""The evolution graph: three steps, a review if wanted, and a state of plain JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from evolution_kit import SAID, picture, seed, undisturbed
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, BOB, User, scripted, sequence, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from support.processes import environment

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    ModelUnavailableError,
    NamespaceError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import MemoryState, build_evolution_graph, evolve_node, remember_node

CONFIG: Any = {"configurable": {"thread_id": "1"}}
ALL: Any = {"namespace": list(ANN)}


@pytest.fixture
def said(memory: AgenticMemory) -> AgenticMemory:
    seed(memory)
    return memory


class State(MessagesState, MemoryState):
    """A conversation with a memory."""

    plan: str


def parent(memory: AgenticMemory, **options: Any) -> Any:
    """Return a graph of which evolution is the last step."""
    return sequence(
        State,
        answer=lambda _: {"messages": [AIMessage("I see.")]},
        remember=remember_node(memory, namespace=user),
        evolution=build_evolution_graph(memory, namespace=user, **options),
    )


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)], "plan": "mine"}


def test_it_does_what_evolve_does(said: AgenticMemory) -> None:
    report = build_evolution_graph(said).invoke(ALL)["evolution"]
    assert len(report["constructed"]) == len(report["done"]) == report["links"] == 3
    with AgenticMemory.open(":memory:", model=scripted(), embedder=HashEmbedder()) as other:
        seed(other)
        other.evolve(namespace=ANN)
        assert picture(said) == picture(other) == undisturbed()


async def test_the_asynchronous_form_does_the_same(said: AgenticMemory) -> None:
    await build_evolution_graph(said).ainvoke(ALL)
    assert picture(said) == undisturbed()


def test_as_a_node_it_works_on_what_was_remembered_and_keeps_to_itself(
    memory: AgenticMemory,
) -> None:
    graph = parent(memory)
    state = graph.invoke(ask("I moved to Oslo."), CONFIG, context=User("ann"))
    assert state["evolution"]["done"] == state["remembered"]
    assert state["plan"] == "mine"
    assert "decisions" not in state


def test_a_node_in_a_graph_without_our_keys_works_on_what_is_pending(said: AgenticMemory) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("evolution", build_evolution_graph(said, namespace=ANN))
    graph.add_edge(START, "evolution")
    graph.compile().invoke({"messages": [HumanMessage("Hello.")]})
    assert picture(said) == undisturbed()


def test_with_nothing_pending_no_model_is_called_and_the_report_is_empty(
    memory: AgenticMemory, model: ScriptedModel
) -> None:
    report = build_evolution_graph(memory).invoke(ALL)["evolution"]
    assert (report["done"], report["links"], report["interrupted"]) == ([], 0, None)
    assert model.requests == []


def test_nothing_is_written_before_the_commit_but_the_notes_own_attributes(
    said: AgenticMemory,
) -> None:
    graph = build_evolution_graph(said, checkpointer=InMemorySaver())
    earlier = said.get_all(namespace=ANN)[0]
    for step in graph.stream(ALL, CONFIG, stream_mode="updates"):
        notes = said.get_all(namespace=ANN)
        if "commit" not in step:
            assert notes[0] == earlier
            assert {note.state for note in notes[1:]} == {"constructed"}
    assert {note.state for note in said.get_all(namespace=ANN)} == {"done"}


def test_the_state_is_plain_json_without_vectors(said: AgenticMemory) -> None:
    graph = build_evolution_graph(said, checkpointer=InMemorySaver())
    graph.invoke(ALL, CONFIG)
    for snapshot in graph.get_state_history(CONFIG):
        values = snapshot.values
        assert json.loads(json.dumps(values)) == values
        assert "vector" not in json.dumps(values)


def test_as_a_node_its_second_run_in_a_conversation_starts_clean(memory: AgenticMemory) -> None:
    graph = parent(memory, review=True)
    for number, text in enumerate(("I moved to Oslo.", "Oslo is cold.", "I like it.")):
        graph.invoke(ask(text), CONFIG, context=User("ann"))
        (pending,) = graph.get_state(CONFIG, subgraphs=True).interrupts
        assert pending.value["problem"] is None
        assert len(pending.value["entries"]) == (1 if number == 0 else 2)
        report = graph.invoke(Command(resume=True), CONFIG, context=User("ann"))["evolution"]
        assert len(report["constructed"]) == len(report["done"]) == 2


def test_limit_leaves_the_rest_for_the_next_run(said: AgenticMemory) -> None:
    graph = build_evolution_graph(said, limit=2)
    assert [len(graph.invoke(ALL)["evolution"]["done"]) for _ in range(3)] == [2, 1, 0]


def test_every_step_tells_the_stream_what_it_changed(memory: AgenticMemory) -> None:
    events = [
        event
        for _, event in parent(memory).stream(
            ask("I moved to Oslo."),
            CONFIG,
            context=User("ann"),
            stream_mode="custom",
            subgraphs=True,
        )
    ]
    assert [event["amem"] for event in events] == ["remember", "construct", "propose", "commit"]
    _, construct, propose, commit = events
    assert len(construct["constructed"]) == 2
    assert (propose["links"], propose["updates"]) == (1, 1)
    assert (commit["links"], len(commit["evolved"])) == (1, 1)


def test_without_a_namespace_nothing_is_touched(said: AgenticMemory) -> None:
    with pytest.raises(NamespaceError, match="whose memory"):
        build_evolution_graph(said).invoke({})
    with pytest.raises(NamespaceError):
        build_evolution_graph(said, namespace=user).invoke(ALL)
    assert said.stats(namespace=ANN)["states"]["pending"] == 3


def test_two_users_of_one_graph_and_one_thread_are_evolved_apart(memory: AgenticMemory) -> None:
    graph = parent(memory)
    graph.invoke(ask("I moved to Oslo."), CONFIG, context=User("ann"))
    memory.add("Bob moved to Oslo.", namespace=BOB, evolve=False)
    graph.invoke(ask("I like Oslo."), CONFIG, context=User("ann"))
    assert memory.stats(namespace=BOB)["states"] == {"pending": 1}
    targets = {target for note in memory.get_all(namespace=ANN) for target in note.links}
    assert targets <= {note.id for note in memory.get_all(namespace=ANN)}


def test_a_model_that_is_down_ends_the_run_and_loses_nothing() -> None:
    model = ScriptedModel({"construct": ModelUnavailableError("down")})
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
        with pytest.raises(ModelUnavailableError):
            build_evolution_graph(memory, on_error="raise").invoke(ALL)
        assert build_evolution_graph(memory).invoke(ALL)["evolution"]["interrupted"] == (
            "construct: down"
        )
        assert memory.get_all(namespace=ANN)[0].state == "pending"


async def test_a_model_that_goes_down_later_keeps_what_was_done() -> None:
    good = scripted()
    model = ScriptedModel({"construct": good.generate, "evolve": ModelUnavailableError("down")})
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        for text in SAID[:2]:
            memory.add(text, namespace=ANN, evolve=False)
        report = (await build_evolution_graph(memory).ainvoke(ALL))["evolution"]
        assert len(report["constructed"]) == 2
        assert "propose" in report["interrupted"]
        assert memory.stats(namespace=ANN)["states"] == {"constructed": 2}


async def test_a_note_that_failed_too_often_is_left_alone() -> None:
    model = ScriptedModel({"construct": "no JSON"})
    config = MemoryConfig(max_attempts=2)
    with AgenticMemory.open(
        ":memory:", model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
        graph = build_evolution_graph(memory)
        for _ in range(3):
            graph.invoke(ALL)
        assert (await graph.ainvoke(ALL))["evolution"]["failed"] == {}
        assert memory.get_all(namespace=ANN)[0].attempts == 2


# Review


def reviewing(memory: AgenticMemory) -> tuple[Any, list[dict[str, Any]]]:
    """Return the graph, and the entries it waits with."""
    graph = build_evolution_graph(memory, review=True, checkpointer=InMemorySaver())
    result = graph.invoke(ALL, CONFIG)
    (pending,) = result["__interrupt__"]
    assert pending.value["kind"] == "amem.review"
    return graph, pending.value["entries"]


def added(memory: AgenticMemory) -> dict[str, str]:
    """Return by note id the context that evolution added."""
    return {
        note.id: entry.text
        for note in memory.get_all(namespace=ANN)
        for entry in note.contexts
        if entry.cause != note.id
    }


def test_a_person_sees_every_entry_as_before_and_after(said: AgenticMemory) -> None:
    _, entries = reviewing(said)
    first = entries[0]
    note = said.get(first["note"]["id"], namespace=ANN)
    assert first["note"]["content"] == note.content
    assert first["because_of"]["content"] in SAID
    assert first["before"] == note.contexts[0].text
    assert first["after"] == f"{first['before']} {first['adds']['context']}"
    assert added(said) == {}
    json.dumps(entries)


def test_approved_entries_are_written_and_no_model_is_asked_again(
    said: AgenticMemory, model: ScriptedModel
) -> None:
    graph, entries = reviewing(said)
    asked = len(model.requests)
    report = graph.invoke(Command(resume=True), CONFIG)["evolution"]
    assert picture(said) == undisturbed()
    assert set(report["evolved"]) == {entry["note"]["id"] for entry in entries}
    assert len(model.requests) == asked
    said.add("I bought a coat.", namespace=ANN, thread="t", evolve=False)
    graph.invoke(ALL, CONFIG)  # nothing of the run before shows through
    report = graph.invoke(Command(resume=False), CONFIG)["evolution"]
    assert len(report["done"]) == len(report["constructed"]) == 1


def test_rejected_entries_are_not_written_but_kept_in_the_history(said: AgenticMemory) -> None:
    graph, entries = reviewing(said)
    report = graph.invoke(Command(resume=False), CONFIG)["evolution"]
    assert added(said) == {}
    rejected = [one for one in said.history(None, namespace=ANN) if one.state == "rejected"]
    assert {one.id for one in rejected} == {entry["id"] for entry in entries}
    assert (said.proposals(namespace=ANN), report["links"]) == ([], 3)


async def test_each_entry_can_be_approved_edited_or_rejected(said: AgenticMemory) -> None:
    graph = build_evolution_graph(said, review=True, checkpointer=InMemorySaver())
    (pending,) = (await graph.ainvoke(ALL, CONFIG))["__interrupt__"]
    one, two, three = pending.value["entries"]
    edit = {"context": "A person wrote this.", "tags": []}
    answer = {one["id"]: True, two["id"]: edit, three["id"]: False}
    await graph.ainvoke(Command(resume=answer), CONFIG)
    found = added(said)
    assert found[one["note"]["id"]] == one["adds"]["context"]
    assert "A person wrote this." in found.values()
    assert three["adds"]["context"] not in found.values()


def holding() -> AgenticMemory:
    """Return a memory that holds back everything that is proposed, whose graph has run up to the review."""
    config = MemoryConfig(review=True)
    memory = AgenticMemory.open(
        ":memory:", model=scripted(), embedder=HashEmbedder(), config=config
    )
    seed(memory)
    return memory


def test_a_memory_with_a_review_shows_its_links_too_and_true_writes_all() -> None:
    with holding() as memory:
        graph, entries = reviewing(memory)
        assert {entry["kind"] for entry in entries} == {"entry", "link"}
        assert {entry["stopped_by_gate"] for entry in entries} == {None}
        link = next(entry for entry in entries if entry["kind"] == "link")
        assert set(link["adds"]) == {"relation", "reason", "strength"}
        assert link["after"].startswith("linked (")
        report = graph.invoke(Command(resume=True), CONFIG)["evolution"]
        assert (report["links"], report["proposals"]) == (3, [])
        assert picture(memory) == undisturbed()


def test_a_memory_with_a_review_leaves_what_is_not_decided_among_the_proposals() -> None:
    with holding() as memory:
        graph, entries = reviewing(memory)
        link = next(entry for entry in entries if entry["kind"] == "link")
        report = graph.invoke(Command(resume={link["id"]: True}), CONFIG)["evolution"]
        assert (report["links"], report["evolved"]) == (1, [])
        assert len(memory.proposals(namespace=ANN)) == len(entries) - 1


def test_what_supersedes_what_is_shown_and_written_as_decided() -> None:
    good = scripted()

    def outdating(request: Any) -> Any:
        note, *_ = request.inputs["notes"]
        first = note["candidates"][0]["alias"]
        gone = {"to": first, "relation": "retracts", "reason": "no longer so"}
        return {"notes": [{"id": note["alias"], "supersedes": [gone]}]}

    for answer in (True, False):
        model = ScriptedModel({"construct": good.generate, "evolve": outdating})
        with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
            first = memory.add(SAID[0], namespace=ANN)
            memory.add(SAID[1], namespace=ANN, evolve=False)
            graph, (entry,) = reviewing(memory)
            assert (entry["kind"], entry["note"]["id"]) == ("supersession", first.id)
            assert entry["after"] == "outdated (retracts): no longer so"
            report = graph.invoke(Command(resume=answer), CONFIG)["evolution"]
            assert report["superseded"] == ([first.id] if answer else [])
            assert (memory.get(first.id, namespace=ANN).superseded_by is None) != answer


def test_an_answer_that_cannot_be_used_is_asked_for_again(said: AgenticMemory) -> None:
    graph, entries = reviewing(said)
    parts: list[Any] = ["yes", {}, {"text": "x"}, {"context": ""}, {"tags": "x"}]
    wrong = [{entries[0]["id"]: part} for part in parts]
    for answer in ("yes", 1, {"nobody": True}, *wrong):
        (again,) = graph.invoke(Command(resume=answer), CONFIG)["__interrupt__"]
        assert again.value["problem"]
    graph.invoke(Command(resume=True), CONFIG)
    assert picture(said) == undisturbed()


def test_with_nothing_proposed_nobody_is_asked(memory: AgenticMemory) -> None:
    memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
    graph = build_evolution_graph(memory, review=True, checkpointer=InMemorySaver())
    assert len(graph.invoke(ALL, CONFIG)["evolution"]["done"]) == 1


def test_a_review_that_could_never_be_answered_is_refused(said: AgenticMemory) -> None:
    for config in (None, CONFIG):
        with pytest.raises(ConfigurationError, match="checkpointer"):
            build_evolution_graph(said, review=True).invoke(ALL, config)


def test_a_review_in_a_parent_graph_resumes_for_whom_it_began(memory: AgenticMemory) -> None:
    graph = parent(memory, review=True)
    graph.invoke(ask("I moved to Oslo."), CONFIG, context=User("ann"))
    memory.add("Bob moved to Rome.", namespace=BOB)
    graph.invoke(Command(resume=True), CONFIG, context=User("bob"))
    assert len(added(memory)) == 1
    assert memory.stats(namespace=BOB)["evolved"] == 0


@pytest.mark.parametrize("gone", ["corrected", "deleted"])
def test_what_may_quote_a_note_that_changed_while_a_review_waited_is_not_written(
    said: AgenticMemory, gone: str
) -> None:
    graph, entries = reviewing(said)
    cause = entries[-1]["because_of"]["id"]
    lost = said.get(cause, namespace=ANN).content
    if gone == "corrected":
        said.update(cause, namespace=ANN, content="Something else.")
    else:
        said.delete(cause, namespace=ANN)
    graph.invoke(Command(resume={entry["id"]: True for entry in entries}), CONFIG)
    notes = said.get_all(namespace=ANN)
    assert all(entry.cause != cause for note in notes for entry in note.contexts[1:])
    assert not [text for text in added(said).values() if lost in text]
    assert {note.state for note in notes if note.id != cause} == {"done"}


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed namespace", "from the context"])
def test_a_plan_that_a_client_edits_reaches_no_other_namespace(
    said: AgenticMemory, fixed: bool
) -> None:
    bob = said.add("Bob moved to Rome.", namespace=BOB, evolve=False)
    before = said.get_all(namespace=BOB)
    whose: Any = ANN if fixed else user
    graph = build_evolution_graph(said, namespace=whose, review=True, checkpointer=InMemorySaver())
    for edit in (
        {"namespace": ["bob"], "failed": {bob.id: "ann was here"}},
        {"failed": {bob.id: "ann was here"}},
    ):
        graph.invoke({}, CONFIG, context=User("ann"))  # type: ignore[arg-type]
        plan = graph.get_state(CONFIG).values["plan"]
        first = {**plan["notes"][0], "id": bob.id}
        graph.update_state(CONFIG, {"plan": {**plan, "notes": [first], **edit}}, as_node="propose")
        graph.invoke(None, CONFIG, context=User("ann"))  # type: ignore[arg-type]
        foreign = pytest.raises(NamespaceError) if "namespace" in edit else nullcontext()
        with foreign:
            graph.invoke(Command(resume=True), CONFIG, context=User("ann"))  # type: ignore[arg-type]
        assert said.get_all(namespace=BOB) == before


def test_ids_of_somebody_elses_notes_in_the_state_are_passed_over(said: AgenticMemory) -> None:
    bob = said.add("Bob moved to Rome.", namespace=BOB, evolve=False)
    build_evolution_graph(said, namespace=ANN).invoke({"remembered": [bob.id]})
    evolve_node(said, namespace=ANN).invoke({"remembered": [bob.id, "no id"]})
    assert said.get_all(namespace=BOB)[0].state == "pending"
    assert said.stats(namespace=ANN)["states"] == {"done": 4}


STRICT = """
import json, sys, warnings
warnings.simplefilter("error")
from evolution_kit import Crashing, picture, seed, undisturbed, with_subgraph
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_kit import ANN, Talker, oslo, scripted
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMiddleware, build_evolution_graph

config = {"configurable": {"thread_id": "1"}}
with Crashing.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
    seed(memory)
    with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
        graph = build_evolution_graph(memory, review=True, checkpointer=saver)
        graph.invoke({"namespace": list(ANN)}, config)
    with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
        graph = build_evolution_graph(memory, review=True, checkpointer=saver)
        graph.invoke(Command(resume=True), config)
    assert picture(memory) == undisturbed()

    # The nodes, and an agent with the middleware.
    agent = lambda memory, saver: create_agent(
        Talker(answer=oslo), [], middleware=[AMemMiddleware(memory, namespace=ANN)], checkpointer=saver
    )
    for name, build in (("nodes", with_subgraph), ("agent", agent)):
        config = {"configurable": {"thread_id": name}}
        for text in ("Mia likes snow.", "Mia likes fish."):
            given = {"messages": [HumanMessage(text)]}
            while given:
                with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
                    waits = "__interrupt__" in build(memory, saver).invoke(given, config)
                    state = build(memory, saver).get_state(config).values
                given = Command(resume=True) if waits else None
        assert all(type(m).__name__ in ("HumanMessage", "AIMessage") for m in state.pop("messages"))
        assert json.loads(json.dumps(state)) == state
    memory.flush()
    assert set(memory.stats(namespace=ANN)["states"]) == {"done"}
"""


def test_strict_msgpack_takes_the_state_of_every_graph(tmp_path: Path) -> None:
    here = Path(__file__).parent
    program = [sys.executable, "-c", STRICT, str(tmp_path / "checkpoints.sqlite")]
    done = subprocess.run(
        program,
        env=environment(here.parents[1], here, LANGGRAPH_STRICT_MSGPACK="true"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
