"""How many requests an operation makes, when nobody else writes at the same time; each is a wait for a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import models
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
pytestmark = pytest.mark.enable_socket


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant()) as fake:
        yield fake


@pytest.fixture
def memory(fake: FakeQdrant) -> Iterator[AgenticMemory]:
    """Return a memory by rules in which Ann has said a few things that belong together."""
    with AgenticMemory.open(fake.url, embedder=HashEmbedder()) as memory:
        for part in ("is old", "was repaired", "stands in the barn"):
            memory.add(f"The pottery kiln {part}", namespace=ANN, thread="t", speaker="Ann")
        yield memory


@pytest.fixture
def raw(memory: AgenticMemory) -> str:
    """Return the id of a note that nothing belongs to."""
    return memory.add("I like jazz", namespace=ANN, evolve=False).id


def test_a_search_is_one_request(fake: FakeQdrant, memory: AgenticMemory) -> None:
    with fake.counting() as counted:
        hits = memory.search("pottery kiln", namespace=ANN)
    assert len(hits) == 3
    assert counted == {"POST points/query/batch": 1}


def test_links_that_lead_further_cost_a_search_at_most_two_more(
    fake: FakeQdrant, memory: AgenticMemory
) -> None:
    first = memory.get_all(namespace=ANN)[0]
    for n in range(40):
        memory.add(f"The barn {n} has a door", namespace=ANN, evolve=False)
    later = memory.add("We sold it", namespace=ANN, evolve=False)
    memory.supersede(first.id, later.id, namespace=ANN)
    with fake.counting() as counted:
        hits = memory.search("pottery kiln is old", namespace=ANN, k=3)
    assert later.id in {hit.note.id for hit in hits}
    assert counted.total() <= 3


def test_all_namespaces_of_a_search_are_one_request(
    fake: FakeQdrant, memory: AgenticMemory
) -> None:
    others = {"team": ("team",), "house": ("house",)}
    for name, space in others.items():
        memory.add(f"The pottery kiln of the {name}", namespace=space, evolve=False)
        memory.add("The pottery is closed", namespace=space, evolve=False)
    alone = [memory.search("pottery kiln", namespace=space) for space in (ANN, *others.values())]
    with fake.counting() as counted:
        hits = memory.search("pottery kiln", namespace=ANN, also=others)
    assert counted == {"POST points/query/batch": 1}
    assert {hit.note.id for hit in hits} == {hit.note.id for found in alone for hit in found}
    with fake.counting() as counted:
        assert "from house" in memory.context("pottery kiln", namespace=ANN, also=others)
    assert counted["POST points/query/batch"] == 1


@pytest.mark.parametrize(("key", "most"), [(None, 2), ("k", 3)])
def test_a_raw_add_is_two_requests_or_three_with_a_key(
    fake: FakeQdrant, memory: AgenticMemory, key: str | None, most: int
) -> None:
    with fake.counting() as counted:
        memory.add("I like jazz", namespace=ANN, key=key, evolve=False)
    assert counted.total() <= most


def test_an_add_that_evolves_by_rules_is_twelve_requests(
    fake: FakeQdrant, memory: AgenticMemory
) -> None:
    with fake.counting() as counted:
        note = memory.add("The pottery kiln broke today", namespace=ANN, thread="t", speaker="Ann")
    assert note.state == "done"
    assert note.links
    assert counted.total() <= 12


@pytest.mark.parametrize("thread", [None, "t"])
def test_by_a_model_an_add_that_evolves_is_twelve_requests_and_a_batch_of_twenty_thirteen(
    fake: FakeQdrant, thread: str | None
) -> None:
    model = models.model(models.update_first("It is in May."))
    config = MemoryConfig(min_gate_similarity=-1.0)
    with AgenticMemory.open(
        fake.url, model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        said = [NoteInput(content=f"The barn {n} has a door", thread=thread) for n in range(30)]
        memory.add_many(said, namespace=ANN)
        with fake.counting() as counted:
            note = memory.add("The barn has a roof", namespace=ANN, thread=thread)
        assert note.links
        assert counted.total() <= 12
        said = [NoteInput(content=f"Boat {n} has a sail", thread=thread) for n in range(20)]
        with fake.counting() as counted:
            notes = memory.add_many(said, namespace=ANN)
        assert {note.state for note in notes} == {"done"}
        assert counted.total() <= 13


@pytest.mark.parametrize(
    ("changed", "most"), [({"content": "I like rock"}, 9), ({"metadata": {"sure": True}}, 3)]
)
def test_an_update_is_three_requests_and_a_correction_nine(
    fake: FakeQdrant, memory: AgenticMemory, raw: str, changed: dict[str, Any], most: int
) -> None:
    with fake.counting() as counted:
        memory.update(raw, namespace=ANN, **changed)
    assert counted.total() <= most


def test_a_delete_is_seven_requests(fake: FakeQdrant, memory: AgenticMemory, raw: str) -> None:
    with fake.counting() as counted:
        memory.delete(raw, namespace=ANN)
    assert counted.total() <= 7


@pytest.mark.parametrize(("gone", "most"), [("delete", 12), ("correction", 14)])
def test_a_delete_of_what_others_were_made_of_is_twelve_requests_and_a_correction_fourteen(
    fake: FakeQdrant, memory: AgenticMemory, gone: str, most: int
) -> None:
    note = memory.add("The pottery kiln broke today", namespace=ANN, thread="t", speaker="Ann")
    later = memory.add("It was repaired", namespace=ANN, thread="t", speaker="Ann")
    assert note.id in later.links
    with fake.counting() as counted:
        if gone == "delete":
            assert later.id in memory.delete(note.id, namespace=ANN).reasons
        else:
            memory.update(note.id, namespace=ANN, content="The pottery kiln stands still")
    assert counted.total() <= most


def test_many_raw_notes_are_four_requests(fake: FakeQdrant, memory: AgenticMemory) -> None:
    with fake.counting() as counted:
        memory.add_many([f"Thing {n} is here" for n in range(256)], namespace=ANN, evolve=False)
    assert counted.total() <= 4


def test_connections_are_kept_and_answers_are_not_compressed(
    fake: FakeQdrant, memory: AgenticMemory
) -> None:
    before = fake.connections
    for _ in range(5):
        memory.search("kiln", namespace=ANN)
    assert fake.connections == before
    assert {headers["accept-encoding"] for _, _, headers in fake.requests} == {"identity"}
