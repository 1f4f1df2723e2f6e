"""`AMemToolSpec`: what an agent can do with its memory by itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime

import pytest
from llamaindex_fakes import ANN, BOB, contents, states

from amem_integrations import NamespaceError
from llamaindex_amem import AMemToolSpec

Call = Callable[..., str]
CALLS = {
    "remember": {"content": "x"},
    "recall": {"query": "x"},
    "forget": {"note_id": "x"},
    "correct": {"note_id": "x", "content": "y"},
}


@pytest.fixture(params=["sync", "asynchronous"])
def call(request, memory) -> Call:
    tools = {tool.metadata.get_name(): tool for tool in AMemToolSpec(memory, ANN).to_tool_list()}
    if request.param == "sync":
        return lambda name, **arguments: str(tools[name].call(**arguments))
    return lambda name, **arguments: str(asyncio.run(tools[name].acall(**arguments)))


def test_a_model_can_read_what_the_tools_do(memory):
    tools = AMemToolSpec(memory, ANN).to_tool_list()

    assert [tool.metadata.name for tool in tools] == ["remember", "recall", "forget", "correct"]
    for tool in tools:
        assert "long-term memory" in tool.metadata.description
        assert " -> 'str'" in tool.metadata.description
        assert tool.metadata.get_parameters_dict()["required"]


def test_a_fact_is_remembered_recalled_corrected_and_forgotten(memory, call):
    said = call("remember", content="My dog is called Max.")
    memory.flush()
    (note,) = memory.get_all(namespace=ANN)
    assert (said, note.state) == (f"Remembered as note {note.id}.", "done")

    found = call("recall", query="What is my dog called?")
    assert "My dog is called Max." in found
    (note_id,) = re.findall(r"\[([0-9a-f-]{36})", found)

    assert call("correct", note_id=note_id, content="My dog is called Rex.") == "Corrected."
    memory.flush()
    assert (contents(memory), states(memory)) == (["My dog is called Rex."], {"done"})

    copied = (f"[{note_id}]", f"- [{note_id}] user:", f"id: {note_id}.", f"`{note_id}`")
    for name in copied:
        assert call("correct", note_id=name, content="My dog is called Rex.") == "Corrected."
    both = call("forget", note_id=f"{note_id}, {note_id}")
    assert both.startswith("Error: there is no note with this id.")
    assert call("forget", note_id=f" [{note_id}]\n") == "Forgotten."
    assert contents(memory) == []
    assert call("recall", query="What is my dog called?") == "Nothing is known about this."


def test_a_fact_is_forgotten_thoroughly_with_all_that_was_concluded_from_it(memory, call):
    first, second = memory.add_many(["My dog is called Max.", "It rains."], namespace=ANN)
    wrong = "Error: thorough='false' must be True or False"
    assert call("forget", note_id=first.id, thorough="false") == wrong
    assert memory.stats(namespace=ANN)["notes"] == 2
    assert call("forget", note_id=first.id, thorough=True) == "Forgotten."
    (note,) = memory.get_all(namespace=ANN)
    assert (note.id, note.state, note.contexts) == (second.id, "pending", ())


def test_what_is_wrong_is_said_in_one_sentence(memory, call):
    unknown = "Error: there is no note with this id. Use recall, and take an id from there."
    assert call("forget", note_id="not-an-id") == call("forget", note_id=5) == unknown
    assert call("correct", note_id="0" * 36, content="x") == unknown
    assert "is empty" in call("remember", content=" ")
    assert "100001 characters" in call("remember", content="x" * 100_001)
    for since in ("soon", 5):
        assert f"Error: '{since}' is not a time" in call("recall", query="x", since=since)
    assert call("recall", query="").startswith("Error")

    memory.down = True
    for name, arguments in CALLS.items():
        assert call(name, **arguments) == "The memory does not answer now. Go on without it."


async def test_missing_and_unknown_arguments_are_errors_and_no_outage(memory):
    spec = AMemToolSpec(memory, ANN)
    for tool in spec.to_tool_list():
        with pytest.raises(TypeError, match="missing a required argument"):
            tool.call()
        with pytest.raises(TypeError, match="unexpected keyword argument 'mood'"):
            await tool.acall("x", "y", mood="good")
    assert spec.failures == {}


def test_no_user_is_an_error_and_others_are_out_of_reach(memory, call):
    theirs = memory.add("My dog is called Max.", namespace=BOB)

    with pytest.raises(NamespaceError):
        AMemToolSpec(memory, ("",))
    assert "Error" in call("forget", note_id=theirs.id)
    assert "Max" not in call("recall", query="dog")
    assert contents(memory, BOB) == ["My dog is called Max."]


def test_a_tool_says_what_came_of_a_supersession(memory, call):
    (said,) = memory.add_messages([{"role": "user", "content": "I live in Rome."}], namespace=ANN)
    noted = memory.add("Ann has a cat.", namespace=ANN, source="assistant")

    answer = call("remember", content="Ann lives in Oslo.", supersedes=[said.id, f"[{noted.id}]"])

    assert f"Note {said.id} stands as before" in answer
    assert f"It takes the place of note {noted.id}." in answer
    assert memory.get(said.id, namespace=ANN).superseded_by is None
    assert len(memory.proposals(namespace=ANN)) == 1
    # A model may give a text in place of a list.
    assert said.id in call("remember", content="Ann lives in Oslo.", supersedes=said.id)
    for unknown in (["0" * 36], 5):
        gone = call("remember", content="Ann lives in Bonn.", supersedes=unknown)
        assert gone.startswith("Error: there is no note")
    assert "Ann lives in Bonn." not in contents(memory)


def test_a_tool_may_speak_for_the_user(memory):
    said = memory.add("I live in Rome.", namespace=ANN)
    spec = AMemToolSpec(memory, ANN, assistant_supersedes=True, thread="chat-7")

    answers = [spec.remember("Ann lives in Oslo.", supersedes=[said.id]) for _ in range(2)]

    assert all(answer.endswith(f"It takes the place of note {said.id}.") for answer in answers)
    newer = memory.get_all(namespace=ANN)[-1]
    assert (memory.get(said.id, namespace=ANN).superseded_by, newer.thread) == (newer.id, "chat-7")
    assert memory.proposals(namespace=ANN) == []


def test_a_search_is_narrowed_by_the_model_and_by_the_application(memory):
    for year in range(2020, 2024):
        at = datetime(year, 6, 1, tzinfo=UTC)
        memory.add(f"A dog of {year}.", namespace=ANN, at=at, speaker="Ann" if year % 2 else "Bob")
    memory.add("A dog of now.", namespace=ANN)
    shared = memory.add("A dog of the team.", namespace=("team",))
    whose, where = {"user": "ann"}, {"metadata.missing": None}
    further = {"also": {"team": ("team",)}, "where": lambda: where}
    spec = AMemToolSpec(memory, lambda: (whose["user"],), **further)

    recalled = spec.recall("dog")
    assert "from team" in recalled
    assert shared.id in recalled
    for narrowed, expected in (
        ({"speaker": "Bob"}, ["2020", "2022"]),
        ({"since": "2021-06-01"}, ["2021", "2022", "2023", "now"]),
        ({"speaker": "Ann", "since": "2022-01-01"}, ["2023"]),
    ):
        found = spec.recall("dog", **narrowed)
        dogs = ("2020", "2021", "2022", "2023", "now")
        assert [dog for dog in dogs if f"A dog of {dog}." in found] == expected
    for limit in (1, "1", 1.0, " 1 "):  # Gemini's models write numbers as 1.0
        assert spec.recall("dog", limit=limit).count("A dog") == 1
    for limit in (None, 0, "0"):
        assert spec.recall("dog", limit=limit) == spec.recall("dog")
    for limit in ("two", float("inf"), [1], -3, 1.5, True):
        assert "must be a whole number" in spec.recall("dog", limit=limit)
    assert spec.failures == {}
    where["speaker"] = "Ann"
    assert "2022" not in spec.recall("dog")
    whose["user"] = "bob"
    where.clear()
    assert "2023" not in spec.recall("dog")
    whose["user"] = ""
    with pytest.raises(NamespaceError):
        spec.recall("dog")


def test_a_model_gets_fifty_notes_at_most_unless_the_developer_shows_more(memory):
    memory.add_many([f"A dog of {n}." for n in range(60)], namespace=ANN, evolve=False)
    for options, limit, counts in (
        ({"max_tokens": 9999}, 1000, {50}),
        ({"max_tokens": 200}, 1000, range(1, 20)),
        ({"max_tokens": 9999, "k": 55}, None, {55}),
        ({"max_tokens": 9999, "k": 55}, 1000, {55}),
    ):
        found = AMemToolSpec(memory, ANN, **options).recall("dog", limit=limit)
        assert found.count("A dog of") in counts
    found = AMemToolSpec(memory, ANN, max_tokens=10).recall("dog", limit=1)
    (note_id,) = re.findall(r"[0-9a-f-]{36}", found)
    assert "too long to be shown" in found
    assert memory.get(note_id, namespace=ANN).content.startswith("A dog of")


@pytest.mark.parametrize("on_error", ["log", "raise"])
def test_a_namespace_that_cannot_be_told_is_a_failure_of_the_tool(memory, on_error):
    spec = AMemToolSpec(memory, lambda: (ContextVar[str]("user").get(),), on_error=on_error)
    for name, arguments in CALLS.items():
        tool = getattr(spec, name)
        if on_error == "log":
            assert tool(**arguments) == "The memory does not answer now. Go on without it."
        else:
            with pytest.raises(LookupError):
                tool(**arguments)
    assert spec.failures == dict.fromkeys(CALLS, 1)
