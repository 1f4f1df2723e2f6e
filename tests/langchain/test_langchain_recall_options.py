"""What is recalled is said by the same words at every door: filters, floors, times, further namespaces."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import ToolException
from langchain_kit import ANN, BOB, Contents, Silent, Talker, User, construct, system_text, user
from langgraph.graph import START, MessagesState, StateGraph
from support.models import open_repeating, say_thrice

from amem_integrations import (
    AgenticMemory,
    MemoryConfig,
    ModelRequest,
    NamespaceError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import (
    AMemMemory,
    AMemMiddleware,
    AMemRetriever,
    AMemVectorStore,
    MemoryState,
    build_evolution_graph,
    evolve_node,
    memory_tools,
    recall_node,
    remember_node,
)

TEAM = ("acme", "team")
Door = Callable[..., str]


def by_middleware(memory: AgenticMemory, question: str, **options: Any) -> str:
    chat = Talker(answer=lambda _: "Yes.")
    middleware = AMemMiddleware(memory, namespace=ANN, remember=False, **options)
    create_agent(chat, middleware=[middleware]).invoke({"messages": [HumanMessage(question)]})
    return system_text(chat.seen[0])


def by_node(memory: AgenticMemory, question: str, **options: Any) -> str:
    node = recall_node(memory, namespace=ANN, **options)
    return str(node.invoke({"messages": [HumanMessage(question)]})["memories"])


def by_tool(memory: AgenticMemory, question: str, **options: Any) -> str:
    (search,) = memory_tools(memory, namespace=ANN, kinds=["search"], **options)
    return str(search.invoke({"query": question}))


def by_chain(memory: AgenticMemory, question: str, **options: Any) -> str:
    classic = AMemMemory(memory=memory, namespace=ANN, **options)
    return str(classic.load_memory_variables({"input": question})["history"])


def by_retriever(memory: AgenticMemory, question: str, **options: Any) -> str:
    retriever = AMemRetriever(memory=memory, namespace=ANN, **options)
    return "\n".join(document.page_content for document in retriever.invoke(question))


DOORS = [by_middleware, by_node, by_tool, by_chain, by_retriever]
everywhere = pytest.mark.parametrize("door", DOORS)


@everywhere
def test_what_is_recalled_can_be_narrowed(seeded: AgenticMemory, door: Door) -> None:
    seeded.add("I moved to Bergen.", namespace=ANN, metadata={"year": 2024})
    assert "Oslo" in door(seeded, "I moved")
    found = door(seeded, "I moved", where={"metadata.year": {"$gte": 2024}})
    assert "Bergen" in found
    assert "Oslo" not in found
    assert "Oslo" not in door(seeded, "I moved", min_similarity=0.99)


@everywhere
def test_what_was_true_at_a_time_can_be_recalled(memory: AgenticMemory, door: Door) -> None:
    for year, town in ((2020, "Oslo"), (2024, "Bergen")):
        said = f"In {year} Ann moved to {town}."
        memory.add(said, namespace=ANN, at=datetime(year, 1, 1, tzinfo=UTC))
    found = door(memory, "Ann moved", as_of=datetime(2021, 1, 1, tzinfo=UTC))
    assert "Oslo" in found
    assert "Bergen" not in found


def to_the_insurance(request: ModelRequest) -> dict[str, Any]:
    """Link each new note to the one about an insurance, if it is shown."""
    shown = [c["alias"] for c in request.inputs["candidates"] if "insurance" in c["content"]]
    link = {"relation": "paid for", "reason": "same dog", "strength": 0.9}
    links = [{"to": alias, **link} for alias in shown]
    return {"notes": [{"id": note["alias"], "links": links} for note in request.inputs["notes"]]}


@everywhere
def test_links_need_not_be_followed(door: Door) -> None:
    model = ScriptedModel({"construct": construct, "evolve": to_the_insurance})
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(256)) as memory:
        memory.add("The insurance has number 4711.", namespace=ANN, thread="t")
        for n in range(3):
            memory.add(f"My dog {n} is called Rex.", namespace=ANN, thread="t")
        memory.add_many([f"A dog called {n}." for n in range(60)], namespace=ANN, evolve=False)
        assert "insurance" in door(memory, "my dog is called", k=4)
        assert "insurance" not in door(memory, "my dog is called", k=4, links=False)


@everywhere
def test_what_was_said_several_times_is_shown_once(door: Door) -> None:
    with open_repeating(construct) as memory:
        say_thrice(memory, ANN)
        found = door(memory, "Where is my key, and the tram?")
        assert (found.count("pot"), found.count("late")) == (1, 1)
        assert "under the third flower pot by the door" in found
        if door is by_retriever:
            retriever = AMemRetriever(memory=memory, namespace=ANN, k=2)
            first, second = retriever.invoke("Where is my key?")
            said = first.metadata["times_said"], first.metadata["last_said"]
            assert said == (3, "2024-05-12T00:00:00+00:00")
            assert second.metadata["times_said"] == 1
        else:
            assert "(said 3 times, last on 12 May 2024)" in found


MISTAKES: list[dict[str, Any]] = [
    {"where": {"colour": "red"}},
    {"where": {"speaker": {"$like": "A"}}},
    {"where": "Ann"},
    {"min_similarity": 2},
    {"min_similarity": "high"},
    {"min_similarity": "0.5"},
    {"min_similarity": True},
    {"as_of": datetime(2024, 1, 1)},  # noqa: DTZ001 - no zone is the mistake
    {"as_of": "2024-01-01T00:00:00Z"},
    {"links": "perhaps"},
    {"links": "yes"},
    {"k": 0},
    {"k": "3"},
    {"k": True},
    {"also": {"": ("acme",)}},
    {"also": ("acme",)},
    {"also": {"team": "acme"}},
    {"also": {"team": ()}},
]


def make_chain(memory: AgenticMemory, **options: Any) -> Any:
    return AMemMemory(memory=memory, **options)


def make_retriever(memory: AgenticMemory, **options: Any) -> Any:
    return AMemRetriever(memory=memory, **options)


@pytest.mark.parametrize(
    "make", [AMemMiddleware, recall_node, memory_tools, make_chain, make_retriever]
)
def test_a_mistake_shows_when_it_is_made(memory: AgenticMemory, make: Any) -> None:
    for option in MISTAKES:
        (named,) = option
        with pytest.raises(ValueError, match="also|namespace" if named == "also" else named):
            make(memory, namespace=ANN, **option)
    with pytest.raises((ValueError, TypeError), match="top_k"):
        make(memory, namespace=ANN, top_k=3)


async def later(_message: object) -> bool:
    return False


def test_an_option_of_another_type_is_refused(memory: AgenticMemory) -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (AMemMiddleware, {"remember_unanswered": "no"}),
        (AMemMiddleware, {"inject": "tool"}),
        (AMemMiddleware, {"evolve": "later"}),
        (AMemMiddleware, {"remember": "facts"}),
        (AMemMiddleware, {"max_tokens": 0}),
        (AMemMiddleware, {"should_store": "human"}),
        (remember_node, {"should_store": later}),
        (remember_node, {"should_store": None}),
        (remember_node, {"remember_unanswered": 0}),
        (evolve_node, {"limit": "3"}),
        (evolve_node, {"limit": -1}),
        (build_evolution_graph, {"limit": True}),
        (build_evolution_graph, {"review": "no"}),
        (memory_tools, {"evolve": 1}),
        (memory_tools, {"max_tokens": 0}),
        *((memory_tools, {"prefix": prefix}) for prefix in ("team ", "team.", "x" * 41, None)),
        (AMemVectorStore, {"evolve": "yes"}),
        (make_chain, {"max_tokens": "9"}),
        (make_chain, {"return_messages": "yes"}),
        (make_chain, {"evolve": "yes"}),
    ]
    for make, option in wrong:
        with pytest.raises(ValueError, match=next(iter(option))):
            make(memory, namespace=ANN, **option)


# Several namespaces


@pytest.fixture
def shared(seeded: AgenticMemory) -> AgenticMemory:
    seeded.add("The team moved its office to Oslo.", namespace=TEAM, speaker="Eva")
    return seeded


@everywhere
def test_further_namespaces_are_read_and_their_notes_marked(
    shared: AgenticMemory, door: Door
) -> None:
    assert "office" not in door(shared, "moved to Oslo")
    found = door(shared, "moved to Oslo", also={"team": TEAM})
    assert "I moved to Oslo." in found
    assert "Rome" not in found
    (line,) = [line for line in found.splitlines() if "office" in line]
    if door is not by_retriever:
        assert (
            "] from team: Eva: " in line
            if door is by_tool
            else line.startswith("- from team: Eva: ")
        )
        (own,) = [line for line in found.splitlines() if "I moved to Oslo." in line]
        assert "] Ann: " in own if door is by_tool else own.startswith("- Ann: ")


def test_documents_and_artifacts_say_whose_they_are(shared: AgenticMemory) -> None:
    also: Any = {"team": TEAM}
    retriever = AMemRetriever(memory=shared, namespace=ANN, also=also)
    (search,) = memory_tools(shared, namespace=ANN, kinds=["search"], also=also)
    call = {"name": search.name, "args": {"query": "moved"}, "id": "1", "type": "tool_call"}
    whose = [document.metadata["namespace"] for document in retriever.invoke("moved")]
    artifact = [hit["namespace"] for hit in search.invoke(call).artifact]
    assert [*TEAM] in whose
    assert [*ANN] in whose
    assert whose == artifact


def test_a_run_says_which_further_namespaces_are_read(
    shared: AgenticMemory, contents: Contents
) -> None:
    def team(run: Any) -> tuple[str, ...]:
        return ("acme", run.config["configurable"]["team"])

    class State(MessagesState, MemoryState):
        """A conversation, with what the memory adds."""

    builder = StateGraph(State, context_schema=User)
    builder.add_node("recall", recall_node(shared, namespace=user, also={"team": team}))
    builder.add_node("remember", remember_node(shared, namespace=user))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "remember")
    graph = builder.compile()
    asked: Any = {"messages": [HumanMessage("Who moved to Oslo?", id="1")]}
    done = graph.invoke(asked, {"configurable": {"team": "team"}}, context=User("bob"))
    assert "from team: Eva" in done["memories"]
    assert "I moved to Oslo" not in done["memories"]
    assert contents(TEAM) == ["The team moved its office to Oslo."]
    assert contents(BOB)[-1] == "Who moved to Oslo?"
    with pytest.raises(NamespaceError):
        graph.invoke(asked, context=User("bob"))


def test_a_tool_of_a_fixed_user_can_ask_the_run_for_the_team(shared: AgenticMemory) -> None:
    (search, forget) = memory_tools(
        shared,
        namespace=ANN,
        kinds=["search", "forget"],
        also={"team": lambda run: (run.context.team,)},
    )
    assert "runtime" not in search.tool_call_schema.model_json_schema()["properties"]
    with pytest.raises(NamespaceError, match="whose memory"):
        search.invoke({"query": "office"})
    (note,) = shared.get_all(namespace=TEAM)
    assert "no note" in str(forget.invoke({"note_id": note.id}))
    assert shared.get(note.id, namespace=TEAM) == note


def test_without_an_embedder_the_first_of_each_namespace_stand_first(
    shared: AgenticMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Down(HashEmbedder):
        def embed_query(self, text: str) -> Any:
            raise TimeoutError

    with AgenticMemory.open(":memory:", embedder=Down()) as memory:
        for space in (ANN, TEAM):
            memory.add_many([f"{space[0]} moved {n}" for n in range(3)], namespace=space)
        retriever = AMemRetriever(memory=memory, namespace=ANN, also={"team": TEAM}, k=2)
        found = [document.metadata["namespace"] for document in retriever.invoke("moved")]
        assert found == [[*ANN], [*TEAM]]


# Two sets of tools in one agent


def test_two_sets_of_tools_work_in_one_agent(memory: AgenticMemory, contents: Contents) -> None:
    def steps(messages: list[Any]) -> AIMessage:
        done = sum(message.type == "tool" for message in messages)
        names = ["remember", "team_remember"]
        if done == len(names):
            return AIMessage("Done.")
        call = {"name": names[done], "args": {"content": f"Fact {done}."}, "id": str(done)}
        return AIMessage("", tool_calls=[{**call, "type": "tool_call"}])

    mine = memory_tools(memory, namespace=user)
    ours = memory_tools(memory, namespace=TEAM, prefix="team_", owner="the team")
    agent = create_agent(Talker(answer=steps), [*mine, *ours], context_schema=User)
    agent.invoke({"messages": [HumanMessage("Go.")]}, context=User("ann"))
    assert (contents(ANN), contents(TEAM)) == (["Fact 0."], ["Fact 1."])
    names = [tool.name for tool in ours]
    assert names == [f"team_{tool.name}" for tool in mine]
    for tool in ours:
        text = f"{tool.description} {tool.tool_call_schema.model_json_schema()}"
        assert "of the team" in text
        assert "this user" not in text
        named = set(re.findall(r"\w*(?:search_memory|remember|_memory)\b", text)) - {"memory"}
        assert named <= {*names}


# Tracing


class Watching(BaseCallbackHandler):
    """Keeps what callback handlers are told about retriever runs."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Any, str]] = []
        self.found: list[list[str]] = []
        self.failed: list[BaseException] = []
        self.metadata: list[Any] = []

    def on_retriever_start(
        self, serialized: Any, query: str, *, parent_run_id: Any = None, **options: Any
    ) -> None:
        self.started.append((query, parent_run_id, options.get("name", "")))
        self.metadata.append(options.get("metadata"))

    def on_retriever_end(self, documents: Any, **_: Any) -> None:
        self.found.append([document.page_content for document in documents])

    def on_retriever_error(self, error: BaseException, **_: Any) -> None:
        self.failed.append(error)


def agent_of(memory: AgenticMemory, way: str) -> Any:
    def search(messages: list[Any]) -> AIMessage:
        if way != "tool" or messages[-1].type == "tool":
            return AIMessage("Yes.")
        call = {"name": "search_memory", "args": {"query": "moved?"}, "id": "1"}
        return AIMessage("", tool_calls=[{**call, "type": "tool_call"}])

    if way == "node":
        builder = StateGraph(MessagesState)
        builder.add_node("recall", recall_node(memory, namespace=ANN, output_key="messages"))
        builder.add_edge(START, "recall")
        return builder.compile()
    middleware = [AMemMiddleware(memory, namespace=ANN, remember=False)] if way != "tool" else []
    return create_agent(
        Talker(answer=search), memory_tools(memory, namespace=ANN), middleware=middleware
    )


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("way", ["middleware", "node", "tool"])
async def test_recall_is_a_retriever_run_below_that_of_the_agent(
    seeded: AgenticMemory, way: str, asynchronous: bool
) -> None:
    watching, agent = Watching(), agent_of(seeded, way)
    asked: Any = {"messages": [HumanMessage("moved?")]}
    config: Any = {"callbacks": [watching]}
    await agent.ainvoke(asked, config) if asynchronous else agent.invoke(asked, config)
    ((query, parent, name),) = watching.started
    assert (query, name) == ("moved?", "AMemRecall")
    assert parent is not None
    assert "I moved to Oslo." in watching.found[0]
    assert watching.metadata[0]["ls_retriever_name"] == "amem"
    assert watching.metadata[0]["ls_vector_store_provider"] == "Qdrant"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_recall_that_fails_is_a_run_that_fails(asynchronous: bool) -> None:
    with Silent.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.down = True
        watching, agent = Watching(), agent_of(memory, "middleware")
        asked: Any = {"messages": [HumanMessage("moved?")]}
        config: Any = {"callbacks": [watching]}
        await agent.ainvoke(asked, config) if asynchronous else agent.invoke(asked, config)
        assert len(watching.failed) == 1
        assert watching.found == []


def test_a_tool_that_fails_tells_the_model_and_the_trace() -> None:
    with Silent.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.down = True
        watching = Watching()
        (search,) = memory_tools(memory, namespace=ANN, kinds=["search"])
        search.handle_tool_error = False
        with pytest.raises(ToolException):
            search.invoke({"query": "moved?"}, {"callbacks": [watching]})
        assert len(watching.failed) == 1


@pytest.mark.parametrize("door", [by_middleware, by_node, by_chain])
def test_what_a_prompt_is_given_begins_with_the_profile(door: Door) -> None:
    profile = {"value": {"work": ["is a zoologist"]}, "of": ["n1"]}
    model = ScriptedModel({"construct": construct, "evolve": {"notes": []}, "profile": profile})
    config = MemoryConfig(profile=True)
    opened = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(), config=config)
    with opened as memory:
        assert "zoologist" not in door(memory, "Where did I move?")
        memory.add("I move to Oslo for my work.", namespace=ANN)
        found = door(memory, "Where did I move?")
        assert found.index("zoologist") < found.index("move to Oslo")
        assert "zoologist" in door(memory, "Hello!")
        assert "zoologist" not in door(memory, "Where did I move?", as_of=datetime.now(UTC))
