"""Several processes on one server evolve its notes: each note once, by one of them at a time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
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
from amem_integrations.flows.worker import ThreadLease
from amem_integrations.runtime import Runtime, run
from amem_integrations.stores.payloads import decode_record

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
        given = {"lease_seconds": 5.0, **settings}
        memories.append(models.opened(fake.url, model or models.model(), pauses=pauses, **given))
        return memories[-1]

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
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def work(memory: AgenticMemory, **options: Any) -> WorkReport:
    """Work until nothing is left to be done."""
    return memory.work(once=True, **{"poll": 0.05, **options})


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


def test_three_workers_send_each_note_to_the_model_once(opened: Open) -> None:
    model = Counting()
    memories = [opened(model) for _ in range(3)]
    talk(memories[0], notes=9, threads=3)
    talk(memories[0], notes=4, threads=2, namespace=BOB)
    together(*(partial(work, memory) for memory in memories))
    assert len(check_sound(memories[0])) + len(check_sound(memories[0], BOB)) == 13
    assert model.sent.total() == 26


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

    memories = [opened(models.model(construct=watched), link=False) for _ in "ab"]
    items = [NoteInput(content=f"{n:02}", thread=f"t{n % 2}") for n in range(12)]
    memories[0].add_many(items, namespace=ANN, evolve=False)
    together(*(partial(work, memory) for memory in memories))
    assert dict(most) == {"t0": 1, "t1": 1}
    for thread in ("t0", "t1"):
        said = [content for where, content in order if where == thread]
        assert said == sorted(said)
        assert len(said) == 6


CHILD = """
import sys, time
from support import models

class Sleeper:
    name = "sleeper"
    inner = models.model(models.update_first("It was moved to May."))
    def generate(self, request):
        if request.task == "evolve":
            print("asked", flush=True)
            time.sleep(10)
        return self.inner.generate(request)

memory = models.opened(sys.argv[1], Sleeper(), lease_seconds=1.0)
memory.work(once=True, poll=0.05)
"""


def test_what_a_killed_process_held_is_finished_by_another(fake: FakeQdrant, opened: Open) -> None:
    model = Counting()
    memory = opened(model, lease_seconds=1.0)
    talk(memory, notes=8, threads=4)
    command, path = [sys.executable, "-c", CHILD, fake.url], environment(ROOT, ROOT / "tests")
    with subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True) as dying:
        assert dying.stdout is not None
        assert "asked" in dying.stdout.readline()  # the model is asked, and waits for a moment
        dying.kill()
    wait_for(lambda: work(memory) and leases_held(memory) == 0)
    check_sound(memory)
    assert set(model.sent.values()) == {1}


@pytest.mark.parametrize("step", ["settle", "project"])
def test_a_worker_killed_after_it_wrote_its_decisions_costs_nothing_twice(
    opened: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    model = Counting()
    dying, other = opened(model, lease_seconds=1), opened(model, lease_seconds=1)
    talk(dying, notes=6, threads=1)

    async def dies(*_args: Any) -> None:
        raise StoreError("the worker is killed here")

    async def nothing(*_args: Any) -> None:
        """Do nothing."""

    # What is inserted stands; nobody shows it, gives the lease back, or opens the memory again.
    with monkeypatch.context() as patch:
        patch.setattr("amem_integrations.flows.worker.ThreadLease.hand_over", nothing)
        patch.setattr(f"amem_integrations.journal.commit.{step}", dies)
        with pytest.raises(StoreError):
            work(dying)
    assert leases_held(other) == 1
    assert {note.state for note in other.get_all(namespace=ANN)} == {"pending"}
    wait_for(lambda: work(other) and leases_held(other) == 0)
    check_sound(other)
    assert set(model.sent.values()) == {1}


def leases_held(memory: AgenticMemory) -> int:
    store = memory._runtime.store
    points = store._records.scroll(None)  # type: ignore[attr-defined]
    records = [decode_record(point) for point in points]
    return sum(isinstance(one, Lease) and bool(one.holder) for one in records)


@pytest.mark.parametrize("answer", [ValueError("too hot"), "I would rather not."])
def test_a_note_that_always_fails_blocks_no_other_and_is_not_tried_for_ever(
    opened: Open, answer: Any
) -> None:
    def construct(request: Any) -> Any:
        is_poisoned = any(note["content"] == "poison" for note in request.inputs["notes"])
        return answer if is_poisoned else models.construct(request)

    model = models.model(construct=construct)
    memory = opened(model, max_attempts=3)
    items = [NoteInput(content=f"part {n}", thread="t") for n in range(6)]
    items.insert(2, NoteInput(content="poison", thread="t", key="poison"))
    memory.add_many(items, namespace=ANN, evolve=False)
    for times in (1, 2, 3):  # once in each run
        work(memory)
        left = {
            note.content: note for note in memory.get_all(namespace=ANN) if note.state != "done"
        }
        assert (left["poison"].state, left["poison"].attempts) == ("failed", times)
    assert left.keys() == {"poison"}
    asked = len(model.requests)
    assert work(memory) == WorkReport()
    assert len(model.requests) == asked


def test_a_model_that_is_down_is_waited_for_and_leases_are_given_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A note that is asked about as the outage ends may be taken for the one that silences the model.
    monkeypatch.setattr("amem_integrations.flows.worker.REST", 0.1)
    down, asked = [True], []

    def construct(request: Any) -> Any:
        asked.append(request)
        return ModelUnavailableError("out of reach") if down else models.construct(request)

    memory = opened(models.model(construct=construct))
    talk(memory, notes=6, threads=6)
    with working(memory, poll=0.05) as report:
        time.sleep(0.8)
        assert len(asked) < 30
        wait_for(lambda: leases_held(memory) == 0)  # between two attempts
        assert {note.state for note in memory.get_all(namespace=ANN)} == {"pending"}
        down.clear()
        wait_for(lambda: {n.state for n in memory.get_all(namespace=ANN)} == {"done"})
    assert (report[0].done, report[0].interrupted) == (6, None)


def test_in_an_outage_the_model_is_asked_a_few_times_and_then_waited_for(monkeypatch):
    async def wait(_worker):
        asked.append(len(model.requests))

    asked, down = list[int](), [ValueError("away")]
    model = models.model(construct=lambda request: down[0] if down else models.construct(request))
    monkeypatch.setattr("amem_integrations.flows.worker._Worker.wait", wait)
    with models.opened(model=model, link=False) as memory:
        talk(memory, notes=60, threads=3)
        memory.work(concurrency=1, stop=lambda: len(asked) > 3)
        assert asked == [5, 10, 15, 20]
        down.clear()
        assert work(memory).done == 60
    assert len(model.requests) < 30


def test_notes_on_which_the_model_is_silent_keep_no_others_waiting():
    def construct(request):
        is_good = all("good" in note["content"] for note in request.inputs["notes"])
        return models.construct(request) if is_good else ValueError("too hot")

    model = models.model(construct=construct)
    with models.opened(model=model, link=False) as memory:
        talk(memory, notes=20, threads=1)
        note = memory.add("good", namespace=BOB, evolve=False)
        assert work(memory, concurrency=1).interrupted
        assert memory.get(note.id, namespace=BOB).state == "done"
        said = [f"{'good' if n in (4, 9) else 'bad'} {n}" for n in range(10)]
        items = [NoteInput(content=text, thread=text) for text in said]
        memory.add_many(items, namespace=("zoe",), evolve=False)
        before = len(model.requests)
        report = work(memory, namespace=("zoe",), concurrency=1)
        assert (report.done, report.failed, len(model.requests) - before) == (2, 8, 10)
        for texts in (
            ("bad", "bad too", "good", "good too"),
            ("bad", "good", "good too", "bad too"),
        ):
            items = [NoteInput(content=text, thread="t") for text in texts]
            memory.add_many(items, namespace=texts, evolve=False)
            assert work(memory, namespace=texts).failed == 2
            assert memory.stats(namespace=texts)["states"] == {"done": 2, "failed": 2}


# One thread and one batch, one thread and a batch for each, a thread for each.
@pytest.mark.parametrize(("thread", "size"), [("t", 20), ("t", 1), (None, 20)])
def test_what_silences_the_model_is_not_first_for_ever(
    monkeypatch: pytest.MonkeyPatch, thread: str | None, size: int
) -> None:
    async def wait(_worker: object) -> None:
        """Look again at once."""

    def construct(request: Any) -> Any:
        asked.append([note["content"] for note in request.inputs["notes"]])
        if asked[-1] != ["good"] or len(asked) < 40:  # at first it is silent about all of them
            return ValueError("too hot")
        answered.append(request)
        return models.construct(request)

    asked, answered = list[list[str]](), list[Any]()
    monkeypatch.setattr("amem_integrations.flows.worker._Worker.wait", wait)
    model = models.model(construct=construct)
    with models.opened(model=model, link=False, batch_size=size) as memory:
        said = [*(f"bad {n}" for n in range(8)), "good"]
        items = [NoteInput(content=text, thread=thread or text) for text in said]
        memory.add_many(items, namespace=ANN, evolve=False)
        memory.work(concurrency=1, stop=lambda: answered or len(asked) > 900)
    assert asked[:4] == [[text] for text in said[:4]] or asked[0] == said
    assert ["good"] in asked[:20]
    assert answered


def test_notes_about_which_the_model_is_silent_are_told_from_an_outage(opened: Open) -> None:
    """Poison in threads of its own: before the model has answered about others it is down, and then the notes are to blame."""

    def construct(request: Any) -> Any:
        said = {note["content"] for note in request.inputs["notes"]}
        return ValueError("too hot") if "poison" in said else models.construct(request)

    memory = opened(models.model(construct=construct), max_attempts=2)
    poison = [NoteInput(content="poison", thread=f"p{n}") for n in range(4)]
    ids = {note.id for note in memory.add_many(poison, namespace=ANN, evolve=False)}
    assert work(memory).interrupted
    assert {n.attempts for n in memory.get_all(namespace=ANN)} == {0}
    with working(memory, poll=0.05) as report:
        time.sleep(0.3)
        good = memory.add("good", namespace=ANN, thread="p3", evolve=False)
        wait_for(lambda: memory.get(good.id, namespace=ANN).state == "done")
        wait_for(lambda: {n.attempts for n in memory.get_all(namespace=ANN) if n.id in ids} == {1})
    assert report[0].failed == 4
    assert (
        work(memory).failed == 4
    )  # what failed before is to blame, also if nothing else is asked about
    assert work(memory) == WorkReport()
    assert {memory.get(one, namespace=ANN).state for one in ids} == {"failed"}


def test_a_note_that_failed_holds_up_no_other_of_its_thread(opened: Open) -> None:
    def construct(request: Any) -> Any:
        asked.append([note["content"] for note in request.inputs["notes"]])
        return ValueError("too hot") if "poison" in asked[-1] else models.construct(request)

    asked: list[list[str]] = []
    memory = opened(models.model(construct=construct), link=False)
    for told in ("poison", "good"):
        memory.add(told, namespace=ANN, thread="t", evolve=False)
    assert work(memory).failed == 1
    memory.add("more", namespace=ANN, thread="t", evolve=False)
    work(memory)
    assert asked[0] == ["poison", "good"]
    assert sorted(asked[1:3]) == [["good"], ["poison"]]
    assert asked[3:] == [["more"], ["poison"]]


def test_an_outage_after_some_answers_counts_as_no_attempt(tmp_path: Path) -> None:
    asked = []

    def construct(request: Any) -> Any:
        asked.append(request)
        return models.construct(request) if len(asked) < 2 else ModelUnavailableError("away")

    with models.opened(tmp_path, models.model(construct=construct), batch_size=4) as memory:
        talk(memory, notes=12, threads=1)
        assert work(memory).failed == 0
        states = Counter((note.state, note.attempts) for note in memory.get_all(namespace=ANN))
    assert states == {("done", 0): 4, ("pending", 0): 8}


def test_what_is_removed_or_corrected_while_a_worker_holds_it(opened: Open) -> None:
    first, second = "the trip, part 1", "the trip, part 2"
    removals: dict[str, tuple[Callable[[str], object], list[str]]] = {
        "clear": (lambda _: other.clear(namespace=ANN), []),
        "delete": (lambda note: other.delete(note, namespace=ANN), [first]),
        "update": (
            lambda note: other.update(note, namespace=ANN, content="the harbour"),
            [first, "the harbour"],
        ),
    }
    other = opened()
    for remove, left in removals.values():
        held: list[str] = []

        def evolve(request: Any, held: list[str] = held, remove: Any = remove) -> Any:
            if held:
                remove(held.pop())
            return models.link_to_first(request)

        memory = opened(models.model(evolve))
        memory.add(first, namespace=ANN, thread="t", evolve=False)
        held.append(memory.add(second, namespace=ANN, thread="t", evolve=False).id)
        work(memory)
        assert [note.content for note in memory.get_all(namespace=ANN)] == left
        if left:
            check_sound(memory)
        assert leases_held(memory) == 0
        memory.clear(namespace=ANN)


def test_of_a_long_thread_only_what_still_waits_is_shown_to_the_model() -> None:
    asked = list[str]()

    def construct(request: Any) -> Any:
        asked.extend(note["content"] for note in request.inputs["notes"])
        if len(asked) == 1:
            memory.delete(notes[1].id, namespace=ANN)
            memory.evolve(ids=[notes[2].id], namespace=ANN)
            memory.update(notes[3].id, content="the harbour", namespace=ANN)
        return models.construct(request)

    with models.opened(model=models.model(construct=construct), batch_size=1) as memory:
        talk(memory, notes=4, threads=1)
        notes = memory.get_all(namespace=ANN)
        work(memory)
        check_sound(memory)
    assert asked == ["part 0", "part 2", "the harbour"]


def test_a_server_that_is_away_for_a_while_is_waited_for(fake: FakeQdrant, opened: Open) -> None:
    def construct(request: Any) -> Any:
        if not away:
            away.append(True)
            fake.faults.extend([Fault(status=503)] * 18)
        return models.construct(request)

    away, tries = list[bool](), list[float]()
    fake.on_request = lambda time_: tries.append(time_) if fake.faults else None
    memory = opened(models.model(construct=construct), pauses=(0.01,))
    talk(memory, notes=6, threads=2)
    with working(memory, poll=0.1):
        wait_for(lambda: away and not fake.faults)
        wait_for(lambda: {n.state for n in memory.get_all(namespace=ANN)} == {"done"})
    assert tries[-1] - tries[0] > 1  # each pause is twice as long as the one before
    check_sound(memory)
    assert leases_held(memory) == 0


def test_a_budget_is_kept_to_the_call(opened: Open) -> None:
    model = models.model(models.link_to_first)
    memory = opened(model)
    talk(memory, notes=12, threads=6)
    work(memory, budget=7, concurrency=4)
    assert len(model.requests) == 7
    work(memory)
    check_sound(memory)


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


async def test_a_task_that_is_cancelled_while_it_takes_a_lease_gives_the_lease_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold() -> None:
        async with ThreadLease(memory._async_runtime, ANN, "t", "a worker").held():
            pass

    taken, read = asyncio.Event(), ThreadLease._read

    async def slow(lease: ThreadLease) -> Lease | None:
        found = await read(lease)
        if found is not None and not taken.is_set():
            taken.set()
            await asyncio.sleep(60)
        return found

    memory = opened()
    monkeypatch.setattr(ThreadLease, "_read", slow)
    task = asyncio.create_task(hold())
    await taken.wait()
    assert leases_held(memory) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leases_held(memory) == 0


async def test_a_lease_that_is_being_written_when_its_task_is_cancelled_is_given_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold() -> None:
        async with ThreadLease(memory._async_runtime, ANN, "t", "a worker").held():
            pass

    def slow(*given: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.3)
        insert(*given)

    memory, begun, loop = opened(), asyncio.Event(), asyncio.get_running_loop()
    insert = memory._runtime.store.insert_records
    monkeypatch.setattr(memory._runtime.store, "insert_records", slow)
    task = asyncio.create_task(hold())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.5)
    assert leases_held(memory) == 0


def test_a_lease_that_is_prolonged_while_it_is_given_back_is_given_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def racing(lease: ThreadLease, stands: Lease | None, holder: str) -> None:
        monkeypatch.undo()
        await write(lease, stands, lease.holder)
        await write(lease, stands, holder)

    memory, write = opened(), ThreadLease._write
    lease = ThreadLease(memory._runtime, ANN, "t", "a worker")
    run(lease.take())
    monkeypatch.setattr(ThreadLease, "_write", racing)
    run(lease.hand_over(""))
    assert leases_held(memory) == 0


def test_a_worker_takes_again_what_it_could_not_give_back(opened: Open) -> None:
    memory = opened(lease_seconds=600.0)
    lease = ThreadLease(memory._runtime, ANN, "t", "a worker")
    assert run(lease.take()) is not None
    assert run(lease.take()) is not None
    assert run(replace(lease, holder="another").take()) is None


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
    one, other = (opened(lease_seconds=0.4)._runtime for _ in "ab")

    def lease(runtime: Runtime, space: Any = ANN, thread: str | None = "t") -> ThreadLease:
        return ThreadLease(runtime, space, thread, "one" if runtime is one else "other")

    held, taken = lease(one), lease(other)
    assert run(held.take()) == ""
    assert run(taken.take()) is None
    assert run(lease(other, thread=None).take()) is not None
    assert run(lease(other, BOB).take()) is not None
    time.sleep(0.5)
    assert run(taken.take()) == "one"
    run(held.hand_over("one"))  # too late: it changes nothing, neither to prolong nor to end it
    run(held.hand_over(""))
    assert run(held.take()) is None
    run(taken.hand_over(""))
    assert run(held.take()) == ""


def test_a_lease_is_kept_alive_while_the_model_is_asked(opened: Open) -> None:
    asked = []

    def slow(request: Any) -> Any:
        time.sleep(1.2)
        asked.append(run(ThreadLease(other, ANN, "t0", "other").take()))
        return models.construct(request)

    memory = opened(models.model(construct=slow), lease_seconds=0.5)
    other = opened()._runtime
    talk(memory, notes=2, threads=1)
    work(memory)
    assert asked == [None]
    check_sound(memory)


def test_only_a_worker_on_a_server_takes_a_lease(opened: Open, tmp_path: Path) -> None:
    served = opened()
    served.add("the trip", namespace=ANN, thread="t")
    served.evolve()
    with models.opened(tmp_path, models.model()) as folder:
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
    memory = models.opened(model=model)
    talk(memory, notes=9, threads=9)
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(memory.work, poll=0.05)
        asked.wait()
        memory.close()
        closed.set()
        assert worker.result().done == 0
    assert len(model.requests) <= MemoryConfig().max_concurrency


def test_what_waits_longest_comes_first_and_rules_spend_no_budget():
    asked = []

    def construct(request):
        asked.append(request.inputs["notes"][0]["content"])
        return models.construct(request)

    with models.opened(model=models.model(construct=construct)) as memory:
        for space in (BOB, ANN):
            talk(memory, notes=2, threads=2, namespace=space)
            memory.add(f"for {space}", namespace=space, thread="t2", evolve=False)
        memory.work(once=True, concurrency=1)
    assert asked == ["part 0", "part 1", f"for {BOB}", "part 0", "part 1", f"for {ANN}"]
    with models.opened() as memory:
        talk(memory, notes=2)
        assert memory.work(once=True, budget=0).done == 2


def test_after_an_error_that_waiting_does_not_mend_no_other_call_is_begun():
    def refuse(_request):
        time.sleep(0.02)
        return ConfigurationError("the key was revoked")

    model = models.model(construct=refuse)
    with models.opened(model=model) as memory:
        talk(memory, notes=30, threads=30)
        with pytest.raises(ConfigurationError, match="revoked"):
            memory.work(once=True, concurrency=2)
    assert len(model.requests) < 10


def test_many_namespaces_that_fail_keep_no_worker_from_one_that_does_not():
    def construct(request):
        is_good = request.inputs["notes"][0]["content"] == "good"
        return models.construct(request) if is_good else "I would rather not."

    with models.opened(model=models.model(construct=construct), link=False) as memory:
        for n in range(70):
            memory.add("poison", namespace=(f"user {n}",), evolve=False)
        note = memory.add("good", namespace=("zoe",), evolve=False)
        assert work(memory).failed == 70
        assert memory.get(note.id, namespace=("zoe",)).state == "done"


def test_what_failed_hides_nothing_that_was_added_after_it(monkeypatch):
    monkeypatch.setattr("amem_integrations.flows.worker.PAGE", 2)

    def construct(request):
        is_good = request.inputs["notes"][0]["content"] == "good"
        return models.construct(request) if is_good else "I would rather not."

    with models.opened(model=models.model(construct=construct), link=False) as memory:
        items = [NoteInput(content=f"poison {n}", thread=f"t{n}") for n in range(5)]
        memory.add_many([*items, "good"], namespace=ANN, evolve=False)
        report = work(memory)
        assert (report.done, report.failed) == (1, 5)


def test_a_namespace_at_its_limit_of_the_day_keeps_no_other_waiting():
    with models.opened(model=models.model(), daily_calls=1, batch_size=1) as memory:
        for space in (ANN, BOB):
            talk(memory, notes=3, threads=3, namespace=space)
        assert work(memory, concurrency=1).done == 2
        assert memory.stats()["states"] == {"done": 2, "pending": 4}


def test_an_outage_may_last_for_days(monkeypatch):
    monkeypatch.setattr("amem_integrations.flows.worker.LONGEST_WAIT", 1e-6)
    model = models.model(construct=lambda _request: ModelUnavailableError("out of reach"))
    with models.opened(model=model) as memory:
        note = memory.add("the trip", namespace=ANN, evolve=False)
        memory.work(poll=1e-6, stop=lambda: len(model.requests) > 1100)
        assert memory.get(note.id, namespace=ANN).attempts == 0


SILENT = """
import threading
from support import models

asked, never = threading.Event(), threading.Event()

def construct(request):
    asked.set()
    never.wait()

memory = models.opened(model=models.model(construct=construct))
memory.add_many([f"note {n}" for n in range(9)], namespace=("ann",), evolve=False)
threading.Thread(target=memory.evolve, daemon=True).start()
asked.wait()
"""


def test_an_interpreter_ends_while_a_model_is_silent():
    done = subprocess.run(
        [sys.executable, "-c", SILENT], check=False, capture_output=True, text=True, timeout=120,
        env=environment(ROOT, ROOT / "tests"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
