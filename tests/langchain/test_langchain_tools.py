"""The tools: LangChain's suites, and that no model decides whose memory it works on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_kit import (
    ANN,
    BOB,
    User,
    ask,
    called,
    calling,
    kept,
    scripted,
    user,
)
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    NamespaceError,
)
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMiddleware, described_call, memory_tools, recall_node

TEAM = ("acme", "team")


def tools(memory, **options):
    return {tool.name: tool for tool in memory_tools(memory, **{"namespace": ANN, **options})}


def one(memory, kind, **options):
    """Return one tool over Ann's memory."""
    (found,) = tools(memory, kinds=[kind], **options).values()
    return found


def call(tool, **arguments):
    return tool.invoke(called(tool.name, **arguments).tool_calls[0])


class Kit:
    """One tool over a memory of three notes, for LangChain's unit and integration tests."""

    name: str
    arguments: Callable[[list[str]], dict[str, Any]]

    @pytest.fixture(autouse=True)
    def _memory(self):
        with AgenticMemory.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
            self.notes = [memory.add(f"Fact {i} about Oslo.", namespace=ANN).id for i in range(3)]
            self.built = tools(memory)[self.name]
            yield

    @property
    def tool_constructor(self):
        return self.built

    @property
    def tool_invoke_params_example(self):
        return type(self).arguments(self.notes)


ARGUMENTS = {
    "search_memory": lambda _: {"query": "Oslo"},
    "remember": lambda _: {"content": "Ann moved to Oslo."},
    "correct_memory": lambda ids: {"note_id": ids[0], "content": "Ann moved to Rome."},
    "forget_memory": lambda ids: {"note_id": ids[0]},
}
for _name, _arguments in ARGUMENTS.items():
    for _suite in (ToolsUnitTests, ToolsIntegrationTests):
        _title = f"Test_{_name}_{_suite.__name__}"
        _fields = {"name": _name, "arguments": staticmethod(_arguments)}
        globals()[_title] = type(
            _title, (Kit, _suite), {**_fields, "__doc__": "LangChain's own tests."}
        )


def test_a_search_shows_notes_as_data_with_their_ids(seeded):
    message = call(one(seeded, "search"), query="moved to Oslo")
    assert message.text.startswith("<memories>")
    assert message.text.endswith("</memories>")
    assert all(f"- [{item['note_id']}] " in message.text for item in message.artifact)
    assert message.artifact[0]["score"] > 0
    nothing = call(one(seeded, "search", namespace=("eve",)), query="Oslo")
    assert nothing.text == "Nothing is known about that."
    short = call(one(seeded, "search", max_tokens=10, k=1), query="moved to Oslo")
    assert "Nothing is known" not in short.text
    assert message.artifact[0]["note_id"] in short.text


def test_a_search_tool_takes_a_limit_and_filters(memory):
    for city in ("Oslo", "Rome", "Bonn"):
        memory.add(f"I saw {city}.", namespace=ANN, metadata={"trip": city}, evolve=False)
    search = one(memory, "search", filters={"trip": "name of a trip"}, k=2)
    assert {"query", "limit", "trip"} == set(search.args)
    assert search.args["trip"]["description"] == "name of a trip"
    assert [search.invoke({"query": "I saw", "limit": n}).count("I saw") for n in (1, 9)] == [1, 2]
    with pytest.raises(ValidationError, match="limit"):
        search.invoke({"query": "I saw", "limit": 0})
    found = search.invoke({"query": "I saw", "trip": "Rome"})
    assert "Rome" in found
    assert "Oslo" not in found
    assert "Rome" in search.invoke({"query": "I saw Rome", "trip": ""})  # as a model leaves it out
    walled = {"metadata.trip": "Oslo"}
    search = one(memory, "search", filters={"trip": "name of a trip"}, where=walled)
    assert "Rome" not in search.invoke({"query": "I saw", "trip": "Rome"})
    with pytest.raises(ConfigurationError, match="limit"):
        one(memory, "search", filters={"limit": "most notes"})
    broken = one(memory, "search", where=lambda _: 1 / 0)
    assert "does not answer" in broken.invoke({"query": "I saw"})


def test_what_is_remembered_can_be_corrected_and_forgotten(memory):
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
    assert kept(memory) == []
    call(one(memory, "remember", evolve=False), content="Ann moved to Oslo.")
    assert memory.get_all(namespace=ANN)[0].state == "pending"


def test_a_note_is_forgotten_thoroughly_with_all_that_was_concluded_from_it(memory):
    first, second = memory.add_many(["Ann moved to Oslo.", "It rains."], namespace=ANN)
    call(one(memory, "forget"), note_id=first.id, thorough=True)
    (note,) = memory.get_all(namespace=ANN)
    assert (note.id, note.state, note.contexts) == (second.id, "pending", ())


def test_a_tool_says_what_came_of_a_supersession(memory):
    said = memory.add("I live in Oslo.", namespace=ANN, speaker="Ann", evolve=False)
    careful = one(memory, "remember", evolve=False)
    text = careful.invoke({"content": "Ann lives in Rome.", "supersedes": [said.id]})
    assert "only proposed" in text
    assert memory.get(said.id, namespace=ANN).superseded_by is None
    bold = one(memory, "remember", evolve=False, assistant_supersedes=True)
    text = bold.invoke({"content": "Ann lives in Bonn.", "supersedes": [said.id]})
    assert "takes the place" in text
    assert memory.get(said.id, namespace=ANN).superseded_by is not None
    bold.invoke({"content": "Ann sings.", "supersedes": None})


def test_a_description_for_a_reviewer_shows_the_notes_that_a_call_names(memory):
    note = memory.add("I live in Oslo.", namespace=ANN, evolve=False)
    describe = described_call(memory, namespace=ANN)
    for given, is_shown in (
        ({"note_id": note.id}, True),
        ({"content": "I live in Rome.", "supersedes": [note.id]}, True),
        ({"note_id": {"id": note.id}, "supersedes": 5}, False),  # a model may say anything
        ({"note_id": {"id": note.id}, "supersedes": [note.id]}, True),
    ):
        told = describe({"name": "forget_memory", "args": given}, {}, None)
        assert all(f"{name}: {value}" in told for name, value in given.items())
        assert ("I live in Oslo." in told) is is_shown
    memory.down = True
    told = describe({"name": "forget_memory", "args": {"note_id": note.id}}, {}, None)
    assert "does not answer" in told


def test_what_is_wrong_is_told_to_the_model(seeded):
    anns = seeded.get_all(namespace=ANN)[0]
    kit = tools(seeded, namespace=BOB)
    assert anns.id not in call(kit["search_memory"], query="moved to Oslo").text
    for note_id in ("00000000-0000-4000-8000-000000000000", anns.id):
        for name, arguments in (("correct_memory", {"content": "Hm."}), ("forget_memory", {})):
            message = call(kit[name], note_id=note_id, **arguments)
            assert (message.status, "no note" in message.text) == ("error", True)
    assert call(kit["search_memory"], query=" ").status == "error"
    assert call(kit["remember"], content=" ").status == "error"
    assert anns.content in kept(seeded)


def test_only_the_kinds_asked_for_are_made(memory):
    assert list(tools(memory, kinds=["search"])) == ["search_memory"]
    with pytest.raises(ConfigurationError, match="erase"):
        tools(memory, kinds=["erase"])


def test_what_is_no_memory_is_refused_when_a_door_is_made():
    for door in (memory_tools, AMemMiddleware, recall_node):
        with pytest.raises(
            ConfigurationError, match="memory is a str and must be an AgenticMemory"
        ):
            door(memory="./memory", namespace=("ann",))


# Whose memory it is


class Dictionary(TypedDict):
    user_id: str


class Model(BaseModel):
    user_id: str


async def test_in_an_agent_the_user_comes_from_the_context(memory):
    def whose(run):
        found = run.context
        return (found["user_id"] if isinstance(found, dict) else found.user_id,)

    contexts = [User("dataclass"), {"user_id": "dict"}, Model(user_id="model")]
    for context in contexts:
        schema = Dictionary if isinstance(context, dict) else type(context)
        for text in ("One.", "Two."):
            model = calling(called("remember", content=text))
            agent = create_agent(
                model, memory_tools(memory, namespace=whose), context_schema=schema
            )
            if text == "One.":
                agent.invoke(ask("Go."), context=context)
            else:
                await agent.ainvoke(ask("Go."), context=context)
    assert memory.namespaces() == [("dataclass",), ("dict",), ("model",)]
    assert all(kept(memory, space) == ["One.", "Two."] for space in memory.namespaces())


def test_the_model_cannot_say_whose_memory_it_is(memory):
    spoofed = {
        name: {"context": {"user_id": "bob"}} for name in ("runtime", "namespace", "user_id")
    }
    calls = [called("remember", content=f"I am {n}.", **{n: s}) for n, s in spoofed.items()]
    agent = create_agent(calling(*calls), memory_tools(memory, namespace=user), context_schema=User)
    agent.invoke(ask("Go."), context=User("ann"))
    assert kept(memory, BOB) == []
    assert kept(memory) == ["I am runtime.", "I am namespace.", "I am user_id."]
    for made in (memory_tools(memory, namespace=user), memory_tools(memory, namespace=ANN)):
        assert {
            tool.name: set(tool.tool_call_schema.model_json_schema()["properties"]) for tool in made
        } == {
            "search_memory": {"query", "limit"},
            "remember": {"content", "supersedes"},
            "correct_memory": {"note_id", "content"},
            "forget_memory": {"note_id", "thorough"},
        }


def test_a_run_without_a_user_is_an_error(memory):
    kit = memory_tools(memory, namespace=user)
    agent = create_agent(calling(called("remember", content="One.")), kit, context_schema=User)
    with pytest.raises(NamespaceError):
        agent.invoke(ask("Go."))
    with pytest.raises(NamespaceError, match="whose memory"):
        kit[1].invoke({"content": "One."})
    assert memory.namespaces() == []


def test_a_tool_of_a_fixed_user_can_ask_the_run_for_the_team(memory):
    note = memory.add("The team moved its office to Oslo.", namespace=TEAM)
    also = {"team": lambda run: ("acme", run.context.user_id)}
    kit = tools(memory, kinds=["search", "forget"], also=also)
    search, forget = kit.values()
    assert "runtime" not in search.tool_call_schema.model_json_schema()["properties"]
    with pytest.raises(NamespaceError, match="whose memory"):
        search.invoke({"query": "office"})
    model = calling(called("search_memory", query="office"))
    state = create_agent(model, [search], context_schema=User).invoke(
        ask("Go."),
        context=User("team"),
    )
    assert "] from team: " in state["messages"][-2].text
    assert "no note" in str(forget.invoke({"note_id": note.id}))
    assert memory.get(note.id, namespace=TEAM) == note


def test_two_sets_of_tools_work_in_one_agent(memory):
    mine = memory_tools(memory, namespace=user)
    ours = memory_tools(memory, namespace=TEAM, prefix="team_", owner="the team")
    model = calling(
        called("remember", content="Fact 0."), called("team_remember", content="Fact 1.")
    )
    create_agent(model, [*mine, *ours], context_schema=User).invoke(
        ask("Go."),
        context=User("ann"),
    )
    assert (kept(memory), kept(memory, TEAM)) == (["Fact 0."], ["Fact 1."])
    names = [tool.name for tool in ours]
    assert names == [f"team_{tool.name}" for tool in mine]
    for tool in ours:
        text = f"{tool.description} {tool.tool_call_schema.model_json_schema()}"
        assert "of the team" in text
        assert "this user" not in text
        named = set(re.findall(r"\w*(?:search_memory|remember|_memory)\b", text)) - {"memory"}
        assert named <= {*names}
