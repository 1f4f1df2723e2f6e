"""Killed at random moments while four threads work: kept is kept, gone is gone, both ends agree."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from support.processes import run_python

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.stores import EdgeStore
from amem_integrations.testing import CopyingModel, HashEmbedder
from benchmarks import kills

ANN, SECRET = ("ann",), "zanzibar4711"
KILLS = 6


def test_kills_at_random_moments_leave_nothing_wrong(tmp_path):
    report = kills.run(tmp_path, KILLS)
    assert report.faults == []
    assert report.kills == KILLS
    assert report.done["add"] > 0


# The second note quotes the first in its context; the third is shown the second only, and quotes it.
CHILD = """
import os, sys
from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.testing import CopyingModel, HashEmbedder
from benchmarks import kills

ANN = ("ann",)
memory = AgenticMemory.open(
    sys.argv[1],
    model=CopyingModel(),
    embedder=HashEmbedder(),
    config=MemoryConfig(min_gate_similarity=-1, candidates=1, recent=0),
)
first = memory.add("zanzibar4711", namespace=ANN, thread="t", key="first")
second = memory.add("Thanks a lot, see you at the river tomorrow", namespace=ANN, thread="t")
memory.add("See you at the river tomorrow, thanks a lot", namespace=ANN, thread="u")

def kill(*_, **__):
    os.kill(os.getpid(), 9)

def kill_at(call):
    # The process dies instead of writing to the history for the (call)th time from now on.
    history = memory._runtime.store._history
    original, left = history.upsert, [call]
    def faulty(*args):
        left[0] -= 1
        return kill() if not left[0] else original(*args)
    history.upsert = faulty
"""

# Opens the folder, and dies instead of writing to the history for the (call)th time while it does.
OPENING = """
import os, sys
from amem_integrations import AgenticMemory
from amem_integrations.stores.edge_shard import EdgeShard
from amem_integrations.testing import CopyingModel, HashEmbedder

original, left = EdgeShard.upsert, [{call}]
def faulty(self, points):
    if self._path.name == "history":
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), 9)
    return original(self, points)
EdgeShard.upsert = faulty
AgenticMemory.open(sys.argv[1], model=CopyingModel(), embedder=HashEmbedder())
os.kill(os.getpid(), 9)
"""
# Opens the store without the memory, writes more operations than it keeps, and dies.
STORE_ONLY = """
import os, sys
from amem_integrations.stores import EdgeStore
from amem_integrations.changes.edits import change_of_namespace
from amem_integrations.ids import new_operation, now
from amem_integrations.testing import HashEmbedder

store = EdgeStore(sys.argv[1], dimensions=HashEmbedder().dimensions)
for _ in range(80):
    record = change_of_namespace(new_operation(), "failure", ("bob",), now(), {})
    store.replace(("bob",), [], [record])
os.kill(os.getpid(), 9)
"""


def run_and_kill(folder: Path, code: str, start: str = CHILD) -> None:
    done = run_python(start + code, folder)
    assert done.returncode == -signal.SIGKILL, done.stderr


def reopened(folder: Path) -> AgenticMemory:
    config = MemoryConfig(min_gate_similarity=-1, candidates=1, recent=0)
    return AgenticMemory.open(folder, model=CopyingModel(), embedder=HashEmbedder(), config=config)


def holders(memory: AgenticMemory, path: Path, secret: str = SECRET) -> set[str]:
    """The notes in which, or in whose history, the secret stands."""
    memory.export(path, namespace=ANN)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    holding = [line for line in lines if secret in json.dumps(line)]
    return {line["note"]["id"] if "note" in line else line["change"]["note_id"] for line in holding}


@pytest.mark.parametrize("call", range(1, 6))
def test_a_delete_that_was_killed_and_is_done_again_leaves_no_quote_at_second_hand(tmp_path, call):
    run_and_kill(tmp_path / "m", f"kill_at({call}); memory.delete(first.id, namespace=ANN); kill()")
    with reopened(tmp_path / "m") as memory:
        for note in memory.get_all(namespace=ANN, where={"key": "first"}):
            memory.delete(note.id, namespace=ANN)
        assert holders(memory, tmp_path / "export") == set()


@pytest.mark.parametrize("call", range(2, 6))
def test_a_correction_that_was_killed_leaves_no_quote_at_second_hand(tmp_path, call):
    update = "memory.update(first.id, namespace=ANN, content='It is gone')"
    run_and_kill(tmp_path / "m", f"kill_at({call}); {update}; kill()")
    with reopened(tmp_path / "m") as memory:
        (first,) = memory.get_all(namespace=ANN, where={"key": "first"})
        assert first.content == "It is gone"
        assert holders(memory, tmp_path / "export") == {first.id}


@pytest.mark.parametrize("call", [2, 4, 6])
def test_a_long_text_whose_correction_was_killed_is_corrected_whole_and_can_be_undone(
    tmp_path, call
):
    old = " ".join(f"We saw zanzibar4711 from hill {n}." for n in range(60))
    new = " ".join(f"We stayed in room {n} of the inn." for n in range(30))
    run_and_kill(
        tmp_path / "m",
        f"""
long = memory.add({old!r}, namespace=ANN, key="long")
kill_at({call})
memory.update(long.id, namespace=ANN, content={new!r})
kill()
""",
    )
    with reopened(tmp_path / "m") as memory:

        def text() -> str:
            first, *rest = memory.get_all(namespace=ANN, where={"thread": long.id})
            assert first == memory.get(long.id, namespace=ANN)
            return "".join(note.content for note in (first, *rest))

        (long,) = memory.get_all(namespace=ANN, where={"key": "long"})
        assert text() == new
        *_, made = [c for c in memory.history(long.id, namespace=ANN) if c.kind == "update"]
        memory.undo(made.id, namespace=ANN)
        assert text() == old


def test_a_delete_that_was_killed_leaves_known_who_quoted_what_the_note_said_meanwhile(tmp_path):
    run_and_kill(
        tmp_path / "m",
        """
store = memory._runtime.store
mentions = store.mentions

def mentions_later(*args, **kwargs):
    store.mentions = mentions
    memory.update(second.id, namespace=ANN, content="It is kookaburra815")
    third = memory.add("Hello", namespace=ANN, thread="t", evolve=False)
    memory.construct([third.id], namespace=ANN)
    store.delete = kill
    return mentions(*args, **kwargs)

store.mentions = mentions_later
memory.delete(second.id, namespace=ANN)
""",
    )
    with reopened(tmp_path / "m") as memory:
        (second,) = [n for n in memory.get_all(namespace=ANN) if "kookaburra" in n.content]
        memory.delete(second.id, namespace=ANN)
        assert holders(memory, tmp_path / "export", "kookaburra815") == set()


def test_a_correction_that_takes_longer_than_many_other_operations_is_finished_after_a_kill(
    tmp_path,
):
    run_and_kill(
        tmp_path / "m",
        """
from amem_integrations.flows import content

async def slow(*_, **__):
    pass

content.remove_old_text = slow
memory.update(first.id, namespace=ANN, content="It is gone")
for number in range(70):
    memory.add(f"Number {number}", namespace=("bob",), evolve=False)
kill()
""",
    )
    with reopened(tmp_path / "m") as memory:
        (first,) = memory.get_all(namespace=ANN, where={"key": "first"})
        assert holders(memory, tmp_path / "export") == {first.id}


def test_two_corrections_that_were_killed_leave_no_quote_in_the_history_of_the_other(tmp_path):
    run_and_kill(
        tmp_path / "m",
        """
from amem_integrations.flows import content

async def killed_here(*_, **__):
    pass

content.remove_old_text = killed_here
memory.update(first.id, namespace=ANN, content="It is gone")
memory.update(second.id, namespace=ANN, content="Goodbye")
kill()
""",
    )
    with reopened(tmp_path / "m") as memory:
        (first,) = memory.get_all(namespace=ANN, where={"key": "first"})
        assert holders(memory, tmp_path / "export") == {first.id}


@pytest.mark.parametrize("call", [1, 2, 3, 5])
def test_what_is_finished_by_the_next_open_is_finished_by_the_one_after_if_that_is_killed(
    tmp_path, call
):
    run_and_kill(
        tmp_path / "m",
        """
from amem_integrations.flows import content

async def killed_here(*_, **__):
    pass

content.remove_old_text = killed_here
memory.update(second.id, namespace=ANN, content="Goodbye")
memory.update(first.id, namespace=ANN, content="It is gone")
kill()
""",
    )
    run_and_kill(tmp_path / "m", "", OPENING.format(call=call))
    with reopened(tmp_path / "m") as memory:
        (first,) = memory.get_all(namespace=ANN, where={"key": "first"})
        assert holders(memory, tmp_path / "export") == {first.id}


def test_what_was_interrupted_stays_on_the_list_until_the_memory_has_finished_it(tmp_path):
    run_and_kill(tmp_path / "m", "kill()")
    run_and_kill(tmp_path / "m", "", STORE_ONLY)
    store = EdgeStore(tmp_path / "m", dimensions=HashEmbedder().dimensions)
    kinds = [step.kind for step in store.interrupted]
    assert kinds.count("add") == 3
    assert kinds.count("failure") >= 64
    store.close()
    reopened(tmp_path / "m").close()
    store = EdgeStore(tmp_path / "m", dimensions=HashEmbedder().dimensions)
    assert store.interrupted == ()
    store.close()
