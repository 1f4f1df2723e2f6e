"""A memory on a server: what nodes that go away and processes that die leave half done is finished."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from support.models import model, update_first
from support.qdrant_server import FakeQdrant, Fault, serving

from amem_integrations import AgenticMemory, MemoryConfig, StoreUnavailableError
from amem_integrations.flows.writing import writer_of
from amem_integrations.journal.projection import differing
from amem_integrations.ports import NoteQuery, RecordQuery
from amem_integrations.runtime import Runtime, sync_method
from amem_integrations.stores.payloads import encode_note, encode_record
from amem_integrations.stores.store import PointStore
from amem_integrations.testing import HashEmbedder
from benchmarks.kills import CopyingModel

ANN = ("ann",)
SECRET = "zanzibar4711"
CONFIG = MemoryConfig(min_gate_similarity=-1.0, recent=1, candidates=1)
pytestmark = pytest.mark.enable_socket


@pytest.fixture
def fake():
    with serving(FakeQdrant()) as fake:
        yield fake


def opened(fake, **options):
    given = {"model": CopyingModel(), "config": CONFIG, "pauses": (), **options}
    return AgenticMemory.open(fake.url, embedder=HashEmbedder(), **given)


@sync_method
async def differing_views(runtime: Runtime) -> list[str]:
    """Return the notes that do not show what was decided about them."""
    alive = runtime.store.find_notes(ANN, NoteQuery(alive=True))
    return await differing(writer_of(runtime, ANN), alive)


def points(memory):
    """Return the payloads of all points."""
    store = memory._runtime.store
    notes = store.find_notes(ANN, NoteQuery()).values()
    records = store.find_records(ANN, RecordQuery()).values()
    return json.dumps([*map(encode_note, notes), *map(encode_record, records)])


def check(memory):
    assert memory._runtime.store.unfinished() == []
    assert differing_views(memory) == []


def test_half_a_commit_is_finished_by_the_next_write_once_the_shard_is_back():
    """Spread by the server, both ends of a link may be in different shards, and one of them fails."""
    with (
        serving(FakeQdrant()) as fake,
        opened(
            fake,
            model=model(update_first("It was moved to May.")),
            collection_options={"shard_number": 2},
        ) as memory,
    ):
        made = [memory.add(f"The trip, part {n}", namespace=ANN, evolve=False) for n in range(6)]
        for note in made:
            memory.construct([note.id], namespace=ANN)
            plan = memory.propose([note.id], namespace=ANN)
            fake.down_for_notes = 1
            with suppress(StoreUnavailableError):
                memory.commit(plan, namespace=ANN)
            fake.down_for_notes = None
        memory.add("The trip is over", namespace=ANN, evolve=False)
        memory.evolve(namespace=ANN)
        check(memory)
        notes = {note.id: note for note in memory.get_all(namespace=ANN)}
        sides = [(n.id, t) for n in notes.values() for t in n.links]
        assert sides
        assert all(one in notes[other].links for one, other in sides)
        assert {note.state for note in notes.values()} == {"done"}


OPERATIONS = {
    "add": lambda memory, _: memory.add("We met at the river", namespace=ANN, thread="t"),
    "delete": lambda memory, first: memory.delete(first, namespace=ANN, thorough=True),
    "correct": lambda memory, first: memory.update(
        first, namespace=ANN, content="Nothing", thorough=True
    ),
    "clear": lambda memory, _: memory.clear(namespace=ANN),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_a_process_left_that_died_before_any_write_is_finished_by_who_opens_next(
    fake, monkeypatch, operation
):
    left = [10**9]

    def counted(method):
        def write(*args):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return method(*args)

        return write

    for name in (
        "insert_notes",
        "swap_notes",
        "insert_records",
        "swap_records",
        "remove_decisions",
    ):
        monkeypatch.setattr(PointStore, name, counted(getattr(PointStore, name)))
    number, died = 0, True
    while died:
        number, died = number + 1, False
        dying = opened(fake, collection=f"c{number}")
        first = dying.add(SECRET, namespace=ANN, thread="t")
        dying.add("Thanks a lot, see you at the river", namespace=ANN, thread="t")
        left[0] = number
        try:
            OPERATIONS[operation](dying, first.id)
        except KeyboardInterrupt:
            died = True
        left[0] = 10**9
        with opened(fake, collection=f"c{number}") as memory:
            check(memory)
            contents = [note.content for note in memory.get_all(namespace=ANN)]
            assert len(contents) == len(set(contents))
            if operation != "add" and SECRET not in contents:
                assert SECRET not in points(memory), number
        dying._runtime.store.close()
    assert number > 2
    assert operation == "add" or SECRET not in contents


def test_what_failed_in_a_living_process_is_finished_by_its_next_write(fake):
    with opened(fake) as memory:
        first = memory.add(SECRET, namespace=ANN, thread="t")
        memory.add("Thanks a lot, see you at the river", namespace=ANN, thread="t")
        assert SECRET in points(memory)
        records = memory._runtime.store._records
        swap = records.swap

        def failing(swaps):
            records.swap = swap
            raise StoreUnavailableError("told to fail")

        records.swap = failing
        with pytest.raises(StoreUnavailableError):
            memory.delete(first.id, namespace=ANN, thorough=True)
        assert SECRET in points(memory)
        memory.add("Something else", namespace=ANN, evolve=False)
        check(memory)
        assert SECRET not in points(memory)


def test_a_memory_says_where_it_is_and_asks_once_how_much_it_holds(fake):
    memory = opened(fake, model=None)
    memory.add("The kiln is old", namespace=ANN)
    with fake.counting() as counted:
        said = repr(memory)
    assert said == f"<AgenticMemory at {fake.url!r}: 1 notes, embedder='hash', model='rules'>"
    assert counted.total() == 1
    fake.faults.extend([Fault(status=503)] * 2)
    with fake.counting() as counted:
        assert "unknown notes" in repr(memory)
    assert counted.total() == 1
    fake.faults.clear()
    memory.close()
    assert "unknown notes" in repr(memory)
