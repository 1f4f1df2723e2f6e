"""The evolution graph: three steps, a review if wanted, and a state of plain JSON."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext

import evolution_kit as kit
import pytest
from langchain_core.messages import AIMessage
from langchain_kit import ANN, BOB, State, User, ask, say, scripted, sequence, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command
from support.processes import run_alone

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    ModelUnavailableError,
    NamespaceError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import build_evolution_graph, evolve_node, remember_node

ALL = {"namespace": list(ANN)}


@pytest.fixture
def said(memory):
    kit.seed(memory)
    return memory


@contextmanager
def thinking(model, said=kit.SAID[:2], **config):
    """Yield a memory with this model, in which Ann has said a few things."""
    options = {"model": ScriptedModel(model), "config": MemoryConfig(**config)}
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(), **options) as memory:
        kit.add_raw(memory, said)
        yield memory


def parent(memory, **options):
    """Return a graph of which evolution is the last step."""
    evolution = build_evolution_graph(memory, namespace=user, **options)
    answer = {"answer": lambda _: {"messages": [AIMessage("I see.")]}}
    remember = remember_node(memory, namespace=user)
    return sequence(State, **answer, remember=remember, evolution=evolution)


async def test_it_does_what_evolve_does(said):
    graph = build_evolution_graph(said)
    assert graph.name == "amem_evolution"
    assert graph.get_input_jsonschema()["properties"].keys() == {"namespace", "remembered"}
    report = (await graph.ainvoke(ALL))["evolution"]
    assert len(report["constructed"]) == len(report["done"]) == report["links"] == 3
    with kit.crashing() as other:
        kit.seed(other)
        other.evolve(namespace=ANN)
        assert kit.picture(said) == kit.picture(other) == kit.undisturbed()


def test_as_a_node_it_works_on_what_was_remembered_and_keeps_to_itself(memory):
    told = {}
    graph = parent(memory)
    given = {**ask("I moved to Oslo."), "plan": "mine"}
    modes = {"stream_mode": "custom", "subgraphs": True}
    for _, event in graph.stream(given, kit.CONFIG, context=User("ann"), **modes):
        told[event["amem"]] = event
    state = graph.get_state(kit.CONFIG).values
    assert state["evolution"]["done"] == state["remembered"]
    assert (state["plan"], "decisions" in state) == ("mine", False)
    # Every step tells the stream what it changed.
    assert list(told) == ["remember", "construct", "propose", "commit"]
    assert len(told["construct"]["constructed"]) == 2
    kinds = ("links", "sentences", "supersessions")
    assert [told["propose"][kind] for kind in kinds] == [1, 1, 0]
    assert (told["commit"]["links"], len(told["commit"]["evolved"])) == (1, 1)


def test_a_node_in_a_graph_without_our_keys_works_on_what_is_pending(said):
    graph = sequence(MessagesState, evolution=build_evolution_graph(said, namespace=ANN))
    graph.invoke(ask("Hello."), kit.CONFIG)
    assert kit.picture(said) == kit.undisturbed()


def test_with_nothing_pending_no_model_is_called_and_the_report_is_empty(memory, model):
    report = build_evolution_graph(memory).invoke(ALL)["evolution"]
    assert (report["done"], report["links"], report["interrupted"]) == ([], 0, None)
    assert model.requests == []


def test_before_the_commit_the_notes_own_attributes_alone_are_written_and_the_state_is_json(said):
    graph = build_evolution_graph(said, checkpointer=InMemorySaver())
    earlier = said.get_all(namespace=ANN)[0]
    for step in graph.stream(ALL, kit.CONFIG, stream_mode="updates"):
        notes = said.get_all(namespace=ANN)
        if "commit" not in step:
            assert notes[0] == earlier
            assert {note.state for note in notes[1:]} == {"constructed"}
    assert {note.state for note in said.get_all(namespace=ANN)} == {"done"}
    for snapshot in graph.get_state_history(kit.CONFIG):
        text = json.dumps(snapshot.values)
        assert json.loads(text) == snapshot.values
        assert "vector" not in text


def test_limit_leaves_the_rest_for_the_next_run(said):
    graph = build_evolution_graph(said, limit=2)
    assert [len(graph.invoke(ALL)["evolution"]["done"]) for _ in range(3)] == [2, 1, 0]
    nothing = build_evolution_graph(said, limit=0, on_error="raise").invoke(ALL)["evolution"]
    assert nothing["constructed"] == []
    *older, newest = [said.add(text, namespace=ANN, evolve=False).id for text in kit.SAID[:3]]
    graph = build_evolution_graph(said, limit=1)
    for found in ({newest, older[0]}, {older[1]}):  # beyond those of the turn
        report = graph.invoke({**ALL, "remembered": [newest]})["evolution"]
        assert set(report["done"]) == found


# Whose memory it is


def test_without_a_namespace_nothing_is_touched(said):
    with pytest.raises(NamespaceError, match="whose memory"):
        build_evolution_graph(said).invoke({})
    with pytest.raises(NamespaceError):
        build_evolution_graph(said, namespace=user).invoke(ALL)
    assert said.stats(namespace=ANN)["states"]["pending"] == 3


def test_ids_of_somebody_elses_notes_in_the_state_are_passed_over(said):
    bob = said.add("Bob moved to Rome.", namespace=BOB, evolve=False)
    build_evolution_graph(said, namespace=ANN).invoke({"remembered": [bob.id]})
    evolve_node(said, namespace=ANN).invoke({"remembered": [bob.id, "no id"]})
    assert said.stats(namespace=BOB)["states"] == {"pending": 1}
    assert said.stats(namespace=ANN)["states"] == {"done": 4}


@pytest.mark.parametrize("whose", [ANN, user], ids=["fixed namespace", "from the context"])
def test_a_plan_that_a_client_edits_reaches_no_other_namespace(said, whose):
    bob = said.add("Bob moved to Rome.", namespace=BOB, evolve=False)
    before = said.get_all(namespace=BOB)
    graph = build_evolution_graph(said, namespace=whose, review=True, checkpointer=InMemorySaver())
    for edit in ({"namespace": ["bob"]}, {}):
        say(graph, {})
        plan = graph.get_state(kit.CONFIG).values["plan"]
        first = {**plan["notes"][0], "id": bob.id}
        edited = {**plan, "notes": [first], "failed": {bob.id: "ann was here"}, **edit}
        # A fixed namespace is never read from the state.
        state = {"plan": edited, **({"namespace": ["bob"]} if whose is ANN else {})}
        graph.update_state(kit.CONFIG, state, as_node="propose")
        say(graph, None)
        with pytest.raises(NamespaceError) if edit else nullcontext():
            say(graph, kit.APPROVED)
        assert said.get_all(namespace=BOB) == before


def test_a_review_in_a_parent_graph_resumes_for_whom_it_began_and_starts_clean_each_time(memory):
    graph = parent(memory, review=True)
    memory.add("Bob moved to Rome.", namespace=BOB)
    for number, text in enumerate(("I moved to Oslo.", "Oslo is cold.", "I like it.")):
        say(graph, text)
        (pending,) = graph.get_state(kit.CONFIG, subgraphs=True).interrupts
        assert pending.value["problem"] is None
        assert len(pending.value["entries"]) == (1 if number == 0 else 2)
        report = say(graph, kit.APPROVED, "bob")["evolution"]
        assert len(report["constructed"]) == len(report["done"]) == 2
    assert memory.stats(namespace=BOB)["evolved"] == 0
    notes = memory.get_all(namespace=ANN)
    assert {target for note in notes for target in note.links} <= {note.id for note in notes}


# When a model does not answer


async def test_a_model_that_is_down_ends_the_run_and_what_was_done_is_kept():
    down = ModelUnavailableError("down")
    with thinking({"construct": down}) as memory:
        with pytest.raises(ModelUnavailableError):
            build_evolution_graph(memory, on_error="raise").invoke(ALL)
        report = build_evolution_graph(memory).invoke(ALL)["evolution"]
        assert report["interrupted"] == "construct: down"
        mine = build_evolution_graph(memory, namespace=user)
        told = mine.stream({}, context=User("ann"), stream_mode="custom")
        assert [event["interrupted"] for event in told] == ["construct: down"] * 2
        assert memory.stats(namespace=ANN)["states"] == {"pending": 2}
    with thinking({"construct": scripted().generate, "evolve": down}) as memory:
        report = (await build_evolution_graph(memory).ainvoke(ALL))["evolution"]
        assert len(report["constructed"]) == 2
        assert "propose" in report["interrupted"]
        assert memory.stats(namespace=ANN)["states"] == {"constructed": 2}


async def test_a_note_that_failed_too_often_is_left_alone():
    with thinking({"construct": "no JSON"}, max_attempts=2) as memory:
        graph = build_evolution_graph(memory)
        for _ in range(3):
            graph.invoke(ALL)
        assert (await graph.ainvoke(ALL))["evolution"]["failed"] == {}
        assert {note.attempts for note in memory.get_all(namespace=ANN)} == {2}


# Review


def reviewing(memory):
    """Return the graph, and the entries it waits with."""
    graph = build_evolution_graph(memory, review=True, checkpointer=InMemorySaver())
    (pending,) = graph.invoke(ALL, kit.CONFIG)["__interrupt__"]
    assert pending.value["kind"] == "amem.review"
    return graph, pending.value["entries"]


def resumed(graph, answer=True):
    """Resume a run with an answer, and return the report."""
    return graph.invoke(Command(resume=answer), kit.CONFIG)["evolution"]


def added(memory):
    """Return by note id the context that evolution added."""
    notes = memory.get_all(namespace=ANN)
    return {n.id: entry.text for n in notes for entry in n.contexts if entry.cause != n.id}


def test_a_person_sees_every_entry_as_before_and_after(said):
    _, entries = reviewing(said)
    first = entries[0]
    note = said.get(first["note"]["id"], namespace=ANN)
    assert first["note"]["content"] == note.content
    assert first["because_of"]["content"] in kit.SAID
    assert first["before"] == note.contexts[0].text
    assert first["after"] == f"{first['before']} {first['adds']['context']}"
    assert added(said) == {}
    json.dumps(entries)


def test_approved_entries_are_written_and_no_model_is_asked_again(said, model):
    graph, entries = reviewing(said)
    asked = len(model.requests)
    # An answer that cannot be used is asked for again.
    parts = ["yes", {}, {"text": "x"}, {"context": ""}, {"tags": "x"}]
    for answer in ("yes", 1, {"nobody": True}, *({entries[0]["id"]: part} for part in parts)):
        (again,) = graph.invoke(Command(resume=answer), kit.CONFIG)["__interrupt__"]
        assert again.value["problem"]
    report = resumed(graph)
    assert kit.picture(said) == kit.undisturbed()
    assert set(report["evolved"]) == {entry["note"]["id"] for entry in entries}
    assert len(model.requests) == asked
    said.add("I bought a coat.", namespace=ANN, thread="t", evolve=False)
    graph.invoke(ALL, kit.CONFIG)  # nothing of the run before shows through
    report = resumed(graph, False)
    assert len(report["done"]) == len(report["constructed"]) == 1


async def test_each_entry_can_be_approved_edited_or_rejected(said):
    graph, (one, two, three) = reviewing(said)
    edit = {"context": "A person wrote this.", "tags": []}
    answer = {one["id"]: True, two["id"]: edit, three["id"]: False}
    events = graph.astream(Command(resume=answer), kit.CONFIG, stream_mode="custom")
    told = [event async for event in events]
    assert told[0] == {"amem": "review", "answers": answer}
    found = added(said)
    assert found[one["note"]["id"]] == one["adds"]["context"]
    assert "A person wrote this." in found.values()
    assert three["adds"]["context"] not in found.values()


def test_a_note_that_is_deleted_while_its_review_waits_takes_nothing_else_away(said):
    graph, entries = reviewing(said)
    pairs = [(entry["note"]["id"], entry["because_of"]["id"]) for entry in entries]
    deleted = pairs[0][0]
    said.delete(deleted, namespace=ANN)
    evolved = {note for note, cause in pairs if deleted not in (note, cause)}
    assert set(resumed(graph)["evolved"]) == evolved


def test_a_memory_with_a_review_shows_its_links_too_and_leaves_the_rest_among_the_proposals():
    for everything in (True, False):
        with thinking(scripted().generate, said=(), review=True) as memory:
            kit.seed(memory)
            graph, entries = reviewing(memory)
            assert {entry["kind"] for entry in entries} == {"entry", "link"}
            assert {entry["stopped_by_gate"] for entry in entries} == {None}
            link = next(entry for entry in entries if entry["kind"] == "link")
            assert set(link["adds"]) == {"relation", "reason", "strength"}
            assert link["after"].startswith("linked (")
            report = resumed(graph, True if everything else {link["id"]: True})
            if everything:
                assert (report["links"], report["proposals"]) == (3, [])
                assert kit.picture(memory) == kit.undisturbed()
            else:
                assert (report["links"], report["evolved"]) == (1, [])
                assert len(memory.proposals(namespace=ANN)) == len(entries) - 1


def test_what_supersedes_what_is_shown_and_written_as_decided():
    def outdating(request):
        first, second = (note["alias"] for note in request.inputs["notes"])
        gone = {"to": first, "relation": "retracts", "reason": "no longer so"}
        return {"notes": [{"id": second, "supersedes": [gone]}]}

    for answer in (True, False):
        with thinking({"construct": scripted().generate, "evolve": outdating}) as memory:
            first = memory.get_all(namespace=ANN)[0]
            graph, (entry,) = reviewing(memory)
            assert (entry["kind"], entry["note"]["id"]) == ("supersession", first.id)
            assert entry["after"] == "outdated (retracts): no longer so"
            assert resumed(graph, answer)["superseded"] == ([first.id] if answer else [])
            assert (memory.get(first.id, namespace=ANN).superseded_by is None) != answer


def test_a_yes_leaves_what_the_gate_stopped_and_one_by_one_it_is_written():
    notes = [{"id": name, "context": "", "keywords": ["x"], "tags": []} for name in ("n1", "n2")]
    model = {"construct": {"notes": notes}, "evolve": scripted().generate}
    for by_id in (False, True):
        with thinking(model, min_gate_similarity=1.0) as memory:
            graph, (entry,) = reviewing(memory)
            assert "is under 1.00" in entry["stopped_by_gate"]
            assert entry["before"] == entry["note"]["content"]  # which has no context yet
            report = resumed(graph, {entry["id"]: True} if by_id else True)
            assert report["evolved"] == ([entry["note"]["id"]] if by_id else [])
            assert len(memory.proposals(namespace=ANN)) == (0 if by_id else 1)
            memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
            (again,) = graph.invoke(ALL, kit.CONFIG)["__interrupt__"][0].value["entries"]
            assert again["note"] == entry["note"]
            assert again["before"] == (entry["adds"]["context"] if by_id else entry["before"])


def test_with_nothing_proposed_nobody_is_asked(memory):
    memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
    graph = build_evolution_graph(memory, review=True, checkpointer=InMemorySaver())
    assert len(graph.invoke(ALL, kit.CONFIG)["evolution"]["done"]) == 1


def test_a_review_that_could_never_be_answered_is_refused(said):
    for config in (None, kit.CONFIG):
        with pytest.raises(ConfigurationError, match="checkpointer"):
            build_evolution_graph(said, review=True).invoke(ALL, config)


STRICT = """
import json, os, sys, warnings
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
warnings.simplefilter("error")
from evolution_kit import add_raw, APPROVED, crashing, reviewed, seed, with_subgraph
from langchain_kit import agent_of, ask, say, within, ANN
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

def agent(memory, saver):
    made = agent_of(memory, namespace=ANN)
    made.checkpointer = saver
    return made

with crashing() as memory:
    seed(memory)
    for name, build in (("reviewed", reviewed), ("nodes", with_subgraph), ("agent", agent)):
        for text in ("Mia likes snow.", "Mia likes fish."):
            given = {"namespace": list(ANN)} if build is reviewed else ask(text)
            while given:
                with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
                    waits = "__interrupt__" in say(build(memory, saver), given, thread=name)
                    state = build(memory, saver).get_state(within(name)).values
                given = APPROVED if waits else None
        messages = state.pop("messages", [])
        assert all(type(m).__name__ in ("HumanMessage", "AIMessage") for m in messages)
        assert json.loads(json.dumps(state)) == state
    memory.flush()
    assert set(memory.stats(namespace=ANN)["states"]) == {"done"}
"""


def test_strict_msgpack_takes_the_state_of_every_graph(tmp_path):
    done = run_alone(STRICT, tmp_path / "checkpoints.sqlite")
    assert done.returncode == 0, done.stderr
