"""A turn by middleware and nodes: what it costs, and what of an outage is stored later, for whom it was said to."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_kit import (
    BOB,
    State,
    Talker,
    agent_of,
    around,
    asay,
    ask,
    kept,
    say,
    scripted,
    sequence,
    user,
    within,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt
from support.ports import Silent, WatchedEmbedder

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import (
    AMemMemory,
    AMemMiddleware,
    MemoryState,
    evolve_node,
    recall_node,
    remember_node,
)


class WithoutIds(MemoryState):
    """A conversation whose messages have no ids."""

    messages: Annotated[list[Any], operator.add]


def answered(state):
    return {"messages": [AIMessage(f"re: {state['messages'][-1].text}")]}


def by_remember_node(memory, state=State):
    return sequence(state, answer=answered, remember=remember_node(memory, namespace=user))


def by_both_nodes(memory, answer=answered):
    return around(memory, answer=answer)


def by_node_without_ids(memory):
    return by_remember_node(memory, WithoutIds)


def by_middleware(memory, **options):
    return agent_of(memory, Talker(answer=lambda said: f"re: {said[-1].text}"), **options)


DOORS = [by_remember_node, by_both_nodes, by_node_without_ids, by_middleware]
all_doors = pytest.mark.parametrize("door", DOORS)


def tell(graph, memory, text, who="ann", *, down=False):
    memory.down = down
    say(graph, text, who)
    memory.down = False


def turns(*said):
    return [text for one in said for text in (one, f"re: {one}")]


@all_doors
async def test_turns_of_an_outage_are_stored_after_it(memory, door):
    for number, outage in enumerate(({"1.", "2."}, {"2.", "3."})):
        graph, who = door(memory), str(number)
        for text in ("1.", "2.", "3.", "4."):
            tell(graph, memory, text, who, down=text in outage)
        assert kept(memory, (who,)) == turns("1.", "2.", "3.", "4.")
        # What is stored later has the time at which it was said.
        times = [note.at for note in memory.get_all(namespace=(who,))]
        assert all(one < other for one, other in zip(times[1::2], times[2::2], strict=False))
    awaited = door(memory)
    for text in ("1.", "2."):
        memory.down = text == "1."
        await asay(awaited, text)
    assert kept(memory) == turns("1.", "2.")


@pytest.mark.parametrize("door", [by_remember_node, by_both_nodes, by_middleware])
def test_with_a_checkpointer_a_turn_of_an_outage_is_stored_after_a_restart_too(tmp_path, door):
    for outage in ("1.", "2."), ("2.", "3."):
        saver, said = InMemorySaver(), ("1.", "2.", "3.", "4.")
        for text in said:
            with Silent.open(tmp_path / outage[0], embedder=HashEmbedder()) as memory:
                graph = door(memory)
                graph.checkpointer = saver
                tell(graph, memory, text, down=text in outage)
                if text == "4.":
                    assert kept(memory) == turns(*said)


@all_doors
def test_what_one_said_in_an_outage_is_in_no_memory_of_another(memory, door):
    graph = door(memory)
    for number, (who, down) in enumerate((("bob", False), ("ann", True), ("bob", False))):
        tell(graph, memory, f"{number}.", who, down=down)
    assert kept(memory, BOB) == turns("0.", "2.")


def test_what_an_outage_left_is_not_evolved_all_at_once(memory):
    for number, door in enumerate((by_remember_node, by_both_nodes)):
        graph, who = door(memory), str(number)
        for text in ("1.", "2.", "3.", "4."):
            tell(graph, memory, text, who, down=text != "4.")
        ids = graph.get_state(within()).values["remembered"]
        contents = [memory.get(note_id, namespace=(who,)).content for note_id in ids]
        assert contents == turns("4.")  # the others are left-overs, of which each turn takes some


@all_doors
def test_after_an_outage_each_user_has_their_own_turns(memory, door):
    graph = door(memory)
    for text, who in (("1.", "ann"), ("2.", "bob"), ("3.", "ann")):
        tell(graph, memory, text, who, down=True)
    tell(graph, memory, "4.", "bob")
    assert kept(memory) == []
    tell(graph, memory, "5.", "ann")
    assert kept(memory) == turns("1.", "3.", "5.")
    assert kept(memory, BOB) == turns("2.", "4.")


def without(messages):
    """Return the update of a state by which these messages are removed."""
    return {"messages": [RemoveMessage(id=message.id) for message in messages]}


def remove(graph, place):
    """Remove the messages at a place from the history."""
    messages = graph.get_state(within()).values["messages"]
    graph.update_state(within(), without(messages[place]))


def test_a_turn_is_stored_later_although_the_one_before_was_trimmed(memory):
    graph = by_remember_node(memory)
    tell(graph, memory, "1.")
    tell(graph, memory, "2.", down=True)
    remove(graph, slice(2))
    tell(graph, memory, "3.")
    assert kept(memory) == turns("1.", "2.", "3.")
    remove(graph, slice(None))
    say(graph, ask("4.", "5."))
    assert kept(memory)[-3:] == ["4.", *turns("5.")]


def test_all_that_was_said_in_a_turn_is_stored_although_the_model_is_shown_no_more(memory):
    @wrap_model_call
    def trimmed(request, handler):
        return handler(request.override(messages=request.messages[-2:]))

    def answer(messages):
        if messages[-1].text == "1.":
            raise TimeoutError
        return "Yes."

    agent = agent_of(memory, Talker(answer=answer), before=[trimmed])
    say(agent, "0.", "bob")
    said = kept(memory, BOB)
    with pytest.raises(TimeoutError):
        say(agent, "1.")
    say(agent, ask("2.", "3."))
    assert kept(memory)[:3] == ["1.", "2.", "3."]
    assert kept(memory, BOB) == said


def test_where_answers_are_removed_nobody_has_the_words_of_others(memory):
    def cut(state):
        return without(message for message in state["messages"] if message.type == "ai")

    last = {"answer": answered, "remember": remember_node(memory, namespace=user)}
    first = sequence(State, cut=cut, recall=recall_node(memory, namespace=user), **last)
    for graph, (ann, bob) in ((first, "ab"), (around(memory, cut=cut, answer=answered), "cd")):
        for text, who in (("1.", bob), ("2.", ann), ("3.", bob)):
            say(graph, text, who)
        assert kept(memory, (ann,)) == turns("2.")
        assert kept(memory, (bob,)) == turns("1.", "3.")


@all_doors
def test_a_run_in_which_nobody_speaks_stores_its_answer_and_no_turn_of_others(memory, door):
    graph = door(memory)
    say(graph, "1.", "bob")
    say(graph, SystemMessage("It is nine."))
    assert kept(memory) == ["re: It is nine."]
    assert kept(memory, BOB) == turns("1.")


def test_where_the_state_says_whose_it_is_a_run_in_which_nobody_speaks_stores_no_turn_of_others():
    class Whose(State):
        who: str

    def whose(run):
        return (run.state["who"],)

    for first in (True, False):
        with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
            recall = {"recall": recall_node(memory, namespace=whose)} if first else {}
            remember = remember_node(memory, namespace=whose)
            graph = sequence(Whose, **recall, answer=answered, remember=remember)
            say(graph, {**ask("1."), "who": "bob"})
            say(graph, {**ask(SystemMessage("It is nine.")), "who": "ann"})
            assert kept(memory) == ["re: It is nine."]
            assert kept(memory, BOB) == turns("1.")


@pytest.mark.parametrize("keeps", [True, None], ids=["keeps its state", "keeps none"])
@pytest.mark.parametrize("inner", ["agent", "nodes"])
def test_an_agent_or_graph_in_a_graph_leaves_a_failed_run_to_whom_it_belongs(memory, inner, keeps):
    def answer(said):
        if said[-1].text == "2.":
            raise TimeoutError
        return f"re: {said[-1].text}"

    model = Talker(answer=answer)
    if inner == "agent":
        middleware = [AMemMiddleware(memory, namespace=user)]
        node = create_agent(model, middleware=middleware, checkpointer=keeps)
    else:
        node = around(memory, answer=lambda state: {"messages": [model.invoke(state["messages"])]})
        node.checkpointer = keeps
    graph = sequence(MessagesState, node=node)
    say(graph, "1.")
    with pytest.raises(TimeoutError):
        say(graph, "2.")
    say(graph, "3.", "bob")
    assert kept(memory) == [*turns("1."), *(["2."] if inner == "agent" else [])]
    assert kept(memory, BOB) == turns("3.")


def test_what_was_asked_before_an_interrupt_stays_with_whom_it_began_in_an_outage(memory):
    def approved(state):
        interrupt("May I?")
        return answered(state)

    graph, go = by_both_nodes(memory, approved), Command(resume=True)
    tell(graph, memory, "1.", "ann")
    memory.down = True
    say(graph, go, "bob")
    tell(graph, memory, "2.", "bob")
    say(graph, go, "bob")
    tell(graph, memory, "3.", "ann")
    say(graph, go, "ann")
    assert kept(memory) == turns("1.", "3.")
    assert kept(memory, BOB) == turns("2.")


def test_two_nodes_of_two_memories_keep_to_their_own_in_an_outage(memory):
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as other:
        mine = remember_node(memory, namespace=user)
        team = remember_node(other, namespace=lambda run: ("team", *user(run)))
        graph = sequence(State, answer=answered, mine=mine, team=team)
        tell(graph, memory, "1.", down=True)
        tell(graph, memory, "2.")
        assert kept(memory) == kept(other, ("team", "ann")) == turns("1.", "2.")
        assert [*memory.namespaces(), *other.namespaces()] == [("ann",), ("team", "ann")]


def test_a_message_that_was_edited_after_its_turn_changes_its_note(memory):
    for number, door in enumerate((by_remember_node, by_both_nodes, by_middleware)):
        graph, who = door(memory), str(number)
        for text in ("I live in Rome.", "I live in Oslo."):
            say(graph, HumanMessage(text, id="1"), who)
        assert kept(memory, (who,))[0] == "I live in Oslo."
        assert "I live in Rome." not in kept(memory, (who,))


def test_without_a_state_that_is_kept_nothing_of_an_outage_is_lost(memory):
    agent = by_middleware(memory, keeps=False)
    tell(agent, memory, "1.", "ann", down=True)
    tell(agent, memory, "2.", "bob", down=True)
    for text, who in (("3.", "bob"), ("4.", "ann")):
        tell(agent, memory, text, who)
    assert kept(memory) == turns("1.", "4.")
    assert kept(memory, BOB) == turns("2.", "3.")
    graph = sequence(State, agent=agent)  # which keeps the messages, and nothing of the agent's own
    for text in ("1.", "2.", "3."):
        tell(graph, memory, text, "eve", down=text == "2.")
    assert kept(memory, ("eve",)) == turns("1.", "2.", "3.")


def test_the_memory_of_a_classic_chain_stores_the_turns_of_an_outage_after_it(memory):
    for thread in (None, "monday"):
        space = (thread or "none",)
        chain = AMemMemory(memory=memory, namespace=space, thread=thread)
        for text in ("1.", "2.", "3.", "3."):
            memory.down = text in ("1.", "2.")
            chain.save_context({"input": text}, {"output": f"re: {text}"})
        assert kept(memory, space) == turns("1.", "2.", "3.", "3.")
        assert memory.flush(timeout=10)
        assert {note.state for note in memory.get_all(namespace=space)} == {"done"}


async def test_a_turn_encodes_its_question_and_its_messages_by_two_calls():
    """A turn that evolves may take four calls; no text is given to the embedder twice in a turn."""
    for evolves in (False, True):
        embedder = WatchedEmbedder()
        with AgenticMemory.open(":memory:", model=scripted(), embedder=embedder) as memory:
            memory.info()  # finds the thresholds of the embedder, once
            after = {"evolve": evolve_node(memory, namespace=user)} if evolves else {}
            nodes = around(memory, answer=answered, after=after)
            for who, graph in (("ann", by_middleware(memory, evolve=evolves)), ("bob", nodes)):
                for turn in range(4):
                    embedder.calls.clear()
                    asked = f"Where is tree {turn} of {who}?"
                    _ = await asay(graph, asked, who) if turn % 2 else say(graph, asked, who)
                    memory.flush()
                    assert len(embedder.calls) <= (4 if evolves else 2)
                    texts = [text for call in embedder.calls for text in call]
                    documents = [text for text in texts if not text.startswith("Where")]
                    assert len(documents) == len(set(documents))
                    assert evolves or len(texts) == 3
