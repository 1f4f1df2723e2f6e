"""`remember=`: turns, facts beside them, or facts in their place, by every door that remembers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, User, construct, user

from amem_integrations import AgenticMemory, ConfigurationError, ModelRequest
from amem_integrations.testing import HashEmbedder, ScriptedModel

MOVED = "Ann moved to Oslo in May 2023."


def learn(request: ModelRequest) -> dict[str, Any]:
    """Learn where Ann lives, if facts are wanted of a turn that says so."""
    said = {note["alias"]: note["content"] for note in request.inputs["notes"]}
    wanted = request.inputs.get("facts_of", ())
    facts = [{"f": MOVED, "of": [alias]} for alias in wanted if "I moved to Oslo" in said[alias]]
    return {"facts": facts, **construct(request)}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel({"construct": learn, "evolve": {"notes": []}})


@pytest.fixture
def memory(model: ScriptedModel) -> Iterator[AgenticMemory]:
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        yield opened


def by_middleware(memory: AgenticMemory, **options: Any) -> Any:
    agents = pytest.importorskip("langchain.agents")
    from langchain_kit import Talker  # noqa: PLC0415

    from langchain_amem import AMemMiddleware  # noqa: PLC0415

    agent = agents.create_agent(
        Talker(answer=lambda _: "Nice."),
        middleware=[AMemMiddleware(memory, namespace=user, **options)],
        context_schema=User,
    )

    def say(text: str) -> None:
        agent.invoke({"messages": [HumanMessage(text)]}, context=User("ann"))

    return say


def by_nodes(memory: AgenticMemory, **options: Any) -> Any:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, MessagesState, StateGraph  # noqa: PLC0415

    from langchain_amem import MemoryState, evolve_node, remember_node  # noqa: PLC0415

    class State(MessagesState, MemoryState):
        """A conversation."""

    graph = StateGraph(State)
    graph.add_node("answer", lambda _: {"messages": [AIMessage("Nice.")]})
    graph.add_node("remember", remember_node(memory, namespace=ANN, **options))
    graph.add_node("evolve", evolve_node(memory, namespace=ANN))
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", "evolve")
    compiled = graph.compile()
    return lambda text: compiled.invoke({"messages": [HumanMessage(text)]})


def by_classic(memory: AgenticMemory, **options: Any) -> Any:
    pytest.importorskip("langchain_classic")
    from langchain_amem import AMemMemory  # noqa: PLC0415

    made = AMemMemory(memory=memory, namespace=ANN, **options)
    return lambda text: made.save_context({"input": text}, {"output": "Nice."})


DOORS = pytest.mark.parametrize("door", [by_middleware, by_nodes, by_classic])


def stored(memory: AgenticMemory) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for note in memory.get_all(namespace=ANN):
        found.setdefault("facts" if note.kind == "fact" else "turns", []).append(note.content)
    return found


@DOORS
def test_turns_are_what_is_remembered_by_default(
    memory: AgenticMemory, model: ScriptedModel, door: Any
) -> None:
    door(memory)("I moved to Oslo.")
    assert stored(memory) == {"turns": ["I moved to Oslo.", "Nice."]}
    assert not any("remember" in note.metadata for note in memory.get_all(namespace=ANN))
    assert all("facts" not in request.system for request in model.asked("construct"))


@DOORS
@pytest.mark.parametrize("remember", ["facts", "facts_only"])
def test_facts_are_stored_beside_their_turns_by_the_same_call(
    memory: AgenticMemory, model: ScriptedModel, door: Any, remember: str
) -> None:
    door(memory, remember=remember)("I moved to Oslo.")
    assert stored(memory) == {"turns": ["I moved to Oslo.", "Nice."], "facts": [MOVED]}
    assert len(model.asked("construct")) == 1
    shown = memory.context("Who moved to Oslo?", namespace=ANN)
    assert MOVED in shown
    assert ("I moved to Oslo." in shown) == (remember == "facts")
    (fact,) = memory.get_all(namespace=ANN, where={"kind": "fact"})
    (source,) = fact.sources
    assert memory.get(source, namespace=ANN).content == "I moved to Oslo."


@DOORS
def test_facts_need_a_language_model(door: Any) -> None:
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        # Of a pydantic model it comes as that one's `ValidationError`, with the same words.
        error = ValueError if door is by_classic else ConfigurationError
        with pytest.raises(error, match="needs a language model"):
            door(memory, remember="facts")
        door(memory, remember="turns")


@pytest.mark.parametrize("door", [by_middleware, by_nodes])
def test_another_word_is_refused(memory: AgenticMemory, door: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be one of"):
        door(memory, remember="everything")


def test_a_worker_that_knows_nothing_of_the_option_writes_the_facts(
    memory: AgenticMemory,
) -> None:
    by_middleware(memory, remember="facts", write="worker")("I moved to Oslo.")
    assert "facts" not in stored(memory)
    memory.evolve()
    assert stored(memory)["facts"] == [MOVED]
