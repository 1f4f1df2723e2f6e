"""A write that the store could not make leaves no change in the history that never was, and is finished by the next one."""

from __future__ import annotations

import pytest
from support import models
from support.ports import fail_once
from support.qdrant_server import FakeQdrant, Fault, serving

from amem_integrations import AgenticMemory, MemoryConfig, StoreError
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


@pytest.fixture
def told():
    with open_memory(":memory:") as memory:
        first = memory.add("The trip is in April", namespace=ANN, thread="t")
        second = memory.add("The trip is in May now", namespace=ANN, thread="t")
        yield memory, first.id, second.id


def open_memory(location, **options):
    return AgenticMemory.open(
        location,
        model=models.model(models.update_first("It was moved to May.")),
        embedder=HashEmbedder(),
        config=MemoryConfig(min_gate_similarity=-1.0),
        **options,
    )


def kinds(memory, note_id=None):
    return [change.kind for change in memory.history(note_id, namespace=ANN)]


def test_a_correction_that_was_not_written_is_not_in_the_history(told):
    memory, first, _ = told
    before, changes = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
    fail_once(memory._runtime.store._notes, "swap")
    with pytest.raises(StoreError, match="told to fail"):
        memory.update(first, namespace=ANN, content="There is no trip")
    assert memory.get_all(namespace=ANN) == before
    assert memory.history(None, namespace=ANN) == changes
    memory.update(first, namespace=ANN, content="There is no trip")
    assert kinds(memory, first).count("update") == 1


@pytest.mark.parametrize("collection", ["_records", "_notes"])
def test_an_evolution_of_which_a_part_was_written_is_finished_by_the_next_write(told, collection):
    memory, _, second = told
    note = memory.add("In May we pack", namespace=ANN, thread="t", evolve=False)
    memory.construct([note.id], namespace=ANN)
    plan = memory.propose([note.id], namespace=ANN)
    fail_once(getattr(memory._runtime.store, collection), "swap")
    with pytest.raises(StoreError):
        memory.commit(plan, namespace=ANN)
    memory.add("Something else", namespace=ANN, evolve=False)
    assert memory.get(note.id, namespace=ANN).state == "done"
    assert len(memory.get(second, namespace=ANN).contexts) == 2
    assert kinds(memory, second).count("evolve") == 1


@pytest.mark.parametrize("collection", ["_records", "_notes"])
def test_a_deletion_that_was_begun_is_finished(told, collection):
    memory, first, second = told
    fail_once(getattr(memory._runtime.store, collection), "swap")
    with pytest.raises(StoreError):
        memory.delete(second, namespace=ANN)
    is_begun = collection == "_records"
    assert len(memory.get_all(namespace=ANN)) == (1 if is_begun else 2)
    memory.delete(second, namespace=ANN)  # once more, until it is acknowledged
    assert kinds(memory, second) == ["delete"]
    assert [note.id for note in memory.get_all(namespace=ANN)] == [first]
    assert "in May now" not in repr(memory.history(None, namespace=ANN))


@pytest.mark.enable_socket
@pytest.mark.parametrize("works", [True, False], ids=["answer lost", "not written"])
def test_a_server_that_fails_in_between_is_asked_what_became_of_it(works):
    with serving(FakeQdrant()) as server, open_memory(server.url, pauses=()) as memory:
        note = memory.add("The trip is in April", namespace=ANN)
        server.faults.append(Fault(works=works, status=503, path="/amem/points", method="PUT"))
        with pytest.raises(StoreError, match="did not answer"):
            memory.update(note.id, namespace=ANN, metadata={"x": 1})
        assert not server.faults
        assert (memory.get(note.id, namespace=ANN).metadata == {"x": 1}) == works
        assert (kinds(memory, note.id)[-1] == "update") == works
