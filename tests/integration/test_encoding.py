"""What is encoded: nothing twice, whatever an embedder answers, and what was down is made good later."""

from __future__ import annotations

import numpy as np
import pytest
from protocol.kills import CopyingModel
from support import models
from support.ports import WatchedEmbedder

from amem_integrations import AgenticMemory, ModelReplyError, NoteInput
from amem_integrations.runtime import VectorCache
from amem_integrations.testing import HashEmbedder, RecordedModel

pytestmark = pytest.mark.enable_socket
ANN = ("ann",)
NOTES = 40
WAVES = 3  # 40 notes in batches of 8, two batches at a time


def items():
    """A dialogue in which some things are said twice."""
    said = ["Yes, of course" if n % 10 == 9 else f"Part {n} of the journey" for n in range(NOTES)]
    who = ("Bo", "Ann") * NOTES
    return [
        NoteInput(content=c, key=f"{n}", thread="t", speaker=who[n]) for n, c in enumerate(said)
    ]


def recorded():
    """A model by which each note links and updates the one before it, often by the same words."""
    notes = []
    for number in range(NOTES):
        context = f"Where they were on day {number}." if number % 5 else ""
        note = {"id": str(number), "keywords": ["journey"], "tags": ["travel"], "context": context}
        if number:
            before, text = str(number - 1), f"Day {number % 4} followed."
            note["links"] = [{"to": before, "why": "goes on"}]
            note["updates"] = [{"to": before, "context": text, "tags": []}]
        notes.append({"links": [], "updates": [], **note})
    return RecordedModel(notes)


def most(embedder):
    """How often the text of a note was encoded at most; batches of a wave judge their sentences each by itself."""
    notes = ("of the journey", "Yes, of course")
    return max(n for text, n in embedder.texts.items() if any(word in text for word in notes))


def test_a_bulk_of_notes_encodes_no_note_twice_and_takes_few_calls(open_memory):
    scripted = models.model(models.update_first("It went on."))
    for model in (scripted, recorded(), None):
        embedder = WatchedEmbedder()
        memory = open_memory(model, embedder, batch_size=8, max_concurrency=2)
        notes = memory.add_many(items(), namespace=ANN)
        assert {note.state for note in notes} == {"done"}
        assert any(note.links for note in notes)
        if isinstance(model, RecordedModel):  # of a wave: the construction, the gate, the commit
            assert len(embedder.calls) <= 1 + WAVES * 3
        memory.evolve()
        memory.add_many(items(), namespace=ANN)
        assert most(embedder) == 1


def test_a_question_that_is_asked_again_is_not_encoded_again(open_memory):
    embedder = WatchedEmbedder()
    memory = open_memory(recorded(), embedder)
    memory.add_many(items()[:3], namespace=ANN)
    memory.recall("What was there?", namespace=ANN)  # finds the floor of the embedder, once
    before = len(embedder.calls)
    hits = memory.search("Which journey?", namespace=ANN)
    memory.context("Which journey?", namespace=ANN)
    assert memory.search("Which journey?", namespace=ANN) == hits
    assert len(embedder.calls) == before + 1


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first():
    recent = VectorCache(size=2)
    rows = {text: WatchedEmbedder().embed_query(text) for text in "abc"}
    for text in "abac":
        if recent.get("document", text) is None:
            recent.put("document", text, rows[text])
    assert recent.get("document", "b") is recent.get("query", "a") is None
    assert (recent.get("document", "a") == rows["a"]).all()


@pytest.mark.parametrize("how", ["evolve", "open", "both"])
def test_what_could_not_be_embedded_is_embedded_by_the_next_evolve_or_by_opening(
    fake, tmp_path, how
):
    embedder = WatchedEmbedder()
    place = {"evolve": ":memory:", "open": fake.url, "both": tmp_path / "m"}[how]
    memory = models.opened(place, embedder=embedder, max_attempts=1)
    embedder.down = True
    long = " ".join(f"Stage {n} was on foot." for n in range(200))
    notes = memory.add_many(["Which journey?", long], namespace=ANN, evolve=False)
    memory.add("A journey of hers.", namespace=("bo",), evolve=False)
    (hit,) = memory.search("journey", namespace=ANN)  # by its words
    assert (hit.note.id, hit.similarity) == (notes[0].id, None)
    if how == "evolve":
        assert memory.evolve(namespace=ANN).interrupted
    else:
        memory.close()
        if how == "both":
            memory = models.opened(place, embedder=embedder, max_attempts=1)
    embedder.down = False
    embedder.calls.clear()
    if how == "open":
        memory = models.opened(place, embedder=embedder, max_attempts=1)
        passages = [len(note.passages) or 1 for note in memory.get_all(namespace=ANN)]
        assert [len(call) for call in embedder.calls] == [sum(passages), 1]
    else:
        memory.evolve(namespace=("bo",))
        memory.evolve(namespace=ANN, limit=1)
    with memory:
        for space in (ANN, ("bo",)):
            hits = memory.search("journey on foot", namespace=space)
            assert all(hit.similarity is not None for hit in hits)


# What the user can do while the embedder is down


def found_by_words(memory, query):
    hits = memory.search(query, namespace=ANN, links=False, explain=True)
    return {hit.note.id for hit in hits if hit.why.lexical_rank is not None}


def vector(memory, note_id):
    """The vectors of a note's passages; None: the note has none."""
    return memory._runtime.store.notes(ANN, [note_id], vectors=True)[note_id].vectors


@pytest.fixture
def told(open_memory):
    """A secret in the second note, by which the first one evolved, and which the third one quotes."""
    embedder = WatchedEmbedder()
    memory = open_memory(CopyingModel(), embedder)
    turns = ("My bank account", "The PIN is sesame", "I see")
    notes = [memory.add(turn, namespace=ANN, thread="t") for turn in turns]
    assert len(found_by_words(memory, "sesame")) == 3
    memory._runtime.vectors._vectors.clear()  # as after a restart
    return memory, embedder, [note.id for note in notes]


def test_what_has_to_go_goes_while_the_embedder_is_down(told, caplog):
    memory, embedder, (bank, pin, reply) = told
    stale = vector(memory, reply)
    embedder.down = True
    memory.delete(pin, namespace=ANN)
    assert [note.id for note in memory.get_all(namespace=ANN)] == [bank, reply]
    assert "sesame" not in repr(memory.get_all(namespace=ANN))
    assert "sesame" not in repr(memory.history(None, namespace=ANN))
    assert found_by_words(memory, "sesame") == set()
    said = "notes have no new vectors until the next evolve"
    logged = [one for one in caplog.messages if said in one]
    assert "no route to the embedder" in logged[0]
    # One note is to be constructed again, and gets its vector then.
    assert [note.state for note in memory.get_all(namespace=ANN)] == ["done", "pending"]
    assert np.allclose(vector(memory, reply), stale)
    embedder.down = False
    memory.evolve()
    assert not np.allclose(vector(memory, reply), stale)


def test_a_correction_goes_through_with_all_that_follows_from_it(told):
    memory, embedder, (_, pin, reply) = told
    embedder.down = True
    note = memory.update(pin, namespace=ANN, content="I changed the number")
    assert (note.content, note.state) == ("I changed the number", "pending")
    assert "sesame" not in repr(memory.get_all(namespace=ANN))
    assert found_by_words(memory, "sesame") == set()
    assert found_by_words(memory, "number") == {pin}
    assert vector(memory, pin) is None  # that of the old words is gone with them
    assert memory.evolve().interrupted
    embedder.down = False
    memory.evolve()
    assert [memory.get(one, namespace=ANN).state for one in (pin, reply)] == ["done", "done"]
    assert vector(memory, pin).shape == (1, 256)


def test_a_failing_embedder_never_loses_what_was_said_whatever_the_model_says_of_it(open_memory):
    for construct in (models.each({"context": ""}), models.construct):
        embedder = WatchedEmbedder()
        memory = open_memory(models.model(construct=construct), embedder)
        embedder.down = True
        note = memory.add("My flight is on Friday", namespace=ANN)
        assert vector(memory, note.id) is None
        assert memory.search("flight", namespace=ANN)[0].similarity is None
        embedder.down = False
        memory.evolve()
        assert memory.get(note.id, namespace=ANN).state == "done"
        assert vector(memory, note.id).shape == (1, 256)


# Whatever an embedder answers


class Gradient:
    """What numpy makes no array of, such as a tensor that wants a gradient."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("call detach() first")


class BadRequestError(Exception):
    """An error of somebody's client."""

    status_code = 400


ERRORS = {
    "refused": ModelReplyError("the endpoint refused the request"),
    "status": BadRequestError("too long"),
    "raises": ValueError("no such token"),
}


class Wrong(HashEmbedder):
    """An embedder whose answers to texts with the word "bad" cannot be used."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def embed_documents(self, texts):
        rows = super().embed_documents(texts)
        bad = [number for number, text in enumerate(texts) if "bad" in text]
        if not bad or not self.kind:
            return rows
        if self.kind in ERRORS:
            raise ERRORS[self.kind]
        if self.kind in ("nan", "zero", "inf"):
            rows[bad] = {"nan": np.nan, "zero": 0.0, "inf": np.inf}[self.kind]
        odd = {"short": rows[:-1], "wide": np.hstack([rows, rows]), "gradient": Gradient()}
        return odd.get(self.kind, rows)


def test_an_embedders_bad_answer_costs_the_vector_and_not_the_words(open_memory):
    for kind in ("nan", "zero", "inf", "short", "wide", "gradient", *ERRORS):
        embedder = Wrong(kind)
        memory = open_memory(models.model(), embedder)
        bad, good = memory.add_many(["bad news from Lisbon", "good news from Porto"], namespace=ANN)
        assert bad.id in [hit.note.id for hit in memory.search("Lisbon", namespace=ANN)], kind
        hits = {hit.note.id: hit for hit in memory.search("bad news from Lisbon", namespace=ANN)}
        assert hits[bad.id].similarity is None
        near = memory.search("bad news from Lisbon", namespace=ANN, min_similarity=-1)
        assert bad.id not in [hit.note.id for hit in near]
        if kind in ("nan", "zero", "inf", *ERRORS):
            assert memory.get(good.id, namespace=ANN).state == "done", kind
        long = memory.add("\n\n".join([" good" * 120, " bad" * 120]), namespace=ANN, evolve=False)
        assert len(long.passages) != 1
        assert memory.search("good", namespace=ANN, where={"id": long.id})[0].similarity is None
        embedder.kind = ""
        memory.evolve(namespace=ANN)
        (hit,) = memory.search("bad news from Lisbon", namespace=ANN, k=1, min_similarity=0.1)
        assert (hit.note.id, hit.note.state) == (bad.id, "done"), kind


def test_a_sentence_is_not_held_back_because_it_or_its_note_has_no_vector(open_memory):
    for said, sentence in (("bad news", "It was good"), ("good news", "It was bad")):
        model = models.model(models.update_first(sentence))
        memory = open_memory(model, Wrong("nan"), min_gate_similarity=0.9)
        first = memory.add(said, namespace=ANN, thread="t")
        memory.add("What then?", namespace=ANN, thread="t")
        assert memory.get(first.id, namespace=ANN).contexts[-1].text == sentence


def test_without_a_vector_of_a_question_or_of_a_note_words_are_searched_for(open_memory):
    class Deaf(HashEmbedder):
        def embed_query(self, text):
            return super().embed_query(text) * (np.nan if "bad" in text else 1)

    memory = open_memory(models.model(), Deaf())
    spaces = (("good",), ("bad",))
    notes = {memory.add(f"{s[0]} news", namespace=s, evolve=False).id for s in spaces}
    asked = {"good news": [], "And the good news?": ["bad"], "And the bad news?": ["good"]}
    for question, before in asked.items():
        hits = memory.search(question, namespace=("good",), also={"bad": ("bad",)}, messages=before)
        assert {hit.note.id for hit in hits} == notes, question
    assert memory.stats()["usage"]["search"] == {"without_vectors": 1}


def test_texts_that_an_embedder_refuses_cost_no_others_their_vectors_and_an_outage_few_calls():
    embedder, cached = Wrong("raises"), []
    make = embedder.embed_documents
    embedder.embed_documents = lambda texts: cached.extend(texts) or make(texts)
    with models.opened(embedder=embedder) as memory:
        items = [f"{'bad' if n in (0, 40) else 'good'} news {n}" for n in range(64)]
        memory.add_many(items, namespace=ANN, evolve=False)
        hits = memory.search("news", namespace=ANN, k=64)
        assert [h.note.content for h in hits if h.similarity is None] == [items[0], items[40]]
        calls = []

        def down(texts):
            calls.append(texts)
            return make(texts) if {*texts} <= {*cached} else 1 / 0

        embedder.embed_documents = down
        memory.add_many([f"more {n}" for n in range(64)], namespace=ANN, evolve=False)
        assert len(calls) == 2


def test_notes_behind_many_that_an_embedder_refuses_get_their_vectors_by_the_next_evolve(
    open_memory,
):
    embedder = Wrong("raises")
    memory = open_memory(models.model(), embedder)
    make = embedder.embed_documents
    embedder.embed_documents = lambda _: 1 / 0
    items = [*(f"bad news {n}" for n in range(130)), "good news"]
    memory.add_many(items, namespace=ANN, evolve=False)
    embedder.embed_documents = make
    memory.evolve(namespace=ANN, limit=1)
    hits = memory.search("news", namespace=ANN, k=200)
    assert [hit.note.content for hit in hits if hit.similarity is not None] == ["good news"]


def test_vectors_that_are_not_of_unit_length_are_normalised(open_memory):
    class Long(HashEmbedder):
        def embed_documents(self, texts):
            return super().embed_documents(texts) * 7

    memory = open_memory(embedder=Long())
    memory.add("news from Lisbon", namespace=ANN, evolve=False)
    (hit,) = memory.search("news from Lisbon", namespace=ANN)
    assert hit.similarity == pytest.approx(1, abs=1e-5)


def test_the_vector_of_a_note_is_of_its_words_and_of_what_was_understood(open_memory):
    memory = open_memory(models.model())  # the tag of every note is "topic"

    def similarity():
        (hit,) = memory.search("topic", namespace=ANN)
        return hit.similarity

    note = memory.add("news from Lisbon", namespace=ANN, evolve=False)
    bare = similarity()
    memory.evolve()
    assert similarity() > bare + 0.1
    entry = next(c for c in memory.history(note.id, namespace=ANN) if c.kind == "construct")
    memory.undo(entry.id, namespace=ANN)
    assert similarity() == pytest.approx(bare)


def test_a_question_in_the_words_of_a_note_is_encoded_as_a_question():
    class Prefixed(HashEmbedder):
        def embed_documents(self, texts):
            return super().embed_documents([f"passage {text}" for text in texts])

        def embed_query(self, text):
            return super().embed_query(f"query {text}")

    embedder, text = Prefixed(), "A cello lesson"
    expected = embedder.embed_query(text) @ embedder.embed_documents([text])[0]
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        for space in (("ann",), ("bob",)):  # the note first, then the question
            memory.add(text, namespace=space, evolve=False)
            (hit,) = memory.search(text, namespace=space)
            assert hit.similarity == pytest.approx(expected, abs=0.001)
