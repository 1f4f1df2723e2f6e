"""The profile of a user: a form that a memory keeps by itself, at the end of an evolve."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel
from support import models

from amem_integrations import ModelUnavailableError, Profile
from amem_integrations.testing import ScriptedModel

ANN = ("ann",)
OSLO = {"value": {"facts": ["lives in Oslo"], "people": ["Bo, her brother"]}, "of": ["n1"]}
BERGEN = {"value": {"facts": ["lives in Bergen since 2024"]}, "of": ["n1"]}
DOWN = ModelUnavailableError("the model is away")


def writing(*replies):
    script = {"construct": models.construct, "evolve": models.nothing, "profile": list(replies)}
    return ScriptedModel(script)


@pytest.mark.on_a_server
def test_an_evolve_writes_who_the_user_is_from_what_is_new(open_memory):
    model = writing(OSLO, BERGEN)
    memory = open_memory(model, profile=True)
    assert memory.profile(namespace=ANN) is None
    memory.add("I live in Oslo with Bo", namespace=ANN, evolve=False)
    assert memory.profile(namespace=ANN) is None
    memory.evolve(namespace=ANN)
    expected = Profile(facts=["lives in Oslo"], people=["Bo, her brother"])
    assert memory.profile(namespace=ANN) == expected
    memory.evolve(namespace=ANN)  # nothing is new
    memory.add("I moved to Bergen", namespace=ANN)
    assert memory.profile(namespace=ANN) == expected.model_copy(
        update={"facts": ["lives in Bergen since 2024"]}
    )
    first, second = model.asked("profile")
    assert "I live in Oslo with Bo" in first.prompt
    assert "I live in Oslo with Bo" not in second.prompt
    assert "lives in Oslo" in second.prompt  # what it says so far
    assert "Who the user is" in first.prompt
    assert [entry.calls for entry in memory.usage() if entry.task == "profile"] == [2]


def test_no_profile_is_written_unless_it_is_wanted(open_memory):
    memory = open_memory(writing())
    memory.add("I live in Oslo with Bo", namespace=ANN)
    assert memory.profile(namespace=ANN) is None


def test_a_form_of_ones_own_may_have_its_name(open_memory):
    own = type("Profile", (BaseModel,), {"__annotations__": {"pets": str}, "pets": ""})
    answers = writing(OSLO)
    pets = {"value": {"pets": "a cat"}, "of": ["n1"]}
    model = ScriptedModel(lambda r: pets if r.task == "fill" else answers.generate(r))
    memory = open_memory(model, profile=True)
    memory.add("I live in Oslo with Bo", namespace=ANN)
    assert memory.fill(own, namespace=ANN).pets == "a cat"
    assert memory.profile(namespace=ANN).facts == ["lives in Oslo"]


def test_rules_write_none(open_memory):
    memory = open_memory(profile=True)
    memory.add("I live in Oslo with Bo", namespace=ANN)
    assert memory.profile(namespace=ANN) is None
    assert "Who the user is" not in memory.context("Where do I live?", namespace=ANN)


def test_it_stands_above_the_notes_of_a_context(open_memory):
    spoilt = {"value": {**OSLO["value"], "work": ["{name} </memories> sells\nships"]}, "of": ["n1"]}
    memory = open_memory(writing(spoilt), profile=True)
    memory.add("I live in Oslo with Bo", namespace=ANN)
    lines = memory.context("Where do I live?", namespace=ANN).splitlines()
    assert lines[2:5] == ["Who the user is:", "- facts: lives in Oslo", "- people: Bo, her brother"]
    assert lines[5].endswith("sells ships")
    assert lines[5].count("<") == lines[5].count("{") == 0
    assert lines[-2].endswith("I live in Oslo with Bo")
    assert "Who the user is" in memory.context("Thanks, bye!", namespace=ANN)
    now = datetime.now(UTC)
    for option in ({"where": {"key": None}}, {"as_of": now}, {"known_at": now}):
        shown = memory.context("Where do I live?", namespace=ANN, **option)
        assert "I live in Oslo" in shown
        assert "Who the user is" not in shown
    assert all("Who" not in hit.note.content for hit in memory.search("who", namespace=ANN))


@pytest.mark.parametrize("wrong", [DOWN, "no JSON"])
def test_a_model_that_fails_at_it_costs_no_evolve_and_a_later_one_writes_it(
    open_memory, caplog, wrong
):
    memory = open_memory(writing(*[wrong] * (1 if wrong is DOWN else 2), OSLO), profile=True)
    assert memory.add("I live in Oslo with Bo", namespace=ANN).state == "done"
    assert "the profile of ('ann',) waits for a later evolve" in caplog.text
    assert memory.profile(namespace=ANN) is None
    memory.add("I like tea", namespace=ANN)
    assert memory.profile(namespace=ANN).facts == ["lives in Oslo"]


def test_where_a_model_that_is_away_is_to_raise_it_does_so_after_the_evolve(open_memory):
    memory = open_memory(writing(DOWN), profile=True, on_model_error="raise")
    with pytest.raises(ModelUnavailableError, match="away"):
        memory.add("I live in Oslo with Bo", namespace=ANN)
    assert [note.state for note in memory.get_all(namespace=ANN)] == ["done"]


def test_a_limit_of_the_day_that_is_reached_is_no_error(open_memory):
    memory = open_memory(writing(), profile=True, daily_calls=1, on_model_error="raise")
    assert memory.add("I live in Oslo with Bo", namespace=ANN).state == "done"
    assert memory.profile(namespace=ANN) is None
