"""Killed at any moment: kept is kept, gone is gone, and every view says what was decided."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.processes import run_python

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.flows.writing import writer_of
from amem_integrations.journal.projection import differing
from amem_integrations.ports import NoteQuery, RecordQuery
from amem_integrations.runtime import Runtime, sync_method
from amem_integrations.stores.payloads import encode_note, encode_record
from amem_integrations.testing import CopyingModel, HashEmbedder
from benchmarks import kills

ANN, SECRET = ("ann",), "zanzibar4711"
KILLS = 6
CONFIG = MemoryConfig(min_gate_similarity=-1, candidates=1, recent=0)


def test_kills_at_random_moments_leave_nothing_wrong(tmp_path):
    report = kills.run(tmp_path, KILLS)
    assert report.faults == []
    assert report.kills == KILLS
    assert report.done["add"] > 0


# The second note quotes the first in its context; the third is shown the second only, and quotes it.
CHILD = """
import os, sys
from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.stores.store import PointStore
from amem_integrations.testing import CopyingModel, HashEmbedder

ANN = ("ann",)
WRITES = ("insert_notes", "swap_notes", "insert_records", "swap_records", "remove_decisions")
left = [10**9]  # writes until this process is killed instead

def counted(method):
    def write(*args):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), 9)
        return method(*args)
    return write

for name in WRITES:
    setattr(PointStore, name, counted(getattr(PointStore, name)))

def opened():
    return AgenticMemory.open(
        sys.argv[1],
        model=CopyingModel(),
        embedder=HashEmbedder(),
        config=MemoryConfig(min_gate_similarity=-1, candidates=1, recent=0),
    )
"""
PREPARED = """
memory = opened()
first = memory.add("zanzibar4711", namespace=ANN, thread="t", key="first")
second = memory.add("Thanks a lot, see you at the river tomorrow", namespace=ANN, thread="t")
third = memory.add("See you at the river tomorrow, thanks a lot", namespace=ANN, thread="u")
links = [c for c in memory.history(second.id, namespace=ANN) if c.kind == "link"]
left[0] = int(sys.argv[2])
"""

OPERATIONS = {
    "add": "memory.add('We met at the river', namespace=ANN, thread='t')",
    "delete": "memory.delete(first.id, namespace=ANN)",
    "delete thoroughly": "memory.delete(first.id, namespace=ANN, thorough=True)",
    "correct": "memory.update(first.id, namespace=ANN, content='Nothing', thorough=True)",
    "clear": "memory.clear(namespace=ANN)",
    "supersede": "memory.supersede(first.id, third.id, namespace=ANN)",
    "undo": "memory.undo(links[0].id, namespace=ANN)",
}
FORGETTING = ("delete", "delete thoroughly", "correct", "clear")


def reopened(folder: Path) -> AgenticMemory:
    return AgenticMemory.open(folder, model=CopyingModel(), embedder=HashEmbedder(), config=CONFIG)


@sync_method
async def differing_views(runtime: Runtime) -> list[str]:
    """Return the notes that do not show what was decided about them."""
    store = runtime.store
    alive = store.find_notes(ANN, NoteQuery(alive=True))
    return await differing(writer_of(runtime, ANN), alive)


def points(memory: AgenticMemory) -> list[dict[str, Any]]:
    """Return the payloads of all points."""
    store = memory._runtime.store
    notes = store.find_notes(ANN, NoteQuery()).values()
    records = store.find_records(ANN, RecordQuery()).values()
    return [*map(encode_note, notes), *map(encode_record, records)]


def check(memory: AgenticMemory) -> None:
    """Nothing is left to be done, and every view is the fold of its decisions."""
    assert memory._runtime.store.unfinished() == []
    assert differing_views(memory) == []
    contents = [note.content for note in memory.get_all(namespace=ANN)]
    assert len(contents) == len(set(contents))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_kill_before_any_write_of_an_operation_leaves_nothing_half_done(tmp_path, operation):
    code = CHILD + PREPARED + OPERATIONS[operation]
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        done = run_python(code, folder, number)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        with reopened(folder) as memory:
            check(memory)
            alive = {note.content for note in memory.get_all(namespace=ANN)}
            if operation in FORGETTING and SECRET not in alive:
                assert SECRET not in json.dumps(points(memory)), number
            if operation not in FORGETTING:
                assert len(alive) >= 3
            memory.evolve(namespace=ANN)
            check(memory)
            assert {note.state for note in memory.get_all(namespace=ANN)} <= {"done"}
        if done.returncode == 0:
            break
    assert number > 2
    if operation in FORGETTING:
        assert SECRET not in alive


@pytest.mark.parametrize("operation", ["delete thoroughly", "add"])
def test_what_is_finished_at_opening_is_finished_by_the_next_opening_if_that_is_killed(
    tmp_path, operation
):
    code = CHILD + PREPARED + OPERATIONS[operation]
    assert run_python(code, tmp_path, 3).returncode == -signal.SIGKILL
    opening = CHILD + "left[0] = int(sys.argv[2]); opened()"
    number, killed = 1, True
    while killed:
        done = run_python(opening, tmp_path, number)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        killed, number = done.returncode != 0, number + 1
    assert number > 2
    with reopened(tmp_path) as memory:
        check(memory)
        assert operation == "add" or SECRET not in json.dumps(points(memory))


def test_after_a_power_cut_nothing_is_believed(tmp_path):
    """The folder says that the machine went down, and a shard has lost what the other kept."""
    with reopened(tmp_path) as memory:
        first = memory.add(SECRET, namespace=ANN, thread="t")
        second = memory.add("See you at the river tomorrow", namespace=ANN, thread="t")
        store = memory._runtime.store
        assert SECRET in json.dumps(points(memory)[1:])
        store._notes.delete(store._dialect.ids([first.id]))
    path = tmp_path / "amem" / "amem.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "closed": None, "boot": "another"}))
    with reopened(tmp_path) as memory:
        check(memory)
        (left,) = memory.get_all(namespace=ANN)
        assert (left.id, left.state, left.links) == (second.id, "pending", {})
        assert SECRET not in json.dumps(points(memory))
        assert not memory._runtime.store.power_was_cut
