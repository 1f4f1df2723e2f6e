"""Several processes on one server evolve its notes: each note once, by one of them at a time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import models
from support.processes import environment
from support.qdrant_server import FakeQdrant, Fault, serving

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    MemoryConfig,
    ModelUnavailableError,
    Note,
    NoteInput,
    StoreError,
    WorkReport,
)
from amem_integrations.decisions import Lease
from amem_integrations.flows.work import take_lease
from amem_integrations.runtime import run
from amem_integrations.stores.payloads import decode_record
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

    def open_(model: Any = None, pauses: Any = (0.05, 0.2, 0.8), **settings: Any) -> AgenticMemory:
        config = MemoryConfig(**{"min_gate_similarity": -1.0, "lease_seconds": 5.0, **settings})
        memory = AgenticMemory.open(
            fake.url,
            model=model or models.model(),
            embedder=HashEmbedder(),
            config=config,
            pauses=pauses,
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
        except BaseException as error:  # noqa: BLE001 - raised below
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


def test_of_three_processes_that_evolve_at_once_each_note_is_decided_once(opened: Open) -> None:
    memories = [opened(Counting()) for _ in range(3)]
    talk(memories[0], notes=12, threads=3)
    together(*(memory.evolve for memory in memories))
    assert len(check_sound(memories[0])) == 12
    made = [c.note_id for c in memories[0].history(None, namespace=ANN) if c.kind == "construct"]
    assert len(made) == len(set(made)) == 12


def work_until_done(memory: AgenticMemory) -> None:
    memory.work(once=True, poll=0.1)


def test_three_workers_send_each_note_to_the_model_once(opened: Open) -> None:
    model = Counting()
    memories = [opened(model) for _ in range(3)]
    talk(memories[0], notes=15, threads=5)
    talk(memories[0], notes=4, threads=2, namespace=BOB)
    together(*(lambda m=memory: work_until_done(m) for memory in memories))
    assert len(check_sound(memories[0])) + len(check_sound(memories[0], BOB)) == 19
    assert model.sent.total() == 38


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
    items = [NoteInput(content=f"{n:02}", thread=f"t{n % 2}") for n in range(12)]
    memories[0].add_many(items, namespace=ANN, evolve=False)
    together(*(lambda m=memory: work_until_done(m) for memory in memories))
    assert dict(most) == {"t0": 1, "t1": 1}
    for thread in ("t0", "t1"):
        said = [content for where, content in order if where == thread]
        assert said == sorted(said)
        assert len(said) == 6


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
    config=MemoryConfig(min_gate_similarity=-1.0, lease_seconds=1.0),
)
memory.work(once=True, poll=0.05)
memory.close()
print("finished", flush=True)
"""


def child(fake: FakeQdrant, task: str) -> subprocess.Popen[str]:
    """Another process, a worker, which says when it asks the model, and waits there for a moment."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, fake.url, task],
        env=environment(ROOT, ROOT / "tests"),
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_a_killed_process_held_is_finished_by_another(fake: FakeQdrant, opened: Open) -> None:
    model = Counting()
    memory = opened(model, lease_seconds=1.0)
    talk(memory, notes=8, threads=4)
    with child(fake, "evolve") as dying:
        assert dying.stdout is not None
        assert "asked" in dying.stdout.readline()
        dying.kill()
    wait_for(lambda: memory.work(once=True, poll=0.1) and leases_held(memory) == 0)
    check_sound(memory)
    assert set(model.sent.values()) == {1}


@pytest.mark.parametrize("settled", [False, True])
def test_a_worker_killed_after_it_wrote_its_decisions_costs_nothing_twice(
    opened: Open, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    model = Counting()
    dying, other = opened(model, lease_seconds=2), opened(model, lease_seconds=2)
    talk(dying, notes=6, threads=1)
    killed = StoreError("the worker is killed here")

    async def dies(*_args: Any) -> None:
        raise killed

    # What is inserted stands; nobody shows it, gives the lease back, or opens the memory again.
    with monkeypatch.context() as patch:
        patch.setattr("amem_integrations.flows.work.HeldLease.give_back", nothing)
        step = "commit.project" if settled else "commit.settle"
        patch.setattr(f"amem_integrations.journal.{step}", dies)
        with pytest.raises(StoreError):
            dying.work(once=True, poll=0.05)
    assert leases_held(other) == 1
    assert {note.state for note in other.get_all(namespace=ANN)} == {"pending"}
    wait_for(lambda: other.work(once=True, poll=0.1) and leases_held(other) == 0)
    check_sound(other)
    assert set(model.sent.values()) == {1}


async def nothing(*_args: Any) -> None:
    """Do nothing."""


def refusing(word: str, reply: Any) -> Any:
    """An answer to every request but those with a word in a note: `reply` instead, or raised."""

    def answer(request: Any) -> Any:
        if any(word in note["content"] for note in request.inputs["notes"]):
            return reply
        return models.construct(request)

    return answer


def leases_held(memory: AgenticMemory) -> int:
    store = memory._runtime.store
    points = store._records.scroll(None)  # type: ignore[attr-defined]
    records = [decode_record(point) for point in points]
    return sum(isinstance(one, Lease) and bool(one.holder) for one in records)


POISONS = {"raising": ValueError("too hot"), "garbage": "I would rather not."}


@pytest.mark.parametrize("poison", POISONS)
def test_a_note_that_always_fails_blocks_no_other_and_is_not_tried_for_ever(
    opened: Open, poison: str
) -> None:
    model = models.model(construct=refusing("poison", POISONS[poison]))
    memory = opened(model, max_attempts=3)
    items = [NoteInput(content=f"part {n}", thread="t") for n in range(10)]
    items.insert(2, NoteInput(content="poison", thread="t", key="poison"))
    memory.add_many(items, namespace=ANN, evolve=False)
    for _ in range(3):
        memory.work(once=True, poll=0.05)
    notes = memory.get_all(namespace=ANN)
    left = [note for note in notes if note.state != "done"]
    assert [(note.content, note.state, note.attempts) for note in left] == [("poison", "failed", 3)]
    asked = len(model.requests)
    assert memory.work(once=True, poll=0.05) == WorkReport()
    assert len(model.requests) == asked


def test_a_model_that_is_down_is_waited_for_and_leases_are_given_back(opened: Open) -> None:
    down, asked = [True], []

    def construct(request: Any) -> Any:
        asked.append(time.monotonic())
        return ModelUnavailableError("out of reach") if down else models.construct(request)

    memory = opened(models.model(construct=construct))
    talk(memory, notes=6, threads=6)
    with working(memory, poll=0.1) as report:
        time.sleep(1)
        calls = len(asked)
        wait_for(lambda: leases_held(memory) == 0)  # between two attempts
        assert {note.state for note in memory.get_all(namespace=ANN)} == {"pending"}
        down.clear()
        wait_for(lambda: {n.state for n in memory.get_all(namespace=ANN)} == {"done"})
    assert calls < 20
    assert report[0].done == 6
    assert report[0].interrupted is None


def test_an_outage_after_some_answers_counts_as_no_attempt(tmp_path: Path) -> None:
    asked = []

    def construct(request: Any) -> Any:
        asked.append(request)
        return models.construct(request) if len(asked) < 2 else ModelUnavailableError("away")

    config = MemoryConfig(batch_size=4, min_gate_similarity=-1.0)
    model = models.model(construct=construct)
    with AgenticMemory.open(
        tmp_path, model=model, embedder=HashEmbedder(), config=config
    ) as memory:
        talk(memory, notes=12, threads=1)
        assert memory.work(once=True, poll=0.05).failed == 0
        states = Counter((note.state, note.attempts) for note in memory.get_all(namespace=ANN))
    assert states == {("done", 0): 4, ("pending", 0): 8}


@pytest.mark.parametrize("what", ["clear", "delete", "update"])
def test_what_is_removed_or_corrected_while_a_worker_holds_it(opened: Open, what: str) -> None:
    other = opened()

    def evolve(request: Any) -> Any:
        if what == "clear":
            other.clear(namespace=ANN)
        elif what == "delete":
            other.delete(second.id, namespace=ANN)
        elif not corrected:
            corrected.append(other.update(second.id, namespace=ANN, content="the harbour"))
        return models.link_to_first(request)

    corrected: list[Any] = []
    memory = opened(models.model(evolve))
    memory.add("the trip, part 1", namespace=ANN, thread="t", evolve=False)
    second = memory.add("the trip, part 2", namespace=ANN, thread="t", evolve=False)
    memory.work(once=True, poll=0.05)
    contents = [note.content for note in memory.get_all(namespace=ANN)]
    first = "the trip, part 1"
    assert contents == {"clear": [], "delete": [first], "update": [first, "the harbour"]}[what]
    if contents:
        check_sound(memory)
    assert leases_held(memory) == 0


def test_a_server_that_is_away_for_a_while_is_waited_for(fake: FakeQdrant, opened: Open) -> None:
    def construct(request: Any) -> Any:
        if not away:
            away.append(True)
            fake.faults.extend([Fault(status=503)] * 10)
        return models.construct(request)

    away: list[bool] = []
    memory = opened(models.model(construct=construct), pauses=(0.01,))
    talk(memory, notes=6, threads=2)
    with working(memory, poll=0.1):
        wait_for(lambda: away and not fake.faults)
        wait_for(lambda: {n.state for n in memory.get_all(namespace=ANN)} == {"done"})
    check_sound(memory)
    assert leases_held(memory) == 0


def test_a_budget_is_kept_to_the_call(opened: Open) -> None:
    model = models.model(models.link_to_first)
    memory = opened(model)
    talk(memory, notes=12, threads=6)
    memory.work(once=True, budget=7, concurrency=4, poll=0.05)
    assert len(model.requests) == 7
    memory.work(once=True, poll=0.05)
    check_sound(memory)
    with pytest.raises(ConfigurationError):
        memory.work(concurrency=0)


async def test_a_task_that_is_cancelled_gives_back_what_it_holds(opened: Open) -> None:
    asked = asyncio.Event()

    class Waiting:
        name = "waiting"

        async def generate(self, request: Any) -> Any:
            asked.set()
            await asyncio.sleep(60)

    memory = opened(Waiting())
    talk(memory, notes=6, threads=3)
    task = asyncio.create_task(memory.awork(poll=0.1))
    await asked.wait()
    assert leases_held(memory) > 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leases_held(memory) == 0


def test_evolve_of_one_thread_leaves_the_others(opened: Open) -> None:
    memory = opened()
    talk(memory, notes=6, threads=2)
    report = memory.evolve(namespace=ANN, thread="t1")
    assert len(report.done) == 3
    states = {(note.thread, note.state) for note in memory.get_all(namespace=ANN)}
    assert states == {("t0", "pending"), ("t1", "done")}
    with pytest.raises(InvalidInputError):
        memory.evolve(thread="t0")


@contextmanager
def working(memory: AgenticMemory, **options: Any) -> Iterator[list[WorkReport]]:
    """Have a worker at work meanwhile; what it did is in the list afterwards."""
    stop, report = threading.Event(), list[WorkReport]()
    thread = threading.Thread(
        target=lambda: report.append(memory.work(stop=stop.is_set, **options))
    )
    thread.start()
    try:
        yield report
    finally:
        stop.set()
        thread.join()


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_lease_is_taken_over_after_its_end_and_no_earlier(opened: Open) -> None:
    runtimes = [opened(lease_seconds=0.4)._runtime for _ in "ab"]
    held = run(take_lease(runtimes[0], ANN, "t", "one"))
    assert held is not None
    assert not held.was_left
    assert run(take_lease(runtimes[1], ANN, "t", "other")) is None
    assert run(take_lease(runtimes[1], ANN, None, "other")) is not None
    assert run(take_lease(runtimes[1], BOB, "t", "other")) is not None
    time.sleep(0.5)
    taken = run(take_lease(runtimes[1], ANN, "t", "other"))
    assert taken is not None
    assert taken.was_left
    run(held.give_back())  # too late: it changes nothing
    assert run(take_lease(runtimes[0], ANN, "t", "one")) is None
    run(taken.give_back())
    again = run(take_lease(runtimes[0], ANN, "t", "one"))
    assert again is not None
    assert not again.was_left


def test_a_lease_is_kept_alive_while_the_model_is_asked(opened: Open) -> None:
    asked = []

    def slow(request: Any) -> Any:
        time.sleep(1.2)
        asked.append(run(take_lease(other, ANN, "t0", "other")))
        return models.construct(request)

    memory = opened(models.model(construct=slow), lease_seconds=0.5)
    other = opened()._runtime
    talk(memory, notes=2, threads=1)
    memory.work(once=True, poll=0.05)
    assert asked == [None]
    check_sound(memory)


def test_only_a_worker_on_a_server_takes_a_lease(opened: Open, tmp_path: Path) -> None:
    served = opened()
    served.add("the trip", namespace=ANN, thread="t")
    served.evolve()
    with AgenticMemory.open(tmp_path, model=models.model(), embedder=HashEmbedder()) as folder:
        folder.add("the trip", namespace=ANN, thread="t", evolve=False)
        assert folder.work(once=True).done == 1
        for memory in (served, folder):
            points = memory._runtime.store._records.scroll(None)  # type: ignore[attr-defined]
            assert all("holder" not in point.payload for point in points)


def test_a_worker_ends_when_its_memory_is_closed():
    asked, closed = threading.Event(), threading.Event()

    def construct(request):
        asked.set()
        closed.wait()
        return models.construct(request)

    model = models.model(construct=construct)
    memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())
    items = [NoteInput(content=f"note {number}", thread=str(number)) for number in range(9)]
    memory.add_many(items, namespace=ANN, evolve=False)
    reports = []
    worker = threading.Thread(target=lambda: reports.append(memory.work(poll=0.05)))
    worker.start()
    asked.wait()
    memory.close()
    closed.set()
    worker.join()
    assert [report.done for report in reports] == [0]
    assert len(model.requests) <= MemoryConfig().max_concurrency


SILENT = """
import threading
from amem_integrations import AgenticMemory, NoteInput
from amem_integrations.testing import HashEmbedder, ScriptedModel

asked, never = threading.Event(), threading.Event()

def construct(request):
    asked.set()
    never.wait()

model = ScriptedModel({"construct": construct})
memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())
items = [NoteInput(content=f"note {number}", thread=str(number)) for number in range(9)]
memory.add_many(items, namespace=("ann",), evolve=False)
threading.Thread(target=memory.evolve, daemon=True).start()
asked.wait()
"""


def test_an_interpreter_ends_while_a_model_is_silent():
    done = subprocess.run(
        [sys.executable, "-c", SILENT],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
