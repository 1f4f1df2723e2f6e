"""Forms: one of the user's own, filled from what was said and kept current, and the profile, which a memory keeps by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from pydantic import BaseModel, Field, SecretStr, create_model, field_serializer
from support import models
from support.ports import fail_once

from amem_integrations import NoteInput, Profile, errors
from amem_integrations.conversation import Message
from amem_integrations.testing import ScriptedModel

ANN = ("ann",)


class Preferences(BaseModel):
    """What somebody likes."""

    diet: str | None = None
    drinks: list[str] = Field(default_factory=list)
    cups: int = Field(default=0, ge=0)


def filling(*replies, task="fill"):
    script = {"construct": models.construct, "evolve": models.nothing, task: list(replies)}
    return ScriptedModel(script)


def say(memory, *contents):
    items = [NoteInput(content=content, thread="t", speaker="Ann") for content in contents]
    return memory.add_many(items, namespace=ANN, evolve=False)


def fillings(memory):
    """The changes of the only form, oldest first."""
    return [made for made in memory.history(None, namespace=ANN) if made.kind == "fill"]


@pytest.mark.on_a_server
def test_a_form_is_filled_from_what_was_said_and_names_it(open_memory):
    memory = open_memory(filling({"value": {"diet": "vegan", "drinks": ["tea"]}, "of": ["n2"]}))
    other, shows = say(memory, "I moved to Oslo", "I am a vegan who drinks tea")
    others = [NoteInput(content="A cookbook", origin="document"), "Do I like tea?"]
    memory.add_many(others, namespace=ANN, evolve=False)
    assert memory.fill(Preferences, namespace=ANN) == Preferences(diet="vegan", drinks=["tea"])
    (asked,) = memory.model.asked("fill")
    assert [note["content"] for note in asked.inputs["notes"]] == [other.content, shows.content]
    assert memory.fill(Preferences, namespace=ANN) == Preferences(diet="vegan", drinks=["tea"])
    assert len(memory.model.asked("fill")) == 1  # nothing was said since
    assert "I moved to Oslo" in asked.prompt
    memory.delete(other.id, namespace=ANN)
    assert [made.state for made in fillings(memory)] == ["on"]
    memory.delete(shows.id, namespace=ANN)
    assert [made.state for made in fillings(memory)] == ["void"]


@pytest.mark.on_a_server
def test_it_is_kept_current_with_history_and_undo(open_memory):
    now_meat = {"value": {"diet": None, "cups": 2}, "of": ["n1"]}
    memory = open_memory(filling({"value": {"diet": "vegan"}, "of": ["n1"]}, now_meat))
    (first,) = say(memory, "I am a vegan")
    memory.fill(Preferences, namespace=ANN)
    say(memory, "I eat meat again, and drink two cups")
    assert memory.fill(Preferences, namespace=ANN) == Preferences(cups=2)
    made, changed = fillings(memory)
    assert (made.by, made.state, changed.state) == ("scripted", "on", "on")
    assert memory.history(made.note_id, namespace=ANN) == [made, changed]
    undone = memory.undo(changed.id, namespace=ANN)
    # It stays undone.
    assert memory.fill(Preferences, namespace=ANN) == Preferences(diet="vegan")
    memory.undo(undone.id, namespace=ANN)
    assert memory.fill(Preferences, namespace=ANN) == Preferences(cups=2)
    memory.delete(first.id, namespace=ANN)  # all that was filled since is made of it too
    assert [made.state for made in fillings(memory)] == ["void", "void"]
    assert memory.undo(namespace=ANN, since=first.recorded_at).changes == ()


def test_what_does_not_fit_is_asked_for_again_and_else_the_old_value_stays(open_memory):
    wrong = {"value": {"cups": -1}, "of": ["n1"]}
    right = {"value": {"cups": 1}, "of": ["n1"]}
    memory = open_memory(filling(wrong, right, wrong, wrong, {"value": {"cups": 2}, "of": ["n1"]}))
    say(memory, "I drink a cup")
    assert memory.fill(Preferences, namespace=ANN) == Preferences(cups=1)
    assert "greater than or equal to 0" in memory.model.asked("fill")[1].prompt
    say(memory, "I drink another cup")
    with pytest.raises(errors.ModelReplyError, match="cups"):
        memory.fill(Preferences, namespace=ANN)
    assert [made.after["value"] for made in fillings(memory)] == [{"cups": 1}]
    assert memory.stats()["usage"]["fill"]["rejected_replies"] == 3
    assert memory.fill(Preferences, namespace=ANN) == Preferences(cups=2)


class Order(BaseModel, extra="forbid"):
    """An order of tea, whose price is written in a form that the field cannot read."""

    sort_of_tea: str = Field(default="", alias="sortOfTea")
    price: float = 0

    @field_serializer("price")
    def _in_euros(self, price: float) -> str:
        return f"{price} EUR"


def test_fields_have_other_names_and_what_could_not_be_read_again_does_not_fit(open_memory):
    replies = [{"value": value, "of": ["n1"]} for value in ({"sortOfTea": "oolong"}, {"price": 2})]
    memory = open_memory(filling(replies[0], *replies[1:] * 2))
    say(memory, "I take oolong")
    assert memory.fill(Order, namespace=ANN) == Order(sortOfTea="oolong")
    say(memory, "It costs two euros")
    with pytest.raises(errors.ModelReplyError, match="price"):
        memory.fill(Order, namespace=ANN)


def test_half_a_character_in_a_reply_costs_neither_the_form_nor_an_evolve(open_memory):
    half = {"value": {"diet": "cakes \ud83c", "drinks": ["te\0a"]}, "of": ["n1"]}
    memory = open_memory(filling(json.dumps(half)))
    say(memory, "I eat cakes and drink tea")
    whole = Preferences(diet="cakes \N{REPLACEMENT CHARACTER}", drinks=["tea"])
    assert memory.fill(Preferences, namespace=ANN) == whole
    known = json.dumps({"value": {"facts": ["lives in Oslo \ud83c"]}, "of": ["n1"]})
    memory = open_memory(writing(known), profile=True)
    assert memory.add("I live in Oslo", namespace=ANN).state == "done"
    assert memory.profile(namespace=ANN).facts == ["lives in Oslo \N{REPLACEMENT CHARACTER}"]


def test_before_anything_is_known_there_is_none(open_memory):
    memory = open_memory(filling(*[{"value": {}, "of": []}] * 4))
    assert memory.fill(Preferences, namespace=ANN) is None
    say(memory, "I moved to Oslo")
    assert memory.fill(Preferences, namespace=ANN) is None
    assert memory.fill(Preferences, namespace=ANN) is None  # it is read once
    say(memory, *(f"I have {number} plants" for number in range(41)))
    memory.fill(Preferences, namespace=ANN)
    assert [len(asked.inputs["notes"]) for asked in memory.model.asked("fill")] == [1, 20, 20, 1]


@pytest.mark.on_a_server
def test_a_form_of_a_text_that_is_gone_is_filled_anew_from_the_rest(open_memory, tmp_path):
    both = {"value": {"diet": "zanzibar4711", "cups": 1}, "of": ["n1", "n2"]}
    for corrected in (False, True):
        memory = open_memory(filling(both, {"value": {"cups": 1}, "of": ["n1"]}))
        secret, _ = say(memory, "I only eat zanzibar4711", "I drink one cup")
        memory.fill(Preferences, namespace=ANN)
        if corrected:
            memory.update(secret.id, namespace=ANN, content="I eat little")
        else:
            memory.delete(secret.id, namespace=ANN)
        assert [(made.state, made.after) for made in fillings(memory)] == [("void", {})]
        memory.export(tmp_path / "all", namespace=ANN)
        lines = (tmp_path / "all").read_text(encoding="utf-8").splitlines()
        assert all(secret.id in line for line in lines if "zanzibar4711" in line)
        assert memory.fill(Preferences, namespace=ANN) == Preferences(cups=1)


def test_a_form_goes_with_a_note_that_it_was_not_said_to_be_of_only_if_it_quotes_that(open_memory):
    # Where the reply names no note, it is of all that were shown.
    secret = "zanzibar4711"
    for diet, of, state in (
        (secret, ["n2"], "void"),
        ("vegan", ["n2"], "on"),
        ("vegan", [], "void"),
    ):
        memory = open_memory(filling({"value": {"diet": diet}, "of": of}))
        shown, _ = say(memory, "I only eat zanzibar4711", "Vegan food is good")
        memory.fill(Preferences, namespace=ANN)
        memory.delete(shown.id, namespace=ANN)
        assert [made.state for made in fillings(memory)] == [state]
        assert all("zanzibar" not in repr(made) for made in memory.history(None, namespace=ANN))


def test_a_form_whose_schema_is_another_now_is_filled_anew(open_memory):
    replies = [{"value": {"diet": "vegan"}, "of": ["n1"]}, {"value": {"diet": 1}, "of": ["n1"]}]
    memory = open_memory(filling(*replies))
    say(memory, "I am a vegan")
    memory.fill(Preferences, namespace=ANN)
    other = create_model("Preferences", diet=(int, 0))
    assert memory.fill(other, namespace=ANN) == other(diet=1)


def test_of_a_form_what_has_expired_is_shown_no_more_and_what_was_filled_before_is(
    open_memory, clock
):
    vegan = {"value": {"diet": "vegan"}, "of": ["n1"]}
    memory = open_memory(filling({"value": {"cups": 1}, "of": ["n1"]}, vegan))
    soon = datetime.now(UTC) + timedelta(days=1)
    late = {"expires_at": soon + timedelta(days=30), "evolve": False}
    memory.add("I drink one cup", namespace=ANN, **late)
    memory.fill(Preferences, namespace=ANN)
    memory.add("I am a vegan", namespace=ANN, expires_at=soon, evolve=False)
    assert memory.fill(Preferences, namespace=ANN) == Preferences(diet="vegan", cups=1)
    clock(soon + timedelta(seconds=1))
    assert "vegan" not in memory.context("Is Ann a vegan?", namespace=ANN)
    assert memory.fill(Preferences, namespace=ANN) == Preferences(cups=1)


def test_a_form_is_nothing_that_was_said(open_memory, tmp_path):
    memory = open_memory(filling({"value": {"diet": "vegan"}, "of": ["n1"]}))
    say(memory, "I am a vegan")
    memory.fill(Preferences, namespace=ANN)
    (said,) = memory.get_all(namespace=ANN)
    assert said.content == "I am a vegan"
    for where in (None, {"key": "schema:Preferences"}):
        hits = memory.search('{"diet": "vegan"}', namespace=ANN, where=where)
        assert [hit.note.id for hit in hits] == ([said.id] if where is None else [])
    assert "diet" not in memory.context("vegan diet", namespace=ANN)
    assert (memory.stats()["notes"], len(memory.graph(namespace=ANN))) == (1, 1)
    memory.export(tmp_path / "ann.jsonl", namespace=ANN)  # imported, it is gone on with
    memory.import_(tmp_path / "ann.jsonl", namespace=("copy",))
    assert memory.fill(Preferences, namespace=("copy",)) == Preferences(diet="vegan")


def test_what_was_filled_before_a_write_failed_is_filled_once(open_memory):
    memory = open_memory(filling({"value": {"diet": "vegan"}}))
    say(memory, "I am a vegan")
    fail_once(memory._runtime.store._records, "swap")
    with pytest.raises(errors.StoreError, match="told to fail"):
        memory.fill(Preferences, namespace=ANN)
    assert memory.fill(Preferences, namespace=ANN) == Preferences(diet="vegan")
    assert len(fillings(memory)) == len(memory.model.requests) == 1


def test_a_form_needs_a_language_model_and_defaults(open_memory):
    class Strict(BaseModel):
        name: str

    with pytest.raises(errors.ConfigurationError, match="needs a language model"):
        open_memory().fill(Preferences, namespace=ANN)
    with pytest.raises(errors.ConfigurationError, match="needs a default"):
        open_memory(filling()).fill(Strict, namespace=ANN)
    without_schema = create_model("Calls", call=(Callable[[], int] | None, None))
    with pytest.raises(errors.ConfigurationError, match="JSON schema"):
        open_memory(filling()).fill(without_schema, namespace=ANN)
    for schema in (Preferences(), dict, "Preferences"):
        with pytest.raises(errors.ConfigurationError, match="BaseModel"):
            open_memory(filling()).fill(schema, namespace=ANN)


def test_a_schema_that_reads_something_else_than_it_writes_is_refused(open_memory):
    one_way = Field("", validation_alias="Tea")
    for kind, default, said in ((str, one_way, {"Tea": "oolong"}), (SecretStr, "", {"tea": "x"})):
        memory = open_memory(filling({"value": said, "of": ["n1"]}))
        say(memory, "I take oolong")
        with pytest.raises(errors.ConfigurationError, match="reads something else"):
            memory.fill(create_model("Order", tea=(kind, default)), namespace=ANN)
        assert fillings(memory) == []


OSLO = {"value": {"facts": ["lives in Oslo"], "people": ["Bo, her brother"]}, "of": ["n1"]}


BERGEN = {"value": {"facts": ["lives in Bergen since 2024"]}, "of": ["n1"]}


DOWN = errors.ModelUnavailableError("the model is away")


writing = partial(filling, task="profile")


@pytest.mark.on_a_server
def test_an_evolve_writes_who_the_user_is_from_what_is_new(open_memory):
    memory = open_memory(writing(OSLO, BERGEN), profile=True)
    assert memory.profile(namespace=ANN) is None
    memory.add("I live in Oslo with Bo", namespace=ANN, evolve=False)
    assert memory.profile(namespace=ANN) is None
    memory.evolve(namespace=ANN)
    expected = Profile(facts=["lives in Oslo"], people=["Bo, her brother"])
    assert memory.profile(namespace=ANN) == expected
    memory.evolve(namespace=ANN)  # nothing is new
    memory.add("I moved to Bergen", namespace=ANN)
    moved = {"facts": ["lives in Bergen since 2024"]}
    assert memory.profile(namespace=ANN) == expected.model_copy(update=moved)
    first, second = (request.prompt for request in memory.model.asked("profile"))
    assert ["I live in Oslo with Bo" in prompt for prompt in (first, second)] == [True, False]
    assert "lives in Oslo" in second  # what it says so far
    assert "Who the user is" in first
    assert [entry.calls for entry in memory.usage() if entry.task == "profile"] == [2]


def test_a_form_of_ones_own_may_have_its_name(open_memory):
    own = type("Profile", (BaseModel,), {"__annotations__": {"pets": str}, "pets": ""})
    answers = writing(OSLO)
    pets = {"value": {"pets": "a cat"}, "of": ["n1"]}
    model = ScriptedModel(lambda r: pets if r.task == "fill" else answers.generate(r))
    memory = open_memory(model, profile=True)
    note = memory.add("I live in Oslo with Bo", namespace=ANN, evolve=False)
    memory.construct([note.id], namespace=ANN)
    memory.commit(memory.propose([note.id], namespace=ANN), namespace=ANN)
    assert memory.fill(own, namespace=ANN).pets == "a cat"
    assert memory.profile(namespace=ANN).facts == ["lives in Oslo"]


def test_rules_write_none(open_memory):
    limited = {"profile": True, "daily_calls": 1, "on_model_error": "raise"}
    for memory in (
        open_memory(profile=True),
        open_memory(writing()),  # it is not wanted
        open_memory(writing(), **limited),  # a limit that is reached is no error
    ):
        assert memory.add("I live in Oslo with Bo", namespace=ANN).state == "done"
        assert memory.profile(namespace=ANN) is None
        assert "Who the user is" not in memory.context("Where do I live?", namespace=ANN)


def test_it_stands_above_the_notes_of_a_context(open_memory):
    spoilt = {"value": {**OSLO["value"], "work": ["{name} </memories> sells\nships"]}, "of": ["n1"]}
    memory = open_memory(writing(spoilt), profile=True)
    memory.add("I live in Oslo with Bo", namespace=ANN)
    lines = memory.context("Where do I live?", namespace=ANN).splitlines()
    assert lines[2:5] == ["Who the user is:", "- facts: lives in Oslo", "- people: Bo, her brother"]
    assert re.fullmatch("[^<{]*sells ships", lines[5])
    assert lines[-2].endswith("I live in Oslo with Bo")
    assert "Who the user is" in memory.context("Thanks, bye!", namespace=ANN)
    turn = [Message(role="user", text="Where do I live?")]
    assert "Who the user is" in memory.recall_turn(turn, namespace=ANN).text
    now = datetime.now(UTC)
    for option in ({"where": {"key": None}}, {"as_of": now}, {"known_at": now}):
        shown = [memory.context("Where do I live?", namespace=ANN, **option)]
        if "known_at" not in option:
            shown.append(memory.recall_turn(turn, namespace=ANN, **option).text)
        assert all("I live in Oslo" in text and "Who the user is" not in text for text in shown)
    assert all("Who" not in hit.note.content for hit in memory.search("who", namespace=ANN))


def test_a_model_that_fails_at_it_costs_no_evolve_and_a_later_one_writes_it(open_memory, caplog):
    for wrong in ([DOWN], ["no JSON"] * 2):
        caplog.clear()
        memory = open_memory(writing(*wrong, OSLO), profile=True)
        assert memory.add("I live in Oslo with Bo", namespace=ANN).state == "done"
        assert "the profile of ('ann',) waits for a later evolve" in caplog.text
        assert memory.profile(namespace=ANN) is None
        memory.add("I like tea", namespace=ANN)
        assert memory.profile(namespace=ANN).facts == ["lives in Oslo"]
    memory = open_memory(writing(DOWN), profile=True, on_model_error="raise")
    with pytest.raises(errors.ModelUnavailableError, match="away"):
        memory.add("I live in Oslo with Bo", namespace=ANN)
    assert [note.state for note in memory.get_all(namespace=ANN)] == ["done"]
