"""How many requests an operation makes, when nobody else writes at the same time; each is a wait for a network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support import models

from amem_integrations import AgenticMemory, NoteInput
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
pytestmark = pytest.mark.enable_socket


def say(memory, *texts):
    return [memory.add(text, namespace=ANN, thread="t", speaker="Ann") for text in texts]


@pytest.fixture
def memory(fake):
    """Return a memory by rules in which Ann has said a few things that belong together."""
    with AgenticMemory.open(fake.url, embedder=HashEmbedder()) as memory:
        say(memory, *(f"The pottery kiln {part}" for part in ("is old", "was repaired", "stands")))
        yield memory


PARTS = [f"Thing {n} is here" for n in range(256)]
# What is done with a memory and a note that nothing was made of, and the most requests that it makes.
OPERATIONS = {
    "raw add": (2, lambda m, _: m.add("I like jazz", namespace=ANN, evolve=False)),
    "with a key": (3, lambda m, _: m.add("I like it", namespace=ANN, key="k", evolve=False)),
    "add by rules": (12, lambda m, _: m.add("The pottery kiln broke", namespace=ANN, thread="t")),
    "metadata": (3, lambda m, raw: m.update(raw, namespace=ANN, metadata={"sure": True})),
    "correction": (9, lambda m, raw: m.update(raw, namespace=ANN, content="I like rock")),
    "delete": (7, lambda m, raw: m.delete(raw, namespace=ANN)),
    "many": (4, lambda m, _: m.add_many(PARTS, namespace=ANN, evolve=False)),
}


def test_a_write_makes_few_requests(fake, memory):
    for name, (most, operate) in OPERATIONS.items():
        raw = memory.add(f"I like jazz and {name}", namespace=ANN, evolve=False).id
        with fake.counting() as counted:
            operate(memory, raw)
        assert 0 < counted.total() <= most, name
    (made,) = [n for n in memory.get_all(namespace=ANN, limit=999) if "broke" in n.content]
    assert made.state == "done"
    assert made.links


def test_a_search_is_one_request_and_links_that_lead_further_cost_at_most_two_more(fake, memory):
    before = fake.connections
    for _ in range(3):
        with fake.counting() as counted:
            assert len(memory.search("pottery kiln", namespace=ANN)) == 3
        assert counted == {"POST points/query/batch": 1}
    assert fake.connections == before
    assert {headers["accept-encoding"] for _, _, headers in fake.requests} == {"identity"}
    with fake.counting() as counted:
        first = memory.get_all(namespace=ANN)[0]
    assert counted.total() == 1
    doors = [f"The barn {n} has a door" for n in range(40)]
    memory.add_many(doors, namespace=ANN, evolve=False)
    later = memory.add("We sold it", namespace=ANN, evolve=False)
    memory.supersede(first.id, later.id, namespace=ANN)
    with fake.counting() as counted:
        hits = memory.search("pottery kiln is old", namespace=ANN, k=3)
    assert later.id in {hit.note.id for hit in hits}
    assert counted.total() <= 3


def test_all_namespaces_of_a_search_are_one_request(fake, memory):
    others = {"team": ("team",), "house": ("house",)}
    for name, space in others.items():
        texts = [f"The pottery kiln of the {name}", "The pottery is closed"]
        memory.add_many(texts, namespace=space, evolve=False)
    alone = [memory.search("pottery kiln", namespace=space) for space in (ANN, *others.values())]
    with fake.counting() as counted:
        hits = memory.search("pottery kiln", namespace=ANN, also=others)
    assert counted == {"POST points/query/batch": 1}
    assert {hit.note.id for hit in hits} == {hit.note.id for found in alone for hit in found}
    with fake.counting() as counted:
        assert "from house" in memory.context("pottery kiln", namespace=ANN, also=others)
    assert counted["POST points/query/batch"] == 1


def test_by_a_model_an_add_or_a_batch_of_twenty_is_twelve_requests_and_an_undo_eight(fake):
    model = models.model(models.update_first("It is in May."))
    with models.opened(fake.url, model) as memory:
        said = [NoteInput(content=f"The barn {n} has a door", thread="t") for n in range(12)]
        memory.add_many(said, namespace=ANN)
        with fake.counting() as counted:
            note = memory.add("The barn has a roof", namespace=ANN, thread="t")
        assert note.links
        assert counted.total() <= 12
        made = memory.history(note.id, namespace=ANN)[1].id
        with fake.counting() as counted:
            memory.undo(made, namespace=ANN)
        assert counted.total() <= 8
        said = [NoteInput(content=f"Boat {n} has a sail", thread="t") for n in range(20)]
        with fake.counting() as counted:
            notes = memory.add_many(said, namespace=ANN)
        assert {note.state for note in notes} == {"done"}
        assert counted.total() <= 12


def test_a_delete_of_what_others_were_made_of_is_twelve_requests_and_a_correction_fourteen(
    fake, memory
):
    for most in (14, 12):
        note, later = say(memory, "The pottery kiln broke today", "It was repaired")
        assert note.id in later.links
        with fake.counting() as counted:
            if most == 12:
                assert later.id in memory.delete(note.id, namespace=ANN).reasons
            else:
                memory.update(note.id, namespace=ANN, content="The pottery kiln stands still")
        assert counted.total() <= most
        memory.delete(later.id, namespace=ANN)


def test_what_has_expired_hides_nothing_and_costs_no_requests_until_it_is_swept(fake, memory):
    past = datetime.now(UTC) - timedelta(seconds=1)
    gone = [NoteInput(content=f"The pottery kiln {n}", expires_at=past) for n in range(300)]
    memory.add_many(gone, namespace=ANN, evolve=False)
    for read, most in ((memory.search, 4), (memory.recall, 4)):
        with fake.counting() as counted:
            assert len(read("pottery kiln", namespace=ANN)) == 3
        assert counted.total() <= most
    with fake.counting() as counted:
        assert len(memory.get_all(namespace=ANN, limit=10)) == 3
    assert counted.total() <= 2


def test_a_sweep_asks_only_about_namespaces_in_which_there_is_something_to_sweep(fake, memory):
    past = datetime.now(UTC) - timedelta(seconds=1)
    for n in range(20):
        memory.add("I like jazz", namespace=(f"user {n}",), evolve=False)
    with fake.counting() as counted:
        assert memory.sweep() == 0
    assert counted.total() == 2
    memory.add("The code is 4711", namespace=ANN, expires_at=past, evolve=False)
    with fake.counting() as counted:
        assert memory.sweep() == 1
    assert counted.total() <= 12
