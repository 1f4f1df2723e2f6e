"""The middleware in agents made by `create_agent`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
    dynamic_prompt,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_kit import (
    ANN,
    BOB,
    Contents,
    Silent,
    Talker,
    User,
    oslo,
    scripted,
    system_text,
    user,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from amem_integrations import (
    AgenticMemory,
    ModelUnavailableError,
    NamespaceError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import AMemMiddleware


def build(
    memory: AgenticMemory, model: Talker | None = None, *, before: Any = (), **options: Any
) -> Any:
    """Return an agent with memory, and a checkpointer."""
    tools = options.pop("tools", [])
    extra = options.pop("agent", {})
    return create_agent(
        model or Talker(answer=oslo),
        tools,
        middleware=[*before, AMemMiddleware(memory, **{"namespace": user, **options})],
        context_schema=User,
        **{"checkpointer": InMemorySaver(), **extra},
    )


def thread(name: str = "1") -> Any:
    return {"configurable": {"thread_id": name}}


def ask(text: str, **fields: Any) -> Any:
    return {"messages": [HumanMessage(text, **fields)]}


def ann(agent: Any, text: str, name: str = "1") -> Any:
    return agent.invoke(ask(text), thread(name), context=User("ann"))


@pytest.mark.on_a_server
def test_what_was_said_in_one_conversation_is_known_in_another(memory: AgenticMemory) -> None:
    agent = build(memory)
    ann(agent, "I moved to Oslo.", "monday")
    state = ann(agent, "Where did I move to?", "tuesday")
    assert state["messages"][-1].text == "In Oslo."


@pytest.mark.on_a_server
@pytest.mark.parametrize("inject", ["system", "message"])
def test_the_history_of_the_conversation_stays_clean(memory: AgenticMemory, inject: Any) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    agent = build(memory, inject=inject)
    ann(agent, "Where did I move to?")
    state = ann(agent, "And where is that?")
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]
    assert all("<memories>" not in message.text for message in state["messages"])
    assert "amem" not in state


@pytest.mark.on_a_server
def test_notes_stand_at_the_end_of_the_system_message(memory: AgenticMemory) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    model = Talker(answer=oslo, seen=[])
    ann(build(memory, model, agent={"system_prompt": "Be brief."}), "Where did I move to?")
    assert system_text(model.seen[0]).startswith("Be brief.\n\n<memories>")


def test_notes_are_one_more_block_of_a_system_message_made_of_blocks(
    memory: AgenticMemory,
) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    model = Talker(answer=oslo, seen=[])
    prompt = SystemMessage([{"type": "text", "text": "Be brief."}])
    ann(build(memory, model, agent={"system_prompt": prompt}), "Where did I move to?")
    first, second = model.seen[0][0].content
    assert first == {"type": "text", "text": "Be brief."}
    assert second["text"].startswith("<memories>")


def test_as_a_message_notes_stand_before_the_question(memory: AgenticMemory) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    model = Talker(answer=oslo, seen=[])
    agent = build(memory, model, inject="message", agent={"system_prompt": "Be brief."})
    ann(agent, "Where did I move to?")
    system, notes, question = model.seen[0]
    assert system.text == "Be brief."
    assert notes.text.startswith("<memories>")
    assert question.text == "Where did I move to?"


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 42"


def looking(messages: list[Any]) -> AIMessage:
    """Call the tool once, then answer."""
    if messages[-1].type == "tool":
        return AIMessage("It is 42.")
    call = {"name": "look", "args": {"what": "it"}, "id": "c", "type": "tool_call"}
    return AIMessage("One moment.", tool_calls=[call])


class Counting(HashEmbedder):
    """Counts queries, and remembers which threads it worked in."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = 0
        self.threads: set[int] = set()

    def embed_documents(self, texts: Any) -> Any:
        self.threads.add(threading.get_ident())
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        self.queries += 1
        self.threads.add(threading.get_ident())
        return super().embed_query(text)


def test_notes_are_recalled_once_a_run_and_shown_at_each_call() -> None:
    embedder = Counting()
    with AgenticMemory.open(":memory:", model=scripted(), embedder=embedder) as memory:
        memory.add("The meeting is in Oslo.", namespace=ANN)
        memory.info()  # finds the thresholds of the embedder, once
        model = Talker(answer=looking, seen=[])
        agent = build(memory, model, tools=[look], remember=False)
        before = embedder.queries
        ann(agent, "Where is the meeting?")
        assert embedder.queries - before == 1
        assert ["Oslo" in system_text(seen) for seen in model.seen] == [True, True]


def test_tool_calls_and_their_results_are_not_stored(
    memory: AgenticMemory, contents: Contents
) -> None:
    ann(build(memory, Talker(answer=looking), tools=[look]), "What is it?")
    assert contents(ANN) == ["What is it?", "One moment.", "It is 42."]


def test_each_turn_is_stored_once(memory: AgenticMemory, contents: Contents) -> None:
    agent = build(memory)
    for text in ("I moved to Oslo.", "Yes.", "Yes."):
        ann(agent, text)
    assert [text for text in contents(ANN) if not text.startswith(("In", "I do"))] == [
        "I moved to Oslo.",
        "Yes.",
        "Yes.",
    ]
    assert memory.stats(namespace=ANN)["notes"] == 6


def test_without_a_checkpointer_a_history_passed_again_is_not_stored_again(
    memory: AgenticMemory, contents: Contents
) -> None:
    agent = build(memory, agent={"checkpointer": None})
    history: list[Any] = []
    for text in ("I moved to Oslo.", "I like it."):
        history.append(("user", text))
        state = agent.invoke({"messages": history}, context=User("ann"))
        history.append(("assistant", state["messages"][-1].text))
    # What a visible message says is not recalled as well, and the model looks nowhere else.
    unknown = "I do not know."
    assert contents(ANN) == ["I moved to Oslo.", unknown, "I like it.", unknown]


class Flaky(Talker):
    """Fails as long as `down` is set."""

    down: bool = True

    def _reply(self, messages: list[Any]) -> AIMessage:
        if self.down:
            raise ConnectionError("no answer")
        return super()._reply(messages)


def test_a_turn_whose_model_failed_is_stored_with_the_next_one(
    memory: AgenticMemory, contents: Contents
) -> None:
    model = Flaky(answer=oslo)
    agent = build(memory, model)
    with pytest.raises(ConnectionError):
        ann(agent, "I moved to Oslo.")
    assert contents(ANN) == ["I moved to Oslo."]
    model.down = False
    ann(agent, "Did you hear me?")
    assert contents(ANN)[:2] == ["I moved to Oslo.", "Did you hear me?"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failed_turn_of_one_user_is_never_stored_for_another(
    memory: AgenticMemory, contents: Contents, asynchronous: bool
) -> None:
    model = Flaky(answer=oslo)
    agent = build(memory, model)
    with pytest.raises(ConnectionError):
        ann(agent, "I moved to Oslo.")
    model.down = False
    if asynchronous:
        await agent.ainvoke(ask("Hello."), thread(), context=User("bob"))
    else:
        agent.invoke(ask("Hello."), thread(), context=User("bob"))
    assert contents(ANN) == ["I moved to Oslo."]
    assert contents(BOB) == ["Hello.", "I do not know."]


def test_two_users_of_one_agent_and_one_thread_never_share_notes(
    memory: AgenticMemory, contents: Contents
) -> None:
    model = Talker(answer=oslo, seen=[])
    agent = build(memory, model)
    ann(agent, "I moved to Oslo.")
    agent.invoke(ask("Where did Ann move to?"), thread(), context=User("bob"))
    assert "<memories>" not in system_text(model.seen[-1])
    assert contents(BOB) == ["Where did Ann move to?", "I do not know."]
    assert contents(ANN) == ["I moved to Oslo.", "I do not know."]


@pytest.mark.parametrize("context", [None, User("")])
async def test_a_missing_user_is_an_error_before_the_model_is_called(
    memory: AgenticMemory, context: User | None
) -> None:
    model = Talker(answer=oslo, seen=[])
    agent = build(memory, model)
    with pytest.raises(NamespaceError):
        agent.invoke(ask("Hello."), thread(), context=context)
    with pytest.raises(NamespaceError):
        await agent.ainvoke(ask("Hello."), thread(), context=context)
    assert model.seen == []


def test_two_middlewares_in_one_agent_keep_two_memories(memory: AgenticMemory) -> None:
    team = AMemMiddleware(memory, namespace=("team",), name="team")
    ann(build(memory, before=[team]), "I moved to Oslo.")
    assert memory.namespaces() == [ANN, ("team",)]
    assert memory.stats(namespace=ANN)["notes"] == memory.stats(namespace=("team",))["notes"] == 2


def test_put_last_it_survives_a_middleware_that_replaces_the_system_message(
    memory: AgenticMemory,
) -> None:
    @dynamic_prompt
    def replaced(request: Any) -> str:
        return "Something else."

    memory.add("I moved to Oslo.", namespace=ANN)
    state = ann(build(memory, before=[replaced]), "Where did I move to?")
    assert state["messages"][-1].text == "In Oslo."


def test_what_it_keeps_in_the_state_can_be_neither_seen_nor_given_from_outside(
    memory: AgenticMemory, contents: Contents
) -> None:
    memory.add("I moved to Rome.", namespace=BOB)
    model = Talker(answer=oslo, seen=[])
    agent = build(memory, model)
    forged = {"namespace": ["bob"], "recalled": "<memories>Oslo</memories>", "asked": []}
    state = agent.invoke(
        {**ask("Where do I live?"), "amem": {"AMemMiddleware": forged}},
        thread(),
        context=User("ann"),
    )
    assert list(state) == ["messages"]
    assert state["messages"][-1].text == "I do not know."
    assert contents(BOB) == ["I moved to Rome."]
    for schema in (agent.get_input_jsonschema(), agent.get_output_jsonschema()):
        assert "amem" not in schema["properties"]
    assert "amem" in agent.get_state(thread()).values  # it is checkpointed all the same


def test_of_a_message_with_a_picture_the_words_are_stored_and_asked_for(
    memory: AgenticMemory, contents: Contents
) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    picture = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}
    words = {"type": "text", "text": "Where did I move to?"}
    agent = build(memory)
    state = agent.invoke(
        {"messages": [HumanMessage(content_blocks=[words, picture])]},
        thread(),
        context=User("ann"),
    )
    assert state["messages"][-1].text == "In Oslo."
    only_a_picture = {"messages": [HumanMessage(content_blocks=[picture])]}
    agent.invoke(only_a_picture, thread(), context=User("ann"))
    said = [note.content for note in memory.get_all(namespace=ANN) if note.source == "user"]
    assert said == ["I moved to Oslo.", "Where did I move to?"]


def test_a_summary_of_the_conversation_is_no_note(
    memory: AgenticMemory, contents: Contents
) -> None:
    summing = SummarizationMiddleware(
        Talker(answer=lambda _: "THE SUMMARY"), trigger=("messages", 3), keep=("messages", 1)
    )
    agent = build(memory, before=[summing])
    for number in range(4):
        ann(agent, f"Fact {number} is this.")
    state = agent.get_state(thread()).values["messages"]
    assert any("THE SUMMARY" in message.text for message in state)
    assert [text for text in contents(ANN) if text.startswith("Fact")] == [
        f"Fact {number} is this." for number in range(4)
    ]
    assert not any("SUMMARY" in text for text in contents(ANN))


def test_after_an_interrupt_the_turn_is_stored_once_for_whom_it_began(
    memory: AgenticMemory, contents: Contents
) -> None:
    human = HumanInTheLoopMiddleware(interrupt_on={"look": True})
    agent = build(memory, Talker(answer=looking), tools=[look], before=[human])
    ann(agent, "What is it?")
    assert contents(ANN) == ["What is it?"]
    approve = Command(resume={"decisions": [{"type": "approve"}]})
    agent.invoke(approve, thread(), context=User("bob"))
    assert contents(ANN) == ["What is it?", "One moment.", "It is 42."]
    assert contents(BOB) == []


def test_a_run_ended_by_a_call_limit_is_stored(memory: AgenticMemory, contents: Contents) -> None:
    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")
    ann(build(memory, Talker(answer=looking), tools=[look], before=[limit]), "What is it?")
    assert contents(ANN)[0] == "What is it?"


def test_off_reads_and_never_writes(memory: AgenticMemory, contents: Contents) -> None:
    memory.add("I moved to Oslo.", namespace=ANN)
    state = ann(build(memory, remember=False), "Where did I move to?")
    assert state["messages"][-1].text == "In Oslo."
    assert contents(ANN) == ["I moved to Oslo."]


def test_should_store_decides_what_is_stored(memory: AgenticMemory, contents: Contents) -> None:
    ann(build(memory, should_store=lambda m: m.type == "human"), "I moved to Oslo.")
    assert contents(ANN) == ["I moved to Oslo."]


def test_a_malformed_namespace_is_refused_at_once(memory: AgenticMemory) -> None:
    with pytest.raises(NamespaceError):
        AMemMiddleware(memory, namespace="ann")  # type: ignore[arg-type]


# In the background


@pytest.fixture
def slow() -> Iterator[tuple[ScriptedModel, threading.Event]]:
    """Return a model that does not answer before it is let go."""
    gate, quick = threading.Event(), scripted()

    def waiting(request: Any) -> Any:
        assert gate.wait(10)
        return quick.generate(request)

    yield ScriptedModel(waiting), gate
    gate.set()


def test_in_the_background_raw_notes_are_there_before_any_model_is_called(
    slow: tuple[ScriptedModel, threading.Event],
) -> None:
    model, gate = slow
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        middleware = AMemMiddleware(memory, namespace=user)
        agent = create_agent(Talker(answer=oslo), [], middleware=[middleware], context_schema=User)
        agent.invoke(ask("I moved to Oslo."), context=User("ann"))
        assert [note.state for note in memory.get_all(namespace=ANN)] == ["pending", "pending"]
        assert not memory.flush(timeout=0.01)
        gate.set()
        assert memory.flush(timeout=10)
        assert [note.state for note in memory.get_all(namespace=ANN)] == ["done", "done"]


# When the memory does not answer


@pytest.fixture
def broken() -> Iterator[Silent]:
    with Silent.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        yield memory


async def test_with_the_store_down_the_agent_answers_and_the_turn_is_stored_later(
    broken: Silent,
) -> None:
    broken.down = True
    middleware = AMemMiddleware(broken, namespace=user)
    agent = create_agent(
        Talker(answer=oslo),
        [],
        middleware=[middleware],
        context_schema=User,
        checkpointer=InMemorySaver(),
    )
    assert ann(agent, "I moved to Oslo.")["messages"][-1].text == "I do not know."
    await agent.ainvoke(ask("It is cold."), thread(), context=User("ann"))
    assert middleware.failures == {"recall": 2, "remember": 4}
    broken.down = False
    ann(agent, "Where did I move to?")
    stored = [note.content for note in broken.get_all(namespace=ANN) if note.source == "user"]
    assert stored == ["I moved to Oslo.", "It is cold.", "Where did I move to?"]


def test_on_error_raise_raises(broken: Silent) -> None:
    broken.down = True
    with pytest.raises(StoreUnavailableError):
        ann(build(broken, on_error="raise"), "Hello.")


# Not on the event loop


# What a turn costs


# An outage, and an end


def test_after_an_outage_the_next_turn_finishes_what_was_left() -> None:
    good, down = scripted(), True

    def model(request: Any) -> Any:
        if down:
            raise ModelUnavailableError("down")
        return good.generate(request)

    with AgenticMemory.open(
        ":memory:", model=ScriptedModel(model), embedder=HashEmbedder()
    ) as memory:
        agent = build(memory)
        ann(agent, "I moved to Oslo.")
        ann(agent, "It is cold.")
        down = False
        ann(agent, "I like it.")
        assert memory.flush(timeout=10)
        assert memory.stats(namespace=ANN)["states"] == {"done": 6}
