"""recall → answer → remember → evolve: evolution is a step of its own, after the answer."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product
from types import SimpleNamespace

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage
from langchain_kit import (
    ANN,
    BOB,
    State,
    User,
    around,
    asay,
    ask,
    kept,
    last,
    say,
    sequence,
    user,
    within,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from amem_integrations import AgenticMemory, MemoryConfig, ModelUnavailableError, NamespaceError
from amem_integrations.adapting import LEFT_OVERS
from amem_integrations.conversation import message_key
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import evolve_node, failures, recall_node, remember_node
from langchain_amem.run import RECENT, Run


def answer(state):
    """Answer with what was recalled."""
    known = "Oslo" in state["memories"]
    return {"messages": [AIMessage("In Oslo." if known else "I do not know.")]}


def build(memory, **options):
    """Return a graph in which the memory takes three of four steps."""
    options = {"namespace": user, **options}
    return sequence(
        State,
        recall=recall_node(memory, **options),
        answer=answer,
        remember=remember_node(memory, **options),
        evolve=evolve_node(memory, namespace=options["namespace"]),
    )


@pytest.mark.on_a_server
def test_notes_are_raw_when_the_answer_is_given_and_done_after_evolve(memory, model):
    told, seen = [], {}
    run = {"context": User("ann"), "stream_mode": ["updates", "custom"]}
    for mode, step in build(memory).stream(ask("I moved to Oslo."), within(), **run):
        if mode == "custom":
            told.append(step)
            continue
        states = [note.state for note in memory.get_all(namespace=ANN)]
        seen[next(iter(step))] = (len(model.requests), states)
    assert seen["answer"] == (0, [])
    assert seen["remember"] == (0, ["pending", "pending"])
    assert seen["evolve"] == (2, ["done", "done"])
    assert [event["amem"] for event in told] == ["recall", "remember", "evolve"]
    assert len(told[2]["done"]) == 2


@pytest.mark.on_a_server
def test_evolution_changes_earlier_notes_and_reports_it(memory):
    state = say(build(memory), "I moved to Oslo.")
    first = state["remembered"][0]
    assert (state["evolution"]["links"], state["evolution"]["evolved"]) == (1, [first])
    assert "evolved" in memory.get(first, namespace=ANN).tags


def test_a_note_carries_the_key_thread_and_speaker_of_its_message(memory):
    say(build(memory), HumanMessage("I moved to Oslo.", id="message-1", name="Ann"), thread="t")
    note, reply = memory.get_all(namespace=ANN)
    assert note.key == message_key("t", "user", "message-1")
    assert (note.thread, note.speaker, note.source) == ("t", "Ann", "user")
    assert (reply.speaker, reply.source) == ("assistant", "assistant")
    numbered = {"configurable": {"thread_id": 0}}
    build(memory, namespace=BOB).invoke(ask("I moved to Rome."), numbered)
    assert {note.thread for note in memory.get_all(namespace=BOB)} == {"0"}


def test_state_keys_are_the_users_choice(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    recall = recall_node(memory, namespace=ANN, messages_key="chat", output_key="notes")
    assert "Oslo" in recall.invoke({"chat": [("user", "Oslo?")]})["notes"]
    remember = remember_node(memory, namespace=ANN, messages_key="chat", output_key="ids")
    assert len(remember.invoke({"chat": [("user", "Hello there.")]})["ids"]) == 1
    other = memory.add("Tea.", namespace=ANN, evolve=False)
    keys = {"remembered_key": "ids", "output_key": "report"}
    evolve = evolve_node(memory, namespace=ANN, limit=0, **keys)
    assert evolve.invoke({"ids": [other.id]})["report"]["done"] == [other.id]


# Whose memory it is


def configured(run):
    """Return the namespace of a run from its configuration."""
    return (run.config["configurable"]["who"],)


def waits(kind=AIMessage):
    """Return a step that waits for somebody, and says what that one has said."""
    return lambda _: {"messages": [kind(interrupt("Is that so?"))]}


def test_the_namespace_may_come_from_the_state_or_the_configuration(memory):
    by_state = remember_node(memory, namespace=lambda run: (run.state["who"],))
    by_state.invoke({"who": "ann", **ask("One.")})
    remember_node(memory, namespace=configured).invoke(ask("Two."), config=within(who="ann"))
    assert kept(memory) == ["One.", "Two."]


def test_a_run_that_does_not_say_whose_memory_it_is_fails(memory):
    whose = [user, lambda run: (run.context["id"],), lambda run: "ann", lambda run: ()]
    for namespace, context in product(whose, (None, User(""))):
        with pytest.raises(NamespaceError):
            build(memory, namespace=namespace).invoke(ask("Hi."), within(), context=context)
    assert memory.namespaces() == []


@pytest.mark.on_a_server
def test_two_users_of_one_graph_and_one_thread_never_share_notes(memory):
    graph = build(memory, turn_key="not_in_the_state")
    say(graph, "I moved to Oslo.")
    assert say(graph, "Where did Ann move to?", "bob")["memories"] == ""
    say(graph, "I like Oslo.")
    assert kept(memory, BOB) == ["Where did Ann move to?", "I do not know."]
    assert kept(memory)[::2] == ["I moved to Oslo.", "I like Oslo."]


class Whose:
    """An object that gives a namespace, by its call or by a method."""

    def __init__(self, key):
        self.key = key

    def __call__(self, run):
        return (run.config["configurable"][self.key],)

    of = __call__


KEYS = ("who", "team")
PAIRS = [
    [Whose(key) for key in KEYS],
    [Whose(key).of for key in KEYS],
    [lambda run, key=key: (run.config["configurable"][key],) for key in KEYS],
    [partial(Whose.of, Whose(key)) for key in KEYS],
]


@pytest.mark.parametrize("pair", PAIRS, ids=["objects", "methods", "lambdas", "partials"])
def test_nobodys_words_are_in_anothers_memory(pair):
    for parallel, team_first, reads_only in product((False, True), repeat=3):
        with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
            graph, mine, ours = StateGraph(State), {"namespace": pair[0]}, {"namespace": pair[1]}
            graph.add_node("answer", lambda _: {"messages": [AIMessage("I see.")]})
            graph.add_node("mine", recall_node(memory, **mine))
            graph.add_node("ours", recall_node(memory, **ours, output_key="plan"))
            graph.add_node("keep mine", remember_node(memory, **mine))
            order = -1 if team_first else 1
            reads, writes = ["mine", "ours"][::order], ["keep mine"]
            if not reads_only:
                graph.add_node("keep ours", remember_node(memory, **ours))
                writes = ["keep mine", "keep ours"][::order]
            edges = pairwise([START, *reads, "answer", *writes])
            if parallel:
                edges = [*product([START], reads), *product(["answer"], writes), (reads, "answer")]
            for edge in edges:
                graph.add_edge(*edge)
            built = graph.compile(checkpointer=InMemorySaver())
            for who in ("ann", "bob"):
                # A client may send back a state of which it knows nothing.
                asked = {**ask(f"{who} earns 80,000."), "memory_turn": None}
                state = built.invoke(asked, within(who, who=who, team="team"))
                # Of nodes that remember at the same time those of one stand in the state.
                assert len(state["remembered"]) == (2 if parallel or reads_only else 4)
                assert kept(memory, (who,)) == [f"{who} earns 80,000.", "I see."]
            assert len(kept(memory, ("team",))) == (0 if reads_only else 4)


def waiting(memory, adds, **steps):
    """Return a graph that waits for somebody between the question and the answer, and then takes these steps too."""

    def wait(_):
        said = interrupt("Is that so?")
        return {"messages": [HumanMessage(said)] if adds else []}

    return around(memory, evolve=True, wait=wait, answer=answer, **steps)


async def test_resumed_by_somebody_else_a_question_is_stored_for_whom_it_was_asked(memory):
    for number, (adds, asynchronous) in enumerate(product((False, True), repeat=2)):
        mine, others = f"ann {number}", f"bob {number}"
        graph = waiting(memory, adds, ours=remember_node(memory, namespace=("team",)))
        say(graph, "Is anybody there?", others)  # nobody resumes that
        say(graph, "I moved to Oslo.", mine)
        go, answered = Command(resume="I am Bob, and it is so."), ["I do not know."]
        _ = await asay(graph, go, others) if asynchronous else say(graph, go, others)
        assert kept(memory, (mine,)) == ["I moved to Oslo.", *([] if adds else answered)]
        added = ["I am Bob, and it is so.", *answered] if adds else []
        assert kept(memory, (others,)) == added
        assert memory.flush(timeout=10)
        notes = [*memory.get_all(namespace=(mine,)), *memory.get_all(namespace=(others,))]
        assert {note.state for note in notes} == {"done"}


def test_an_answer_that_was_given_before_somebody_else_joins_belongs_to_who_asked(memory):
    again = {"again": lambda _: {"messages": [AIMessage("Yes.")]}}
    graph = around(memory, answer=answer, wait=waits(HumanMessage), **again)
    say(graph, "What do I earn?")
    say(graph, Command(resume="Is that so?"), "bob")
    assert kept(memory) == ["What do I earn?", "I do not know."]
    assert kept(memory, BOB) == ["Is that so?", "Yes."]


def test_a_node_of_a_fixed_namespace_tells_nobody_elses_node_whose_words_are_meant(memory):
    team, gate = ("team",), lambda _: {"plan": interrupt("Is that so?")}
    recall, remember = recall_node(memory, namespace=ANN), remember_node(memory, namespace=team)
    graph = sequence(State, recall=recall, gate=gate, answer=answer, remember=remember)
    say(graph, "This is for the team.")
    say(graph, Command(resume="yes"), "bob")
    assert kept(memory, team) == ["This is for the team.", "I do not know."]
    assert kept(memory) == []


def test_a_run_that_is_copied_to_another_thread_is_still_that_of_its_caller(memory):
    recall = recall_node(memory, namespace=lambda run: (*configured(run), "facts"))
    asked, mine, other = ask("One."), within("1", who="ann"), within("2", who="ann")
    begun = recall.invoke(asked, mine)
    remember_node(memory, namespace=configured).invoke({**asked, **begun}, other)
    assert memory.namespaces() == [ANN]


def test_what_a_person_adds_during_a_run_belongs_to_the_turn(memory):
    graph = waiting(memory, adds=True)
    say(graph, "I moved to Oslo.")
    say(graph, Command(resume="The one in Norway."))
    assert kept(memory) == ["I moved to Oslo.", "The one in Norway.", "I do not know."]


def test_a_caller_is_told_by_what_its_context_holds_and_not_by_where_that_lies():
    contexts = (SimpleNamespace(name=name) for name in ("ann", "ann", "bob"))
    ann, again, bob = (Run(context=context).caller for context in contexts)
    assert ann == again != bob


def test_resumed_without_saying_by_whom_nothing_is_stored_and_it_can_be_resumed_again(memory):
    graph = waiting(memory, adds=False)
    say(graph, "I moved to Oslo.")
    with pytest.raises(NamespaceError, match="resumed"):
        graph.invoke(Command(resume="yes"), within())
    assert memory.namespaces() == []
    say(graph, None)
    assert kept(memory) == ["I moved to Oslo.", "I do not know."]


def test_resumed_by_somebody_else_nothing_is_stored_where_two_memories_could_be_meant(memory):
    diary = {"namespace": lambda run: ("diary", run.context.user_id), "output_key": "plan"}
    graph = around(memory, read=recall_node(memory, **diary), wait=waits())
    say(graph, "I moved to Oslo.")
    with pytest.raises(NamespaceError, match="begun by somebody else"):
        say(graph, Command(resume="Yes."), "bob")
    assert memory.namespaces() == []
    graph.invoke(None, within(language="no"), context=User("ann"))
    assert memory.namespaces() == [ANN]


def test_nothing_is_written_to_a_memory_that_nodes_only_read_nor_for_who_resumes_a_run(memory):
    def diary(run):
        return (run.context.user_id, "diary")

    whose = {"mine": user, "diary": diary, "team": (team := ("team",))}
    reads = {name: recall_node(memory, namespace=one) for name, one in whose.items()}
    noted, shared = (remember_node(memory, namespace=one) for one in (diary, team))
    graph = sequence(State, **reads, answer=answer, noted=noted, shared=shared)
    for who in ("ann", "bob", "ann"):
        say(graph, f"I am {who}.", who)
    spaces = [(*ANN, "diary"), (*BOB, "diary"), team]
    assert memory.namespaces() == spaces
    assert [len(kept(memory, space)) for space in spaces] == [4, 2, 6]
    graph = sequence(State, team=reads["team"], gate=waits(), noted=noted)
    say(graph, "I moved to Oslo.")
    with pytest.raises(NamespaceError, match="begun by somebody else"):
        say(graph, Command(resume="Yes."), "bob")
    say(graph, None)
    assert "I moved to Oslo." in kept(memory, spaces[0])
    assert len(kept(memory, spaces[1])) == 2


# Runs that fail, and answers that were given twice


def failing(state):
    if last(state) == "Secret.":
        raise ConnectionError("no answer")
    return {"messages": [AIMessage("I see.")]}


def test_what_a_failed_run_said_is_stored_for_each_memory_of_the_next_run(memory):
    spaces = {"mine": user, "team": ("team",)}
    recalls = {f"recall {n}": recall_node(memory, namespace=s) for n, s in spaces.items()}
    remembers = {f"remember {n}": remember_node(memory, namespace=s) for n, s in spaces.items()}
    graph = sequence(State, **recalls, answer=failing, **remembers)
    with pytest.raises(ConnectionError):
        say(graph, "Secret.")
    say(graph, "I moved to Oslo.")
    assert kept(memory) == kept(memory, ("team",)) == ["Secret.", "I moved to Oslo.", "I see."]


def test_nodes_leave_out_what_a_failed_run_said(memory):
    remember = remember_node(memory, namespace=user, remember_unanswered=False)
    for who, steps in (("ann", {"recall": recall_node(memory, namespace=user)}), ("bob", {})):
        graph = sequence(State, **steps, answer=failing, remember=remember)
        say(graph, "Hello.", who)
        with pytest.raises(ConnectionError):
            say(graph, "Secret.", who)
        say(graph, "I moved to Oslo.", who)
        assert kept(memory, (who,)) == ["Hello.", "I see.", "I moved to Oslo.", "I see."]


def test_an_answer_that_was_given_again_is_stored_once(memory):
    node = remember_node(memory, namespace=ANN)
    earlier = [HumanMessage("I moved to Oslo.", id="p"), AIMessage("Nice.", id="a")]
    question = HumanMessage("Where do I live?", id="q")
    node.invoke({"messages": earlier}, within())
    for number, text in enumerate(("In Oslo.", "In Oslo.", "You live in Oslo.")):
        # A run that is resumed asks the model again, and the answer has another id.
        reply = AIMessage(text, id=f"run-{number}")
        for _ in range(2):
            node.invoke({"messages": [*earlier, question, reply]}, within())
        assert kept(memory) == ["I moved to Oslo.", "Nice.", "Where do I live?", text]


def test_a_message_of_the_role_user_is_what_a_person_said(memory):
    said = [ChatMessage("I moved to Oslo.", role="user"), AIMessage("Nice.")]
    remember_node(memory, namespace=ANN).invoke({"messages": said})
    assert kept(memory) == ["I moved to Oslo.", "Nice."]


def test_the_state_names_the_notes_of_this_turn_alone_also_where_nothing_was_answered(memory):
    graph = around(memory, ANN)
    for said in (HumanMessage("One."), HumanMessage("Two."), AIMessage("By the way.")):
        (name,) = say(graph, said)["remembered"]
        assert memory.get(name, namespace=ANN).content == said.text


def test_each_of_two_nodes_stores_all_messages_of_one_input(memory):
    spaces = {"mine": ANN, "ours": ("team",)}
    nodes = {name: remember_node(memory, namespace=space) for name, space in spaces.items()}
    say(sequence(State, answer=failing, **nodes), ask("I moved to Oslo.", "It is cold."))
    for space in spaces.values():
        assert kept(memory, space) == ["I moved to Oslo.", "It is cold.", "I see."]


def test_messages_whose_ids_are_empty_are_told_apart(memory):
    said = [HumanMessage("I moved to Oslo.", id=""), HumanMessage("It is cold. \ud83d", id="")]
    remember_node(memory, namespace=ANN).invoke({"messages": said})
    assert kept(memory) == ["I moved to Oslo.", "It is cold. \ufffd"]


def test_only_the_last_messages_are_looked_at_for_whether_they_were_edited(memory):
    node, facts = remember_node(memory, namespace=ANN), range(RECENT + 8)
    node.invoke({"messages": [HumanMessage(f"Fact {n}.", id=f"{n}") for n in facts]})
    edited = [HumanMessage(f"Fact {n}!", id=f"{n}") for n in facts]
    node.invoke({"messages": [*edited, AIMessage("I see."), HumanMessage("Thanks.")]})
    found = [text.endswith("!") for text in kept(memory) if "Fact" in text]
    assert found == [n >= 10 for n in facts]  # two more messages follow


# When the model does not answer


def test_with_the_model_down_the_answer_is_given_and_the_notes_wait():
    before = failures().get("evolve", 0)
    model = ScriptedModel({"construct": ModelUnavailableError("the model is down")})
    for on_model_error in ("log", "raise"):
        config = MemoryConfig(on_model_error=on_model_error)
        opened = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(), config=config)
        with opened as memory:
            state = say(build(memory), "I am Ann.")
            assert last(state) == "I do not know."
            assert "the model is down" in state["evolution"]["interrupted"]
            assert {note.state for note in memory.get_all(namespace=ANN)} == {"pending"}
    assert failures()["evolve"] == before + 2


def test_a_turn_also_finishes_a_bounded_number_of_notes_that_earlier_ones_left(memory):
    memory.add_many([f"Fact {i}." for i in range(20)], namespace=ANN, evolve=False)
    state = say(build(memory), "I moved to Oslo.")
    done = state["evolution"]["done"]
    assert set(state["remembered"]) <= set(done)
    assert len(done) == 2 + LEFT_OVERS
    for limit in (0, 3):
        left = evolve_node(memory, namespace=ANN, limit=limit).invoke({})["evolution"]
        assert len(left["done"]) == limit
