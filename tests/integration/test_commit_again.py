"""A plan that was committed long ago changes nothing when it is committed again."""

from __future__ import annotations

import pytest
from support import models

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.journal.erasure import MOST_EARLIER
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)


@pytest.fixture
def planned():
    """A memory, an earlier note, and the plan by which a later one links and updates it."""
    model = models.model(models.update_first("It goes on."))
    config = MemoryConfig(min_gate_similarity=-1.0)
    with AgenticMemory.open(
        ":memory:", model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        one = memory.add("one", namespace=ANN)
        two = memory.add("two", namespace=ANN, evolve=False)
        memory.construct([two.id], namespace=ANN)
        yield memory, one.id, memory.propose([two.id], namespace=ANN)


def busy(memory, note_id):
    """Write a note so often that its earliest edits are forgotten."""
    for number in range(MOST_EARLIER + 1):
        memory.update(note_id, namespace=ANN, metadata={"n": number})


def state(memory):
    return memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)


def test_what_was_taken_back_since_does_not_come_back(planned):
    memory, one, plan = planned
    busy(memory, one)
    report = memory.commit(plan, namespace=ANN)
    assert (report.links, report.evolved) == (1, (one,))
    assert memory.get(one, namespace=ANN).contexts[-1].text == "It goes on."
    for kind in ("evolve", "link"):
        (made,) = [c for c in memory.history(one, namespace=ANN) if c.kind == kind]
        memory.undo(made.id, namespace=ANN)
    busy(memory, one)
    before = state(memory)
    report = memory.commit(plan, namespace=ANN)
    assert (report.links, report.evolved) == (0, ())
    assert state(memory) == before
