"""A plan that was changed on its way is refused, or what does not belong to it is left out."""

from __future__ import annotations

from copy import deepcopy

import pytest
from support import models

from amem_integrations import InvalidInputError

ANN, BOB = ("ann",), ("bob",)


@pytest.fixture
def planned(open_memory):
    """A memory of two users, and a plan of Ann's: a link, an update and a supersession."""
    memory = open_memory(models.model(models.supersede_first), min_gate_similarity=-1.0)
    memory.add("My bank is in Graz", namespace=BOB)
    memory.add("I joined a choir", namespace=ANN, thread="t")
    note = memory.add("The choir meets in May", namespace=ANN, thread="t", evolve=False)
    memory.construct([note.id], namespace=ANN)
    return memory, note.id, memory.propose([note.id], namespace=ANN).to_dict()


def state(memory, namespace):
    return memory.get_all(namespace=namespace), memory.history(None, namespace=namespace)


NO_PLANS = {
    "strength": ("links", "strength", 7.0),
    "strength that is no number": ("links", "strength", float("nan")),
    "relation": ("links", "relation", "r" * 1000),
    "reason": ("supersessions", "reason", "r" * 1000),
    "similarity": ("updates", "similarity", float("inf")),
}


@pytest.mark.parametrize(("part", "field", "value"), NO_PLANS.values(), ids=NO_PLANS)
def test_a_value_that_no_plan_has_is_refused(planned, part, field, value):
    memory, _, plan = planned
    plan["notes"][0][part][0][field] = value
    before = state(memory, ANN)
    with pytest.raises(InvalidInputError, match=f"no plan that propose gave(.|\n)*{field}"):
        memory.commit(plan, namespace=ANN)
    assert state(memory, ANN) == before


@pytest.mark.parametrize("since", [-1, 10**30])
def test_an_instant_that_is_none_is_refused(planned, since):
    memory, _, plan = planned
    with pytest.raises(InvalidInputError, match="since"):
        memory.commit({**plan, "since": since}, namespace=ANN)


@pytest.mark.parametrize("counts", [{"input_tokens": -5}, {"output_tokens": 10**30}])
def test_a_cost_that_is_none_is_refused(planned, counts):
    memory, _, plan = planned
    cost = [{"task": "evolve", **counts}]
    with pytest.raises(InvalidInputError, match="cost"):
        memory.commit({**plan, "cost": cost}, namespace=ANN)


def test_a_note_is_neither_linked_to_itself_nor_superseded_by_itself(planned):
    memory, note_id, plan = planned
    (one,) = plan["notes"]
    one["candidates"].append({"id": note_id, "similarity": 1.0})
    for part in ("links", "supersessions"):
        one[part][0]["target"] = note_id
    memory.commit(plan, namespace=ANN)
    note = memory.get(note_id, namespace=ANN)
    assert (note.state, note.links, note.supersessions) == ("done", {}, {})


@pytest.mark.parametrize("of", ["an earlier decision", "an earlier call"])
def test_the_id_of_something_else_is_refused(planned, of):
    memory, _, plan = planned
    earlier = memory.get_all(namespace=ANN)[0].own_entry.change.split(":")[0]
    if of == "an earlier call":
        records = memory._runtime.store.records(ANN, [earlier])
        earlier = records[earlier].call
    before = state(memory, ANN)
    with pytest.raises(InvalidInputError, match="made under another id"):
        memory.commit({**plan, "id": earlier}, namespace=ANN)
    assert state(memory, ANN) == before


def test_an_id_that_is_none_is_refused(planned):
    memory, _, plan = planned
    with pytest.raises(InvalidInputError, match="id"):
        memory.commit({**plan, "id": "mine"}, namespace=ANN)


@pytest.mark.parametrize("rejected", [None, "it waits"], ids=["written", "proposed"])
def test_the_id_of_another_change_takes_no_place_in_the_history(planned, rejected):
    memory, _, plan = planned
    earlier = memory.history(None, namespace=ANN)
    for part in ("updates", "supersessions"):
        plan["notes"][0][part][0] |= {"id": earlier[0].id, "rejected": rejected}
    memory.commit(plan, namespace=ANN)
    assert memory.history(None, namespace=ANN)[: len(earlier)] == earlier


@pytest.mark.parametrize(("field", "value"), [("attempt", 7), ("rev", 1)])
def test_a_plan_for_another_try_or_wording_writes_nothing(planned, field, value):
    memory, note_id, plan = planned
    plan["notes"][0][field] = value
    assert memory.commit(plan, namespace=ANN).done == ()
    assert memory.get(note_id, namespace=ANN).links == {}
    assert memory.get(note_id, namespace=ANN).state == "constructed"


def test_a_text_whose_sources_were_taken_out_goes_with_them_all_the_same(planned):
    memory, note_id, plan = planned
    update = plan["notes"][0]["updates"][0]
    update |= {"sources": [], "context": "It was moved to May."}
    plan["shown"] = []
    memory.commit(plan, namespace=ANN)
    assert len(memory.get(update["target"], namespace=ANN).contexts) == 2
    memory.delete(note_id, namespace=ANN)
    assert len(memory.get(update["target"], namespace=ANN).contexts) == 1


def test_nothing_of_another_namespace_is_touched(planned):
    memory, note_id, plan = planned
    other, before = memory.get_all(namespace=BOB)[0].id, state(memory, BOB)
    (one,) = plan["notes"]
    for edit in (
        lambda p: p.update(id=other),
        lambda p: p["candidates"].append({"id": other, "similarity": 0.9}),
        lambda p: p["links"][0].update(target=other),
        lambda p: p["updates"][0].update(target=other),
        lambda p: p["updates"][0].update(source=other),
    ):
        edited = deepcopy(one)
        edit(edited)
        memory.commit({**plan, "notes": [edited], "failed": {other: "no"}}, namespace=ANN)
    assert state(memory, BOB) == before
    assert other not in memory.get(note_id, namespace=ANN).links


def test_an_entry_without_words_is_not_written(planned):
    memory, _, plan = planned
    update = plan["notes"][0]["updates"][0]
    update |= {"context": " ", "rejected": None}
    memory.commit(plan, namespace=ANN)
    assert len(memory.get(update["target"], namespace=ANN).contexts) == 1


def test_an_edited_entry_is_cleaned_as_those_of_models_are(planned):
    memory, _, plan = planned
    update = plan["notes"][0]["updates"][0]
    words = [" ", "a\nb", *map(str, range(500))]
    decision = {"context": "It is\n[in May]", "keywords": words, "tags": words}
    memory.commit(plan, answers={update["id"]: decision}, namespace=ANN)
    entry = memory.get(update["target"], namespace=ANN).contexts[-1]
    assert (entry.text, entry.keywords[0], len(entry.keywords)) == ("It is [in May]", "a b", 8)


def test_an_entry_in_a_script_without_spaces_is_not_endless(planned):
    memory, _, plan = planned
    update = plan["notes"][0]["updates"][0]
    with pytest.raises(InvalidInputError, match="10000 characters"):
        memory.commit(plan, answers={update["id"]: {"context": "合唱" * 5000}}, namespace=ANN)


@pytest.mark.parametrize("answers", [["x"], {1: True, "a": False}])
def test_answers_that_are_none_are_refused(planned, answers):
    memory, _, plan = planned
    with pytest.raises(InvalidInputError, match="answers"):
        memory.commit(plan, answers=answers, namespace=ANN)
