"""Several processes on one server evolve its notes: each note once, by one of them at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import models
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, MemoryConfig, Note, NoteInput
from amem_integrations.testing import HashEmbedder, ScriptedModel

ROOT = Path(__file__).parents[2]
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


def work_until_done(memory: AgenticMemory) -> None:
    memory.work(once=True, poll=0.1)


def test_three_workers_send_each_note_to_the_model_once(opened: Open) -> None:
    model = Counting()
    memories = [opened(model) for _ in range(3)]
    talk(memories[0], threads=5)
    talk(memories[0], notes=16, threads=2, namespace=BOB)
    together(*(lambda m=memory: work_until_done(m) for memory in memories))
    assert len(check_sound(memories[0])) + len(check_sound(memories[0], BOB)) == 96
    contents = Counter(content for _, content in model.sent.elements())
    assert sum(contents.values()) == 192


def test_one_thread_is_worked_on_by_one_at_a_time_oldest_first(opened: Open) -> None:
    under_way, most, order = Counter[str | None](), Counter[str | None](), []

    def watched(request: Any) -> Any:
        threads = {note["thread"] for note in request.inputs["notes"]}
        under_way.update(threads)
        for thread in threads:
            most[thread] = max(most[thread], under_way[thread])
        order.extend((note["thread"], note["content"]) for note in request.inputs["notes"])
        time.sleep(0.02)
        under_way.subtract(threads)
        return models.construct(request)

    memories = [
        opened(ScriptedModel({"construct": watched, "evolve": models.nothing})) for _ in "abc"
    ]
    items = [NoteInput(content=f"{n:02}", thread=f"t{n % 2}") for n in range(24)]
    memories[0].add_many(items, namespace=ANN, evolve=False)
    together(*(lambda m=memory: work_until_done(m) for memory in memories))
    assert dict(most) == {"t0": 1, "t1": 1}
    for thread in ("t0", "t1"):
        said = [content for where, content in order if where == thread]
        assert said == sorted(said)
        assert len(said) == 12


CHILD = """
import sys, time
from support import models
from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.testing import HashEmbedder

class Sleeper:
    name = "sleeper"
    inner = models.model(models.update_first("It was moved to May."))
    def generate(self, request):
        if request.task == sys.argv[2]:
            print("asked", flush=True)
            time.sleep(0.3)
        return self.inner.generate(request)

memory = AgenticMemory.open(
    sys.argv[1], model=Sleeper(), embedder=HashEmbedder(),
    config=MemoryConfig(min_gate_similarity=-1.0, claim_seconds=1.0),
)
memory.evolve()
memory.close()
print("finished", flush=True)
"""


def child(fake: FakeQdrant, task: str) -> subprocess.Popen[str]:
    """Another process, which evolves all, and says when it asks the model; it waits there for a moment."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, fake.url, task],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("task", ["construct", "evolve"])
def test_a_process_that_slept_through_the_end_of_its_claim_leaves_nothing(
    fake: FakeQdrant, opened: Open, task: str
) -> None:
    memory = opened(models.model(models.link_to_first), claim_seconds=1.0)
    memory.add("the trip, part 1", namespace=ANN, thread="t")
    note = memory.add("the trip, part 2", namespace=ANN, thread="t", evolve=False)
    with child(fake, task) as sleeper:
        assert sleeper.stdout is not None
        assert "asked" in sleeper.stdout.readline()
        sleeper.send_signal(signal.SIGSTOP)
        memory.evolve()
        assert memory.get(note.id, namespace=ANN).state == "done"
        before = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
        sleeper.send_signal(signal.SIGCONT)
        assert "finished" in sleeper.stdout.read()
        assert sleeper.wait(30) == 0
    notes, changes = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
    assert notes == before[0]
    kinds = {made.kind for made in changes if made not in before[1]}
    assert kinds <= {"usage"}  # that it was paid for is true all the same
    check_sound(memory)


@pytest.mark.parametrize("task", ["construct", "evolve"])
def test_what_a_killed_process_held_is_finished_by_another(
    fake: FakeQdrant, opened: Open, task: str
) -> None:
    model = Counting()
    memory = opened(model, claim_seconds=1.0)
    talk(memory, notes=40, threads=4)
    with child(fake, task) as dying:
        assert dying.stdout is not None
        assert "asked" in dying.stdout.readline()
        dying.kill()
    work_until_done(memory)
    check_sound(memory)
    assert set(model.sent.values()) == {1}


def without_claims(memory: AgenticMemory) -> AgenticMemory:
    """A process that has passed all checks of its claim, and is only late."""
    memory._runtime = replace(memory._runtime, shared_claims=None)
    return memory


def link_to_last(request: Any) -> dict[str, Any]:
    """Link every note to its worst candidate, and add a sentence to that."""
    reply = models.update_first("It was moved to May.")(request)
    for note, asked in zip(reply["notes"], request.inputs["notes"], strict=True):
        note["links"][0]["to"] = note["updates"][0]["to"] = asked["candidates"][-1]["alias"]
    return reply


def test_a_commit_that_arrives_too_late_writes_neither_the_note_nor_its_neighbours(
    fake: FakeQdrant, opened: Open
) -> None:
    late, other = opened(), without_claims(opened(models.model(link_to_last)))
    for n in range(3):
        late.add(f"the trip, part {n}", namespace=ANN, thread="t")
    note = late.add("the trip, part 3", namespace=ANN, thread="t", evolve=False)

    def evolve(request: Any) -> dict[str, Any]:
        fake.before_write = lambda: other.evolve() and None
        return models.update_first("It was cancelled.")(request)

    model = models.model(evolve)
    late._runtime = replace(late._runtime, model=model)
    report = late.evolve()

    assert report.done == ()
    notes = check_sound(late)
    assert len(late.get(note.id, namespace=ANN).links) == 1
    assert "cancelled" not in repr(notes)
    assert "cancelled" not in repr(late.history(None, namespace=ANN))
    assert repr(notes).count("It was moved to May.") == 1


def test_two_that_race_for_one_note_one_wins(opened: Open) -> None:
    memories = [
        without_claims(opened(models.model(e))) for e in (link_to_last, models.link_to_first)
    ]
    for n in range(3):
        memories[0].add(f"the trip, part {n}", namespace=ANN, thread="t")
    for n in range(3, 9):
        note = memories[0].add(f"the trip, part {n}", namespace=ANN, thread="t", evolve=False)
        together(*(memory.evolve for memory in memories))
        check_sound(memories[0])
        assert len([x for x in memories[0].get(note.id, namespace=ANN).links]) == 1
