"""Nothing is encoded twice, and what is needed at one time is encoded by one call."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from support import models
from support.ports import WatchedEmbedder
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput
from amem_integrations.runtime import VectorCache
from amem_integrations.testing import RecordedModel

pytestmark = pytest.mark.enable_socket
ANN = ("ann",)
NOTES = 40
BATCH, WIDTH = 8, 2
WAVES = 3  # 40 notes in batches of 8, two batches at a time


def items():
    """A dialogue in which some things are said twice."""
    return [
        NoteInput(
            content="Yes, of course" if number % 10 == 9 else f"Part {number} of the journey",
            key=str(number),
            thread="t",
            speaker="Ann" if number % 2 else "Bo",
        )
        for number in range(NOTES)
    ]


def annotations():
    """Each note links and updates the one before it, often by the same words."""
    return [
        {
            "id": str(number),
            "keywords": ["journey"],
            "tags": ["travel"],
            "context": f"Where they were on day {number}." if number % 5 else "",
            "links": [{"to": str(number - 1), "why": "goes on"}] if number else [],
            "updates": [
                {"to": str(number - 1), "context": f"Day {number % 4} followed.", "tags": []}
            ]
            if number
            else [],
        }
        for number in range(NOTES)
    ]


def most(embedder):
    """How often the text of a note was encoded at most; batches of a wave judge their sentences each by itself."""
    notes = ("of the journey", "Yes, of course")
    return max(n for text, n in embedder.texts.items() if any(word in text for word in notes))


def scripted():
    return models.model(models.update_first("It went on."))


def recorded():
    return RecordedModel(annotations())


@pytest.fixture
def open_memory(request):
    def open_(model, **settings):
        embedder = WatchedEmbedder()
        config = MemoryConfig(
            **{
                "min_gate_similarity": -1.0,
                "batch_size": BATCH,
                "max_concurrency": WIDTH,
                **settings,
            }
        )
        memory = AgenticMemory.open(":memory:", model=model, embedder=embedder, config=config)
        request.addfinalizer(memory.close)
        return memory, embedder

    return open_


@pytest.mark.parametrize(
    "make", [scripted, recorded, lambda: None], ids=["scripted", "recorded", "rules"]
)
def test_a_bulk_of_notes_encodes_no_note_twice(open_memory, make):
    memory, embedder = open_memory(make())
    notes = memory.add_many(items(), namespace=ANN)
    assert {note.state for note in notes} == {"done"}
    assert any(note.links for note in notes)
    assert most(embedder) == 1
    memory.evolve()
    memory.add_many(items(), namespace=ANN)
    assert most(embedder) == 1


def test_the_raw_notes_take_one_call_and_each_wave_three(open_memory):
    memory, embedder = open_memory(recorded())
    memory.add_many(items(), namespace=ANN)
    construct, gate, commit = 1, 1, 1
    assert len(embedder.calls) <= 1 + WAVES * (construct + gate + commit)


def test_a_question_that_is_asked_again_is_not_encoded_again(open_memory):
    memory, embedder = open_memory(recorded())
    memory.add_many(items()[:3], namespace=ANN)
    memory.recall("What was there?", namespace=ANN)  # finds the floor of the embedder, once
    before = len(embedder.calls)
    hits = memory.search("Which journey?", namespace=ANN)
    memory.context("Which journey?", namespace=ANN)
    assert memory.search("Which journey?", namespace=ANN) == hits
    assert len(embedder.calls) == before + 1


@pytest.fixture
def place(request, tmp_path):
    """A place to open memories at."""
    fake = FakeQdrant() if request.param == "server" else None
    with serving(fake) if fake else nullcontext():
        yield fake.url if fake else tmp_path / "m" if request.param == "folder" else request.param


@pytest.mark.parametrize(
    ("place", "how"),
    [
        (":memory:", "evolve"), ("server", "open"), ("folder", "both"),
    ],
    indirect=["place"],
)  # fmt: skip
def test_what_could_not_be_embedded_is_embedded_by_the_next_evolve_or_by_opening(place, how):
    embedder = WatchedEmbedder()
    config = MemoryConfig(max_attempts=1)
    memory = AgenticMemory.open(place, embedder=embedder, config=config)
    embedder.down = True
    long = " ".join(f"Stage {n} was on foot." for n in range(200))
    memory.add_many(["Which journey?", long], namespace=ANN, evolve=False)
    memory.add_many([NoteInput(content="A journey of hers.")], namespace=("bo",), evolve=False)
    assert [hit.similarity for hit in memory.search("journey", namespace=ANN)] == [None]
    if how == "evolve":
        assert memory.evolve(namespace=ANN).interrupted
    else:
        memory.close()
        if how == "both":
            memory = AgenticMemory.open(place, embedder=embedder, config=config)
    embedder.down = False
    embedder.calls.clear()
    if how == "open":
        memory = AgenticMemory.open(place, embedder=embedder, config=config)
        passages = [len(note.passages) or 1 for note in memory.get_all(namespace=ANN)]
        assert [len(call) for call in embedder.calls] == [sum(passages), 1]
    else:
        memory.evolve(namespace=("bo",))
        memory.evolve(namespace=ANN, limit=1)
    with memory:
        for space in (ANN, ("bo",)):
            hits = memory.search("journey on foot", namespace=space)
            assert all(hit.similarity is not None for hit in hits)


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first():
    recent = VectorCache(size=2)
    rows = {text: WatchedEmbedder().embed_query(text) for text in "abc"}
    recent.put("document", "a", rows["a"])
    recent.put("document", "b", rows["b"])
    assert recent.get("document", "a") is not None
    recent.put("document", "c", rows["c"])
    assert recent.get("document", "b") is None
    assert (recent.get("document", "a") == rows["a"]).all()
    assert recent.get("query", "a") is None
    recent.clear()
    assert recent.get("document", "c") is None
