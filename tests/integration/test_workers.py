"""Several processes on one server evolve its notes: each note once, by one of them at a time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from support import models
from support.ports import cancel
from support.processes import ROOT, TESTS, environment, run_alone, run_python
from support.qdrant_server import Fault

from amem_integrations import MemoryConfig, NoteInput, WorkReport, errors
from amem_integrations.decisions import Lease
from amem_integrations.flows.worker import ThreadLease
from amem_integrations.ids import now
from amem_integrations.runtime import run
from amem_integrations.stores.payloads import decode_record

ANN, BOB, ZOE = ("ann",), ("bob",), ("zoe",)
WORKER = "amem_integrations.flows.worker"
pytestmark = pytest.mark.enable_socket


@pytest.fixture
def opened(fake, open_memory):
    """Opens the memory as another process does: with a store of its own."""
    options = {"location": fake.url, "pauses": (0.05, 0.2, 0.8), "lease_seconds": 5.0}
    return lambda model=None, **more: open_memory(model or models.model(), **options | more)


class Counting:
    """A model that takes a moment, and remembers by task how often it was sent each text."""

    name = "counting"

    def __init__(self):
        self.sent = Counter()
        self._inner, self._lock = models.model(models.link_to_first), threading.Lock()

    def generate(self, request):
        with self._lock:
            self.sent.update((request.task, text) for text in models.said_in(request))
        time.sleep(0.01)
        return self._inner.generate(request)


def add(memory, *contents, namespace=ANN, thread=None):
    """Add notes that wait, each in a thread of its own if none is given."""
    items = [NoteInput(content=text, thread=thread or text) for text in contents]
    return memory.add_many(items, namespace=namespace, evolve=False)


def talk(memory, notes=80, threads=8, namespace=ANN):
    items = [NoteInput(content=f"part {n}", thread=f"t{n % threads}") for n in range(notes)]
    memory.add_many(items, namespace=namespace, evolve=False)


def together(*calls):
    """Make calls at the same time, and raise what one of them raises."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def work(memory, **options):
    """Work until nothing is left to be done."""
    return memory.work(once=True, **{"poll": 0.05, **options})


@contextmanager
def working(memory, **options):
    """Have a worker at work meanwhile; what it did is in the list afterwards."""
    stop, report = threading.Event(), []
    worker = partial(memory.work, stop=stop.is_set, **options)
    thread = threading.Thread(target=lambda: report.append(worker()))
    thread.start()
    try:
        yield report
    finally:
        stop.set()
        thread.join()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def asked(model):
    """The contents of the notes of each request for attributes."""
    return [models.said_in(request) for request in model.asked("construct")]


def states(memory, ids=None):
    """The states of Ann's notes, and how many attempts of theirs failed."""
    notes = memory.get_all(namespace=ANN)
    return Counter((n.state, n.attempts) for n in notes if ids is None or n.id in ids)


def leases_held(memory):
    records = [decode_record(point) for point in memory._runtime.store._records.scroll(None)]
    return sum(isinstance(one, Lease) and bool(one.holder) for one in records)


def check_sound(memory, namespace=ANN):
    notes = {note.id: note for note in memory.get_all(namespace=namespace, limit=1000)}
    assert {note.state for note in notes.values()} == {"done"}
    for note in notes.values():
        assert all(note.id in notes[target].links for target in note.links)
        assert sum(entry.cause == note.id for entry in note.contexts) == 1
    return len(notes)


def test_of_three_processes_that_evolve_at_once_each_note_is_decided_once(opened):
    memories = [opened(Counting()) for _ in range(3)]
    talk(memories[0], notes=12, threads=3)
    together(*(memory.evolve for memory in memories))
    made = [c.note_id for c in memories[0].history(None, namespace=ANN) if c.kind == "construct"]
    assert check_sound(memories[0]) == len(made) == len(set(made)) == 12


def test_three_workers_send_each_note_to_the_model_once(opened):
    model = Counting()
    memories = [opened(model) for _ in range(3)]
    talk(memories[0], notes=9, threads=3)
    talk(memories[0], notes=4, threads=2, namespace=BOB)
    together(*(partial(work, memory) for memory in memories))
    assert check_sound(memories[0]) + check_sound(memories[0], BOB) == 13
    assert model.sent.total() == 26


def test_one_thread_is_worked_on_by_one_at_a_time_oldest_first(opened):
    under_way, most, order = Counter(), Counter(), []

    def watched(request):
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
    for thread in most:
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


def check_finished_by(other, model):
    """Another process finishes what is held, and the model is sent nothing twice."""
    wait_for(lambda: work(other) and leases_held(other) == 0)
    check_sound(other)
    assert set(model.sent.values()) == {1}


def test_what_a_killed_process_held_is_finished_by_another(fake, opened):
    model = Counting()
    memory = opened(model, lease_seconds=1.0)
    talk(memory, notes=8, threads=4)
    command, path = [sys.executable, "-c", CHILD, fake.url], environment(ROOT, TESTS)
    with subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True) as dying:
        assert "asked" in dying.stdout.readline()  # the model is asked, and waits for a moment
        dying.kill()
    check_finished_by(memory, model)


@pytest.mark.parametrize("step", ["settle", "project"])
def test_a_worker_killed_after_it_wrote_its_decisions_costs_nothing_twice(
    opened, monkeypatch, step
):
    async def dies(*_args):
        raise errors.StoreError("the worker is killed here")

    async def nothing(*_args):
        """Do nothing."""

    model = Counting()
    dying, other = opened(model, lease_seconds=1), opened(model, lease_seconds=1)
    talk(dying, notes=6, threads=1)
    # What is inserted stands; nobody shows it, gives the lease back, or opens the memory again.
    with monkeypatch.context() as patch:
        patch.setattr(ThreadLease, "hand_over", nothing)
        patch.setattr(f"amem_integrations.journal.commit.{step}", dies)
        with pytest.raises(errors.StoreError):
            work(dying)
    assert (leases_held(other), states(other)) == (1, {("pending", 0): 6})
    check_finished_by(other, model)


@pytest.mark.parametrize("answer", [ValueError("too hot"), "I would rather not."])
def test_a_note_that_always_fails_blocks_no_other_and_is_not_tried_for_ever(opened, answer):
    model = models.model(construct=models.refusing(lambda said: "poison" in said, answer))
    memory = opened(model, max_attempts=3)
    _, poison, *_ = add(memory, "one", "poison", "two", "three", "four", "five", thread="t")
    for times in (1, 2, 3):  # once in each run
        work(memory)
        assert states(memory, [poison.id]) == {("failed", times): 1}
    assert states(memory) == {("done", 0): 5, ("failed", 3): 1}
    count = len(model.requests)
    assert work(memory) == WorkReport()
    assert len(model.requests) == count


def test_a_model_that_is_down_is_waited_for_and_leases_are_given_back(opened, monkeypatch):
    # A note that is asked about as the outage ends may be taken for the one that silences the model.
    monkeypatch.setattr(f"{WORKER}.REST", 0.1)
    down, away = [True], errors.ModelUnavailableError("out of reach")
    memory = opened(models.model(construct=models.refusing(lambda _: down, away)))
    talk(memory, notes=6, threads=6)
    with working(memory, poll=0.05) as report:
        time.sleep(0.8)
        assert len(memory.model.requests) < 30
        wait_for(lambda: leases_held(memory) == 0)  # between two attempts
        assert states(memory) == {("pending", 0): 6}
        down.clear()
        wait_for(lambda: states(memory) == {("done", 0): 6})
    assert (report[0].done, report[0].interrupted) == (6, None)


def test_in_an_outage_the_model_is_asked_a_few_times_and_then_waited_for(monkeypatch, open_memory):
    async def wait(_worker):
        counts.append(len(model.requests))

    counts, down = [], [True]
    model = models.model(construct=models.refusing(lambda _: down))
    monkeypatch.setattr(f"{WORKER}._Worker.wait", wait)
    memory = open_memory(model, link=False)
    talk(memory, notes=60, threads=3)
    memory.work(concurrency=1, stop=lambda: len(counts) > 3)
    assert counts == [5, 10, 15, 20]
    down.clear()
    assert work(memory).done == 60
    assert len(model.requests) < 30


def test_notes_on_which_the_model_is_silent_keep_no_others_waiting(open_memory):
    construct = models.refusing(lambda said: not all("good" in text for text in said))
    memory = open_memory(models.model(construct=construct), link=False)
    talk(memory, notes=20, threads=1)
    note = memory.add("good", namespace=BOB, evolve=False)
    assert work(memory, concurrency=1).interrupted
    assert memory.get(note.id, namespace=BOB).state == "done"
    add(memory, *(f"{'good' if n in (4, 9) else 'bad'} {n}" for n in range(10)), namespace=ZOE)
    before = len(memory.model.requests)
    report = work(memory, namespace=ZOE, concurrency=1)
    assert (report.done, report.failed, len(memory.model.requests) - before) == (2, 8, 10)
    for texts in (("bad", "bad too", "good", "good too"), ("bad", "good", "good too", "bad too")):
        add(memory, *texts, namespace=texts, thread="t")
        assert work(memory, namespace=texts).failed == 2
        assert memory.stats(namespace=texts)["states"] == {"done": 2, "failed": 2}


# One thread and one batch, one thread and a batch for each, a thread for each.
@pytest.mark.parametrize(("thread", "size"), [("t", 20), ("t", 1), (None, 20)])
def test_what_silences_the_model_is_not_first_for_ever(monkeypatch, open_memory, thread, size):
    async def wait(_worker):
        """Look again at once."""

    def is_silent(said):  # at first about all of them
        return said != ["good"] or len(model.requests) < 40

    monkeypatch.setattr(f"{WORKER}._Worker.wait", wait)
    model = models.model(construct=models.refusing(is_silent))
    memory = open_memory(model, link=False, batch_size=size)
    said = [*(f"bad {n}" for n in range(8)), "good"]
    *_, good = add(memory, *said, thread=thread)

    def is_done():
        return memory.get(good.id, namespace=ANN).state == "done"

    memory.work(concurrency=1, stop=lambda: is_done() or len(model.requests) > 900)
    assert asked(model)[:4] == [[text] for text in said[:4]] or asked(model)[0] == said
    assert ["good"] in asked(model)[:20]
    assert is_done()


def test_notes_about_which_the_model_is_silent_are_told_from_an_outage(opened):
    """Poison in threads of its own: before the model has answered about others it is down, and then the notes are to blame."""
    model = models.model(construct=models.refusing(lambda said: "poison" in said))
    memory = opened(model, max_attempts=2)
    poison = [NoteInput(content="poison", thread=f"p{n}") for n in range(4)]
    ids = {note.id for note in memory.add_many(poison, namespace=ANN, evolve=False)}
    assert work(memory).interrupted
    assert states(memory) == {("pending", 0): 4}
    with working(memory, poll=0.05) as report:
        time.sleep(0.3)
        memory.add("good", namespace=ANN, thread="p3", evolve=False)
        wait_for(lambda: ("done", 0) in states(memory))
        wait_for(lambda: states(memory, ids) == {("failed", 1): 4})
    assert report[0].failed == 4
    assert work(memory).failed == 4  # what failed before is to blame, also with nothing else to ask
    assert work(memory) == WorkReport()
    assert states(memory, ids) == {("failed", 2): 4}


def test_a_note_that_failed_holds_up_no_other_of_its_thread(opened):
    model = models.model(construct=models.refusing(lambda said: "poison" in said))
    memory = opened(model, link=False)
    add(memory, "poison", "good", thread="t")
    assert work(memory).failed == 1
    add(memory, "more", thread="t")
    work(memory)
    first, *each, last, again = asked(model)
    assert (first, sorted(each)) == (["poison", "good"], [["good"], ["poison"]])
    assert (last, again) == (["more"], ["poison"])


def test_an_outage_after_some_answers_counts_as_no_attempt(open_memory):
    away = errors.ModelUnavailableError("away")
    model = models.model(construct=models.refusing(lambda _: len(model.requests) > 1, away))
    memory = open_memory(model, batch_size=4)
    talk(memory, notes=12, threads=1)
    assert work(memory).failed == 0
    assert states(memory) == {("done", 0): 4, ("pending", 0): 8}


def test_what_is_removed_or_corrected_while_a_worker_holds_it(opened):
    first, second, new = "the trip, part 1", "the trip, part 2", "the harbour"
    other = opened()
    for remove, left in (
        (lambda _: other.clear(namespace=ANN), []),
        (lambda note: other.delete(note, namespace=ANN), [first]),
        (lambda note: other.update(note, namespace=ANN, content=new), [first, new]),
    ):
        held = []

        def evolve(request, held=held, remove=remove):
            if held:
                remove(held.pop())
            return models.link_to_first(request)

        memory = opened(models.model(evolve))
        held.append(add(memory, first, second, thread="t")[1].id)
        work(memory)
        assert [note.content for note in memory.get_all(namespace=ANN)] == left
        if left:
            check_sound(memory)
        assert leases_held(memory) == 0
        memory.clear(namespace=ANN)


def test_of_a_long_thread_only_what_still_waits_is_shown_to_the_model(open_memory):
    def construct(request):
        if len(model.requests) == 1:
            memory.delete(notes[1].id, namespace=ANN)
            memory.evolve(ids=[notes[2].id], namespace=ANN)
            memory.update(notes[3].id, content="the harbour", namespace=ANN)
        return models.construct(request)

    model = models.model(construct=construct)
    memory = open_memory(model, batch_size=1)
    notes = add(memory, *"0123", thread="t")
    work(memory)
    check_sound(memory)
    assert asked(model) == [["0"], ["2"], ["the harbour"]]


def test_a_server_that_is_away_for_a_while_is_waited_for(fake, opened):
    def construct(request):
        if not away:
            away.append(True)
            fake.faults.extend([Fault(status=503)] * 18)
        return models.construct(request)

    away, tries = [], []
    fake.on_request = lambda time_: tries.append(time_) if fake.faults else None
    memory = opened(models.model(construct=construct), pauses=(0.01,))
    talk(memory, notes=6, threads=2)
    with working(memory, poll=0.1):
        wait_for(lambda: away and not fake.faults)
        wait_for(lambda: states(memory) == {("done", 0): 6})
    assert tries[-1] - tries[0] > 1  # each pause is twice as long as the one before
    check_sound(memory)
    assert leases_held(memory) == 0


def test_a_budget_is_kept_to_the_call(opened):
    memory = opened(models.model(models.link_to_first))
    talk(memory, notes=12, threads=6)
    work(memory, budget=7, concurrency=4)
    assert len(memory.model.requests) == 7
    work(memory)
    check_sound(memory)


async def cancelled(memory, task, begun):
    """Cancel a task once an event has come; in the end it holds no lease."""
    await begun.wait()
    held = leases_held(memory)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return held


@pytest.mark.parametrize("times", [1, 100])
async def test_a_task_that_is_cancelled_gives_back_what_it_holds(opened, monkeypatch, times):
    async def late(lease, holder):
        if lease.thread != "t0":  # the others are done before
            await asyncio.sleep(0.3)
        await hand_over(lease, holder)

    begun, hand_over = asyncio.Event(), ThreadLease.hand_over
    monkeypatch.setattr(ThreadLease, "hand_over", late)

    class Waiting:
        name = "waiting"

        async def generate(self, request):
            begun.set()
            await asyncio.sleep(60)

    memory = opened(Waiting())
    talk(memory, notes=6, threads=3)
    task = asyncio.create_task(memory.awork(poll=0.1))
    await begun.wait()
    assert leases_held(memory) > 0
    await cancel(task, begun, times)
    assert leases_held(memory) == 0


def lease(memory, namespace=ANN, thread="t", holder="a worker"):
    return ThreadLease(memory._runtime, namespace, thread, holder)


async def hold(memory):
    async with ThreadLease(memory._async_runtime, ANN, "t", "a worker").held():
        pass


async def test_a_task_that_is_cancelled_while_it_takes_a_lease_gives_the_lease_back(
    opened, monkeypatch
):
    taken, read = asyncio.Event(), ThreadLease._read

    async def slow(lease):
        found = await read(lease)
        if found is not None and not taken.is_set():
            taken.set()
            await asyncio.sleep(60)
        return found

    memory = opened()
    monkeypatch.setattr(ThreadLease, "_read", slow)
    assert await cancelled(memory, asyncio.create_task(hold(memory)), taken) == 1
    assert leases_held(memory) == 0


async def test_a_lease_that_is_being_written_when_its_task_is_cancelled_is_given_back(
    opened, monkeypatch
):
    def slow(*given):
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.3)
        insert(*given)
        loop.call_soon_threadsafe(written.set)

    memory, begun, written = opened(), asyncio.Event(), asyncio.Event()
    loop, insert = asyncio.get_running_loop(), memory._runtime.store.insert_records
    monkeypatch.setattr(memory._runtime.store, "insert_records", slow)
    await cancelled(memory, asyncio.create_task(hold(memory)), begun)
    await written.wait()
    await asyncio.sleep(0.2)
    assert leases_held(memory) == 0


def test_a_lease_that_is_prolonged_while_it_is_given_back_is_given_back(opened, monkeypatch):
    async def racing(lease, stands, holder):
        monkeypatch.undo()
        await write(lease, stands, lease.holder)
        await write(lease, stands, holder)

    memory, write = opened(), ThreadLease._write
    held = lease(memory)
    run(held.take())
    monkeypatch.setattr(ThreadLease, "_write", racing)
    run(held.hand_over(""))
    assert leases_held(memory) == 0


def test_a_worker_takes_again_what_it_could_not_give_back(opened):
    held = lease(opened(lease_seconds=600.0))
    assert run(held.take()) is not None
    assert run(held.take()) is not None
    assert run(replace(held, holder="another").take()) is None


def test_evolve_of_one_thread_leaves_the_others(opened):
    memory = opened()
    talk(memory, notes=6, threads=2)
    report = memory.evolve(namespace=ANN, thread="t1")
    assert len(report.done) == 3
    found = {(note.thread, note.state) for note in memory.get_all(namespace=ANN)}
    assert found == {("t0", "pending"), ("t1", "done")}
    with pytest.raises(errors.InvalidInputError):
        memory.evolve(thread="t0")


def test_a_lease_is_taken_over_after_its_end_and_no_earlier(opened, monkeypatch):
    one, other = (opened(lease_seconds=60) for _ in "ab")
    held, taken = lease(one, holder="one"), lease(other, holder="other")
    assert run(held.take()) == ""
    assert run(taken.take()) is None
    assert run(lease(other, thread=None).take()) is not None
    assert run(lease(other, BOB).take()) is not None
    later = now() + timedelta(seconds=61)
    monkeypatch.setattr(f"{WORKER}.now", lambda: later)
    assert run(taken.take()) == "one"
    run(held.hand_over("one"))  # too late: it changes nothing, neither to prolong nor to end it
    run(held.hand_over(""))
    assert run(held.take()) is None
    run(taken.hand_over(""))
    assert run(held.take()) == ""


def test_a_lease_is_kept_alive_while_the_model_is_asked(opened):
    def slow(request):
        time.sleep(2.5)
        taken.append(run(lease(other, thread="t0", holder="other").take()))
        return models.construct(request)

    taken, other = [], opened()
    memory = opened(models.model(construct=slow), lease_seconds=2)
    talk(memory, notes=2, threads=1)
    work(memory)
    assert taken == [None]
    check_sound(memory)


def test_only_a_worker_on_a_server_takes_a_lease(opened, open_memory, tmp_path):
    served, folder = opened(), open_memory(models.model(), location=tmp_path)
    for memory in (served, folder):
        memory.add("the trip", namespace=ANN, thread="t", evolve=False)
    served.evolve()
    assert folder.work(once=True).done == 1
    for memory in (served, folder):
        points = memory._runtime.store._records.scroll(None)
        assert all("holder" not in point.payload for point in points)


def test_a_worker_ends_when_its_memory_is_closed():
    begun, closed = threading.Event(), threading.Event()

    def construct(request):
        begun.set()
        closed.wait()
        return models.construct(request)

    model = models.model(construct=construct)
    memory = models.opened(model=model)
    talk(memory, notes=9, threads=9)
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(memory.work, poll=0.05)
        begun.wait()
        memory.close()
        closed.set()
        assert worker.result().done == 0
    assert len(model.requests) <= MemoryConfig().max_concurrency


def test_what_waits_longest_comes_first_and_rules_spend_no_budget(open_memory):
    model = models.model()
    memory = open_memory(model)
    for space in (BOB, ANN):
        add(memory, "first", "second", f"for {space}", namespace=space)
    memory.work(once=True, concurrency=1)
    said = [("first", "second", f"for {space}") for space in (BOB, ANN)]
    assert asked(model) == [[text] for texts in said for text in texts]
    memory = open_memory()
    talk(memory, notes=2)
    assert memory.work(once=True, budget=0).done == 2


def test_after_an_error_that_waiting_does_not_mend_no_other_call_is_begun(open_memory):
    def refuse(_request):
        time.sleep(0.02)
        return errors.ConfigurationError("the key was revoked")

    memory = open_memory(models.model(construct=refuse))
    talk(memory, notes=30, threads=30)
    with pytest.raises(errors.ConfigurationError, match="revoked"):
        memory.work(once=True, concurrency=2)
    assert len(memory.model.requests) < 10


def test_what_fails_keeps_no_worker_from_another_namespace_nor_from_what_was_added_after_it(
    open_memory, monkeypatch
):
    construct = models.refusing(lambda said: said[0] != "good", "I would rather not.")
    memory = open_memory(models.model(construct=construct), link=False)
    for n in range(70):
        memory.add("poison", namespace=(f"user {n}",), evolve=False)
    note = memory.add("good", namespace=ZOE, evolve=False)
    assert work(memory).failed == 70
    assert memory.get(note.id, namespace=ZOE).state == "done"
    monkeypatch.setattr(f"{WORKER}.PAGE", 2)
    add(memory, *(f"poison {n}" for n in range(5)), "good")
    report = work(memory, namespace=ANN)
    assert (report.done, report.failed) == (1, 5)


def test_a_namespace_at_its_limit_of_the_day_keeps_no_other_waiting(open_memory):
    memory = open_memory(models.model(), daily_calls=1, batch_size=1)
    for space in (ANN, BOB):
        talk(memory, notes=3, threads=3, namespace=space)
    assert work(memory, concurrency=1).done == 2
    assert memory.stats()["states"] == {"done": 2, "pending": 4}


def test_an_outage_may_last_for_days(monkeypatch, open_memory):
    monkeypatch.setattr(f"{WORKER}.LONGEST_WAIT", 1e-6)
    memory = open_memory(models.model(construct=errors.ModelUnavailableError("out of reach")))
    add(memory, "the trip")
    memory.work(poll=1e-6, stop=lambda: len(memory.model.requests) > 1100)
    assert states(memory) == {("pending", 0): 1}


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
    done = run_python(SILENT)
    assert (done.returncode, done.stderr) == (0, "")


ENDING = """
import sys, threading, time
from support import models

asked = threading.Event()

def construct(request):
    asked.set()
    time.sleep(0.2)
    return models.construct(request)

memory = models.opened(sys.argv[1], model=models.model(construct=construct))
memory.add("the trip", namespace=("ann",), evolve=False)
memory.evolve_later(("ann",))
asked.wait()
"""


def test_an_interpreter_that_ends_lets_the_background_finish_its_step(tmp_path):
    done = run_alone(ENDING, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with models.opened(tmp_path) as memory:
        assert states(memory) == {("done", 0): 1}
