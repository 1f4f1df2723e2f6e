"""What users of the adapter ran into: walls between memories, answers that were lost, errors that were hidden."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_kit import (
    ANN,
    BOB,
    Contents,
    Talker,
    User,
    oslo,
    system_text,
    user,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    ModelUnavailableError,
    StoreClosedError,
)
from amem_integrations.testing import HashEmbedder
from langchain_amem import (
    AMemChatMessageHistory,
    AMemMiddleware,
    AMemRetriever,
    AMemStore,
    MemoryState,
    described_call,
    memory_tools,
    recall_node,
    remember_node,
)

TEAM = ("team",)
THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(MessagesState, MemoryState):
    """A conversation with two memories."""

    team_memories: str


class Whose:
    """An object that gives a namespace, by its call or by a method."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, run: Any) -> tuple[str, ...]:
        return (run.config["configurable"][self.key],)

    of = __call__


def closure(number: int) -> Any:
    keys = ["user", "team"]
    return lambda run: (run.config["configurable"][keys[number]],)


PAIRS: dict[str, Any] = {
    "objects": (Whose("user"), Whose("team")),
    "methods": (Whose("user").of, Whose("team").of),
    "closures over an int": (closure(0), closure(1)),
    "lambdas of a loop": tuple(
        lambda run, key=key: (run.config["configurable"][key],) for key in ("user", "team")
    ),
    "partials": (partial(Whose.of, Whose("user")), partial(Whose.of, Whose("team"))),
}


def answer(_: Any) -> dict[str, Any]:
    return {"messages": [AIMessage("I see.")]}


@pytest.mark.parametrize("parallel", [False, True], ids=["in sequence", "parallel"])
@pytest.mark.parametrize("team_first", [False, True])
@pytest.mark.parametrize("reads_only", [False, True])
@pytest.mark.parametrize("kind", PAIRS)
def test_nobodys_words_are_in_anothers_memory(
    memory: AgenticMemory,
    contents: Contents,
    kind: str,
    reads_only: bool,
    team_first: bool,
    parallel: bool,
) -> None:
    mine, team = PAIRS[kind]
    steps: dict[str, Any] = {
        "z": recall_node(memory, namespace=mine),
        "y": recall_node(memory, namespace=team, output_key="team_memories"),
        "b": remember_node(memory, namespace=mine),
    }
    if not reads_only:
        steps["a"] = remember_node(memory, namespace=team)
    graph = StateGraph(State)
    for name, step in (*steps.items(), ("answer", answer)):
        graph.add_node(name, step)
    reads = ["y", "z"] if team_first else ["z", "y"]
    writes = [name for name in (["a", "b"] if team_first else ["b", "a"]) if name in steps]
    if parallel:
        for name in reads:
            graph.add_edge(START, name)
        graph.add_edge(reads, "answer")
        for name in writes:
            graph.add_edge("answer", name)
    else:
        order = [START, *reads, "answer", *writes]
        for one, following in pairwise(order):
            graph.add_edge(one, following)
    built = graph.compile(checkpointer=InMemorySaver())
    for who in ("ann", "bob"):
        config: Any = {"configurable": {"thread_id": who, "user": who, "team": "team"}}
        built.invoke({"messages": [HumanMessage(f"{who} earns 80,000.")]}, config)
    assert contents(ANN) == ["ann earns 80,000.", "I see."]
    assert contents(BOB) == ["bob earns 80,000.", "I see."]
    assert len(contents(TEAM)) == (0 if reads_only else 4)


def agent_of(memory: AgenticMemory, model: Any = None, **options: Any) -> Any:
    extra = options.pop("agent", {})
    return create_agent(
        model or Talker(answer=oslo),
        middleware=[
            *options.pop("before", ()),
            AMemMiddleware(memory, **{"namespace": user, **options}),
        ],
        context_schema=User,
        **{"checkpointer": InMemorySaver(), **extra},
    )


def ask(agent: Any, text: Any, **how: Any) -> Any:
    asked = {"messages": [text if not isinstance(text, str) else HumanMessage(text)]}
    return agent.invoke(asked, THREAD, context=User("ann"), **how)


def test_a_filter_that_raises_costs_neither_the_answer_nor_the_thread(
    memory: AgenticMemory, contents: Contents
) -> None:
    picture = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}
    agent = agent_of(memory, should_store=lambda one: not one.content.startswith("secret"))
    words = {"type": "text", "text": "Look at this."}
    ask(agent, HumanMessage(content=[words, picture]))
    assert ask(agent, "I moved to Oslo.")["messages"][-1].text == "I do not know."
    assert "I moved to Oslo." in contents(ANN)
    assert "Look at this." not in contents(ANN)
    strict = agent_of(memory, should_store=lambda one: 1 / 0, on_error="raise")
    with pytest.raises(ZeroDivisionError):
        ask(strict, "Hello.")


@pytest.mark.parametrize("error", [ModelUnavailableError("down"), ConfigurationError("refused")])
@pytest.mark.parametrize("door", ["middleware", "retriever", "tool"])
def test_an_embedder_that_fails_is_counted_and_raised_where_that_is_wanted(
    door: str, error: Exception
) -> None:
    class Deaf(HashEmbedder):
        deaf = False

        def embed_query(self, text: str) -> Any:
            if self.deaf:
                raise error
            return super().embed_query(text)

    embedder = Deaf()
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        memory.info()
        memory.add("I moved to Oslo.", namespace=ANN, evolve=False)

        def use(on_error: Any) -> Any:
            if door == "middleware":
                mine = AMemMiddleware(memory, namespace=ANN, remember=False, on_error=on_error)
                create_agent(Talker(answer=oslo), middleware=[mine]).invoke(
                    {"messages": [HumanMessage("Where is Oslo?")]}
                )
                return mine.failures
            if door == "retriever":
                found = AMemRetriever(memory=memory, namespace=ANN, on_error=on_error)
                found.invoke("Where is Oslo?")
                return found.failures
            (search,) = memory_tools(memory, namespace=ANN, kinds=["search"], on_error=on_error)
            said = search.invoke({"query": "zzz"})
            assert said != "Nothing is known about that."
            return {"recall": 1}

        embedder.deaf = True
        assert use("log") == {"recall": 1}
        with pytest.raises(type(error)):
            use("raise")


def test_a_closed_memory_always_raises(tmp_path: Any) -> None:
    memory = AgenticMemory.open(tmp_path, embedder=HashEmbedder())
    agent = agent_of(memory)
    memory.close()
    with pytest.raises(StoreClosedError):
        ask(agent, "Hello.")


class City(BaseModel):
    """A structured answer."""

    name: str


@tool(return_direct=True)
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is 42."


def test_an_answer_that_a_tool_gives_is_remembered(
    memory: AgenticMemory, contents: Contents
) -> None:
    call = {"name": "look", "args": {"what": "It"}, "id": "c", "type": "tool_call"}
    model = Talker(answer=lambda _: AIMessage("", tool_calls=[call]))
    ask(agent_of(memory, model, agent={"tools": [look]}), "What is it?")
    assert contents(ANN) == ["What is it?", "It is 42."]


def test_a_structured_answer_is_remembered_as_json(
    memory: AgenticMemory, contents: Contents
) -> None:
    call = {"name": "City", "args": {"name": "Oslo"}, "id": "c", "type": "tool_call"}
    model = Talker(answer=lambda _: AIMessage("", tool_calls=[call]))
    ask(agent_of(memory, model, agent={"response_format": City}), "Which city?")
    assert contents(ANN) == ["Which city?", '{"name": "Oslo"}']


@pytest.mark.parametrize("mode", ["values", "updates", "debug"])
def test_no_note_and_no_message_of_the_memory_is_streamed(memory: AgenticMemory, mode: Any) -> None:
    memory.add("The secret of Oslo is in the memory.", namespace=ANN, evolve=False)
    asked = {"messages": [HumanMessage("What of Oslo?")]}
    streamed = list(agent_of(memory).stream(asked, THREAD, context=User("ann"), stream_mode=mode))
    assert streamed
    assert "secret" not in str(streamed)


def test_a_resumed_run_recalls_again(memory: AgenticMemory) -> None:
    @tool
    def act(what: str) -> str:
        """Do something."""
        return "Done."

    def acting(messages: list[Any]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage("Done.")
        call = {"name": "act", "args": {"what": "it"}, "id": "c", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    note = memory.add("The code of Oslo is 1234.", namespace=ANN, evolve=False)
    model = Talker(answer=acting, seen=[])
    human: Any = HumanInTheLoopMiddleware(interrupt_on={"act": True})
    agent = agent_of(memory, model, agent={"tools": [act]}, before=[human])
    ask(agent, "What is the code of Oslo?")
    assert "1234" in system_text(model.seen[-1])
    memory.delete(note.id, namespace=ANN)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD, context=User("ann"))
    assert "1234" not in system_text(model.seen[-1])


class Redacting(AgentMiddleware[Any, Any, Any]):
    """Masks a number before the model is called."""

    def before_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        if last.type != "human" or "1234" not in last.text:
            return None
        return {"messages": [HumanMessage(last.text.replace("1234", "****"), id=last.id)]}


@pytest.mark.parametrize("last", [True, False], ids=["memory last", "memory first"])
def test_what_is_redacted_is_stored_redacted_in_any_order(
    memory: AgenticMemory, contents: Contents, last: bool
) -> None:
    mine = AMemMiddleware(memory, namespace=ANN)
    order: list[Any] = [Redacting(), mine] if last else [mine, Redacting()]
    create_agent(Talker(answer=oslo), middleware=order).invoke(
        {"messages": [HumanMessage("My code is 1234.")]}
    )
    assert contents(ANN)[0] == "My code is ****."


def test_metadata_and_conditions_may_be_functions_of_the_run(memory: AgenticMemory) -> None:
    def room(run: Any) -> dict[str, Any]:
        return {"room": run.config["configurable"]["room"]}

    def within(run: Any) -> dict[str, Any]:
        return {"metadata.room": run.config["configurable"]["room"]}

    model = Talker(answer=oslo, seen=[])
    agent = agent_of(memory, model, metadata=room, where=within, agent={"checkpointer": None})
    for where, text in (("a", "I moved to Oslo."), ("b", "Where is Oslo?"), ("a", "Oslo?")):
        agent.invoke(
            {"messages": [HumanMessage(text)]},
            {"configurable": {"room": where}},
            context=User("ann"),
        )
    assert ["Oslo." in system_text(seen) for seen in model.seen] == [False, False, True]


def test_a_middleware_brings_its_tools(memory: AgenticMemory) -> None:
    middleware = AMemMiddleware(memory, namespace=user, tools=("search", "remember"))
    assert [one.name for one in middleware.tools] == ["search_memory", "remember"]


def test_a_tool_says_what_came_of_a_supersession(memory: AgenticMemory) -> None:
    said = memory.add("I live in Oslo.", namespace=ANN, speaker="Ann", evolve=False)
    (careful,) = memory_tools(memory, namespace=ANN, kinds=["remember"], evolve=False)
    text = careful.invoke({"content": "Ann lives in Rome.", "supersedes": [said.id]})
    assert "only proposed" in text
    assert memory.get(said.id, namespace=ANN).superseded_by is None
    (bold,) = memory_tools(
        memory, namespace=ANN, kinds=["remember"], evolve=False, assistant_supersedes=True
    )
    text = bold.invoke({"content": "Ann lives in Bonn.", "supersedes": [said.id]})
    assert "takes the place" in text
    assert memory.get(said.id, namespace=ANN).superseded_by is not None
    bold.invoke({"content": "Ann sings.", "supersedes": None})


def test_a_search_tool_takes_a_limit_and_filters(memory: AgenticMemory) -> None:
    for city in ("Oslo", "Rome"):
        memory.add(f"I saw {city}.", namespace=ANN, metadata={"trip": city}, evolve=False)
    (search,) = memory_tools(
        memory, namespace=ANN, kinds=["search"], filters={"trip": "name of a trip"}
    )
    assert {"query", "limit", "trip"} == set(search.args)
    assert search.invoke({"query": "I saw", "limit": 1}).count("I saw") == 1
    found = search.invoke({"query": "I saw", "trip": "Rome"})
    assert "Rome" in found
    assert "Oslo" not in found


def test_a_description_for_a_reviewer_shows_the_note(memory: AgenticMemory) -> None:
    note = memory.add("I live in Oslo.", namespace=ANN, evolve=False)
    shown = described_call(memory, namespace=ANN)(
        {"name": "forget_memory", "args": {"note_id": note.id}}, {}, None
    )
    assert "I live in Oslo." in shown


def test_a_chat_history_keeps_messages_in_order_and_clears_its_thread_only(
    memory: AgenticMemory,
) -> None:
    monday = AMemChatMessageHistory(memory, ANN, "monday", evolve=False)
    tuesday = AMemChatMessageHistory(memory, ANN, "tuesday", evolve=False)
    said = [SystemMessage("Be kind."), HumanMessage("ok"), AIMessage("ok"), HumanMessage("ok")]
    monday.add_messages(said)
    tuesday.add_messages([HumanMessage("Hello.")])
    found = monday.messages
    assert [(one.type, one.text) for one in found] == [(one.type, one.text) for one in said]
    monday.clear()
    assert monday.messages == []
    assert [one.text for one in tuesday.messages] == ["Hello."]


def test_a_search_of_the_store_does_not_depend_on_how_many_users_there_are(
    memory: AgenticMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AMemStore(memory)
    for number in range(40):
        store.put(("users", f"u{number}"), "k", {"text": "I moved to Oslo."})
    looked: list[int] = []
    original = memory._runtime.store.namespaces
    monkeypatch.setattr(
        memory._runtime.store,
        "namespaces",
        lambda *args, **how: looked.append(len(found := original(*args, **how))) or found,
    )
    assert len(store.search(("users", "u7"), query="Oslo")) == 1
    assert max(looked) <= 1
    items = [("a", "2026-01-05"), ("b", "2026-03-01")]
    for key, day in items:
        store.put(("days",), key, {"day": day})
    assert [one.key for one in store.search(("days",), filter={"day": {"$gt": "2026-02-01"}})] == [
        "b"
    ]
