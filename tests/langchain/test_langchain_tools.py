"""The tools: LangChain's suites, and that no model decides whose memory it works on."""

from __future__ import annotations

import re
from itertools import product

import pytest
from langchain.agents import create_agent
from langchain_kit import ANN, BOB, User, ask, called, calling, kept, user
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from pydantic import ValidationError, create_model
from typing_extensions import TypedDict

from amem_integrations import ConfigurationError, NamespaceError
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
    """One tool over a memory of a note, for LangChain's unit and integration tests."""

    @pytest.fixture(autouse=True)
    def _memory(self, memory):
        note = memory.add("I moved to Oslo.", namespace=ANN)
        self.tool_constructor = tools(memory)[self.name]
        given = {"note_id": note.id, "query": "Oslo", "content": "Ann moved to Rome."}
        self.tool_invoke_params_example = {name: given[name] for name in self.arguments}


ARGUMENTS = {
    "search_memory": ["query"],
    "remember": ["content"],
    "correct_memory": ["note_id", "content"],
    "forget_memory": ["note_id"],
}
for _name, _arguments in ARGUMENTS.items():
    for _suite in (ToolsUnitTests, ToolsIntegrationTests):
        _fields = {"name": _name, "arguments": _arguments, "__doc__": "LangChain's own tests."}
        _fields |= {"tool_constructor": None, "tool_invoke_params_example": None}
        _title = f"Test_{_name}_{_suite.__name__}"
        globals()[_title] = type(_title, (Kit, _suite), _fields)


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
    assert ("Rome" in found, "Oslo" in found) == (True, False)
    assert "Rome" in search.invoke({"query": "I saw Rome", "trip": ""})  # as a model leaves it out
    search = one(memory, "search", filters={"trip": "a trip"}, where={"metadata.trip": "Oslo"})
    assert "Rome" not in search.invoke({"query": "I saw", "trip": "Rome"})
    with pytest.raises(ConfigurationError, match="limit"):
        one(memory, "search", filters={"limit": "most notes"})
    broken = one(memory, "search", where=lambda _: 1 / 0)
    assert "does not answer" in broken.invoke({"query": "I saw"})


def test_what_is_remembered_can_be_corrected_and_forgotten(memory):
    kit, name = tools(memory), {}
    for kind, content in (("remember", "In Oslo."), ("correct_memory", "In Rome.")):
        call(kit[kind], content=content, **name)
        assert memory.flush(timeout=10)
        (note,) = memory.get_all(namespace=ANN)
        assert (note.source, note.content, note.state) == ("assistant", content, "done")
        name = {"note_id": f"- [{note.id}] assistant:"}  # as a model copies it
    assert note.content in described_call(memory, namespace=ANN)({"name": "", "args": name}, {}, {})
    took = call(kit["remember"], content="In Bonn.", supersedes=[f"[{note.id}]"])
    assert "takes the place" in took.text
    call(kit["forget_memory"], **name)
    assert kept(memory) == ["In Bonn."]
    call(one(memory, "remember", evolve=False), content="Ann moved to Oslo.")
    assert memory.get_all(namespace=ANN)[-1].state == "pending"


def test_a_note_is_forgotten_thoroughly_with_all_that_was_concluded_from_it(memory):
    first, second = memory.add_many(["Ann moved to Oslo.", "It rains."], namespace=ANN)
    call(one(memory, "forget"), note_id=first.id, thorough=True)
    (note,) = memory.get_all(namespace=ANN)
    assert (note.id, note.state, note.contexts) == (second.id, "pending", ())
    call(
        one(memory, "forget"), note_id=second.id, thorough=None
    )  # as models write what they leave open
    assert kept(memory) == []


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
    with pytest.raises(TypeError, match="unknown option 'window'"):
        tools(memory, window=2)


def test_what_is_no_memory_is_refused_when_a_door_is_made():
    for door in (memory_tools, AMemMiddleware, recall_node):
        with pytest.raises(ConfigurationError, match="memory is a str and must be an Agentic"):
            door(memory="./memory", namespace=("ann",))


# Whose memory it is


class Dictionary(TypedDict):
    user_id: str


def agent_with(kit, *calls, schema=User):
    """Return an agent with these tools, which calls them."""
    return create_agent(calling(*calls), kit, context_schema=schema)


async def test_in_an_agent_the_user_comes_from_the_context(memory):
    def whose(run):
        found = run.context
        return (found["user_id"] if isinstance(found, dict) else found.user_id,)

    model = create_model("model", user_id=(str, ...))
    contexts = {
        User: User("dataclass"),
        Dictionary: {"user_id": "dict"},
        model: model(user_id="model"),
    }
    kit, texts = memory_tools(memory, namespace=whose), ("One.", "Two.")
    for schema, context in contexts.items():
        said = [called("remember", content=text) for text in texts]
        one, two = (agent_with(kit, each, schema=schema) for each in said)
        one.invoke(ask("Go."), context=context)
        await two.ainvoke(ask("Go."), context=context)
    assert memory.namespaces() == [("dataclass",), ("dict",), ("model",)]
    assert all(kept(memory, space) == ["One.", "Two."] for space in memory.namespaces())


def test_the_model_cannot_say_whose_memory_it_is(memory):
    bob, names = {"context": {"user_id": "bob"}}, ("runtime", "namespace", "user_id")
    calls = [called("remember", content=f"I am {name}.", **{name: bob}) for name in names]
    agent = agent_with(memory_tools(memory, namespace=user), *calls)
    agent.invoke(ask("Go."), context=User("ann"))
    assert kept(memory, BOB) == []
    assert kept(memory) == ["I am runtime.", "I am namespace.", "I am user_id."]
    more = {"search": "limit", "remember": "supersedes", "correct": "content", "forget": "thorough"}
    for kind, whose in product(more, (user, ANN)):
        (tool,) = memory_tools(memory, namespace=whose, kinds=[kind])
        given = [*ARGUMENTS[tool.name][:1], more[kind]]
        assert [*tool.tool_call_schema.model_json_schema()["properties"]] == given


def test_a_run_without_a_user_is_an_error(memory):
    kit = memory_tools(memory, namespace=user)
    with pytest.raises(NamespaceError):
        agent_with(kit, called("remember", content="One.")).invoke(ask("Go."))
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
    agent = agent_with([search], called("search_memory", query="office"))
    state = agent.invoke(ask("Go."), context=User("team"))
    assert "] from team: " in state["messages"][-2].text
    assert "no note" in str(forget.invoke({"note_id": note.id}))
    assert memory.get(note.id, namespace=TEAM) == note


def test_two_sets_of_tools_work_in_one_agent(memory):
    mine = memory_tools(memory, namespace=user)
    ours = memory_tools(memory, namespace=TEAM, prefix="team_", owner="the team")
    calls = [called(f"{team}remember", content=f"{team}fact") for team in ("", "team_")]
    agent_with([*mine, *ours], *calls).invoke(ask("Go."), context=User("ann"))
    assert (kept(memory), kept(memory, TEAM)) == (["fact"], ["team_fact"])
    names = [tool.name for tool in ours]
    assert names == [f"team_{tool.name}" for tool in mine]
    for tool in ours:
        text = f"{tool.description} {tool.tool_call_schema.model_json_schema()}"
        assert "of the team" in text
        assert "this user" not in text
        named = set(re.findall(r"\w*(?:search_memory|remember|_memory)\b", text)) - {"memory"}
        assert named <= {*names}
