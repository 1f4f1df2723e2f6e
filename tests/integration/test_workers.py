"""Several processes on one server evolve its notes: each note once, by one of them at a time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import models
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, MemoryConfig, Note, NoteInput
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob",)
pytestmark = pytest.mark.enable_socket

Open = Callable[..., AgenticMemory]


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant()) as fake:
        yield fake


@pytest.fixture
def opened(fake: FakeQdrant) -> Iterator[Open]:
    """Opens the memory as another process does: with a store of its own."""
    memories = []

    def open_(model: Any = None, **settings: Any) -> AgenticMemory:
        config = MemoryConfig(**{"min_gate_similarity": -1.0, "claim_seconds": 5.0, **settings})
        memory = AgenticMemory.open(
            fake.url, model=model or models.model(), embedder=HashEmbedder(), config=config
        )
        memories.append(memory)
        return memory

    yield open_
    for memory in memories:
        memory.close()


class Counting:
    """A model that takes a moment, and remembers by task how often it was sent each text."""

    name = "counting"

    def __init__(self, evolve: Any = models.link_to_first, seconds: float = 0.01) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()
        self._inner, self._seconds = models.model(evolve), seconds
        self._lock = threading.Lock()

    def generate(self, request: Any) -> Any:
        with self._lock:
            self.sent.update((request.task, n["content"]) for n in request.inputs["notes"])
        time.sleep(self._seconds)
        return self._inner.generate(request)


def talk(memory: AgenticMemory, notes: int = 80, threads: int = 8, namespace: Any = ANN) -> None:
    items = [NoteInput(content=f"part {n}", thread=f"t{n % threads}") for n in range(notes)]
    memory.add_many(items, namespace=namespace, evolve=False)


def together(*calls: Callable[[], object]) -> None:
    """Make calls at the same time, and raise what one of them raises."""
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def check_sound(memory: AgenticMemory, namespace: Any = ANN) -> list[Note]:
    notes = {note.id: note for note in memory.get_all(namespace=namespace, limit=1000)}
    assert {note.state for note in notes.values()} == {"done"}
    for note in notes.values():
        assert all(note.id in notes[target].links for target in note.links)
        assert sum(entry.cause == note.id for entry in note.contexts) == 1
    return list(notes.values())


def test_three_processes_that_evolve_send_each_note_to_the_model_once(opened: Open) -> None:
    model = Counting()
    memories = [opened(model) for _ in range(3)]
    talk(memories[0])
    together(*(memory.evolve for memory in memories))
    assert len(check_sound(memories[0])) == 80
    assert set(model.sent.values()) == {1}
    assert len(model.sent) == 160
