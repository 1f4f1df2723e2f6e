"""A process killed between writing the history and writing the notes leaves nothing half done."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support import models
from support.processes import run_python

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.cli.open_memory import UnloadedEmbedder
from amem_integrations.stores import EdgeStore
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)

CHILD = """
import os, sys
from support import models
from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.stores import EdgeStore
from amem_integrations.cli.open_memory import UnloadedEmbedder
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
memory = AgenticMemory.open(
    sys.argv[1],
    model=models.model(models.update_first("It was moved to May.")),
    embedder=HashEmbedder(),
    config=MemoryConfig(min_gate_similarity=-1.0, recent=1, candidates=1, max_links=2),
)

def kill(*_):
    os.kill(os.getpid(), 9)

def kill_at(shard, method, call=1):
    # The process dies instead of (call)th calling this.
    original, left = getattr(shard, method), [call]
    def faulty(*args, **kwargs):
        left[0] -= 1
        return kill() if not left[0] else original(*args, **kwargs)
    setattr(shard, method, faulty)

notes, history = memory._runtime.store._notes, memory._runtime.store._history
ids = [memory.add(f"The trip, part {n}", namespace=ANN, thread="t").id for n in range(3)]
"""


def run_and_kill(folder: Path, code: str) -> None:
    done = run_python(CHILD + code, folder, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr


def reopened(folder: Path) -> AgenticMemory:
    return AgenticMemory.open(
        folder,
        model=models.model(models.update_first("It was moved to May.")),
        embedder=HashEmbedder(),
        config=MemoryConfig(min_gate_similarity=-1.0, recent=1, candidates=1, max_links=2),
    )


def check_agreement(memory: AgenticMemory) -> None:
    """What the history tells, added up, is what the notes are; and no link has one end only."""
    notes = {note.id: note for note in memory.get_all(namespace=ANN)}
    told: dict[str, dict[str, set[str]]] = {}
    for change in memory.history(None, namespace=ANN):
        if change.kind == "add":
            told[change.note_id] = {"entries": set(), "links": set(), "ops": set()}
        if change.note_id not in told:
            continue
        note = told[change.note_id]
        if change.kind in ("construct", "evolve"):
            note["entries"].add(change.id)
        if change.kind == "link":
            note["links"].add(change.data["target"])
        if change.kind == "unlink":
            note["links"].remove(change.data["target"])
        if change.kind in ("forget", "retract"):
            note["entries"] -= set(change.data["entries"])
            note["links"] -= set(change.data["links"])
    assert told.keys() == notes.keys()
    for note_id, note in notes.items():
        assert {entry.change for entry in note.contexts} == told[note_id]["entries"]
        assert set(note.links) == told[note_id]["links"]
        assert all(note_id in notes[target].links for target in note.links)


WRITES = {
    "insert": "kill_at(notes, 'upsert'); memory.add('The trip, part 3', namespace=ANN, thread='t')",
    "insert, before the history": (
        "kill_at(history, 'upsert'); memory.add('The trip, part 3', namespace=ANN, thread='t')"
    ),
    "construct": (
        "kill_at(notes, 'upsert', 2); memory.add('The trip, part 3', namespace=ANN, thread='t')"
    ),
    "evolve": (
        "kill_at(notes, 'upsert', 3); memory.add('The trip, part 3', namespace=ANN, thread='t')"
    ),
    "evolve, before the history": (
        "kill_at(history, 'upsert', 3); memory.add('The trip, part 3', namespace=ANN, thread='t')"
    ),
    "right after": "memory.add('The trip, part 3', namespace=ANN, thread='t'); kill()",
}


@pytest.mark.parametrize("write", WRITES)
def test_a_kill_between_history_and_notes_leaves_no_half_of_a_write(tmp_path, write):
    run_and_kill(tmp_path / "m", WRITES[write])
    with reopened(tmp_path / "m") as memory:
        check_agreement(memory)
        memory.evolve(namespace=ANN)
        check_agreement(memory)
        memory.add("The trip, part 3", namespace=ANN, thread="t")
        check_agreement(memory)
        notes = memory.get_all(namespace=ANN)
        assert [note.content[-1] for note in notes] == ["0", "1", "2", "3"]
        assert {note.state for note in notes} == {"done"}
        assert [len(note.contexts) for note in notes] == [2, 2, 2, 1]


EDITS = {
    "update": "kill_at(notes, 'upsert'); memory.update(ids[1], namespace=ANN, content='No trip')",
    "undo": (
        "made = [c for c in memory.history(ids[1], namespace=ANN) if c.kind == 'link'][-1];"
        "kill_at(notes, 'upsert'); memory.undo(made.id, namespace=ANN)"
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_kill_in_an_edit_leaves_the_note_as_it_was(tmp_path, edit):
    run_and_kill(tmp_path / "m", EDITS[edit])
    with reopened(tmp_path / "m") as memory:
        check_agreement(memory)
        assert [n.content[-1] for n in memory.get_all(namespace=ANN)] == ["0", "1", "2"]
        kinds = {change.kind for change in memory.history(None, namespace=ANN)}
        assert kinds == {"add", "construct", "link", "evolve"}


def test_a_kill_in_a_commit_that_drops_links_leaves_both_ends_agreed(tmp_path):
    code = """
object.__setattr__(memory.config, "max_links", 1)
kill_at(notes, "upsert", 3)
memory.add("The trip, part 3", namespace=ANN, thread="t")
"""
    run_and_kill(tmp_path / "m", code)
    with reopened(tmp_path / "m") as memory:
        check_agreement(memory)


MOMENTS = [
    f"kill_at({collection}, {method!r}, {number})"
    for collection, method, numbers in (
        ("history", "upsert", (1, 2, 3)),
        ("history", "delete", (1,)),
        ("notes", "upsert", (1,)),
        ("notes", "delete", (1,)),
    )
    for number in numbers
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_delete_that_was_killed_is_finished_or_never_was(tmp_path, moment):
    run_and_kill(tmp_path / "m", f"{moment}; memory.delete(ids[1], namespace=ANN); kill()")
    with reopened(tmp_path / "m") as memory:
        check_agreement(memory)
        left = [note.content[-1] for note in memory.get_all(namespace=ANN)]
        assert left in (["0", "2"], ["0", "1", "2"])
        gone = left == ["0", "2"]
        receipts = [c for c in memory.history(None, namespace=ANN) if c.kind == "delete"]
        assert len(receipts) == gone
        if gone:
            assert "part 1" not in repr(memory.history(None, namespace=ANN))
            assert "part 1" not in repr(memory.get_all(namespace=ANN))


@pytest.mark.parametrize("moment", ["history', 'delete", "notes', 'delete"])
def test_a_clear_that_was_killed_is_finished(tmp_path, moment):
    run_and_kill(
        tmp_path / "m",
        f"kill_at('{moment}'); memory.clear(namespace=ANN)".replace(
            "kill_at('notes'", "kill_at(notes"
        ).replace("kill_at('history'", "kill_at(history"),
    )
    with reopened(tmp_path / "m") as memory:
        assert memory.get_all(namespace=ANN) == []
        assert [c.kind for c in memory.history(None, namespace=ANN)] == ["clear"]


def test_what_is_imported_again_after_a_delete_survives_a_kill(tmp_path):
    code = """
memory.delete(ids[1], namespace=ANN)
memory.add("The trip, part 1", namespace=ANN, thread="t")
kill()
"""
    run_and_kill(tmp_path / "m", code)
    with reopened(tmp_path / "m") as memory:
        assert len(memory.get_all(namespace=ANN)) == 3
        check_agreement(memory)


CORRECTIONS = {
    "before the note": ("kill_at(notes, 'upsert', 1)", False),
    "before the others": ("kill_at(notes, 'upsert', 2)", True),
    "before the history of the others": ("kill_at(history, 'upsert', 2)", True),
}


@pytest.mark.parametrize("moment", CORRECTIONS)
def test_a_correction_that_was_killed_takes_all_back_that_it_had_said_or_is_none(tmp_path, moment):
    kill, corrected = CORRECTIONS[moment]
    run_and_kill(tmp_path / "m", f"{kill}; memory.update(ids[1], namespace=ANN, content='No trip')")
    with reopened(tmp_path / "m") as memory:
        first, second, third = memory.get_all(namespace=ANN)
        assert (second.content == "No trip") == corrected
        # The second one had updated the first; the third was shown it, and quotes nothing of it.
        assert [entry.cause == first.id for entry in first.contexts] == [True, False][
            : 2 - corrected
        ]
        assert third.state == "done"
        kinds = [c.kind for c in memory.history(None, namespace=ANN)]
        assert kinds.count("retract") == corrected
        memory.evolve()
        assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


def test_what_came_after_a_correction_is_not_taken_back_after_a_kill(tmp_path):
    code = """
memory.update(ids[1], namespace=ANN, content="The trip, part 1b")
memory.evolve()
notes = memory.get_all(namespace=ANN)
assert [len(note.contexts) for note in notes] == [2, 2, 1]
# So much happens then that the notes have forgotten about the correction.
for number in range(33):
    for note_id in ids:
        memory.update(note_id, namespace=ANN, metadata={"n": number})
kill()
"""
    run_and_kill(tmp_path / "m", code)
    with reopened(tmp_path / "m") as memory:
        assert [len(note.contexts) for note in memory.get_all(namespace=ANN)] == [2, 2, 1]


def test_what_was_left_half_done_is_finished_without_an_embedder_too(tmp_path):
    kill = CORRECTIONS["before the others"][0]
    run_and_kill(tmp_path / "m", f"{kill}; memory.update(ids[1], namespace=ANN, content='No trip')")
    store, name, dimensions = EdgeStore.as_made(tmp_path / "m")
    with AgenticMemory._over(
        store, UnloadedEmbedder(name, dimensions)
    ) as memory:  # as `amem show` does
        first = memory.get_all(namespace=ANN)[0]
        assert [entry.cause for entry in first.contexts] == [first.id]


def test_a_link_that_was_changed_at_one_end_is_changed_at_both(tmp_path):
    run_and_kill(
        tmp_path / "m",
        """
from amem_integrations.changes.rewrite import rewrite
from amem_integrations.evolution.relink import Relinker
from amem_integrations.ids import now
from amem_integrations.plans import PlannedRelink
from amem_integrations.runtime import run

wanted = PlannedRelink(
    id="r", source=ids[1], target=ids[0], change="strengthen", reason="", before=0.8
)
edits = Relinker(op="half", at=now()).edits(wanted, ids[2], "scripted")
run(rewrite(memory._runtime, ANN, "half", {ids[0]: edits[ids[0]]}))
kill()
""",
    )
    with reopened(tmp_path / "m") as memory:
        first, second, _ = memory.get_all(namespace=ANN)
        one, other = first.links[second.id], second.links[first.id]
        assert one.strength == other.strength == pytest.approx(0.9)
