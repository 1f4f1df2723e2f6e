"""Every store keeps the contract, and survives what machines, networks and neighbours do to it."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.processes import TESTS, environment, run_python
from support.qdrant_server import FakeQdrant, Fault, serving
from support.stored import (
    DIMENSIONS,
    change,
    item,
    note,
    note_id,
    unit,
)

from amem_integrations import AgenticMemory
from amem_integrations.errors import (
    ConfigurationError,
    EmbedderMismatchError,
    InvalidInputError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnavailableError,
)
from amem_integrations.filters import FIELDS, parse
from amem_integrations.ports import NoteStore, Query
from amem_integrations.stores import Bm25, EdgeStore, QdrantStore
from amem_integrations.stores.collection import CHANGE_INDEXES, NOTE_INDEXES
from amem_integrations.stores.conditions import TIMES
from amem_integrations.stores.edge_shard import EdgeShard
from amem_integrations.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
ANN = ("ann",)
QUICK = {"pauses": (0.001, 0.001, 0.001)}

SETUP = f"""
import os, sys
from amem_integrations.stores import EdgeStore
from support.stored import change, item, note_id
def opened():
    return EdgeStore(sys.argv[1], dimensions={DIMENSIONS})
"""


# In a process of its own, for the engine may abort it.
OPEN_AND_USE = """
from amem_integrations.errors import StoreError
from amem_integrations.ports import Query
try:
    store = opened()
    store.scan(("ann",))
    store.search(("ann",), [Query(text="text")])
    store.insert(("ann",), [item("new", [1], "text")], [])
    store.close()
except StoreError as error:
    print("refused:", error)
else:
    print("opened")
"""


# --- the embedded store -------------------------------------------------------------------------


def run_child(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_python(SETUP + code, folder, timeout=60)


def open_edge(folder: Path, **options: Any) -> EdgeStore:
    return EdgeStore(folder, **{"dimensions": DIMENSIONS, **options})


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[EdgeStore]:
    store = open_edge(tmp_path / "m")
    yield store
    store.close()


def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    code = """
store = opened()
for n in range(10_000):
    store.insert(("ann",), [item(str(n), [1, n], f"word{n}")], [change(str(n), str(n))])
    print(n, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", SETUP + code, str(tmp_path / "m")],
        cwd=ROOT,
        env=environment(ROOT, TESTS),
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(150)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    store = open_edge(tmp_path / "m")
    ids = [note_id(str(n)) for n in acknowledged]
    assert [found.id for found in store.get(ANN, ids)] == ids
    assert {made.note_id for made in store.changes(ANN, limit=20_000)} >= set(ids)
    (found,) = store.search(ANN, [Query(text="word149")])
    assert [hit for hit, _ in found.lexical] == [note_id("149")]
    store.close()


def test_a_kill_between_history_and_notes_leaves_neither(tmp_path: Path) -> None:
    open_edge(tmp_path / "m").insert(ANN, [item("a")], [change("add", "a")])
    code = """
store = opened()
store._notes.upsert = lambda points: os.kill(os.getpid(), 9)
recorded = [change("lost", "a", kind="evolve"), change("kept", "b", kind="proposal")]
store.replace(("ann",), [item("a", revision=1)], recorded)
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    store = open_edge(tmp_path / "m")
    assert store.get(ANN, [note_id("a")]) == [note("a")]
    assert {made.op for made in store.changes(ANN)} == {"op add", "op kept"}
    store.close()


def test_a_kill_after_a_delete_keeps_the_history_of_others(tmp_path: Path) -> None:
    code = """
store = opened()
store.insert(("ann",), [item("a"), item("b")], [change("a", "a"), change("b", "b")])
store.delete(("ann",), [note_id("a")], [change("receipt", "a", kind="delete")])
os.kill(os.getpid(), 9)
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    store = open_edge(tmp_path / "m")
    assert {made.op for made in store.changes(ANN)} == {"op b", "op receipt"}
    store.close()


def test_after_a_kill_all_changes_of_the_last_operations_are_reported(tmp_path: Path) -> None:
    code = """
store = opened()
store.insert(("ann",), [item("a"), item("b")], [])
cut = [change(str(n), "a", kind="unlink", op="long", number=n) for n in range(162)]
store.replace(("ann",), [item("a", revision=1, ops=("long",))], cut)
for n in range(5):
    store.replace(("ann",), [], [change(f"later {n}", "b", number=200 + n)])
os.kill(os.getpid(), 9)
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    store = open_edge(tmp_path / "m")
    assert [step.op for step in store.interrupted].count("long") == 162
    assert [step.op for step in store.interrupted[162:]] == [f"op later {n}" for n in range(5)]
    store.close()
    store = open_edge(tmp_path / "m")  # nobody has finished them
    assert [step.op for step in store.interrupted].count("long") == 162
    store.interrupted = ()
    store.close()
    store = open_edge(tmp_path / "m")
    assert store.interrupted == ()
    store.close()


def test_an_operation_that_was_written_in_part_is_reported_however_long_ago(tmp_path: Path) -> None:
    code = """
store = opened()
store.insert(("ann",), [item(name) for name in "abc"], [])
store.replace(("ann",), [item("b", revision=1)], [change("b", "b", op="half")])
upsert, store._notes.upsert = store._notes.upsert, lambda points: 1 / 0
try:
    store.replace(("ann",), [item("a", revision=1)], [change("a", "a", op="half")])
except ZeroDivisionError:
    store._notes.upsert = upsert
for n in range(300):
    store.replace(("ann",), [item("c", revision=n + 1)], [change(f"c{n}", "c", number=n + 1)])
os.kill(os.getpid(), 9)
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    store = open_edge(tmp_path / "m")
    assert (store.interrupted[0].op, store.interrupted[0].note_id) == ("half", note_id("b"))
    store.close()


def test_an_operation_that_ran_out_of_disk_space_is_reported_though_the_store_was_closed(
    tmp_path: Path,
) -> None:
    left = [10**12]
    store = open_edge(tmp_path / "m", free_bytes=lambda folder: left[0])
    store.insert(ANN, [item("a"), item("b")], [])
    store.replace(ANN, [item("b", revision=1)], [change("1", "b", op="delete a")])
    left[0] = 0
    with pytest.raises(StoreFullError):
        store.delete(ANN, [note_id("a")], [change("2", "a", kind="delete", op="delete a")])
    left[0] = 10**12
    store.close()
    store = open_edge(tmp_path / "m")
    assert [step.op for step in store.interrupted] == ["delete a"]
    assert len(store.get(ANN, [note_id("a"), note_id("b")])) == 2
    store.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("collection", "method"),
    [("_history", "upsert"), ("_history", "delete"), ("_notes", "delete")],
)
def test_a_delete_that_was_interrupted_takes_nothing_that_is_written_later(
    tmp_path: Path, collection: str, method: str, when: str
) -> None:
    code = f"""
store = opened()
store.insert(("ann",), [item("a"), item("b")], [change("a", "a"), change("b", "b")])
collection, method = store.{collection}, {method!r}
original = getattr(collection, method)
def interrupt(*args):
    setattr(collection, method, original)
    if {when!r} == "after":
        original(*args)
    raise KeyboardInterrupt
setattr(collection, method, interrupt)
try:
    store.delete(("ann",), [note_id("a")], [change("receipt", "a", kind="delete")])
except KeyboardInterrupt:
    pass
gone = store.replace(("ann",), [item("a", revision=1)], [change("update", "a", kind="update")])
if gone:
    store.insert(("ann",), [item("a", revision=1)], [change("update", "a")])
for n in range(5):
    store.insert(("ann",), [item(str(n))], [change(str(n), str(n))])
os.kill(os.getpid(), 9)
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    store = open_edge(tmp_path / "m")
    assert store.get(ANN, [note_id("a")])[0].revision == 1
    ops = {made.op for made in store.changes(ANN, note_id=note_id("a"))}
    begun = method == "delete"
    assert ops == ({"op receipt", "op update"} if begun else {"op a", "op update"})
    assert store.count(ANN) == 7
    store.close()


def test_a_compacted_folder_holds_no_byte_of_what_was_deleted(tmp_path: Path) -> None:
    store = open_edge(tmp_path / "m")
    secrets = [f"PLANTED-{n}-SECRET" for n in range(40)]
    for n, secret in enumerate(secrets):
        given = item(str(n), [1, n], secret, content=secret, metadata={"x": secret})
        store.insert(ANN, [given], [change(str(n), str(n), data={"text": secret})])
        kept = item(f"kept {n}", [n, 1], f"kept {n}", number=n, content=f"KEPT-{n}-TEXT")
        store.insert(ANN, [kept], [change(f"kept {n}", f"kept {n}", data={"text": secret})])
    gone, quoted = [note_id(str(n)) for n in range(40)], range(40)
    blank = [change(f"kept {n}", f"kept {n}", data={"text": ""}) for n in quoted]
    store.rewrite_changes(ANN, blank)
    store.delete(ANN, gone, [change("receipt", "0", kind="delete", number=99)])
    store.flush()
    assert found_in_files(tmp_path, "-SECRET")  # or the test would show nothing
    before = (store.scan(ANN), store.changes(ANN), store.search(ANN, [Query(vector=unit(1))]))

    store.compact()

    assert not found_in_files(tmp_path, "-SECRET")
    assert found_in_files(tmp_path, "KEPT-39-TEXT")
    after = (store.scan(ANN), store.changes(ANN), store.search(ANN, [Query(vector=unit(1))]))
    assert after == before
    store.insert(ANN, [item("new", [1], "new words")], [])
    store.close()
    assert not found_in_files(tmp_path, "-SECRET")
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["amem"]
    store = open_edge(tmp_path / "m")
    assert store.scan(ANN, limit=999) == [*before[0], note("new")] or store.count(ANN) == 41
    store.close()


def found_in_files(folder: Path, text: str) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.mark.parametrize("moment", ["copying", "copied", "moved away", "in place"])
def test_a_kill_while_compacting_leaves_one_whole_folder(tmp_path: Path, moment: str) -> None:
    code = f"""
from pathlib import Path
from amem_integrations.stores import folder
store = opened()
store.insert(("ann",), [item(str(n), [1, n]) for n in range(300)], [change("1", "1")])
def kill(*args, **kwargs):
    os.kill(os.getpid(), 9)
rename, renames = Path.rename, []
def renaming(path, target):
    renames.append(path)
    if {moment!r} == "moved away" and len(renames) == 2:
        kill()
    return rename(path, target)
Path.rename = renaming
if {moment!r} == "copying":
    folder.EdgeShard.close = kill
if {moment!r} == "copied":
    folder.put_in_place = kill
if {moment!r} == "in place":
    folder.settle = kill
store.compact()
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    store = open_edge(tmp_path / "m")
    assert (store.count(ANN), len(store.changes(ANN))) == (300, 1)
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["amem"]
    store.compact()
    assert (store.count(ANN), len(store.changes(ANN))) == (300, 1)
    store.close()
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["amem"]


def test_a_folder_that_was_removed_before_exit_prints_no_traceback(tmp_path: Path) -> None:
    code = """
import shutil
store = opened()
store.insert(("ann",), [item("a", [1], "text")], [change("a", "a")])
shutil.rmtree(sys.argv[1])
"""
    done = run_child(code, tmp_path / "m")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    assert "was removed while it was open" in done.stderr


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_store_cannot_be_pickled_and_says_what_to_do(
    edge: EdgeStore, copied: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match=r"EdgeStore cannot be pickled.*open it again"):
        copied(edge)


class Recorded:
    """Filters by a dialect, and the fields that they name."""

    def __init__(self, dialect: Any) -> None:
        self.dialect, self.fields = dialect, set[str]()

    def __getattr__(self, name: str) -> Any:
        def make(*args: Any, **options: Any) -> Any:
            if name in ("any_of", "integer", "between", "during"):
                self.fields.add(args[0])
            return getattr(self.dialect, name)(*args, **options)

        return make


def test_every_filter_a_folder_makes_names_an_index(edge: EdgeStore) -> None:
    edge._dialect = recorded = Recorded(edge._dialect)
    ids = [note_id("a")]
    edge.delete(ANN, ids, [])
    edge.clear(ANN, [])
    edge.changes(ANN, note_id=ids[0], kinds=("add",), after=1)
    edge.changes_by_op(ANN, ["op"])
    edge.mentions(ANN, ids)
    edge.backlinks(ANN, ids)
    for field in FIELDS:
        value = datetime.now(UTC) if field in TIMES else 1
        edge.count(ANN, parse({field: value}))
        if field not in ("id", "seq"):
            edge.count(ANN, parse({field: None}))
    edge.count(ANN, parse({"metadata.x": "y", "attempts": {"$lt": 2}, "seq": {"$gt": 1}}))
    indexed = {*NOTE_INDEXES, *CHANGE_INDEXES}
    assert recorded.fields <= indexed
    assert recorded.fields >= {"op", "cause", "data.shown", "causes", "terms"}
    for shard in (edge._notes, edge._history):
        indexed -= shard._shard.info().payload_schema.keys()
    assert indexed == set()


def test_a_second_process_is_refused_at_once(edge: EdgeStore, tmp_path: Path) -> None:
    code = """
from amem_integrations.errors import StoreLockedError
try:
    opened()
except StoreLockedError as error:
    print(error)
"""
    started = time.monotonic()
    output = run_child(code, tmp_path / "m").stdout
    assert "open already" in output
    assert "Qdrant server" in output
    assert time.monotonic() - started < 20
    edge.insert(ANN, [item("a")], [])


def test_a_second_store_in_one_process_is_refused(edge: EdgeStore, tmp_path: Path) -> None:
    with pytest.raises(StoreLockedError, match="open already"):
        open_edge(tmp_path / "m")
    other = open_edge(tmp_path / "m", collection="other")
    other.close()


def test_a_dropped_store_is_closed(tmp_path: Path) -> None:
    open_edge(tmp_path / "m").insert(ANN, [item("a")], [])
    store = open_edge(tmp_path / "m")
    assert store.get(ANN, [note_id("a")]) == [note("a")]
    store.close()


def test_a_process_that_ends_without_closing_closes(tmp_path: Path) -> None:
    code = "store = opened(); store.insert(('ann',), [item('a')], [])"
    assert run_child(code, tmp_path / "m").returncode == 0
    sidecar = json.loads((tmp_path / "m" / "amem" / "amem.json").read_text())
    assert sidecar["closed"]["notes"] == 1


def test_a_forked_child_is_refused_and_does_no_harm(tmp_path: Path) -> None:
    code = """
from amem_integrations.errors import StoreError
store = opened()
store.insert(("ann",), [item("a")], [])
if (child := os.fork()) == 0:
    try:
        store.get(("ann",), [note_id("a")])
    except StoreError as error:
        print(error, flush=True)
    store.close()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
store.insert(("ann",), [item("b")], [])
print(store.count(("ann",)))
"""
    done = run_child(code, tmp_path / "m")
    assert "fork" in done.stdout
    assert done.stdout.endswith("2\n")
    assert done.returncode == 0


def test_a_disk_that_is_almost_full_refuses_writes(tmp_path: Path) -> None:
    left = [10**12]
    store = open_edge(tmp_path / "m", min_free_bytes=10**9, free_bytes=lambda folder: left[0])
    store.insert(ANN, [item("a")], [])
    left[0] = 10**8
    for write in (
        lambda: store.insert(ANN, [item("b")], [change("b", "b")]),
        lambda: store.replace(ANN, [item("a", revision=1)], []),
    ):
        with pytest.raises(StoreFullError, match="free"):
            write()
    assert store.scan(ANN) == [note("a")]
    assert store.changes(ANN) == []
    store.close()


@pytest.mark.parametrize(
    "content", [None, b"", b"[1]", b'{"format": 1}', b'{"format": "1"}', b"\xff\xfe{"]
)
def test_a_damaged_sidecar_is_a_store_error(tmp_path: Path, content: bytes | None) -> None:
    open_edge(tmp_path / "m").close()
    sidecar = tmp_path / "m" / "amem" / "amem.json"
    sidecar.unlink()
    if content is not None:
        sidecar.write_bytes(content)
    with pytest.raises(StoreError, match="amem"):
        open_edge(tmp_path / "m")


@pytest.mark.parametrize(
    "pattern",
    [
        "notes/edge_config.json",
        "history/edge_config.json",
        "notes/wal/first-index",
        "notes/wal/open-*",
        "notes/segments/*/segment.json",
        "notes/segments/*/version.info",
        "notes/segments/*/mutable_id_tracker.mappings",
        "notes/segments/*/payload_storage/**/*",
        "notes/segments/*/payload_index/config.json",
        "notes/segments/*/payload_index/*namespac*/**/*",
        "notes/segments/*/vector_storage-bm25/**/*",
        "notes/segments/*/vector_storage-dense/**/*",
    ],
)
@pytest.mark.parametrize("damage", ["garbage", "empty", "gone"])
def test_damaged_engine_files_are_no_worse_than_a_store_error(
    tmp_path: Path, pattern: str, damage: str
) -> None:
    store = open_edge(tmp_path / "m")
    store.insert(ANN, [item(str(n), [1, n], "text") for n in range(50)], [])
    store.close()
    files = [path for path in (tmp_path / "m" / "amem").glob(pattern) if path.is_file()]
    assert files
    for path in files:
        if damage == "garbage":
            with path.open("r+b") as file:
                file.write(b"\xa5" * min(4096, path.stat().st_size))
        elif damage == "empty":
            path.write_bytes(b"")
        else:
            path.unlink()
    done = run_child(OPEN_AND_USE, tmp_path / "m")
    assert done.stdout.startswith(("refused", "opened")), (done.returncode, done.stderr[-2000:])


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "m" / "amem").mkdir(parents=True)
    (tmp_path / "m" / "amem" / "thesis.txt").write_text("precious")
    with pytest.raises(StoreError, match="no memory"):
        open_edge(tmp_path / "m")
    assert [path.name for path in (tmp_path / "m" / "amem").iterdir()] == ["thesis.txt"]


def test_missing_notes_are_reported_at_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_edge(tmp_path / "m").close()
    sidecar = tmp_path / "m" / "amem" / "amem.json"
    stored = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**stored, "closed": {"notes": 3, "history": 0}}))
    with caplog.at_level(logging.WARNING):
        open_edge(tmp_path / "m").close()
    assert "3 of 3 points are missing" in caplog.text


def test_a_later_format_is_refused_and_named(tmp_path: Path) -> None:
    open_edge(tmp_path / "m").close()
    sidecar = tmp_path / "m" / "amem" / "amem.json"
    sidecar.write_text(json.dumps({"format": 99, "new": "things"}))
    with pytest.raises(StoreError, match=r"format 99.*newer version"):
        open_edge(tmp_path / "m")


def test_durability_always_flushes_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []
    flush = EdgeShard.flush
    monkeypatch.setattr(EdgeShard, "flush", lambda shard: (flushed.append(shard), flush(shard)))
    lazy = open_edge(tmp_path / "lazy", flush_seconds=1000)
    always = open_edge(tmp_path / "always", durability="always")
    flushed.clear()
    lazy.insert(ANN, [item("a")], [])
    assert flushed == []
    always.insert(ANN, [item("a")], [])
    assert flushed == [always._history, always._notes]
    lazy.close()
    always.close()


@pytest.mark.parametrize(
    "options",
    [
        {"dimensions": 0},
        {"durability": "sometimes"},
        {"collection": "../outside"},
        {"collection": ""},
        {"collection": ".."},
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        open_edge(tmp_path / "m", **options)
    assert list(tmp_path.iterdir()) == []


# --- both ---------------------------------------------------------------------------------------

Opener = Callable[..., NoteStore]


@pytest.fixture(params=["edge", "http"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same place again and again, with given options."""
    if request.param == "edge":
        yield lambda **options: open_edge(tmp_path / "m", **options)
        return
    with serving(FakeQdrant()) as fake:
        yield lambda **options: open_server(fake, **options)


def open_server(fake: FakeQdrant, **options: Any) -> QdrantStore:
    return QdrantStore(fake.url, **{"dimensions": DIMENSIONS, **QUICK, **options})


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"embedder": "another"}, "'mine', now 'another'"),
        ({"dimensions": 5}, "dimensions 4, now 5"),
        ({"bm25": Bm25("german")}, "bm25"),
    ],
)
def test_another_embedder_is_refused_and_reindex_is_named(
    opener: Opener, options: dict[str, Any], named: str
) -> None:
    opener(embedder="mine").close()
    with pytest.raises(EmbedderMismatchError, match=f"(?s){named}.*reindex"):
        opener(**{"embedder": "mine", **options})
    opener(embedder="mine").close()
    opener(embedder="").close()


@pytest.mark.enable_socket
def test_racing_threads_lose_no_update(opener: Opener) -> None:
    store = opener()
    store.insert(ANN, [item("counter", metadata={"n": 0})], [])

    def increment(thread: int) -> None:
        for turn in range(10):
            while True:
                (old,) = store.get(ANN, [note_id("counter")])
                new = item(
                    "counter",
                    metadata={"n": old.metadata["n"] + 1},
                    revision=old.revision + 1,
                    ops=(*old.ops[-31:], f"{thread}-{turn}"),
                )
                if not store.replace(ANN, [new], [change(f"{thread}-{turn}", "counter")]):
                    break

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(increment, range(8)))
    (counter,) = store.get(ANN, [note_id("counter")])
    assert (counter.metadata["n"], counter.revision) == (80, 80)
    assert len(store.changes(ANN)) == 80
    store.close()


# --- the served store ---------------------------------------------------------------------------


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant()) as fake:
        yield fake


@pytest.fixture
def served(fake: FakeQdrant) -> Iterator[QdrantStore]:
    store = open_server(fake)
    yield store
    store.close()


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503),
        Fault(status=500),
        Fault(status=429),
        Fault(status=429, headers={"retry-after": "0"}),
        Fault(),
        Fault(works=True),
        Fault(status=504, works=True),
    ],
    ids=repr,
)
def test_a_passing_fault_is_not_noticed(
    fake: FakeQdrant, served: QdrantStore, fault: Fault
) -> None:
    fake.faults.extend([fault] * 3)
    assert served.insert(ANN, [item("a", [1])], [change("a", "a")]) == {note_id("a")}
    fault.path = "points"
    fake.faults.extend([fault] * 2)
    assert served.replace(ANN, [item("a", revision=1, ops=("op",))], []) == set()
    assert not fake.faults
    assert [found.revision for found in served.get(ANN, [note_id("a")])] == [1]
    assert served.changes(ANN) == [change("a", "a")]


@pytest.mark.enable_socket
@pytest.mark.parametrize("fault", [Fault(status=503), Fault(status=429), Fault()], ids=repr)
def test_a_lasting_fault_is_unavailability(
    fake: FakeQdrant, served: QdrantStore, fault: Fault
) -> None:
    fake.faults.extend([fault] * 4)
    with pytest.raises(StoreUnavailableError, match="after 4 tries"):
        served.get(ANN, [note_id("a")])
    assert served.get(ANN, [note_id("a")]) == []


@pytest.mark.enable_socket
def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port}"):
        QdrantStore(f"http://127.0.0.1:{port}", dimensions=DIMENSIONS, **QUICK)


@pytest.mark.enable_socket
def test_a_server_that_is_silent_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StoreUnavailableError, match=r"one try.*Timeout"):
            QdrantStore(url, dimensions=DIMENSIONS, pauses=(), timeout=1)


@pytest.mark.enable_socket
@pytest.mark.parametrize("status", [401, 403])
def test_a_revoked_key_is_named_but_not_shown(fake: FakeQdrant, status: int) -> None:
    store = open_server(fake, api_key="s3cret")
    assert all(headers["api-key"] == "s3cret" for _, _, headers in fake.requests)
    fake.faults.append(Fault(status=status))
    with pytest.raises(StoreError, match="API key") as caught:
        store.count(ANN)
    assert not isinstance(caught.value, StoreUnavailableError)
    assert "s3cret" not in str(caught.value)
    store.close()


@pytest.mark.enable_socket
def test_a_refusal_is_not_repeated(fake: FakeQdrant, served: QdrantStore) -> None:
    asked = len(fake.requests)
    fake.faults.append(Fault(status=400))
    with pytest.raises(StoreError, match="refused: 400"):
        served.count(ANN)
    assert len(fake.requests) == asked + 1


def test_a_key_does_not_travel_unencrypted() -> None:
    with pytest.raises(ConfigurationError, match="unencrypted") as caught:
        QdrantStore("http://qdrant.example:6333", dimensions=DIMENSIONS, api_key="s3cret")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("ftp://host", {}),
        ("http://", {}),
        ("http://127.0.0.1:1", {"no_such_option": 1}),
        ("http://127.0.0.1:1", {"prefer_grpc": True}),
        (":memory:", {"dimensions": 0}),
        (":memory:", {"collection": ""}),
    ],
)
def test_a_wrong_option_is_named(location: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        QdrantStore(location, **{"dimensions": DIMENSIONS, **options})


@pytest.mark.parametrize(
    "location", ["localhost:6333", "qdrant.example.com:6333", "10.0.0.1:6333", "[::1]:6333"]
)
def test_an_address_without_a_scheme_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=re.escape(f"'http://{location}'")):
        AgenticMemory.open(location, embedder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []
    with AgenticMemory.open(f"./{location}", embedder=HashEmbedder()):
        assert (tmp_path / location).is_dir()


@pytest.mark.enable_socket
@pytest.mark.parametrize("version", ["1.18.2", "v1.18.0-dev", "dev"])
def test_an_old_server_is_refused(version: str) -> None:
    with (
        serving(FakeQdrant(version=version)) as fake,
        pytest.raises(StoreError, match=rf"{re.escape(version)}.*1\.19"),
    ):
        open_server(fake)


@pytest.mark.enable_socket
@pytest.mark.parametrize("answer", ["<html>Welcome</html>", '{"name": "another program"}'])
def test_what_answers_and_is_no_qdrant_server_is_a_store_error_at_once(answer: str) -> None:
    with serving(FakeQdrant()) as fake:
        fake.faults.append(Fault(status=200, text=answer, plain=True))
        with pytest.raises(StoreError, match="no Qdrant server"):
            open_server(fake)
        assert len(fake.requests) == 1


@pytest.mark.enable_socket
def test_a_collection_of_something_else_is_left_alone(fake: FakeQdrant) -> None:
    fake._put_("amem", {"vectors": {"size": 3, "distance": "Dot"}})
    with pytest.raises(StoreError, match="no memory"):
        open_server(fake)


@pytest.mark.enable_socket
def test_a_server_gets_an_index_for_every_field_that_can_be_named(
    fake: FakeQdrant, served: QdrantStore
) -> None:
    assert len(fake.indexes["amem"]) + len(fake.indexes["amem_history"]) <= 25
    for field in FIELDS:
        times = [datetime.now(UTC)] if field in TIMES else [1] if field == "seq" else ["x", None, 1]
        for value in times:
            served.count(ANN, parse({field: value}))
            served.count(ANN, parse({field: {"$ne": value}}))


@pytest.mark.enable_socket
def test_a_range_of_metadata_needs_a_declared_index_on_a_server(fake: FakeQdrant) -> None:
    store = open_server(fake, metadata_indexes={"year": "integer", "odd key": "datetime"})
    store.insert(ANN, [item("a", metadata={"year": 2026, "odd key": "2026-01-01T00:00:00Z"})], [])
    assert store.count(ANN, parse({"metadata.year": {"$gte": 2026}})) == 1
    assert store.count(ANN, parse({"metadata.odd key": {"$lt": datetime.now(UTC)}})) == 1
    assert store.count(ANN, parse({"metadata.year": 2026, "metadata.other": None})) == 1
    with pytest.raises(
        InvalidInputError, match=r"metadata_indexes=\{'size': 'integer' or 'float'\}"
    ):
        store.count(ANN, parse({"metadata.size": {"$gt": 1}}))
    with pytest.raises(InvalidInputError, match="'datetime'"):
        store.count(ANN, parse({"metadata.year": {"$gt": datetime.now(UTC)}}))
    store.close()


@pytest.mark.enable_socket
def test_the_stand_in_refuses_what_has_no_index_as_a_server_in_strict_mode_does(
    fake: FakeQdrant, served: QdrantStore
) -> None:
    del fake.indexes["amem"]["terms"]
    with pytest.raises(
        StoreError, match=r'Index required but not found for \\"terms\\" of one of the following'
    ):
        served.count(ANN, parse({"speaker": "Ann"}))


@pytest.mark.enable_socket
def test_the_stand_in_counts_requests(fake: FakeQdrant, served: QdrantStore) -> None:
    with fake.counting() as counted:
        served.insert(ANN, [item("a")], [])
        served.get_indexed(ANN, [note_id("a")])
    assert counted == {"POST points": 3, "PUT points": 1}


@pytest.mark.enable_socket
def test_a_note_changed_by_another_process_in_between_is_stale(
    fake: FakeQdrant, served: QdrantStore
) -> None:
    other = open_server(fake)
    served.insert(ANN, [item("a"), item("b")], [])

    def interfere() -> None:
        theirs = item("a", revision=1, ops=("theirs",), content="theirs")
        assert other.replace(ANN, [theirs], []) == set()

    fake.before_write = interfere
    ours = [item(name, revision=1, ops=("ours",), content="ours") for name in ("a", "b")]
    recorded = [change(name, name) for name in ("a", "b")]
    assert served.replace(ANN, ours, recorded) == {note_id("a")}
    assert {found.content for found in served.scan(ANN)} == {"theirs", "ours"}
    assert served.changes(ANN) == [change("b", "b")]
    other.close()


@pytest.mark.enable_socket
def test_a_note_inserted_by_another_process_in_between_is_not_new(
    fake: FakeQdrant, served: QdrantStore
) -> None:
    other = open_server(fake)
    fake.before_write = lambda: other.insert(ANN, [item("a", number=9)], [])
    assert served.insert(ANN, [item("a"), item("b")], []) == {note_id("b")}
    assert served.get(ANN, [note_id("a")])[0].seq == note("a", number=9).seq
    other.close()


@pytest.mark.enable_socket
def test_only_a_server_is_remote(fake: FakeQdrant, served: QdrantStore, edge: EdgeStore) -> None:
    memory = QdrantStore(":memory:", dimensions=DIMENSIONS)
    assert (served.remote, edge.remote, memory.remote) == (True, False, False)
    memory.close()


def test_more_notes_than_local_mode_advises_are_no_warning() -> None:
    store = QdrantStore(":memory:", dimensions=DIMENSIONS)
    store.insert(ANN, [item(str(n), [1]) for n in range(20_001)], [])
    (found,) = store.search(ANN, [Query(vector=unit(1), limit=1)])
    assert len(found.dense) == 1
    store.close()
