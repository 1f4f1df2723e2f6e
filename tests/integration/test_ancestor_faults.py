"""Faults of the code published with the paper, and of its successors: none of them is ours."""

from __future__ import annotations

from functools import partial

import pytest
from support import models

from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN = ("ann",)


@pytest.fixture
def open_memory(open_memory):
    """Opens memories with an embedder that tells more words apart."""
    return partial(open_memory, embedder=HashEmbedder(256))


def update_of(content: str, text: str):
    """An answer that links and updates the candidate with this content."""

    def answer(request):
        shown = [*request.inputs["candidates"], *request.inputs["notes"]]
        target = next((note["alias"] for note in shown if note["content"] == content), None)
        last = request.inputs["notes"][-1]
        offered = {candidate["alias"] for candidate in last["candidates"]}
        if target not in offered:
            return {"notes": []}
        found = {"to": target, "relation": "continues", "reason": "same hunt", "strength": 0.9}
        update = {"to": target, "context": text, "tags": ["flat"]}
        return {"notes": [{"id": last["alias"], "links": [found], "updates": [update]}]}

    return answer


def test_evolution_changes_the_note_that_was_meant_and_not_the_first_ones_stored(open_memory):
    answer = update_of("I look for a flat in Porto", "The flat was found.")
    memory = open_memory(models.model(answer))
    others = [memory.add(f"hospital visit number {n}", namespace=ANN) for n in range(12)]
    meant = memory.add("I look for a flat in Porto", namespace=ANN)
    memory.add("I found a flat in Porto", namespace=ANN)
    assert memory.get(meant.id, namespace=ANN).contexts[-1].text == "The flat was found."
    for other in others:
        assert memory.get(other.id, namespace=ANN).contexts == other.contexts


def test_adding_makes_attributes(open_memory):
    note = open_memory(models.model()).add("I look for a flat", namespace=ANN)
    assert note.keywords
    assert note.tags
    assert note.contexts[0].text


def test_links_are_ids_of_notes_that_exist_and_are_not_doubled(open_memory):
    def twice(request):
        reply = models.link_to_first(request)
        for note in reply["notes"]:
            note["links"] *= 2
        return reply

    memory = open_memory(models.model(twice))
    first = memory.add("one", namespace=ANN, thread="t")
    second = memory.add("two", namespace=ANN, thread="t")
    assert list(second.links) == [first.id]
    assert memory.stats()["links"] == 1


def test_a_linked_note_comes_back_even_when_hits_alone_would_fill_the_answer(open_memory):
    def link_all(request):
        first = next((c for c in request.inputs["candidates"] if "zebra" in c["content"]), None)
        return {
            "notes": [
                {
                    "id": n["alias"],
                    "links": [{"to": first["alias"], "reason": "r"}] if first else [],
                }
                for n in request.inputs["notes"]
            ]
        }

    memory = open_memory(models.model(link_all, construct=bare))
    target = memory.add("zebra quartz", namespace=ANN, thread="t")
    for n in range(3):
        memory.add(f"pottery class {n}", namespace=ANN, thread="t")
    for n in range(60):
        memory.add(f"pottery shed {n}", namespace=ANN, evolve=False)
    hits = memory.search("pottery class", namespace=ANN, k=4)
    assert [hit.via != "match" for hit in hits if hit.note.id == target.id] == [True]


def bare(request):
    return {"notes": [{"id": n["alias"], "context": n["content"]} for n in request.inputs["notes"]]}


def test_a_note_is_found_by_a_rare_word_and_by_what_was_understood_of_it(open_memory):
    def construct(request):
        return {
            "notes": [
                {"id": n["alias"], "context": "About lodging.", "keywords": ["accommodation"]}
                for n in request.inputs["notes"]
            ]
        }

    memory = open_memory(models.model(construct=construct))
    note = memory.add("We sleep at Quinta Xk-42", namespace=ANN)
    assert memory.search("Xk-42", namespace=ANN, explain=True)[0].why.lexical_rank == 1
    assert memory.search("accommodation", namespace=ANN)[0].note.id == note.id


def test_scores_are_higher_for_what_is_nearer(open_memory):
    memory = open_memory(models.model(construct=bare))
    memory.add("pottery class on Friday", namespace=ANN)
    memory.add("the tax office called", namespace=ANN)
    near, far = memory.search("pottery class", namespace=ANN)
    assert near.note.content.startswith("pottery")
    assert near.score > far.score
    assert near.similarity > far.similarity


def test_a_note_beside_others_costs_two_calls(open_memory):
    memory = open_memory(models.model())
    memory.add("hello", namespace=ANN)
    before = memory.stats()["usage"]["total"]["calls"]
    memory.add("hello again", namespace=ANN)
    assert memory.stats()["usage"]["total"]["calls"] - before == 2


def test_an_update_makes_the_attributes_anew(open_memory):
    memory = open_memory(ScriptedModel({"construct": models.construct, "evolve": models.nothing}))
    note = memory.add("hello", namespace=ANN)
    updated = memory.update(note.id, namespace=ANN, content="good bye")
    assert updated.keywords == ()
    memory.evolve()
    assert memory.get(note.id, namespace=ANN).keywords == ("good", "bye")
