"""Killed or failed before any write: kept is kept, gone is gone, and every view says what was decided.

A kill is mostly an exception before a write, after which the process writes nothing more; a few processes are killed.
"""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from protocol import kills
from protocol.kills import CopyingModel
from support import models
from support.ports import fail_once

from amem_integrations import AgenticMemory, MemoryConfig, StoreUnavailableError
from amem_integrations.flows.writing import writer_of
from amem_integrations.journal.projection import differing
from amem_integrations.ports import NoteQuery, RecordQuery
from amem_integrations.runtime import sync_method
from amem_integrations.stores import FolderStore
from amem_integrations.stores.conditions import every, one_of
from amem_integrations.stores.payloads import encode_note, encode_record
from amem_integrations.stores.store import Store
from amem_integrations.testing import HashEmbedder

ANN, SECRET = ("ann",), "zanzibar4711"
KILLS = 3
CONFIG = MemoryConfig(min_gate_similarity=-1, candidates=1, recent=0)
WRITES = ("insert_notes", "swap_notes", "insert_records", "swap_records", "remove_decisions")
ALL = {"namespace": ANN, "thorough": True}
FORGETTING = {
    "delete": lambda memory, first, *_: memory.delete(first, namespace=ANN),
    "delete thoroughly": lambda memory, first, *_: memory.delete(first, **ALL),
    "correct": lambda memory, first, *_: memory.update(first, content="Nothing", **ALL),
    "clear": lambda memory, *_: memory.clear(namespace=ANN),
}
OPERATIONS = {
    **FORGETTING,
    "add": lambda memory, *_: memory.add("We met at the river", namespace=ANN, thread="t"),
    "supersede": lambda memory, first, third, _: memory.supersede(first, third, namespace=ANN),
    "undo": lambda memory, _first, _third, link: memory.undo(link, namespace=ANN),
}

pytestmark = pytest.mark.enable_socket


class Process:
    """How many writes the process makes before it dies; None: it lives."""

    left: int | None = None


@pytest.fixture
def process(monkeypatch):
    process = Process()

    def counted(method):
        def write(*args):
            if process.left == 0:
                raise KeyboardInterrupt
            process.left = process.left and process.left - 1
            return method(*args)

        return write

    for name in WRITES:
        monkeypatch.setattr(Store, name, counted(getattr(Store, name)))
    return process


def opened(place, **options):
    given = {"model": CopyingModel(), "config": CONFIG, **options}
    return AgenticMemory.open(place, embedder=HashEmbedder(), **given)


def prepared(place, **options):
    """Open a memory whose second note quotes the first; the third is shown the second only, and quotes it."""
    memory = opened(place, **options)
    first = memory.add(SECRET, namespace=ANN, thread="t", key="first")
    second = memory.add("Thanks a lot, see you at the river tomorrow", namespace=ANN, thread="t")
    third = memory.add("See you at the river tomorrow, thanks a lot", namespace=ANN, thread="u")
    link = next(c for c in memory.history(second.id, namespace=ANN) if c.kind == "link")
    return memory, first.id, third.id, link.id


@sync_method
async def differing_views(runtime):
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
    """Nothing is left to be done, and every view is the fold of its decisions; return what the notes say."""
    assert memory._runtime.store.unfinished() == []
    assert differing_views(memory) == []
    contents = [note.content for note in memory.get_all(namespace=ANN)]
    assert len(contents) == len(set(contents))
    return set(contents)


def test_kills_at_random_moments_leave_nothing_wrong(tmp_path):
    report = kills.run(tmp_path, KILLS)
    assert report.faults == []
    assert report.kills == KILLS
    assert report.done["add"] > 0


PLACES = [*(("folder", name) for name in OPERATIONS), ("server", "delete thoroughly")]


@pytest.mark.parametrize(("place", "operation"), PLACES)
def test_a_kill_before_any_write_of_an_operation_leaves_nothing_half_done(
    tmp_path, fake, process, place, operation
):
    number, died = -1, True
    while died:
        number, died = number + 1, False
        where = fake.url if place == "server" else tmp_path / str(number)
        options = {"collection": f"c{number}"} if place == "server" else {}
        dying, *ids = prepared(where, **options)
        process.left = number
        try:
            OPERATIONS[operation](dying, *ids)
        except KeyboardInterrupt:
            died = True
        process.left = None
        dying._runtime.store.close()
        with opened(where, **options) as memory:
            contents = check(memory)
            if operation in FORGETTING and SECRET not in contents:
                assert SECRET not in points(memory), number
            if operation not in FORGETTING:
                assert len(contents) >= 3
            memory.evolve(namespace=ANN)
            check(memory)
            assert {note.state for note in memory.get_all(namespace=ANN)} <= {"done"}
    assert number > 1
    assert operation not in FORGETTING or SECRET not in contents


@pytest.mark.parametrize("operation", ["delete thoroughly", "add"])
def test_what_is_finished_at_opening_is_finished_by_the_next_opening_if_that_is_killed(
    tmp_path, process, operation
):
    dying, *ids = prepared(tmp_path)
    process.left = 2
    with pytest.raises(KeyboardInterrupt):
        OPERATIONS[operation](dying, *ids)
    dying._runtime.store.close()
    number, died = 0, True
    while died:
        process.left, died = number, False
        store = FolderStore(tmp_path)
        try:
            AgenticMemory._over(store, HashEmbedder(), CopyingModel(), CONFIG)
        except KeyboardInterrupt:
            number, died = number + 1, True
        store.close()
    process.left = None
    assert number > 1
    with opened(tmp_path) as memory:
        check(memory)
        assert operation == "add" or SECRET not in points(memory)


def test_after_a_power_cut_nothing_is_believed(tmp_path):
    """The folder says that the machine went down, and a shard has lost what the other kept."""
    with opened(tmp_path) as memory:
        first = memory.add(SECRET, namespace=ANN, thread="t")
        second = memory.add("See you at the river tomorrow", namespace=ANN, thread="t")
        store = memory._runtime.store
        assert points(memory).count(SECRET) > 1
        store._notes.delete(every([one_of([first.id])]))
    path = tmp_path / "amem" / "amem.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "closed": None, "boot": "another"}))
    with opened(tmp_path) as memory:
        check(memory)
        (left,) = memory.get_all(namespace=ANN)
        assert (left.id, left.state, left.links) == (second.id, "pending", {})
        assert SECRET not in points(memory)
        assert not memory._runtime.store.power_was_cut


def test_half_a_commit_is_finished_by_the_next_write_once_the_shard_is_back(fake):
    """Spread by the server, both ends of a link may be in different shards, and one of them fails."""
    model = models.model(models.update_first("It was moved to May."))
    options = {"collection_options": {"shard_number": 2}, "pauses": ()}
    with models.opened(fake.url, model, recent=1, candidates=1, **options) as memory:
        made = [memory.add(f"The trip, part {n}", namespace=ANN, evolve=False) for n in range(6)]
        for note in made:
            memory.construct([note.id], namespace=ANN)
            plan = memory.propose([note.id], namespace=ANN)
            fake.down_for_notes = True
            with suppress(StoreUnavailableError):
                memory.commit(plan, namespace=ANN)
            fake.down_for_notes = False
        assert fake.refused  # some writes were done in part
        memory.add("The trip is over", namespace=ANN, evolve=False)
        memory.evolve(namespace=ANN)
        check(memory)
        notes = {note.id: note for note in memory.get_all(namespace=ANN)}
        assert any(note.links for note in notes.values())
        assert all(note.id in notes[to].links for note in notes.values() for to in note.links)
        assert {note.state for note in notes.values()} == {"done"}


def test_what_failed_in_a_living_process_is_finished_by_its_next_write(fake):
    memory, first, *_ = prepared(fake.url, pauses=())
    with memory:
        fail_once(memory._runtime.store._records, "swap")
        with pytest.raises(StoreUnavailableError):
            memory.delete(first, **ALL)
        assert SECRET in points(memory)
        memory.add("Something else", namespace=ANN, evolve=False)
        check(memory)
        assert SECRET not in points(memory)
        with fake.counting() as counted:  # a memory says where it is without a request
            said = repr(memory)
        assert said.startswith(f"<AgenticMemory at {fake.url!r}: embedder='hash', model=")
        assert counted.total() == 0
