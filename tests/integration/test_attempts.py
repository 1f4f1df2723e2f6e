"""A note that no model can make costs calls a few times, not for ever."""

from __future__ import annotations

from functools import partial

import pytest
from support import models
from support.ports import WatchedStore

from amem_integrations import AgenticMemory, MemoryConfig, ModelUnavailableError
from amem_integrations.stores import FolderStore
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)
POISON = "zebra quartz"


class Poisoned:
    """Answers of a model that one note makes speechless, until it is `cured`."""

    cured = False

    def construct(self, request):
        return self._answer(request, models.construct)

    def evolve(self, request):
        return self._answer(request, models.nothing)

    def _answer(self, request, answer):
        said = [note["content"] for note in request.inputs["notes"]]
        return "no JSON" if POISON in said and not self.cured else answer(request)


@pytest.fixture
def open_memory(open_memory):
    """Opens memories that give a note up after two attempts."""
    return partial(open_memory, max_attempts=2)


@pytest.mark.parametrize("step", ["construct", "evolve"])
def test_a_note_that_fails_again_and_again_is_left_alone_until_that_is_asked_for(open_memory, step):
    poisoned = Poisoned()
    model = models.model(**{step: getattr(poisoned, step)})
    memory = open_memory(model)
    memory.add("before", namespace=ANN)
    notes = memory.add_many([POISON, "harmless"], namespace=ANN)
    where = {"state": "failed", "attempts": {"$lt": memory.config.max_attempts}}
    waiting = [note.content for note in memory.get_all(namespace=ANN, where=where)]
    assert waiting == [POISON, "harmless"]
    for _ in range(5):
        memory.evolve()
    calls = len(model.requests)
    assert memory.evolve() == memory.evolve(namespace=ANN)
    assert memory.evolve().failed == {}
    assert memory.get_all(namespace=ANN, where=where) == []
    assert len(model.requests) == calls
    note, other = (memory.get(note.id, namespace=ANN) for note in notes)
    assert (note.state, note.attempts, other.state) == ("failed", 2, "done")
    assert step in note.failure
    assert memory.search("quartz", namespace=ANN, k=1)[0].note.id == note.id
    assert note.id in memory.evolve(retry=True).failed
    assert memory.get(note.id, namespace=ANN).attempts == 3
    poisoned.cured = True
    assert memory.evolve().done == ()
    assert memory.evolve(retry=True).done == (note.id,)


def test_a_step_that_went_well_gives_the_next_one_all_its_tries(open_memory):
    down = [False]

    def evolve(request):
        if down[0]:
            raise ModelUnavailableError("it is down")
        return "no JSON"

    poisoned = Poisoned()
    memory = open_memory(models.model(evolve, poisoned.construct))
    memory.add("before", namespace=ANN)
    note = memory.add(POISON, namespace=ANN)
    memory.evolve()
    poisoned.cured = down[0] = True
    assert memory.evolve(retry=True).interrupted
    found = memory.get(note.id, namespace=ANN)
    assert (found.state, found.attempts) == ("constructed", 0)
    down[0] = False
    assert note.id in memory.evolve().failed
    assert note.id in memory.evolve().failed
    assert note.id not in memory.evolve().failed


# What is idle costs nothing


def test_an_idle_evolve_asks_the_store_once_however_many_namespaces_there_are(tmp_path):
    store = WatchedStore(FolderStore(tmp_path, dimensions=64))
    config = MemoryConfig(max_attempts=1)
    model = models.model(construct=Poisoned().construct)
    with AgenticMemory._over(store, HashEmbedder(), model, config) as memory:
        for number in range(20):
            memory.add(f"note {number}", namespace=(f"user-{number}",))
        memory.add(POISON, namespace=BOB)
        store.calls.clear()
        memory.evolve()
        assert store.calls == ["namespaces"]
        memory.add("something new", namespace=ANN, evolve=False)
        store.calls.clear()
        assert len(memory.evolve().done) == 1
        assert store.calls.count("scan") == 1
