"""A plan that was changed on its way is refused, or what does not belong to it is left out."""

from __future__ import annotations

from copy import deepcopy

import pytest
from support import models

from amem_integrations import InvalidInputError, NamespaceError

ANN, BOB = ("ann",), ("bob",)


@pytest.fixture
def planned(open_memory):
    """A memory of two users, and a plan of Ann's: a link, a sentence and a supersession."""
    memory = open_memory(models.model(models.supersede_first), min_gate_similarity=-1.0)
    memory.add("My bank is in Graz", namespace=BOB)
    memory.add("I joined a choir", namespace=ANN, thread="t")
    note = memory.add("The choir meets in May", namespace=ANN, thread="t", evolve=False)
    memory.construct([note.id], namespace=ANN)
    return memory, note.id, memory.propose([note.id], namespace=ANN).to_dict()


def of_kind(plan, kind):
    """The id of the only item of a kind in the JSON of a plan, and the item."""
    (found,) = [one for one in plan["notes"][0]["items"].items() if one[1]["kind"] == kind]
    return found


def state(memory, namespace):
    return memory.get_all(namespace=namespace), memory.history(None, namespace=namespace)


NO_ITEMS = [
    ("link", "strength", {"data": {"relation": "r", "strength": 7.0}}),
    ("link", "strength", {"data": {"relation": "r", "strength": float("nan")}}),
    ("link", "relation", {"data": {"relation": "r" * 1000, "strength": 0.5}}),
    ("link", "colour", {"data": {"relation": "r", "colour": "red"}}),
    ("link", "an item of kind|no item of kind", {"kind": "entry"}),
    ("link", "no item of kind", {"kind": "form"}),
    ("supersession", "reason", {"text": "r" * 1000}),
    ("supersession", "relation", {"data": {"relation": "likes"}}),
    ("supersession", "strength", {"kind": "relink", "other": "x"}),
    ("sentence", "similarity", {"data": {"similarity": float("inf")}}),
    ("sentence", "text", {"text": "r" * 10_000}),
]
NO_PLANS = [
    ("since", {"since": -1}),
    ("since", {"since": 10**30}),
    ("cost", {"cost": [{"task": "evolve", "input_tokens": -5}]}),
    ("cost", {"cost": [{"task": "evolve", "output_tokens": 10**30}]}),
    ("id", {"id": "mine"}),
]


def test_what_no_plan_has_is_refused_and_named(planned):
    memory, _, plan = planned
    before = state(memory, ANN)
    edited = [(named, {**plan, **values}) for named, values in NO_PLANS]
    for kind, named, values in NO_ITEMS:
        edited.append((named, deepcopy(plan)))
        of_kind(edited[-1][1], kind)[1].update(values)
    for named, one in edited:
        with pytest.raises(InvalidInputError, match=f"no plan that propose gave(.|\n)*({named})"):
            memory.commit(one, namespace=ANN)
    for answers in (["x"], {1: True, "a": False}):
        with pytest.raises(InvalidInputError, match="answers"):
            memory.commit(plan, answers=answers, namespace=ANN)
    for earlier in earlier_ids(memory):
        with pytest.raises(InvalidInputError, match="made under another id"):
            memory.commit({**plan, "id": earlier}, namespace=ANN)
    assert state(memory, ANN) == before


def earlier_ids(memory):
    """The ids of a decision and of a call that were written before."""
    decision = memory.get_all(namespace=ANN)[0].own_entry.change.split(":")[0]
    return decision, memory._runtime.store.records(ANN, [decision])[decision].call


def test_a_note_is_neither_linked_to_itself_nor_superseded_by_itself(planned):
    memory, note_id, plan = planned
    for kind in ("link", "supersession"):
        of_kind(plan, kind)[1]["to"] = note_id
    memory.commit(plan, namespace=ANN)
    note = memory.get(note_id, namespace=ANN)
    assert (note.state, note.links, note.supersessions) == ("done", {}, {})


def test_the_id_of_another_change_takes_no_place_in_the_history(planned):
    memory, _, plan = planned
    earlier = memory.history(None, namespace=ANN)
    items = plan["notes"][0]["items"]
    for kind in ("sentence", "supersession"):
        key, item = of_kind(plan, kind)
        del items[key]
        items[earlier[0].id] = {**item, "log": [["on", "user", 1, "x"]], "switch": "off"}
    memory.commit(plan, namespace=ANN)
    later = memory.history(None, namespace=ANN)
    assert later[: len(earlier)] == earlier
    assert {made.state for made in later[len(earlier) :]} == {"on"}


def test_a_text_whose_sources_were_taken_out_goes_with_them_all_the_same(planned):
    memory, note_id, plan = planned
    _, update = of_kind(plan, "sentence")
    update |= {"sources": [], "text": "It was moved to May."}
    plan["shown"] = []
    memory.commit(plan, namespace=ANN)
    assert len(memory.get(update["to"], namespace=ANN).contexts) == 2
    memory.delete(note_id, namespace=ANN)
    assert len(memory.get(update["to"], namespace=ANN).contexts) == 1


def test_nothing_of_another_namespace_is_touched(planned):
    memory, note_id, plan = planned
    other, before = memory.get_all(namespace=BOB)[0].id, state(memory, BOB)
    with pytest.raises(NamespaceError):
        memory.commit(plan, namespace=BOB)
    edits = [lambda p: p["notes"][0].update(id=other), lambda p: p["shown"].append([other, 1])]
    edits += [lambda p, k=kind: of_kind(p, k)[1].update(to=other) for kind in ("link", "sentence")]
    edits.append(lambda p: of_kind(p, "sentence")[1].update(sources=[[other, 1]]))
    for edit in edits:
        edited = deepcopy(plan)
        edit(edited)
        memory.commit({**edited, "failed": {other: "no"}}, namespace=ANN)
    assert state(memory, BOB) == before
    assert other not in memory.get(note_id, namespace=ANN).links


def test_an_edited_sentence_is_cleaned_as_those_of_models_are_and_is_not_endless(planned):
    memory, _, plan = planned
    key, update = of_kind(plan, "sentence")
    with pytest.raises(InvalidInputError, match="10000 characters"):
        memory.commit(plan, answers={key: {"context": "合唱" * 5000}}, namespace=ANN)
    words = [" ", "a\nb", *map(str, range(500))]
    edit = {"context": "It is\n[in May]", "keywords": words, "tags": words}
    memory.commit(plan, answers={key: edit}, namespace=ANN)
    entry = memory.get(update["to"], namespace=ANN).contexts[-1]
    assert (entry.text, entry.keywords[0], len(entry.keywords)) == ("It is [in May]", "a b", 8)
