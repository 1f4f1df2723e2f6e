"""A turn is linked to the one before it by code; a model may say more."""

from __future__ import annotations

import pytest
from support import models

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput
from amem_integrations.plans import ANSWERS, FOLLOWS
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


@pytest.fixture
def opened(open_memory):
    def open_(evolve=models.nothing, **settings):
        memory = open_memory(models.model(evolve), **settings)
        memory.model = memory._runtime.model
        return memory

    return open_


def add(memory, *contents):
    items = [NoteInput(content=content, thread="t") for content in contents]
    return memory.add_many(items, namespace=ANN)


def relations(note):
    return {target: link.relation for target, link in note.links.items() if link.direction == "out"}


def test_a_turn_is_linked_to_the_one_before_it_though_the_model_says_nothing(opened):
    first, second, third = add(opened(), "I paint boats", "Where?", "In the shed")
    assert relations(first) == {}
    assert relations(second) == {first.id: FOLLOWS}
    assert relations(third) == {second.id: FOLLOWS}


def test_what_the_model_says_of_the_turn_before_counts(opened):
    first, second = add(opened(models.link_to_first), "I paint boats", "In the shed")
    assert relations(second) == {first.id: "continues"}


def test_turns_of_no_thread_and_of_other_threads_do_not_follow_each_other(opened):
    memory = opened()
    first = memory.add("I paint boats", namespace=ANN)
    second = memory.add("In the shed", namespace=ANN)
    third = memory.add("At night", namespace=ANN, thread="other")
    assert [dict(note.links) for note in (first, second, third)] == [{}, {}, {}]


@pytest.mark.parametrize("settings", [{"link": False}, {"recent": 0}])
def test_without_links_or_turns_before_nothing_is_linked_by_code(opened, settings):
    _, second = add(opened(**settings), "I paint boats", "In the shed")
    assert relations(second) == {}


def test_a_link_that_no_model_proposed_waits_for_no_review(opened):
    memory = opened(review=True)
    first, second = add(memory, "I paint boats", "In the shed")
    assert relations(second) == {first.id: FOLLOWS}
    assert memory.proposals(namespace=ANN) == []


def test_a_model_does_not_judge_it(opened):
    memory = opened()
    add(memory, "kayak trip", "the kayak trip")
    memory.add("our kayak trip", namespace=ANN, thread="t")
    assert memory.model.asked("evolve")[-1].inputs["links"] == []


def spoken(memory, *turns):
    """Say turns, each by its speaker."""
    items = [NoteInput(content=c, speaker=who, thread="t") for who, c in turns]
    return memory.add_many(items, namespace=ANN)


def test_a_turn_answers_what_another_speaker_asked_before_it(opened):
    told, asked, answer, more = spoken(
        opened(),
        ("Ann", "I paint boats"),
        ("Bob", "Where?"),
        ("Ann", "In the shed"),
        ("Ann", "It leaks"),
    )
    assert relations(asked) == {told.id: FOLLOWS}
    assert relations(answer) == {asked.id: ANSWERS}
    assert relations(more) == {answer.id: FOLLOWS}


def test_a_speaker_does_not_answer_what_the_same_speaker_asked(opened):
    asked, told = spoken(opened(), ("Ann", "You know what?"), ("Ann", "I paint boats"))
    assert relations(told) == {asked.id: FOLLOWS}


def test_a_sentence_about_the_new_note_itself_is_dropped_and_counted(opened):
    def about_itself(request):
        update = {"to": "n1", "c": "The one who fell is Ann"}
        return {"notes": [{"id": "n1", "updates": [update]}]}

    memory = opened(about_itself)
    memory.add("Ann fell off the boat", namespace=ANN)
    raw = memory.add("The one who fell is well", namespace=ANN, evolve=False)
    assert memory.evolve(namespace=ANN).dropped == 1
    assert len(memory.get(raw.id, namespace=ANN).contexts) == 1


def test_one_new_note_updates_one_earlier_note(opened):
    def both(request):
        (note,) = request.inputs["notes"]
        updates = [{"to": c["alias"], "c": "It sank"} for c in note["candidates"]]
        return {"notes": [{"id": "n1", "updates": updates}]}

    memory = opened(both)
    notes = [memory.add(f"The boat is {what}", namespace=ANN) for what in ("red", "old", "gone")]
    counts = [len(memory.get(note.id, namespace=ANN).contexts) for note in notes]
    assert sum(counts) == len(notes) + 2  # of the second note, and of the third


class Blind(HashEmbedder):
    """An embedder without a usable vector: notes are found by their words alone."""

    def embed_documents(self, texts):
        return [[0.0] * self.dimensions for _ in texts]


def test_a_note_of_the_same_batch_is_a_candidate_by_the_words_of_its_entry():
    entries = {"Oliver is asleep": "The dog of the family naps", "A dog barks": "A dog is heard"}
    offered = {}

    def construct(request):
        return {
            "notes": [
                {**models.attributes(note), "context": entries.get(note["content"], "Nothing else")}
                for note in request.inputs["notes"]
            ]
        }

    def evolve(request):
        shown = [*request.inputs["candidates"], *request.inputs["notes"]]
        said = {one["alias"]: one["content"] for one in shown}
        for note in request.inputs["notes"]:
            offered[note["content"]] = [said[one["alias"]] for one in note["candidates"]]
        return models.nothing(request)

    asked = "Does the family dog nap?"
    config = MemoryConfig(recent=0, candidates=1)
    with AgenticMemory.open(
        ":memory:", model=models.model(evolve, construct), embedder=Blind(), config=config
    ) as memory:
        add(memory, "Oliver is asleep", "A dog barks", "Boats need paint", asked)
    assert offered[asked] == ["Oliver is asleep"]
