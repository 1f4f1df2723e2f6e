"""How far a long piece of work is, and what a memory is made of."""

from __future__ import annotations

import json
import logging

import pytest
from support import models

from amem_integrations import AgenticMemory
from amem_integrations.stores import FolderStore
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)


class Told(list):
    """What a memory tells of its progress."""

    def __call__(self, done, total):
        self.append((done, total))


def opened(model=None, location=":memory:"):
    return models.opened(location, model, batch_size=2, max_concurrency=1)


@pytest.fixture
def waiting():
    """A memory with four notes in one namespace and three in another that wait."""
    with opened(models.model()) as memory:
        memory.add_many([f"note {n}" for n in range(4)], namespace=ANN, evolve=False)
        memory.add_many([f"note {n}" for n in range(3)], namespace=BOB, evolve=False)
        yield memory


def test_evolve_tells_how_far_it_is_over_all_namespaces(waiting):
    told = Told()
    waiting.add("done already", namespace=BOB)
    waiting.evolve(namespace=BOB, limit=1, progress=told)
    waiting.evolve(namespace=BOB, progress=told)
    assert told == [(1, 1), (2, 2)]
    told.clear()
    waiting.evolve(limit=3, progress=told)
    assert told == [(2, 3), (3, 3)]
    waiting.add_many([f"more {n}" for n in range(3)], namespace=BOB, evolve=False)
    told.clear()
    waiting.evolve(progress=told)
    assert told == [(1, 4), (3, 4), (4, 4)]
    waiting.evolve(progress=told)
    assert len(told) == 3


def test_evolve_works_on_the_notes_or_the_thread_that_it_is_told(waiting):
    _, two, *_ = waiting.get_all(namespace=ANN)
    assert waiting.evolve(namespace=ANN, ids=[two.id]).done == (two.id,)
    told = waiting.add("told", namespace=ANN, thread="t", evolve=False)
    assert waiting.namespaces(where={"thread": "t"}) == [ANN]
    assert waiting.evolve(namespace=ANN, thread="t").done == (told.id,)
    assert waiting.stats()["states"] == {"done": 2, "pending": 6}


def test_adding_tells_of_the_notes_that_are_new(waiting, caplog):
    told = Told()
    waiting.add_many([f"note {n}" for n in range(7)], namespace=ANN, progress=told)
    assert told == [(2, 3), (3, 3)]
    with caplog.at_level(logging.INFO, logger="amem_integrations"):
        waiting.evolve(namespace=BOB, progress=True)  # it is logged
    assert "3 of 3 notes" in caplog.text


def test_an_import_tells_how_far_it_is(waiting, tmp_path):
    waiting.add_many([f"more {n}" for n in range(70)], namespace=ANN, evolve=False)
    file, told = tmp_path / "ann.jsonl", Told()
    assert waiting.export(file, namespace=ANN) == 74
    with opened() as memory:
        assert memory.import_(file, namespace=ANN, progress=told) == 74
        assert told == [(64, 74), (74, 74)]


# What a memory is made of


def test_info_says_what_a_memory_was_made_with(tmp_path):
    opened(location=tmp_path).close()
    store = FolderStore(tmp_path)
    with AgenticMemory._over(store, HashEmbedder(name="not used"), models.model()) as memory:
        info = memory.info()
    made = json.loads((tmp_path / "amem" / "amem.json").read_text(encoding="utf-8"))
    assert (info["embedder"], info["dimensions"], info["model"]) == ("hash", 64, "scripted")
    assert (info["format"], info["schema"], info["template"]) == (2, 2, "note-3")
    assert info["created_at"] == made["created_at"]
    assert set(info["versions"]) == {"amem-integrations", "qdrant-client", "qdrant-edge-py"}
    assert json.loads(json.dumps(info)) == info
