"""Several processes share a server: what one that was killed left half done, the next that opens it settles."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from support import models
from support.processes import environment
from support.qdrant_server import FakeQdrant, Fault, serving
from support.stored import DIMENSIONS, change, item, note, note_id

from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.runtime import run
from amem_integrations.stores import QdrantStore
from amem_integrations.stores.announced import REMOVAL
from amem_integrations.stores.payloads import TERMS
from amem_integrations.stores.writes import INTENT
from amem_integrations.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
ANN, BOB = ("ann",), ("bob",)
pytestmark = pytest.mark.enable_socket


class Killed(BaseException):
    """The process ends here: nothing after it is done."""


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant()) as fake:
        yield fake


Opener = Callable[..., QdrantStore]


@pytest.fixture
def opened(fake: FakeQdrant) -> Iterator[Opener]:
    """Opens the collections as one process after the other does; `after` is the patience of that one."""
    stores = []

    def open_(after: float = QdrantStore.settle_after) -> QdrantStore:
        kind = type("Store", (QdrantStore,), {"settle_after": after})
        stores.append(kind(fake.url, dimensions=DIMENSIONS, pauses=(0.001,)))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def kill_at(collection: Any, method: str, call: int = 1) -> None:
    """Let the process end instead of this call."""
    original, left = getattr(collection, method), [call]

    def faulty(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise Killed
        return original(*args, **kwargs)

    setattr(collection, method, faulty)


def kill_after_announcing(store: QdrantStore) -> None:
    """Let the process end when a removal is announced, and nothing is removed."""
    original = store._notes.delete_with  # type: ignore[attr-defined]

    async def faulty(which: Any, *, before: Any = (), **_: Any) -> None:
        await original([], before=before)
        raise Killed

    store._notes.delete_with = faulty  # type: ignore[attr-defined]


def intents(store: QdrantStore) -> int:
    kinds = ((store._history, "kind", INTENT), (store._notes, TERMS, REMOVAL))
    return sum(
        len(run(collection.scroll(store._dialect.every([store._dialect.any_of(field, [kind])]))))
        for collection, field, kind in kinds
    )


def left_by(store: QdrantStore, other: QdrantStore) -> int:
    """Return how many intents a process leaves that ends as it should."""
    store.close()
    return intents(other)


def recorded(store: QdrantStore, namespace: Any = ANN) -> set[str]:
    return {made.op for made in store.changes(namespace)}


def test_a_write_leaves_no_intent_behind(opened: Opener) -> None:
    store = opened()
    store.insert(ANN, [item("a"), item("b")], [change("add", "a")])
    store.replace(ANN, [item("a", revision=1, ops=("o",))], [change("evolve", "a")])
    assert intents(store) == 1  # it goes with the next write
    store.replace(ANN, [item("a", revision=1, ops=("p",))], [change("stale", "a")])
    store.delete(ANN, [note_id("b")], [change("receipt", "b", kind="delete")])
    store.clear(BOB, [])
    assert recorded(store) == {"op add", "op evolve", "op receipt"}
    assert left_by(store, opened()) == 0


def test_a_removal_that_was_carried_out_takes_nothing_that_is_imported_later(
    opened: Opener,
) -> None:
    store, other = opened(), opened()
    given, told = [item("a", seq=1), item("b", seq=1)], [change("old", "a", seq=1)]
    store.insert(ANN, given, told)
    store.delete(ANN, [note_id("a")], [change("receipt", "a", kind="delete")])
    other.insert(ANN, given, told)
    store.delete(ANN, [note_id("b")], [])
    store.clear(ANN, [])
    other.insert(ANN, given, told)
    later = opened(after=0)  # while `store` still has something announced
    assert later.count(ANN) == 2
    assert "op old" in recorded(later)


def test_a_change_that_was_not_made_is_taken_out_of_the_history(opened: Opener) -> None:
    dying = opened()
    dying.insert(ANN, [item("a")], [change("add", "a")])
    kill_at(dying._notes, "swap")
    with pytest.raises(Killed):
        dying.replace(
            ANN,
            [item("a", revision=1, ops=("o",))],
            [change("lost", "a"), change("kept", "b", kind="proposal")],
        )
    # So young, it may still be at it.
    assert recorded(opened()) == {"op add", "op lost", "op kept"}

    store = opened(after=0)

    assert recorded(store) == {"op add", "op kept"}
    assert store.get(ANN, [note_id("a")]) == [note("a")]
    assert intents(store) == 0


def test_of_an_insert_that_was_cut_short_nothing_is_told(opened: Opener) -> None:
    dying = opened()
    kill_at(dying._notes, "insert")
    with pytest.raises(Killed):
        dying.insert(ANN, [item("a", ops=("o",))], [change("add", "a")])
    store = opened(after=0)
    assert recorded(store) == set()
    assert store.insert(ANN, [item("a", ops=("p",))], [change("again", "a")]) == {note_id("a")}


@pytest.mark.parametrize("moment", ["reading back", "before the next write"])
def test_a_change_that_was_made_stays(opened: Opener, moment: str) -> None:
    dying = opened()
    dying.insert(ANN, [item("a")], [change("add", "a")])
    if moment == "reading back":
        kill_at(dying._notes, "retrieve")
    with pytest.raises(Killed) if moment == "reading back" else nullcontext():
        dying.replace(ANN, [item("a", revision=1, ops=("o",))], [change("made", "a")])
    assert intents(opened()) == 1
    store = opened(after=0)
    assert store.get(ANN, [note_id("a")])[0].revision == 1
    assert recorded(store) == {"op add", "op made"}
    assert intents(store) == 0


def test_what_another_process_wrote_instead_is_not_taken_for_ours(opened: Opener) -> None:
    dying, other = opened(), opened()
    dying.insert(ANN, [item("a")], [change("add", "a")])
    kill_at(dying._notes, "swap")
    with pytest.raises(Killed):
        dying.replace(ANN, [item("a", revision=1, ops=("ours",))], [change("ours", "a")])
    other.replace(ANN, [item("a", revision=1, ops=("theirs",))], [change("theirs", "a")])
    assert recorded(opened(after=0)) == {"op add", "op theirs"}


@pytest.mark.parametrize(("writes", "kept"), [(31, False), (32, True)])
def test_a_change_is_kept_where_its_note_does_not_remember_that_far_back(
    opened: Opener, writes: int, kept: bool
) -> None:
    dying, other = opened(), opened()
    dying.insert(ANN, [item("a")], [])
    kill_at(dying._notes, "swap")
    with pytest.raises(Killed):
        dying.replace(ANN, [item("a", revision=1, ops=("ours",))], [change("ours", "a")])
    ops: tuple[str, ...] = ()
    for revision in range(1, writes + 2):
        ops = (*ops, f"theirs {revision}")[-32:]
        other.replace(ANN, [item("a", revision=revision, ops=ops)], [])
    assert recorded(opened(after=0)) == ({"op ours"} if kept else set())


def test_a_process_that_only_stood_still_writes_its_history_again(
    fake: FakeQdrant, opened: Opener
) -> None:
    slow = opened(after=0)
    slow.insert(ANN, [item("a")], [])
    retrieve = slow._notes.swap

    def stand_still(points: Any) -> set[str]:
        assert recorded(opened(after=0)) == set()  # which takes it for dead
        return retrieve(points)

    slow._notes.swap = stand_still  # type: ignore[method-assign]
    slow.replace(ANN, [item("a", revision=1, ops=("o",))], [change("made", "a")])
    assert recorded(slow) == {"op made"}
    assert left_by(slow, opened()) == 0


def test_all_changes_of_an_operation_that_was_written_in_part_are_reported(
    opened: Opener,
) -> None:
    dying, other = opened(), opened()
    dying.insert(ANN, [item("a"), item("b")], [])
    other.replace(ANN, [item("a", revision=1, ops=("theirs",))], [change("theirs", "a")])
    both = [item(name, revision=1, ops=("ours",)) for name in ("a", "b")]
    made = [
        change(f"{name}{n}", name, op="ours", number=n) for n in range(70) for name in ("a", "b")
    ]
    assert dying.replace(ANN, both, made) == {note_id("a")}  # and there it ends
    other.close()

    assert [step.op for step in opened(after=0).interrupted] == ["ours"] * 70
    assert intents(opened()) == 0


def test_an_operation_that_was_written_in_full_at_the_second_try_leaves_no_intent(
    opened: Opener,
) -> None:
    store, other = opened(), opened()
    store.insert(ANN, [item("a"), item("b")], [])
    other.replace(ANN, [item("a", revision=1, ops=("theirs",))], [])
    both = [item(name, revision=1, ops=("ours",)) for name in ("a", "b")]
    made = [change(name, name, op="ours") for name in ("a", "b")]
    assert store.replace(ANN, both, made) == {note_id("a")}
    assert intents(store) == 1
    again = item("a", revision=2, ops=("theirs", "ours"))
    assert store.replace(ANN, [again], [made[0]]) == set()
    assert left_by(store, other) == 0


@pytest.mark.parametrize("where", ["notes", "history"])
def test_a_removal_that_was_begun_is_finished(opened: Opener, where: str) -> None:
    dying, before = opened(), opened()
    told_of = [change(name, name, seq=1) for name in ("a", "b")]
    before.insert(ANN, [item("a"), item("b")], told_of)
    before.close()
    if where == "notes":
        kill_after_announcing(dying)
    else:
        kill_at(dying._history, "delete_with")
    with pytest.raises(Killed):
        dying.delete(ANN, [note_id("a")], [change("receipt", "a", kind="delete")])
    assert intents(opened()) == 1  # so young, it may still be at it

    store = opened(after=0)

    assert [found.id for found in store.scan(ANN)] == [note_id("b")]
    assert recorded(store) == {"op b", "op receipt"}
    assert [(step.kind, step.note_id) for step in store.interrupted] == [("delete", note_id("a"))]
    assert intents(store) == 0


def test_what_was_added_since_outlives_a_removal_that_is_finished_late(opened: Opener) -> None:
    dying, another, other = opened(), opened(), opened()
    dying.insert(ANN, [item("a", seq=1)], [change("old", "a", seq=1)])
    dying.insert(BOB, [item("b", seq=2, namespace=BOB)], [])
    kill_at(dying._history, "delete_with")  # the note is gone, the intent is not
    with pytest.raises(Killed):
        dying.delete(ANN, [note_id("a")], [])
    kill_after_announcing(another)
    with pytest.raises(Killed):
        another.clear(BOB, [])
    since = time.time_ns()
    other.insert(ANN, [item("a", seq=since)], [change("new", "a", seq=since)])
    other.insert(BOB, [item("c", seq=since, namespace=BOB)], [])

    store = opened(after=0)

    assert [found.id for found in store.scan(ANN)] == [note_id("a")]
    assert recorded(store) == {"op new"}
    assert [found.id for found in store.scan(BOB)] == [note_id("c")]


def test_a_key_that_may_only_read_opens_all_the_same(
    fake: FakeQdrant, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    dying = opened()
    dying.insert(ANN, [item("a")], [])
    kill_at(dying._notes, "swap")
    with pytest.raises(Killed):
        dying.replace(ANN, [item("a", revision=1, ops=("o",))], [change("lost", "a")])
    fake.faults.append(Fault(status=403, path="points/delete"))
    with caplog.at_level(logging.WARNING, logger="amem_integrations"):
        store = opened(after=0)
    assert "could not be settled" in caplog.text
    assert store.get(ANN, [note_id("a")]) == [note("a")]
    assert intents(opened(after=0)) == 0


def test_a_write_that_failed_in_a_living_process_leaves_no_intent(
    fake: FakeQdrant, opened: Opener
) -> None:
    store = opened()
    store.insert(ANN, [item("a")], [])
    original, down = store._notes.swap, Fault(status=503)

    def fail(points: Any) -> set[str]:
        fake.faults.extend([down] * 2)
        return original(points)

    store._notes.swap = fail  # type: ignore[method-assign]
    with suppress(Exception):
        store.replace(ANN, [item("a", revision=1, ops=("o",))], [change("lost", "a")])
    assert recorded(store) == set()
    assert intents(store) == 0


CHILD = """
import os, sys
from support import models
from amem_integrations import AgenticMemory, MemoryConfig
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
memory = AgenticMemory.open(
    sys.argv[1],
    model=models.model(models.update_first("It was moved to May.")),
    embedder=HashEmbedder(),
    config=MemoryConfig(min_gate_similarity=-1.0, recent=1, candidates=1),
)

def kill_at(collection, method, call=1):
    original, left = getattr(collection, method), [call]
    def faulty(*args, **kwargs):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), 9)
        return original(*args, **kwargs)
    setattr(collection, method, faulty)

notes, history = memory._runtime.store._notes, memory._runtime.store._history
ids = [memory.add(f"The trip, part {n}", namespace=ANN, thread="t").id for n in range(3)]
"""
KILLS = {
    "evolve": "kill_at(notes, 'swap', 2); memory.add('The trip, part 3', namespace=ANN, thread='t')",
    "delete": "kill_at(history, 'delete_with'); memory.delete(ids[1], namespace=ANN)",
}


@pytest.mark.parametrize("kill", KILLS)
def test_after_a_real_kill_history_and_notes_of_a_memory_agree(
    fake: FakeQdrant, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD + KILLS[kill], fake.url],
        env=environment(ROOT, ROOT / "tests"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    monkeypatch.setattr(QdrantStore, "settle_after", 0)
    with AgenticMemory.open(
        fake.url,
        model=models.model(models.update_first("It was moved to May.")),
        embedder=HashEmbedder(),
        config=MemoryConfig(min_gate_similarity=-1.0, recent=1, candidates=1),
    ) as memory:
        notes = {found.id: found for found in memory.get_all(namespace=ANN)}
        written = [c for c in memory.history(None, namespace=ANN) if not c.data.get("blanked")]
        made = [change for change in written if change.kind in ("construct", "evolve")]
        entries = {entry.change for found in notes.values() for entry in found.contexts}
        assert {c.id for c in made} == entries
        for found in notes.values():
            assert all(found.id in notes[target].links for target in found.links)
        left = sorted(found.content[-1] for found in notes.values())
        assert left == (["0", "2"] if kill == "delete" else ["0", "1", "2", "3"])
        memory.evolve(namespace=ANN)
        assert {n.state for n in memory.get_all(namespace=ANN)} == {"done"}


CORRECT = """
long = memory.add("We saw the hill. " * 99, namespace=ANN, key="long")
kill_at({collection}, {method!r}, {call})
memory.update(long.id, namespace=ANN, content="We stayed at home")
"""


@pytest.mark.parametrize(
    ("collection", "method", "call"),
    [("notes", "swap", 2), ("notes", "delete_with", 1), ("history", "upsert", 2)],
)
def test_a_long_text_whose_correction_was_killed_is_corrected_whole(
    fake: FakeQdrant, monkeypatch: pytest.MonkeyPatch, collection: str, method: str, call: int
) -> None:
    code = CORRECT.format(collection=collection, method=method, call=call)
    done = subprocess.run(
        [sys.executable, "-c", CHILD + code, fake.url],
        env=environment(ROOT, ROOT / "tests"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    monkeypatch.setattr(QdrantStore, "settle_after", 0)
    with AgenticMemory.open(fake.url, model=models.model(), embedder=HashEmbedder()) as memory:
        (long,) = memory.get_all(namespace=ANN, where={"key": "long"})
        assert long.content == "We stayed at home"
        assert not [note for note in memory.get_all(namespace=ANN) if "hill" in note.content]
