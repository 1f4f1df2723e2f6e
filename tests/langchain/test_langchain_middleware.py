"""The middleware in agents made by `create_agent`."""

from __future__ import annotations

import threading
from dataclasses import make_dataclass
from datetime import date
from itertools import product
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    after_agent,
    before_agent,
    before_model,
    dynamic_prompt,
    wrap_model_call,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_kit import (
    ANN,
    BOB,
    Talker,
    User,
    agent_of,
    asay,
    ask,
    called,
    calling,
    kept,
    last,
    look,
    looking,
    say,
    scripted,
    system_text,
    user,
    within,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import create_model
from support.ports import WatchedEmbedder

from amem_integrations import (
    AgenticMemory,
    ModelUnavailableError,
    NamespaceError,
    StoreClosedError,
    StoreUnavailableError,
)
from amem_integrations.adapting import ANSWERS
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import AMemMiddleware

APPROVE = Command(resume={"decisions": [{"type": "approve"}]})
CARD = "4242 4242 4242 4242"
PAYING = f"Please pay with {CARD}."
PICTURE = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}

# What the model is shown


@pytest.mark.on_a_server
def test_what_was_said_in_one_conversation_is_known_in_another(memory):
    agent = agent_of(memory)
    say(agent, "I moved to Oslo.", thread="monday")
    assert last(say(agent, "Where did I move to?", thread="tuesday")) == "In Oslo."


@pytest.mark.on_a_server
def test_the_history_of_the_conversation_stays_clean(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    for inject in ("system", "message"):
        agent = agent_of(memory, inject=inject)
        say(agent, "Where did I move to?")
        state = say(agent, "And where is that?")
        assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]
        assert all("<memories>" not in message.text for message in state["messages"])
        assert "amem" not in state


@pytest.mark.on_a_server
def test_notes_stand_at_the_end_of_the_system_message_also_of_one_that_was_replaced(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    blocks, brief = SystemMessage([{"type": "text", "text": "Be brief."}]), "Be brief."
    for prompt, before in (
        (brief, []),
        ("Be long.", [dynamic_prompt(lambda _: brief)]),
        (blocks, []),
    ):
        model = Talker()
        say(agent_of(memory, model, prompt=prompt, before=before), "Where did I move to?")
        say(agent_of(memory, model), "Where did I move to?", "bob")
        assert [message.type for message in model.seen[1]] == ["human"]  # nothing is known
        content = model.seen[0][0].content
        if prompt is blocks:
            assert content[0] == blocks.content[0]
            assert content[1]["text"].startswith("<memories>")
        else:
            assert content.startswith("Be brief.\n\n<memories>")


def test_as_a_message_notes_stand_before_the_question(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    model, earlier = Talker(), [HumanMessage("Hello."), AIMessage("Hi.")]
    say(agent_of(memory, model, inject="message", prompt="Be brief."), "Where did I move to?")
    say(agent_of(memory, model, inject="message"), ask(*earlier, "Where did I move to?"))
    for seen, expected in zip(model.seen, (["Be brief."], ["Hello.", "Hi."]), strict=True):
        *before, notes, question = (message.text for message in seen)
        assert (before, question) == (expected, "Where did I move to?")
        assert notes.startswith("<memories>")
    model = looking()  # a call of a tool and its result stay together
    say(agent_of(memory, model, tools=[look], inject="message"), "Where did I move to?")
    assert [message.type for message in model.seen[1]] == ["human", "human", "ai", "tool"]


def test_notes_are_recalled_once_a_run_and_shown_at_each_call(memory):
    note = memory.add("The meeting is in Oslo.", namespace=ANN)
    model = looking()

    @dynamic_prompt
    def meanwhile(_: Any) -> str:
        if model.seen:
            memory.update(note.id, namespace=ANN, content="The meeting is in Rome.")
        return "Be brief."

    other = AMemMiddleware(memory, namespace=ANN, remember=False, name="other")
    agent = agent_of(memory, model, tools=[look], before=[meanwhile, other])
    say(agent, "Where is the meeting?")
    assert [system_text(seen).count("is in Oslo") for seen in model.seen] == [2, 2]


def test_a_resumed_run_recalls_again(memory):
    note = memory.add("The code of Oslo is 1234.", namespace=ANN, evolve=False)
    human, model = HumanInTheLoopMiddleware(interrupt_on={"look": True}), looking()
    agent = agent_of(memory, model, tools=[look], before=[human])
    say(agent, "What is the code of Oslo?")
    memory.delete(note.id, namespace=ANN)
    say(agent, APPROVE)
    assert ["1234" in system_text(seen) for seen in model.seen] == [True, False]


def test_no_note_and_no_message_of_the_memory_is_streamed(memory):
    memory.add("The secret of Oslo is in the memory.", namespace=ANN, evolve=False)
    for mode in ("values", "updates", "debug"):
        run = {"context": User("ann"), "stream_mode": mode, "config": within()}
        streamed = list(agent_of(memory).stream(ask("What of Oslo?"), **run))
        assert streamed
        assert "secret" not in str(streamed)


def test_metadata_and_conditions_may_be_functions_of_the_run(memory):
    model = Talker()
    metadata = {"metadata": lambda run: {"room": run.config["configurable"]["room"]}}
    where = {"where": lambda run: {"metadata.room": run.config["configurable"]["room"]}}
    agent = agent_of(memory, model, **metadata, **where)
    for room, text in (("a", "I moved to Oslo."), ("b", "Where is Oslo?"), ("a", "Oslo?")):
        agent.invoke(ask(text), within(text, room=room), context=User("ann"))
    assert ["Oslo." in system_text(seen) for seen in model.seen] == [False, False, True]


def test_a_middleware_brings_its_tools_with_its_options(memory):
    memory.add("The team meets in Oslo.", namespace=BOB)
    memory.add("The team meets in secret.", namespace=BOB, metadata={"secret": True}, evolve=False)
    options = {"tools": ("search", "remember"), "also": {"team": BOB}, "on_error": "raise"}
    options |= {"where": {"metadata.secret": {"$ne": True}}, "max_tokens": 500, "window": 0}
    search, remember = AMemMiddleware(memory, namespace=ANN, **options).tools
    assert [search.name, remember.name] == ["search_memory", "remember"]
    found = search.invoke({"query": "Where does the team meet?"})
    assert "from team" in found
    assert "secret" not in found
    memory.down = True
    with pytest.raises(StoreUnavailableError):
        search.invoke({"query": "Where does the team meet?"})


# What is stored


def test_without_a_checkpointer_a_history_passed_again_is_not_stored_again(memory):
    agent = agent_of(memory, keeps=False)
    history = []
    for text in ("I moved to Oslo.", "I like it."):
        history.append(("user", text))
        state = agent.invoke({"messages": history}, context=User("ann"))
        history.append(("assistant", last(state)))
    # What a visible message says is not recalled as well, and the model looks nowhere else.
    unknown = "I do not know."
    assert kept(memory) == ["I moved to Oslo.", unknown, "I like it.", unknown]
    assert {note.thread for note in memory.get_all(namespace=ANN)} == {None}


def test_tool_calls_are_not_stored_but_what_is_said_between_them_and_before_a_limit(memory):
    @before_model
    def hurrying(state, _):
        called_one = state["messages"][-1].type == "tool"
        return {"messages": [HumanMessage("Hurry.")]} if called_one else None

    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")
    for who, before, then in (
        ("ann", [], ["One moment.", "It is 42."]),
        ("bob", [hurrying], ["Hurry.", "One moment.", "It is 42."]),
        ("eve", [limit], ["One moment.", "Model call limits exceeded: run limit (1/1)"]),
    ):
        say(agent_of(memory, looking(), tools=[look], before=before), "What is it?", who)
        assert kept(memory, (who,)) == ["What is it?", *then]


def test_an_answer_that_a_tool_gives_is_remembered(memory):
    @tool(return_direct=True)
    def look_up(what: str) -> str:
        """Look something up."""
        return f"{what} is 42."

    city = create_model("City", name=(str, ...), since=(date, ...))
    town = make_dataclass("Town", [("name", str)])
    agent = agent_of(memory, calling(called("look_up", what="It")), tools=[look_up])
    say(agent, "What is it?")
    say(agent, ask("I see.", "It is 42."), "bob")  # where the run before has ended is known
    assert kept(memory, BOB) == ["I see.", "It is 42.", "Done."]
    for kind, given in (city, {"name": "Tromsø", "since": "1794-05-08"}), (town, {"name": "Bodø"}):
        structured = create_agent(
            calling(called(kind.__name__, **given)),
            response_format=kind,
            middleware=[AMemMiddleware(memory, namespace=ANN)],
        )
        structured.invoke(ask("Which?"))
    answers = ["Which?", '{"name": "Tromsø", "since": "1794-05-08"}', "Which?", '{"name": "Bodø"}']
    assert kept(memory) == ["What is it?", "It is 42.", *answers]
    calls = [called("look_up", what=what).tool_calls[0] | {"id": what} for what in ("It", "That")]
    asking = Talker(answer=lambda _: AIMessage("", tool_calls=calls))
    say(agent_of(memory, asking, tools=[look_up]), "What are both?", "eve")
    assert kept(memory, ("eve",)) == ["What are both?", "It is 42.", "That is 42."]


@pytest.mark.parametrize("named", [True, False], ids=["named", "without names"])
@pytest.mark.parametrize("shared", [True, False], ids=["side by side", "one after the other"])
def test_each_of_several_agents_that_are_asked_by_one_message_is_remembered(memory, shared, named):
    graph = StateGraph(MessagesState, context_schema=User)
    for place in ("left", "right"):
        agent = create_agent(
            Talker(answer=lambda _, place=place: f"It is {place}."),
            middleware=[AMemMiddleware(memory, namespace=user)],
            name=place if named else None,
        )

        def asked(state, agent=agent):  # each sees the question alone
            return {"messages": agent.invoke({"messages": state["messages"][:1]})["messages"][-1:]}

        graph.add_node(place, agent if shared else asked)
    graph.add_edge(START, "left").add_edge(START if shared else "left", "right")
    say(graph.compile(checkpointer=InMemorySaver()), "Where is it?")
    assert sorted(kept(memory)) == ["It is left.", "It is right.", "Where is it?"]


def test_of_a_message_with_a_picture_the_words_are_stored_and_asked_for(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    words = {"type": "text", "text": "Where did I move to?"}
    agent = agent_of(memory)
    assert last(say(agent, HumanMessage(content_blocks=[words, PICTURE]))) == "In Oslo."
    say(agent, HumanMessage(content_blocks=[PICTURE]))
    said = [note.content for note in memory.get_all(namespace=ANN) if note.source == "user"]
    assert said == ["I moved to Oslo.", "Where did I move to?"]


def test_the_parts_of_what_a_person_gives_stand_apart_and_those_of_an_answer_do_not(memory):
    parts = [{"type": "text", "text": text} for text in ("Sum this up", "My bill")]
    agent = agent_of(memory, Talker(answer=lambda _: AIMessage(["It is ", "42."])))
    say(agent, HumanMessage([parts[0], PICTURE, parts[1]]))
    assert kept(memory) == ["Sum this up\nMy bill", "It is 42."]
    memory.add_messages([{"role": "user", "content": parts}], namespace=BOB)
    assert kept(memory, BOB) == kept(memory)[:1]


def test_a_summary_of_the_conversation_is_no_note(memory):
    summary = Talker(answer=lambda _: "THE SUMMARY")
    summing = SummarizationMiddleware(summary, trigger=("messages", 3), keep=("messages", 1))
    agent = agent_of(memory, before=[summing])
    facts = [f"Fact {number} is this." for number in range(4)]
    for fact in facts:
        say(agent, fact)
    assert "THE SUMMARY" in str(agent.get_state(within()).values["messages"])
    assert [text for text in kept(memory) if text.startswith("Fact")] == facts
    assert not any("SUMMARY" in text for text in kept(memory))
    summary = HumanMessage("THE SUMMARY", additional_kwargs={"lc_source": "summarization"})
    say(agent_of(memory), ask(summary, "Hello."), "bob")
    assert kept(memory, BOB) == ["Hello.", "I do not know."]


def test_off_reads_and_never_writes(memory):
    memory.add("I moved to Oslo.", namespace=ANN)
    assert last(say(agent_of(memory, remember=False), "Where did I move to?")) == "In Oslo."
    assert kept(memory) == ["I moved to Oslo."]


def test_should_store_decides_what_is_stored(memory):
    for who, kind, text in (("ann", "human", "What is it?"), ("bob", "tool", "it: 42")):
        stores = {"should_store": lambda message, kind=kind: message.type == kind}
        say(agent_of(memory, looking(), tools=[look], **stores), "What is it?", who)
        (note,) = memory.get_all(namespace=(who,))
        assert (note.content, ANSWERS in note.metadata) == (text, False)


def test_what_is_redacted_is_stored_redacted_in_any_order(memory):
    def masked(messages):
        return [HumanMessage(one.text.replace("1234", "****"), id=one.id) for one in messages]

    @before_model
    def redacting(state, _):
        return {"messages": masked(state["messages"][-1:])}

    @wrap_model_call
    def hiding(request, handler):  # from the model alone
        return handler(request.override(messages=masked(request.messages)))

    @wrap_model_call
    def renewing(request, handler):  # without the ids
        new = [HumanMessage(one.text) for one in masked(request.messages)]
        return handler(request.override(messages=new))

    mine = AMemMiddleware(memory, namespace=ANN)
    for order in ([redacting, mine], [mine, redacting], [hiding, mine], [renewing, mine]):
        create_agent(Talker(), middleware=order).invoke(ask("My code is 1234."))
    assert kept(memory)[::2] == ["My code is ****."] * 4


def test_an_answer_that_is_changed_at_the_end_is_stored_so_at_once_or_with_the_next_turn(memory):
    @after_agent
    def guard(state, _):
        return {"messages": [AIMessage("I may not say.", id=state["messages"][-1].id)]}

    before, after = agent_of(memory, before=[guard]), agent_of(memory, after=[guard])
    say(after, "Where is the key?", "bob")
    assert kept(memory, BOB) == ["Where is the key?", "I may not say."]
    say(before, "Where is the key?")
    assert kept(memory) == ["Where is the key?", "I do not know."]
    say(before, "Please.")
    assert kept(memory) == ["Where is the key?", "I may not say.", "Please.", "I do not know."]


FILES = "The files: a.txt."
ADDED = [
    lambda message: [message, HumanMessage(FILES)],
    lambda message: [message, {"role": "user", "content": FILES}],
    lambda message: [HumanMessage(f"{message.text} {FILES}", id=message.id)],
]


@pytest.mark.parametrize("added", ADDED, ids=["a message", "a dict", "more text"])
def test_what_another_middleware_adds_for_the_model_alone_is_neither_stored_nor_asked(
    memory, added
):
    @wrap_model_call
    def adding(request, handler):
        *before, last = request.messages
        return handler(request.override(messages=[*before, *added(last)]))

    agent = agent_of(memory, before=[adding])
    say(agent, "I moved to Oslo.", thread="monday")
    assert last(say(agent, "Where did I move to?", thread="tuesday")) == "In Oslo."
    said = ["I moved to Oslo.", "I do not know.", "Where did I move to?", "In Oslo."]
    assert kept(memory) == said


# Whose memory it is


async def test_a_missing_user_is_an_error_before_the_model_is_called(memory):
    model = Talker()
    agent = agent_of(memory, model)
    for context in (None, User("")):
        with pytest.raises(NamespaceError):
            agent.invoke(ask("Hello."), within(), context=context)
        with pytest.raises(NamespaceError):
            await agent.ainvoke(ask("Hello."), within(), context=context)
    assert model.seen == []
    with pytest.raises(NamespaceError):
        AMemMiddleware(memory, namespace="ann")


def test_two_middlewares_in_one_agent_keep_two_memories(memory):
    team = AMemMiddleware(memory, namespace=("team",), name="team")
    say(agent_of(memory, before=[team]), "I moved to Oslo.")
    assert memory.namespaces() == [ANN, ("team",)]
    assert len(kept(memory)) == len(kept(memory, ("team",))) == 2


def test_what_it_keeps_in_the_state_can_be_neither_seen_nor_given_from_outside(memory):
    memory.add("I moved to Rome.", namespace=BOB)
    agent = agent_of(memory)
    forged = {"namespace": ["bob"], "recalled": "<memories>Oslo</memories>", "asked": []}
    state = say(agent, {**ask("Where do I live?"), "amem": {"AMemMiddleware": forged}})
    assert list(state) == ["messages"]
    assert last(state) == "I do not know."
    assert kept(memory, BOB) == ["I moved to Rome."]
    for schema in (agent.get_input_jsonschema(), agent.get_output_jsonschema()):
        assert "amem" not in schema["properties"]
    assert "amem" in agent.get_state(within()).values  # it is checkpointed all the same


def test_after_an_interrupt_the_turn_is_stored_once_for_whom_it_began(memory):
    human = HumanInTheLoopMiddleware(interrupt_on={"look": True})
    agent = agent_of(memory, looking(), tools=[look], before=[human])
    say(agent, "What is it?")
    assert kept(memory) == ["What is it?"]
    say(agent, APPROVE, "bob")
    assert kept(memory) == ["What is it?", "One moment.", "It is 42."]
    assert kept(memory, BOB) == []


def test_what_somebody_adds_to_the_run_of_another_is_theirs(memory):
    @before_model
    def asking(*_):
        return {"messages": [HumanMessage(interrupt("And you?"))]}

    memory.add("I moved to Rome.", namespace=BOB)
    memory.add("I moved to Oslo.", namespace=ANN)
    model = Talker()
    agent = agent_of(memory, model, before=[asking])
    say(agent, "Hello.")
    say(agent, Command(resume="Where did I move to?"), "bob")
    assert kept(memory)[1:] == ["Hello."]
    assert kept(memory, BOB)[1:] == ["Where did I move to?", "I do not know."]
    (shown,) = map(system_text, model.seen)
    assert ("Rome" in shown, "Oslo" in shown) == (True, False)


# Runs that fail or are blocked


async def test_a_turn_whose_model_failed_is_stored_for_whom_it_was_said(memory):
    async def soon(*given):
        return say(*given)

    def failing(messages):
        if messages[-1].text == "I moved to Oslo.":
            raise ConnectionError("no answer")
        return "I do not know."

    for speak, mine, others in ((soon, "ann", "bob"), (asay, "eve", "zoe")):
        agent = agent_of(memory, Talker(answer=failing))
        with pytest.raises(ConnectionError):
            await speak(agent, "I moved to Oslo.", mine)
        assert kept(memory, (mine,)) == ["I moved to Oslo."]
        await speak(agent, "Hello.", others)
        await speak(agent, "Did you hear me?", mine)
        assert kept(memory, (mine,))[:2] == ["I moved to Oslo.", "Did you hear me?"]
        assert kept(memory, (others,)) == ["Hello.", "I do not know."]


def pii(**where):
    """Return a guard that ends a run in which a card is named."""
    return PIIMiddleware("credit_card", strategy="block", **where)


def test_what_a_blocked_run_said_is_in_no_note_and_no_later_prompt():
    for who in ("ann", "bob"):
        with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
            model = Talker()
            agent = agent_of(memory, model, before=[pii()], remember_unanswered=False)
            with pytest.raises(Exception, match="credit_card"):
                say(agent, PAYING)
            # All messages of one input are remembered.
            say(agent, ask("I moved to Oslo.", "I have a dog."), who)
            say(agent, "How did I pay?", thread="2")
            assert CARD not in str([kept(memory), kept(memory, BOB), system_text(model.seen[-1])])
            assert kept(memory, (who,))[:2] == ["I moved to Oslo.", "I have a dog."]


async def test_by_default_it_is_stored_with_the_next_run(memory):
    agent = agent_of(memory, before=[pii()])
    with pytest.raises(Exception, match="credit_card"):
        await asay(agent, PAYING)
    await asay(agent, "I moved to Oslo.")
    assert kept(memory)[:2] == [PAYING, "I moved to Oslo."]


def test_a_blocked_answer_is_left_out_too(memory):
    replies = iter([f"Your card is {CARD}.", "I see."])
    model = Talker(answer=lambda _: next(replies))
    guard = pii(apply_to_input=False, apply_to_output=True)
    agent = agent_of(memory, model, before=[guard], remember_unanswered=False)
    with pytest.raises(Exception, match="credit_card"):
        say(agent, "What is my card?")
    say(agent, "I moved to Oslo.")
    assert kept(memory) == ["What is my card?", "I moved to Oslo.", "I see."]


def test_a_run_that_a_middleware_before_it_ends_is_remembered_only_if_that_is_wanted(memory):
    def refusing(state, _):
        refused = {"messages": [AIMessage("I cannot take that.")], "jump_to": "end"}
        return refused if CARD in last(state) else None

    texts = [PAYING, "I moved to Oslo.", PAYING]
    for unanswered, hook in product((True, False), (before_agent, before_model)):
        who = f"{unanswered} {hook.__name__}"
        guard = hook(can_jump_to=["end"])(refusing)
        agent = agent_of(memory, before=[guard], remember_unanswered=unanswered)
        for text in texts:
            say(agent, text, who)
        asked = [text for text in kept(memory, (who,)) if text in texts]
        assert asked == (texts if unanswered else ["I moved to Oslo."])


# When something does not answer


def test_in_the_background_raw_notes_are_there_before_any_model_is_called():
    gate, quick = threading.Event(), scripted()

    def waiting(request):
        assert gate.wait(10)
        return quick.generate(request)

    model = ScriptedModel(waiting)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        say(agent_of(memory), "I moved to Oslo.")
        assert memory.stats(namespace=ANN)["states"] == {"pending": 2}
        assert not memory.flush(timeout=0.01)
        gate.set()
        assert memory.flush(timeout=10)
        assert memory.stats(namespace=ANN)["states"] == {"done": 2}


async def test_with_the_store_down_the_agent_answers_and_the_turn_is_stored_later(memory):
    memory.down = True
    middleware = AMemMiddleware(memory, namespace=user, name="counting")
    agent = agent_of(memory, before=[middleware], remember=False)
    assert last(say(agent, "I moved to Oslo.")) == "I do not know."
    await asay(agent, "It is cold.")
    assert middleware.failures == {"recall": 2, "remember": 4}
    memory.down = False
    say(agent, "Where did I move to?")
    stored = [note.content for note in memory.get_all(namespace=ANN) if note.source == "user"]
    assert stored == ["I moved to Oslo.", "It is cold.", "Where did I move to?"]
    memory.down = True
    with pytest.raises(StoreUnavailableError):
        say(agent_of(memory, on_error="raise"), "Hello.")


def test_what_people_said_is_stored_once_a_run_however_often_the_model_is_called(memory):
    memory.down = True
    mine = AMemMiddleware(memory, namespace=ANN)
    create_agent(looking(), tools=[look], middleware=[mine]).invoke(ask("What is it?"))
    assert mine.failures == {"recall": 1, "remember": 2}  # the question, and the answer


def test_with_the_embedder_down_the_failure_is_counted_and_raised_where_that_is_wanted():
    embedder, error = WatchedEmbedder(), ModelUnavailableError("down")
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        memory.info()  # finds the thresholds of the embedder, once
        mine, counted = AMemMiddleware(memory, namespace=ANN), {}
        for doing in ("recall", "remember"):
            embedder.error = error if doing == "recall" else None
            embedder.down = doing == "remember"
            create_agent(Talker(), middleware=[mine]).invoke(ask(f"To {doing} Oslo."))
            counted[doing] = 1
            assert mine.failures == counted
            with pytest.raises(ModelUnavailableError):
                say(agent_of(memory, on_error="raise"), f"To {doing} Rome.")


def test_a_filter_that_raises_costs_neither_the_answer_nor_the_thread(memory):
    agent = agent_of(memory, should_store=lambda one: not one.content.startswith("secret"))
    words = {"type": "text", "text": "Look at this."}
    say(agent, HumanMessage(content=[words, PICTURE]))
    assert last(say(agent, "I moved to Oslo.")) == "I do not know."
    assert "I moved to Oslo." in kept(memory)
    assert "Look at this." not in kept(memory)
    with pytest.raises(ZeroDivisionError):
        say(agent_of(memory, should_store=lambda _: 1 / 0, on_error="raise"), "Hello.")


def test_metadata_that_cannot_be_stored_cost_neither_the_answer_nor_the_words(memory):
    for wrong in (["text"], "text", 5, {"day": date(2026, 5, 8)}, {1: 2}, {ANSWERS: "a"}):
        for given in (wrong, lambda _, given=wrong: given):
            agent = agent_of(memory, metadata=given)
            text = f"I moved to {wrong}, {callable(given)}."
            assert last(say(agent, text)) == "I do not know."
            assert text in kept(memory)
    mine = AMemMiddleware(memory, namespace=ANN, metadata=lambda _: None)  # has none to give
    create_agent(Talker(), middleware=[mine]).invoke(ask("Hello."))
    assert mine.failures == {}


def test_a_closed_memory_always_raises(memory):
    memory.close()
    with pytest.raises(StoreClosedError):
        say(agent_of(memory), "Hello.")
