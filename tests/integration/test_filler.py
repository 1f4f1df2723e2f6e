"""Filler: what says nothing is stored and found, and costs no attributes, no candidates and no call for links."""

from __future__ import annotations

import pytest
from support import models

from amem_integrations import AgenticMemory, NoteInput
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


def construct(request):
    """Call every note filler that ends with an exclamation mark, and one a question that ends with "what?"."""
    notes = request.inputs["notes"]
    return {
        "notes": [models.attributes(n) for n in notes if not n["content"].endswith("!")],
        "filler": [n["alias"] for n in notes if n["content"].endswith("!")],
        "questions": [n["alias"] for n in notes if n["content"].endswith("what?")],
    }


@pytest.fixture
def memory():
    model = models.model(models.link_to_first, construct)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        opened.model = model
        yield opened


def add(memory, *contents):
    items = [NoteInput(content=content, thread="t") for content in contents]
    return memory.add_many(items, namespace=ANN)


def test_filler_is_done_without_attributes_or_links_and_found_by_its_words(memory):
    _, filler, _ = add(memory, "I paint boats", "Splendid indeed!", "Boats of wood")
    assert (filler.kind, filler.state, dict(filler.links)) == ("filler", "done", {})
    assert (filler.keywords, filler.tags, filler.contexts[0].text) == ((), (), "")
    found = memory.search("splendid", namespace=ANN, k=3)
    assert filler.id in [hit.note.id for hit in found]


def test_filler_alone_costs_no_call_for_links(memory):
    add(memory, "Splendid indeed!", "Marvellous!")
    assert [request.task for request in memory.model.requests] == ["construct"]
    assert memory.evolve(namespace=ANN).done == ()


def test_the_turn_after_filler_is_linked_to_the_one_before_it(memory):
    first, _, third = add(memory, "I paint boats", "Splendid indeed!", "Mostly at night")
    assert set(third.links) == {first.id}


def test_filler_is_no_candidate_of_a_later_note(memory):
    add(memory, "Splendid boats!")
    add(memory, "Splendid boats of wood")
    asked = memory.model.asked("evolve")
    assert all(not note["candidates"] for request in asked for note in request.inputs["notes"])


def test_a_long_note_is_no_filler_whatever_the_model_says(memory):
    content = f"{'I painted the boat of my sister, ' * 8}really!"
    first, long = add(memory, "I paint boats", content)
    assert (long.kind, long.state, long.keywords) == ("statement", "done", ())
    assert first.id in long.links
    assert len(memory.model.asked("construct")) == 1
    assert "really!" in memory.model.asked("evolve")[0].prompt


def test_a_note_that_a_model_describes_is_no_filler_whatever_its_words(memory):
    (note,) = add(memory, "Thanks, bye")
    assert note.kind == "statement"
    assert note.contexts[0].text == "About Thanks, bye"


def test_what_only_asks_is_a_question(memory):
    asked, told = add(memory, "You did what?", "I painted it")
    assert (asked.kind, told.kind) == ("question", "statement")
    assert memory.get_all(namespace=ANN, where={"kind": "question"}) == [asked]


def test_filler_made_by_rules_is_upgraded_to_what_a_model_makes_of_it(tmp_path):
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        note = memory.add("Thanks, bye", namespace=ANN)
        assert (note.kind, note.state, note.keywords) == ("filler", "done", ())
    model = models.model(models.nothing, construct)
    with AgenticMemory.open(tmp_path, model=model, embedder=HashEmbedder()) as memory:
        memory.evolve(upgrade=True)
        assert memory.get(note.id, namespace=ANN).kind == "statement"


@pytest.mark.parametrize("names", [["[n2]"], "n2", [" n2 "]])
def test_the_id_of_filler_is_read_however_it_is_written(names):
    def answer(request):
        return {**construct(request), "filler": names}

    model = models.model(models.nothing, answer)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        assert [n.kind for n in add(memory, "I paint", "Splendid!")] == ["statement", "filler"]


def test_filler_costs_its_id_in_the_reply(memory):
    add(memory, "I paint boats", "Splendid indeed!")
    entries = construct(memory.model.asked("construct")[0])
    assert [entry["id"] for entry in entries["notes"]] == ["n1"]
    assert entries["filler"] == ["n2"]


def test_where_finds_notes_by_kind(tmp_path):
    said = {"I moved to Oslo.": "statement", "Where do I live?": "question", "Bye!": "filler"}
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        memory.add_many(list(said), namespace=ANN)
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        for text, kind in said.items():
            found = memory.get_all(namespace=ANN, where={"kind": kind})
            assert [note.content for note in found] == [text]
        assert len(memory.get_all(namespace=ANN, where={"kind": {"$ne": "filler"}})) == 2
        (hit,) = memory.search("bye", namespace=ANN, where={"kind": "filler"})
        assert hit.note.kind == "filler"
