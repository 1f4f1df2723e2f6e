"""A folder survives what machines, processes and neighbours do to it."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.processes import TESTS, copy_folder, environment, run_python
from support.stored import (
    ANN,
    DIMENSIONS,
    SEQ,
    call,
    decision,
    item,
    note_id,
    stored,
    tombstone,
    unit,
)

from amem_integrations import errors
from amem_integrations.filters import Condition
from amem_integrations.ports import NoteQuery, Query, RecordQuery
from amem_integrations.stored_note import Purge
from amem_integrations.stores import FolderStore, folder, sidecar
from amem_integrations.stores.folder_collection import FEW, FolderCollection

ROOT = Path(__file__).parents[2]

SETUP = f"""
import os, sys
from amem_integrations.stores import FolderStore
from support.stored import call, decision, item, note_id, stored, tombstone
def opened(*below):
    return FolderStore(os.path.join(sys.argv[1], *map(str, below)), dimensions={DIMENSIONS})
"""

# In a process of its own, for the engine may abort it.
OPEN_AND_USE = """
from amem_integrations.errors import StoreError
from amem_integrations.ports import Query
for number in range(int(sys.argv[2])):
    try:
        store = opened(number)
        store.scan(("ann",))
        store.search(("ann",), [Query(text="text")])
        store.insert_notes(("ann",), [stored("new", [1])])
        store.insert_records(("ann",), [call("new")])
        store.close()
    except StoreError as error:
        print("refused:", *str(error).splitlines(), flush=True)
    else:
        print("opened", flush=True)
"""


def run_child(code, folder, *more):
    return run_python(SETUP + code, folder, *more, timeout=60)


def opened(folder, **options):
    return FolderStore(folder, **{"dimensions": DIMENSIONS, **options})


@pytest.fixture
def store(tmp_path):
    with closing(opened(tmp_path / "m")) as made:
        yield made


def described(folder):
    """Return what a folder says about the memory in it."""
    return json.loads((folder / "amem" / "amem.json").read_text())


def describe(folder, **changes):
    """Let a folder say something else."""
    text = json.dumps({**described(folder), **changes})
    (folder / "amem" / "amem.json").write_text(text)


# kills


def test_every_acknowledged_write_survives_a_kill(tmp_path):
    code = """
store = opened()
for n in range(10_000):
    store.insert_notes(("ann",), [stored(str(n), [1, n], content=f"word{n}")])
    store.insert_records(("ann",), [call(str(n)), decision(str(n), str(n))])
    print(n, flush=True)
"""
    command, path = [sys.executable, "-c", SETUP + code, tmp_path / "m"], environment(ROOT, TESTS)
    with subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True) as child:
        acknowledged = [int(child.stdout.readline()) for _ in range(150)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    with closing(opened(tmp_path / "m")) as store:
        ids = {note_id(str(n)) for n in acknowledged}
        assert store.notes(ANN, ids).keys() == ids
        decided = {note_id(f"decision {n}") for n in acknowledged}
        assert store.records(ANN, decided).keys() == decided
        (found,) = store.search(ANN, [Query(text="word149")])
        assert [hit for hit, _ in found.lexical] == [note_id("149")]
        assert not store.power_was_cut


def test_a_machine_that_went_down_is_noticed_until_the_memory_was_put_right(tmp_path, monkeypatch):
    boot = tmp_path / "boot_id"
    boot.write_text("first\n")
    monkeypatch.setattr(sidecar, "BOOT", boot)
    folder = tmp_path / "m"

    def killed():
        """Open the folder, be killed, and return whether the power had been cut before."""
        store = opened(folder)
        cut = store.power_was_cut
        store._let_go()
        return cut

    opened(folder).close()
    assert not killed()
    assert not killed()  # a process died, and the machine did not
    boot.write_text("second\n")
    assert killed()
    assert killed()  # nobody has put the memory right
    opened(folder).close()
    with closing(opened(folder)) as store:
        assert store.power_was_cut
        store.compact()
        assert store.power_was_cut
        store.recovered()
        assert not store.power_was_cut
        store.insert_notes(ANN, [stored("a")])
    assert not killed()
    boot.unlink()
    assert killed()  # nobody knows
    with closing(opened(folder)) as store:
        store.recovered()
    with closing(opened(folder)) as store:
        assert not store.power_was_cut
    assert FolderStore(":memory:", dimensions=4).power_was_cut is False


@pytest.mark.skipif(os.name == "nt", reason="there are no such permissions")
def test_who_may_read_a_folder_is_for_its_owner_to_say(tmp_path):
    folder = tmp_path / "m" / "amem"
    store = opened(tmp_path / "m")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for wanted in (0o700, 0o750):
        folder.chmod(wanted)
        store.compact()
        assert stat.S_IMODE(folder.stat().st_mode) == wanted
    store.close()


def test_a_folder_that_is_a_link_is_written_anew_where_it_leads(tmp_path):
    opened(tmp_path / "m").close()
    (tmp_path / "m" / "amem").rename(tmp_path / "elsewhere")
    (tmp_path / "m" / "amem").symlink_to(tmp_path / "elsewhere")
    with closing(opened(tmp_path / "m")) as store:
        store.insert_notes(ANN, [stored("a", [1], content="SECRET")])
        store.swap_notes(ANN, [("token a", tombstone("a"))])
        store.compact()
    assert (tmp_path / "m" / "amem").is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["elsewhere", "m"]
    assert [one.name for one in (tmp_path / "m").iterdir()] == ["amem"]
    assert not found_in_files(tmp_path / "elsewhere", "SECRET")


# what was deleted


def found_in_files(folder, text):
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


def test_a_compacted_folder_holds_no_byte_of_what_was_deleted(tmp_path):
    store = opened(tmp_path / "m")
    names = range(40)
    secrets = [f"PLANTED-{n}-SECRET{'.' * 200}" for n in names]
    for n, secret in enumerate(secrets):
        given = stored(str(n), [1, n], content=secret, metadata={"x": secret})
        kept = stored(f"kept {n}", [n, 1], number=n, content=f"KEPT-{n}-TEXT")
        store.insert_notes(ANN, [given, kept])
        quoted = item(str(n), str(n), text=secret)
        store.insert_records(ANN, [call(str(n)), decision(str(n), f"kept {n}", quoted)])
    voided = [decision(str(n), f"kept {n}", item(str(n), str(n))).voided() for n in names]
    store.swap_records(ANN, [(one.token, one) for one in voided])
    store.swap_notes(ANN, [(f"token {n}", tombstone(str(n))) for n in names])
    store.flush()
    assert found_in_files(tmp_path, "-SECRET")  # or the test would show nothing
    deleted = store.made_with["deleted_bytes"]
    assert sum(map(len, secrets)) * 3 <= deleted <= sum(map(len, secrets)) * 5

    def content():
        found = store.search(ANN, [Query(vector=unit(1), text="KEPT-39-TEXT")])
        return store.find_notes(ANN, NoteQuery()), store.find_records(ANN, RecordQuery()), found

    before = content()
    store.compact()
    assert not found_in_files(tmp_path, "-SECRET")
    assert found_in_files(tmp_path, "KEPT-39-TEXT")
    assert content() == before
    assert store.made_with["deleted_bytes"] == 0
    store.insert_notes(ANN, [stored("new", [1], content="new words")])
    store.close()
    assert not found_in_files(tmp_path, "-SECRET")
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["amem"]
    with closing(opened(tmp_path / "m")) as again:
        assert again.count(ANN) == 41


def test_deleted_bytes_are_counted_through_a_kill(tmp_path):
    code = """
store = opened()
store.insert_notes(("ann",), [stored("a", content="x" * 1000), stored("b", content="y" * 500)])
store.swap_notes(("ann",), [("token a", tombstone("a", token="t"))])
store.swap_notes(("ann",), [("token b", stored("b", content="z" * 500, token="u", rev=9))])
store.swap_notes(("ann",), [("token b", stored("b", content="", token="v"))])
os.kill(os.getpid(), 9)
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    with closing(opened(tmp_path / "m")) as store:
        before = store.made_with["deleted_bytes"]
        assert 1500 <= before <= 2000  # the texts, and what stands round them
        store.insert_records(ANN, [decision("1", "a", item("b", text="w" * 100))])
        store.remove_decisions(ANN, [decision("1", "a").id])
        assert 100 <= store.made_with["deleted_bytes"] - before <= 600


def test_a_note_that_is_written_without_its_vectors_keeps_those_that_stand(store):
    store.insert_notes(ANN, [stored("a", [1], content="the old kiln")])
    new = replace(stored("a", [1], content="the new barn", token="u"), vectors=None)
    store.swap_notes(ANN, [("token a", new)])
    (held,) = store.notes(ANN, [note_id("a")], vectors=True).values()
    assert (held, held.vectors[0].tolist()) == (new, unit(1).tolist())
    kiln, barn = store.search(ANN, [Query(text="kiln"), Query(text="barn", vector=unit(1))])
    assert not kiln.lexical
    assert [hit for hit, _ in (*barn.lexical, *barn.dense)] == [note_id("a")] * 2


def test_the_first_vector_of_a_note_leaves_it_owing_none(store):
    bare = NoteQuery(bare=True)
    store.insert_notes(ANN, [stored("a", content="the kiln")])
    assert list(store.find_notes(ANN, bare)) == [note_id("a")]
    new = stored("a", [1], content="the kiln", token="u")
    store.swap_notes(ANN, [("another token", new), ("token a", new)])
    assert not [*store.find_notes(ANN, bare), *store.unfinished()]
    (found,) = store.search(ANN, [Query(text="kiln", vector=unit(1))])
    assert [hit for hit, _ in (*found.dense, *found.lexical)] == [note_id("a")] * 2
    assert list(store.notes(ANN, [note_id("a")]).values()) == [new]


def test_words_that_were_written_before_a_kill_are_written_again(tmp_path):
    """A note whose vectors stay is written in two steps; whoever finishes may write what stood there before."""
    code = """
from dataclasses import replace
from amem_integrations.stores import folder_collection
store = opened()
store.insert_notes(("ann",), [stored("a", [1], content="the old kiln")])
edge = folder_collection.edge
class Dying:
    def __getattr__(self, name):
        if name == "set_payload":
            os.kill(os.getpid(), 9)
        return getattr(edge.UpdateOperation, name)
class Engine:
    UpdateOperation = Dying()
    def __getattr__(self, name):
        return getattr(edge, name)
folder_collection.edge = Engine()
new = replace(stored("a", [1], content="the new barn", token="u"), vectors=None)
store.swap_notes(("ann",), [("token a", new)])
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    with closing(opened(tmp_path / "m")) as store:
        asked = [Query(text="kiln"), Query(text="barn")]
        kiln, barn = store.search(ANN, asked)
        assert (len(kiln.lexical), len(barn.lexical)) == (0, 1)  # or the test would show nothing
        as_it_was = replace(stored("a", [1], content="the old kiln", token="v"), vectors=None)
        store.swap_notes(ANN, [("token a", as_it_was)])
        kiln, barn = store.search(ANN, asked)
        assert (len(kiln.lexical), len(barn.lexical)) == (1, 0)


@pytest.mark.parametrize("moment", ["copying", "copied", "moved away", "in place"])
def test_a_kill_while_compacting_leaves_one_whole_folder(tmp_path, moment):
    code = f"""
from pathlib import Path
from amem_integrations.stores import folder
store = opened()
store.insert_notes(("ann",), [stored(str(n), [1, n]) for n in range(300)])
store.insert_records(("ann",), [call("1")])
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
    folder.FolderCollection.close = kill
if {moment!r} == "copied":
    folder.put_in_place = kill
if {moment!r} == "in place":
    folder.finish_replacement = kill
store.compact()
"""
    assert run_child(code, tmp_path / "m").returncode == -signal.SIGKILL
    for compacts in (False, True):
        with closing(opened(tmp_path / "m")) as store:
            if compacts:
                store.compact()
            assert (store.count(ANN), len(store.find_records(ANN, RecordQuery()))) == (300, 1)
        assert [path.name for path in (tmp_path / "m").iterdir()] == ["amem"]


@pytest.mark.parametrize("nth", range(1, 4))
def test_ctrl_c_while_folders_are_exchanged_loses_nothing(tmp_path, monkeypatch, nth):
    store = opened(tmp_path / "m")
    store.insert_notes(ANN, [stored("a", [1])])
    renamed, rename = [], Path.rename

    def interrupted(path, target):
        renamed.append(path)
        if len(renamed) == nth:
            raise KeyboardInterrupt
        return rename(path, target)

    def tidied(path):
        finish_replacement(path)
        if nth > 2:
            raise KeyboardInterrupt

    finish_replacement = folder.finish_replacement
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", interrupted)
        broken.setattr(folder, "finish_replacement", tidied)
        with pytest.raises(KeyboardInterrupt):
            store.compact()
    store.insert_notes(ANN, [stored("b", [1])])
    store.close()
    with closing(opened(tmp_path / "m")) as again:
        assert again.count(ANN) == 2
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["amem"]


def test_other_threads_read_and_write_while_a_folder_is_compacted(store):
    store.insert_notes(ANN, [stored(str(n), [1, n]) for n in range(200)])
    done = threading.Event()

    def use():
        number = 0
        while not done.is_set():
            number += 1
            store.insert_notes(ANN, [stored(f"new {number}", [1])])
            assert len(store.scan(ANN, limit=200)) == 200
            assert store.search(ANN, [Query(vector=unit(1))])[0].dense

    with ThreadPoolExecutor(2) as pool:
        users = [pool.submit(use) for _ in range(2)]
        for _ in range(3):
            store.compact()
        done.set()
        for user in users:
            user.result()


def test_nobody_else_gets_a_folder_while_it_is_compacted(tmp_path, monkeypatch):
    store, done = opened(tmp_path / "m"), threading.Event()
    store.insert_notes(ANN, [stored("a", [1])])

    def open_again_and_again():
        while not done.is_set():
            with pytest.raises(errors.StoreLockedError):
                opened(tmp_path / "m").close()
        return store.count(ANN)

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(open_again_and_again) for _ in range(2)]
        for _ in range(5):
            store.compact()
        with monkeypatch.context() as broken:
            broken.setattr(Path, "rename", lambda path, _: (path / "none").stat())
            with pytest.raises(errors.StoreError, match="cannot be moved"):
                store.compact()
        done.set()
        assert [other.result() for other in others] == [1, 1]
    monkeypatch.setattr(folder, "TRIES", 2)
    opened(tmp_path / "m" / "amem").close()  # within the folder of another one
    store.close()


# processes


def test_a_folder_that_was_removed_before_exit_prints_no_traceback(tmp_path):
    code = """
import shutil
store = opened()
store.insert_notes(("ann",), [stored("a", [1])])
shutil.rmtree(sys.argv[1])
"""
    done = run_child(code, tmp_path / "m")
    assert done.returncode == 0
    assert not re.search("Traceback|panicked", done.stderr)
    assert "was removed while it was open" in done.stderr


def test_a_store_cannot_be_pickled_and_says_what_to_do(store):
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"FolderStore cannot be pickled.*open it again"):
            copied(store)
    assert store.count(ANN) == 0


def test_a_second_process_is_refused_at_once(store, tmp_path):
    code = """
from amem_integrations.errors import StoreLockedError
try:
    opened()
except StoreLockedError as error:
    print(error)
"""
    started = time.monotonic()
    assert re.search("(?s)open already.*Qdrant server", run_child(code, tmp_path / "m").stdout)
    assert time.monotonic() - started < 20
    store.insert_notes(ANN, [stored("a")])


def test_who_is_refused_changes_nothing_in_the_folder(store, tmp_path):
    store.insert_notes(ANN, [stored(f"before{n}", content=f"words {n}") for n in range(200)])
    store.flush()
    for options in ({}, {"dimensions": None}):
        with pytest.raises(errors.StoreLockedError, match="open already"):
            opened(tmp_path / "m", **options)
    opened(tmp_path / "m", collection="other").close()
    for n in range(200):
        store.insert_notes(ANN, [stored(f"after{n}", content=f"more words {n}")])
    store.flush()
    store.close()
    with closing(opened(tmp_path / "m")) as again:
        assert again.count(ANN) == 400


def test_a_dropped_store_is_closed(tmp_path):
    opened(tmp_path / "m").insert_notes(ANN, [stored("a")])
    with closing(opened(tmp_path / "m")) as store:
        assert store.notes(ANN, [note_id("a")]) == {note_id("a"): stored("a")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system lists no open files")
def test_a_closed_folder_keeps_no_file_open(tmp_path):
    counts = set()
    for _ in range(3):
        opened(tmp_path / "m").close()
        counts.add(len([*Path("/proc/self/fd").iterdir()]))
    assert len(counts) == 1


def test_a_process_that_ends_without_closing_closes(tmp_path):
    code = "store = opened(); store.insert_notes(('ann',), [stored('a')])"
    assert run_child(code, tmp_path / "m").returncode == 0
    assert described(tmp_path / "m")["closed"] == {"notes": 1, "journal": 0}


def test_a_forked_child_is_refused_and_does_no_harm(tmp_path):
    code = """
from amem_integrations.errors import StoreError
store, temporary = opened(), FolderStore(":memory:", dimensions=4)
store.insert_notes(("ann",), [stored("a")])
if (child := os.fork()) == 0:
    for one in (store, temporary):
        try:
            one.notes(("ann",), [note_id("a")])
        except StoreError as error:
            print(error, flush=True)
        one.close()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
store.insert_notes(("ann",), [stored("b")])
temporary.insert_notes(("ann",), [stored("b")])
print(store.count(("ann",)) + temporary.count(("ann",)))
"""
    done = run_child(code, tmp_path / "m")
    assert done.stdout.count("after the fork") == 2, done.stderr
    assert done.stdout.endswith("3\n")
    assert done.returncode == 0


def test_a_temporary_memory_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "SHM", tmp_path / "none")
    monkeypatch.setattr(folder.tempfile, "tempdir", str(tmp_path))
    dead = tmp_path / "amem-memory-999999999-abc" / "amem"
    dead.mkdir(parents=True)
    first, second = (FolderStore(":memory:", dimensions=DIMENSIONS) for _ in range(2))
    assert len(list(tmp_path.iterdir())) == 2
    assert first.where == ":memory:"
    first.insert_notes(ANN, [stored("a", [1])])
    first.compact()
    assert (first.count(ANN), second.count(ANN)) == (1, 0)
    first.close()
    del second
    assert list(tmp_path.iterdir()) == []


# disks, damage, settings


def test_a_disk_that_is_almost_full_refuses_writes(tmp_path, monkeypatch):
    left = [10**12]
    monkeypatch.setattr(folder, "free_space", lambda *_: left[0])
    store = opened(tmp_path / "m", min_free_bytes=10**9)
    owing = stored("a", purge=Purge(SEQ, deleted=True))
    store.insert_notes(ANN, [owing])
    left[0] = 10**8
    writes = [
        lambda: store.insert_notes(ANN, [stored("b")]),
        lambda: store.swap_notes(ANN, [("token a", stored("a"))]),
        lambda: store.insert_records(ANN, [call("b")]),
        lambda: store.swap_records(ANN, [("token", call("b"))]),
        lambda: store.remove_decisions(ANN, []),
        lambda: store.remove_tombstones(ANN, datetime.now(UTC)),
        store.compact,
    ]
    for write in writes:
        with pytest.raises(errors.StoreFullError, match="nothing was written"):
            write()
    assert list(store.find_notes(ANN, NoteQuery()).values()) == [owing]
    assert store.find_records(ANN, RecordQuery()) == {}
    left[0] = 11 * 10**8
    store.insert_notes(ANN, [stored("b")])
    with pytest.raises(errors.StoreFullError, match="compacting"):
        store.compact()
    assert store.count(ANN) == 2
    store.close()


def test_a_damaged_sidecar_is_a_store_error(tmp_path):
    opened(tmp_path / "m").close()
    (tmp_path / "m" / "amem" / "amem.json").unlink()
    for content in (None, b"", b"[1]", b'{"format": 2}', b'{"format": "1"}', b"\xff\xfe{"):
        if content is not None:
            (tmp_path / "m" / "amem" / "amem.json").write_bytes(content)
        with pytest.raises(errors.StoreError, match="amem"):
            opened(tmp_path / "m")


ENGINE_FILES = (
    "notes/edge_config.json", "journal/edge_config.json", "notes/wal/first-index", "notes/wal/open-*",
    "notes/segments/*/segment.json", "notes/segments/*/version.info",
    "notes/segments/*/mutable_id_tracker.mappings", "notes/segments/*/payload_storage/**/*",
    "notes/segments/*/payload_index/config.json", "notes/segments/*/payload_index/*namespac*/**/*",
    "notes/segments/*/vector_storage-bm25/**/*", "notes/segments/*/vector_storage-dense/**/*",
)  # fmt: skip


@pytest.mark.parametrize("damage", ["garbage", "empty", "gone"])
def test_damaged_engine_files_are_no_worse_than_a_store_error(tmp_path, damage):
    with closing(opened(tmp_path / "whole")) as store:
        store.insert_notes(ANN, [stored(str(n), [1, n]) for n in range(50)])
        assert store.namespaces() == [ANN]  # makes an index
    for number, pattern in enumerate(ENGINE_FILES):
        copy_folder(tmp_path / "whole", tmp_path / f"{number}")
        files = [path for path in (tmp_path / f"{number}/amem").glob(pattern) if path.is_file()]
        assert files
        for path in files:
            if damage == "garbage":
                with path.open("r+b") as file:
                    file.write(b"\xa5" * min(4096, path.stat().st_size))
            elif damage == "empty":
                path.write_bytes(b"")
            else:
                path.unlink()
    # One process opens them all: where the engine takes it down, its last line tells which folder it had come to.
    done = run_child(OPEN_AND_USE, tmp_path, len(ENGINE_FILES))
    ends = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(ends) == len(ENGINE_FILES), (ends, done.returncode, done.stderr[-2000:])
    assert {*ends} <= {"refused:", "opened"}


def test_an_index_is_made_when_it_is_needed_and_all_are_when_there_are_some_points(tmp_path):
    def indexes():
        return set(store._notes._shard.info().payload_schema)

    threads = (Condition("thread", "$eq", "t"),)
    with closing(opened(tmp_path / "m")) as store:
        assert (store.namespaces(), store.last_seq(), store.scan(ANN)) == ([], 0, [])
        assert indexes() == set()
        store.insert_notes(ANN, [stored(str(n), thread="t") for n in range(FEW)])
        assert (store.count(ANN, threads), indexes()) == (FEW, set())
        assert (store.namespaces(), len(store.scan(ANN))) == ([ANN], FEW)
        assert indexes() == {"namespace", "seq"}
        for n in range(3):
            store.insert_notes(ANN, [stored(f"more {n}", thread="u")])
            assert len(indexes()) == n + 3
            assert store.count(ANN, threads) == FEW
    with closing(opened(tmp_path / "m")) as store:  # closed, or killed, before all were there
        assert indexes() >= {"attempts", "buried", "last", "owing"}
        assert store.count(ANN, threads) == FEW


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "m" / "amem").mkdir(parents=True)
    (tmp_path / "m" / "amem" / "thesis.txt").write_text("precious")
    with pytest.raises(errors.StoreError, match="no memory"):
        opened(tmp_path / "m")
    assert [path.name for path in (tmp_path / "m" / "amem").iterdir()] == ["thesis.txt"]


def test_missing_notes_are_reported_at_open(tmp_path, caplog):
    opened(tmp_path / "m").close()
    describe(tmp_path / "m", closed={"notes": 3, "journal": 0})
    with caplog.at_level(logging.WARNING):
        opened(tmp_path / "m").close()
    assert "3 of 3 points are missing" in caplog.text


def test_a_folder_of_another_schema_is_refused_by_name_and_left_as_it_is(tmp_path):
    folder = tmp_path / "m" / "amem"
    opened(tmp_path / "m").close()

    def files():
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    def refused(said):
        before = files()
        with pytest.raises(errors.StoreError, match=said):
            opened(tmp_path / "m")
        assert files() == before

    describe(tmp_path / "m", format=99, new="things")
    refused("format 99.*newer version")
    (folder / "journal").rename(folder / "history")
    describe(tmp_path / "m", format=1, closed={"notes": 0, "history": 0})
    refused("schema 1.*reads schema 2")


def test_durability_always_flushes_every_write(tmp_path, monkeypatch):
    def flush(shard):
        flushed.append(shard)

    flushed = []
    for place, options in (("lazy", {}), ("always", {"durability": "always"})):
        with closing(opened(tmp_path / place, **options)) as store, monkeypatch.context() as patch:
            patch.setattr(FolderCollection, "flush", flush)
            store.insert_notes(ANN, [stored("a")])
            assert flushed == ([store._records, store._notes] if options else [])


def test_a_wrong_setting_is_named(tmp_path):
    wrong = [("dimensions", 0), ("durability", "sometimes")]
    wrong += [("collection", name) for name in ("../outside", "", "..")]
    for name, value in wrong:
        with pytest.raises(errors.ConfigurationError):
            opened(tmp_path / "m", **{name: value})
    assert list(tmp_path.iterdir()) == []
