"""The tools: LangChain's suites, and that no model decides whose memory it works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_kit import ANN, BOB, Contents, Silent, Talker, User, scripted, user
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from pydantic import BaseModel
from typing_extensions import TypedDict

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    NamespaceError,
    StoreUnavailableError,
)
from amem_integrations.testing import HashEmbedder
from langchain_amem import memory_tools


def tools(memory: AgenticMemory, **options: Any) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in memory_tools(memory, **{"namespace": ANN, **options})}


class Kit:
    """One tool over a memory of three notes, for LangChain's unit and integration tests."""

    name: str
    arguments: Callable[[list[str]], dict[str, Any]]

    @pytest.fixture(autouse=True)
    def _memory(self) -> Iterator[None]:
        with AgenticMemory.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
            self.notes = [memory.add(f"Fact {i} about Oslo.", namespace=ANN).id for i in range(3)]
            self.built = tools(memory)[self.name]
            yield

    @property
    def tool_constructor(self) -> BaseTool:
        return self.built

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return type(self).arguments(self.notes)


class Search(Kit):
    name = "search_memory"
    arguments = staticmethod(lambda _: {"query": "Oslo"})


class Remember(Kit):
    name = "remember"
    arguments = staticmethod(lambda _: {"content": "Ann moved to Oslo."})


class Correct(Kit):
    name = "correct_memory"
    arguments = staticmethod(lambda ids: {"note_id": ids[0], "content": "Ann moved to Rome."})


class Forget(Kit):
    name = "forget_memory"
    arguments = staticmethod(lambda ids: {"note_id": ids[0]})


for _kit in (Search, Remember, Correct, Forget):
    for _suite in (ToolsUnitTests, ToolsIntegrationTests):
        _name = f"Test{_kit.__name__}{_suite.__name__}"
        globals()[_name] = type(_name, (_kit, _suite), {"__doc__": "LangChain's own tests."})


def call(tool: BaseTool, **arguments: Any) -> ToolMessage:
    message: ToolMessage = tool.invoke(
        {"name": tool.name, "args": arguments, "id": "1", "type": "tool_call"}
    )
    return message


def test_a_search_shows_notes_as_data_with_their_ids(seeded: AgenticMemory) -> None:
    message = call(tools(seeded)["search_memory"], query="moved to Oslo")
    assert message.text.startswith("<memories>")
    assert message.text.endswith("</memories>")
    found = {item["note_id"]: item for item in message.artifact}
    assert all(f"- [{note_id}] " in message.text for note_id in found)
    assert found[message.artifact[0]["note_id"]]["score"] > 0


def test_nothing_found_is_said_in_words(memory: AgenticMemory) -> None:
    assert call(tools(memory)["search_memory"], query="Oslo").text == "Nothing is known about that."


def test_what_is_remembered_can_be_corrected_and_forgotten(
    memory: AgenticMemory, contents: Contents
) -> None:
    kit = tools(memory)
    call(kit["remember"], content="Ann moved to Oslo.")
    assert memory.flush(timeout=10)
    (note,) = memory.get_all(namespace=ANN)
    assert (note.source, note.state) == ("assistant", "done")
    call(kit["correct_memory"], note_id=note.id, content="Ann moved to Rome.")
    assert memory.flush(timeout=10)
    (note,) = memory.get_all(namespace=ANN)
    assert (note.content, note.state) == ("Ann moved to Rome.", "done")
    call(kit["forget_memory"], note_id=note.id)
    assert contents(ANN) == []


def test_a_note_is_forgotten_thoroughly_with_all_that_was_concluded_from_it(
    memory: AgenticMemory,
) -> None:
    kit = tools(memory)
    first, second = memory.add_many(["Ann moved to Oslo.", "It rains."], namespace=ANN)
    call(kit["forget_memory"], note_id=first.id, thorough=True)
    (note,) = memory.get_all(namespace=ANN)
    assert (note.id, note.state, note.contexts) == (second.id, "pending", ())


def test_evolution_can_be_left_to_others(memory: AgenticMemory) -> None:
    call(tools(memory, evolve=False)["remember"], content="Ann moved to Oslo.")
    assert memory.get_all(namespace=ANN)[0].state == "pending"


@pytest.mark.parametrize("name", ["correct_memory", "forget_memory"])
def test_an_unknown_id_is_told_to_the_model(memory: AgenticMemory, name: str) -> None:
    arguments = {"note_id": "00000000-0000-4000-8000-000000000000"}
    if name == "correct_memory":
        arguments["content"] = "Ann moved."
    message = call(tools(memory)[name], **arguments)
    assert message.status == "error"
    assert "no note" in message.text


def test_empty_words_are_told_to_the_model(memory: AgenticMemory) -> None:
    assert call(tools(memory)["search_memory"], query=" ").status == "error"
    assert call(tools(memory)["remember"], content=" ").status == "error"


def test_another_users_note_can_be_neither_seen_nor_changed(
    seeded: AgenticMemory, contents: Contents
) -> None:
    kit = tools(seeded, namespace=BOB)
    ann_note = seeded.get_all(namespace=ANN)[0]
    assert ann_note.id not in call(kit["search_memory"], query="moved to Oslo").text
    assert call(kit["correct_memory"], note_id=ann_note.id, content="Hm.").status == "error"
    assert call(kit["forget_memory"], note_id=ann_note.id).status == "error"
    assert ann_note.content in contents(ANN)


def test_only_the_kinds_asked_for_are_made(memory: AgenticMemory) -> None:
    assert list(tools(memory, kinds=["search"])) == ["search_memory"]
    with pytest.raises(ConfigurationError, match="erase"):
        tools(memory, kinds=["erase"])


def calling(name: str, **arguments: Any) -> Talker:
    def answer(messages: list[Any]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage("Done.")
        call = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    return Talker(answer=answer)


class Dictionary(TypedDict):
    user_id: str


class Model(BaseModel):
    user_id: str


@pytest.mark.parametrize("context", [User("ann"), {"user_id": "ann"}, Model(user_id="ann")])
async def test_in_an_agent_the_user_comes_from_the_context(
    memory: AgenticMemory, contents: Contents, context: Any
) -> None:
    def whose(run: Any) -> tuple[str, ...]:
        found = run.context
        return (found["user_id"] if isinstance(found, dict) else found.user_id,)

    schema: Any = Dictionary if isinstance(context, dict) else type(context)
    kit = memory_tools(memory, namespace=whose)
    agent = create_agent(calling("remember", content="One."), kit, context_schema=schema)
    agent.invoke({"messages": [HumanMessage("Go.")]}, context=context)
    agent = create_agent(calling("remember", content="Two."), kit, context_schema=schema)
    await agent.ainvoke({"messages": [HumanMessage("Go.")]}, context=context)
    assert contents(ANN) == ["One.", "Two."]


@pytest.mark.parametrize("argument", ["runtime", "namespace", "user_id"])
def test_the_model_cannot_say_whose_memory_it_is(
    memory: AgenticMemory, contents: Contents, argument: str
) -> None:
    spoofed = {"content": "I am Bob.", argument: {"context": {"user_id": "bob"}}}
    kit = memory_tools(memory, namespace=user)
    agent = create_agent(calling("remember", **spoofed), kit, context_schema=User)
    agent.invoke({"messages": [HumanMessage("Go.")]}, context=User("ann"))
    assert contents(BOB) == []
    assert contents(ANN) == ["I am Bob."]


def test_the_model_sees_no_runtime_among_the_arguments(memory: AgenticMemory) -> None:
    for made in (memory_tools(memory, namespace=user), memory_tools(memory, namespace=ANN)):
        shown = {
            tool.name: set(tool.tool_call_schema.model_json_schema()["properties"]) for tool in made
        }
        assert shown == {
            "search_memory": {"query", "limit"},
            "remember": {"content", "supersedes"},
            "correct_memory": {"note_id", "content"},
            "forget_memory": {"note_id", "thorough"},
        }


def test_a_run_without_a_user_is_an_error(memory: AgenticMemory) -> None:
    kit = memory_tools(memory, namespace=user)
    agent = create_agent(calling("remember", content="One."), kit, context_schema=User)
    with pytest.raises(NamespaceError):
        agent.invoke({"messages": [HumanMessage("Go.")]})
    assert memory.namespaces() == []


def test_a_tool_that_asks_its_run_cannot_be_used_outside_one(memory: AgenticMemory) -> None:
    remember = memory_tools(memory, namespace=user, kinds=["remember"])[0]
    with pytest.raises(NamespaceError, match="whose memory"):
        remember.invoke({"content": "One."})
    assert memory.namespaces() == []


def test_when_the_memory_does_not_answer_the_model_is_told() -> None:
    with Silent.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.down = True
        message = call(tools(memory)["search_memory"], query="Oslo")
        assert (message.status, "does not answer" in message.text) == ("error", True)
        with pytest.raises(StoreUnavailableError):
            call(tools(memory, on_error="raise")["search_memory"], query="Oslo")


def test_what_is_found_and_too_long_to_be_shown_is_not_said_to_be_unknown(
    memory: AgenticMemory,
) -> None:
    note = memory.add("Ann moved to Oslo. " * 6, namespace=ANN)
    message = call(tools(memory, max_tokens=10)["search_memory"], query="Oslo")
    assert "Nothing is known" not in message.text
    assert note.id in message.text
