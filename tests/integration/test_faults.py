"""What goes wrong on a real machine: a damaged folder, a full disk, a store or a model that does not answer."""

from __future__ import annotations

import re
import shutil
from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
from support import models
from support.ports import fail_once
from support.processes import copy_folder, run_python
from support.qdrant_server import Fault

from amem_integrations import OpenAIChatModel, errors
from amem_integrations.flows import writing
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
MIB = 2**20
opened = models.opened


def test_a_memory_that_cannot_be_opened_leaves_its_folder_to_the_next_try(tmp_path, monkeypatch):
    opened(tmp_path).close()
    for step in ("resume_all", "embed_missing"):
        with monkeypatch.context() as broken:
            broken.setattr(writing, step, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError) as told:
                opened(tmp_path)
        opened(tmp_path).close()
        assert told.tb is not None  # which keeps what the error has left


def test_closing_a_memory_again_does_nothing_and_what_was_closed_is_found_again(tmp_path):
    memory = opened(tmp_path)
    notes = memory.add_many(["one", "two"], namespace=ANN)
    with pytest.raises(errors.StoreLockedError):
        opened(tmp_path)
    assert deepcopy(memory) is memory
    memory.close()
    memory.close()
    for read in (memory.get_all, memory.search, memory.history, memory.proposals, memory.usage):
        given = {memory.search: ["one"], memory.history: [None]}.get(read, [])
        with pytest.raises(errors.StoreClosedError, match="is closed; open it again"):
            read(*given, namespace=ANN)
    with opened(tmp_path) as memory:
        assert memory.get_all(namespace=ANN) == notes
    for other in (HashEmbedder(name="b"), HashEmbedder(dimensions=32)):
        with pytest.raises(errors.EmbedderMismatchError, match="reindex"):
            opened(tmp_path, embedder=other)


def test_a_callback_that_fails_at_the_end_keeps_no_store_open(tmp_path):
    memory, called = opened(tmp_path), []
    memory.on_close(partial(called.append, "first"))
    memory.on_close(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memory.close()
    opened(tmp_path).close()
    assert called == ["first"]


@pytest.mark.enable_socket
def test_a_slow_model_loses_nothing(open_memory, openai_server):
    openai_server.failures = ["hang"] * 4
    options = {"api_key": "k", "timeout": 0.3, "max_retries": 0}
    memory = open_memory(OpenAIChatModel("m", base_url=openai_server.base_url, **options))
    note = memory.add("My passport expires in June", namespace=ANN)
    assert note.state == "pending"
    assert memory.search("passport", namespace=ANN)[0].note.id == note.id


# Folders that are damaged, or lie on a disk that is full


@pytest.fixture
def folder(tmp_path):
    """A folder with a closed memory of one note."""
    with opened(tmp_path / "m") as memory:
        memory.add("I joined a choir", namespace=ANN)
    return tmp_path / "m"


# In a process of its own, for a panic speaks to the terminal and may leave threads behind.
OPEN = """
import sys
from amem_integrations import AgenticMemory, StoreError
from amem_integrations.testing import HashEmbedder
try:
    memory = AgenticMemory.open(sys.argv[1], embedder=HashEmbedder())
    memory.search("choir", namespace=("ann",))
except StoreError as error:
    print(type(error.__cause__).__name__, error)
"""


def test_damage_that_makes_the_engine_panic_is_a_store_error(folder):
    vectors = (folder / "amem").glob("notes/segments/*/vector_storage-dense/**/*")
    files = [path for path in vectors if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"")
    done = run_python(OPEN, folder, timeout=60)
    # The cause is no Exception at all; a plain `except Exception` would have let it through.
    said = "(?s)PanicException the engine failed.*restore it from a backup"
    assert re.match(said, done.stdout), done.stderr
    assert done.returncode == 0


def test_an_interruption_of_the_engine_is_no_store_error(tmp_path):
    with models.opened(tmp_path) as memory:
        notes = memory._runtime.store._notes
        with pytest.raises(KeyboardInterrupt), notes._using():
            raise KeyboardInterrupt


@pytest.mark.parametrize("part", ["notes", "journal", "amem.json"])
def test_a_folder_with_a_part_missing_or_replaced_is_a_store_error(folder, tmp_path, part):
    for kind in ("nothing", "a file", "a folder"):
        copy = tmp_path / kind
        copy_folder(folder, copy)
        path = copy / "amem" / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if kind == "a file":
            path.write_text("hello")
        elif kind == "a folder":
            path.mkdir()
        with pytest.raises(errors.StoreError) as caught:
            opened(copy)
        assert str(copy) in str(caught.value)
        assert not isinstance(caught.value, errors.StoreLockedError)


def test_a_place_that_is_no_folder_or_cannot_be_written_to_is_a_store_error(folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(errors.StoreError, match=r"notes\.txt"):
        opened(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    obstacle = folder / "amem" / "amem.tmp"
    obstacle.mkdir()
    with pytest.raises(errors.StoreError, match="cannot be written"):
        opened(folder)
    obstacle.rmdir()
    with opened(folder) as memory:  # it was let go of
        assert memory.stats()["notes"] == 1


def leave(monkeypatch, left):
    """Let so many bytes be free on every disk."""
    monkeypatch.setattr("amem_integrations.stores.folder.free_space", lambda *_: left[0])


def test_no_memory_is_made_where_there_is_no_room(tmp_path, monkeypatch):
    leave(monkeypatch, [100 * MIB])
    with pytest.raises(errors.StoreFullError, match="only 100 MiB are free"):
        opened(tmp_path / "a" / "m")
    assert list(tmp_path.iterdir()) == []


def test_with_little_room_a_memory_can_be_read_and_is_not_written_to(folder, monkeypatch):
    left, model = [128 * MIB], models.model()
    leave(monkeypatch, left)
    with opened(folder, model) as memory:
        (note,) = memory.get_all(namespace=ANN)
        assert memory.search("choir", namespace=ANN)[0].note == note
        for write in (
            partial(memory.add, "We sing on Mondays"),
            partial(memory.update, note.id, content="I left"),
            partial(memory.delete, note.id),
            memory.clear,
        ):
            with pytest.raises(errors.StoreFullError, match="nothing was written"):
                write(namespace=ANN)
        assert memory.get_all(namespace=ANN) == [note]
        assert model.requests == []
        left[0] = 10**12
        assert memory.add("We sing on Mondays", namespace=ANN).state == "done"
    left[0] = 90 * MIB
    with pytest.raises(errors.StoreFullError, match=r"only 90 MiB are free.*opening it"):
        opened(folder)


def test_a_disk_that_runs_full_in_the_middle_of_work_costs_no_note(folder, monkeypatch):
    left, fills = [10**12], [0]
    leave(monkeypatch, left)

    def fill(request):
        left[0] = fills.pop() if fills else left[0]
        return models.construct(request)

    with opened(folder, models.model(construct=fill)) as memory:
        with pytest.raises(errors.StoreFullError):
            memory.add("We sing on Mondays", namespace=ANN)
        (note,) = memory.get_all(namespace=ANN, where={"state": "pending"})
        assert note.content == "We sing on Mondays"
        left[0] = 10**12
        assert memory.evolve().done == (note.id,)


# A write that the store could not make is not in the history, and is finished by the next one


@pytest.fixture
def told(open_memory):
    memory = open_memory(models.model(models.update_first("It was moved to May.")))
    first = memory.add("The trip is in April", namespace=ANN, thread="t")
    second = memory.add("The trip is in May now", namespace=ANN, thread="t")
    return memory, first.id, second.id


def kinds(memory, note_id=None):
    return [change.kind for change in memory.history(note_id, namespace=ANN)]


def test_a_correction_that_was_not_written_is_not_in_the_history(told):
    memory, first, _ = told
    before, changes = memory.get_all(namespace=ANN), memory.history(None, namespace=ANN)
    fail_once(memory._runtime.store._notes, "swap")
    with pytest.raises(errors.StoreError, match="told to fail"):
        memory.update(first, namespace=ANN, content="There is no trip")
    assert memory.get_all(namespace=ANN) == before
    assert memory.history(None, namespace=ANN) == changes
    memory.update(first, namespace=ANN, content="There is no trip")
    assert kinds(memory, first).count("update") == 1


@pytest.mark.parametrize("collection", ["_records", "_notes"])
def test_what_was_begun_is_finished_by_the_next_write(told, collection):
    memory, _, second = told
    note = memory.add("In May we pack", namespace=ANN, thread="t", evolve=False)
    memory.construct([note.id], namespace=ANN)
    plan = memory.propose([note.id], namespace=ANN)
    error = KeyboardInterrupt() if collection == "_records" else errors.StoreError("no")
    fail_once(getattr(memory._runtime.store, collection), "swap", error=error)
    with pytest.raises(type(error)):
        memory.commit(plan, namespace=ANN)
    memory.add("Something else", namespace=ANN, evolve=False)
    assert memory.get(note.id, namespace=ANN).state == "done"
    assert len(memory.get(second, namespace=ANN).contexts) == 2
    assert kinds(memory, second).count("evolve") == 1
    before = len(memory.get_all(namespace=ANN))
    fail_once(getattr(memory._runtime.store, collection), "swap")
    with pytest.raises(errors.StoreError):
        memory.delete(second, namespace=ANN)
    gone = 1 if collection == "_records" else 0
    assert len(memory.get_all(namespace=ANN)) == before - gone
    memory.delete(second, namespace=ANN)  # once more, until it is acknowledged
    assert kinds(memory, second) == ["delete"]
    assert len(memory.get_all(namespace=ANN)) == before - 1
    assert "in May now" not in repr(memory.history(None, namespace=ANN))


@pytest.mark.parametrize("door", ["evolve", "construct", "work"])
def test_what_was_decided_before_a_write_failed_is_asked_of_no_model_again(told, door):
    memory, first, _ = told
    note = memory.add("In May we pack", namespace=ANN, evolve=False)
    given = {"construct": {"ids": [note.id]}, "work": {"once": True}}.get(door, {})
    go_on = partial(getattr(memory, door), namespace=ANN, **given)
    fail_once(memory._runtime.store._records, "swap", error=errors.StoreError("no"))
    with pytest.raises(errors.StoreError):
        go_on()
    asked = len(memory.model.requests)
    go_on()
    assert memory.get(note.id, namespace=ANN).own_entry is not None
    fail_once(memory._runtime.store._records, "swap")
    with pytest.raises(errors.StoreError):
        memory.delete(first, namespace=ANN)
    go_on()  # also where no note waits
    assert len(memory.model.requests) == asked
    assert memory._runtime.store.unfinished() == []


def proposed(memory):
    """A note, and the plan for it."""
    note = memory.add("In May we pack", namespace=ANN, thread="t", evolve=False)
    memory.construct([note.id], namespace=ANN)
    return note, memory.propose([note.id], namespace=ANN)


def test_what_was_committed_before_a_write_failed_is_proposed_no_more(told):
    memory, *_ = told
    note, plan = proposed(memory)
    fail_once(memory._runtime.store._records, "swap")
    with pytest.raises(errors.StoreError, match="told to fail"):
        memory.commit(plan, namespace=ANN)
    assert memory.propose([note.id], namespace=ANN).notes == ()
    assert len(memory.model.asked("evolve")) == 2


def test_the_calls_of_a_plan_that_nobody_commits_again_are_in_the_ledger(told):
    memory, *_ = told
    _, plan = proposed(memory)
    fail_once(memory._runtime.store._notes, "retrieve")
    with pytest.raises(errors.StoreError, match="told to fail"):
        memory.commit(plan, namespace=ANN)
    assert sum(entry.calls for entry in memory.usage()) == len(memory.model.requests)


def test_what_takes_the_place_of_a_note_is_decided_once_though_the_answer_was_lost(told):
    memory, first, second = told
    fail_once(memory._runtime.store._records, "insert", works=True)
    add = partial(memory.add, "There is no trip", namespace=ANN, supersedes=[first, second])
    with pytest.raises(errors.StoreError, match="told to fail"):
        add(evolve=False)
    note = add(evolve=False)
    assert memory.get(first, namespace=ANN).superseded_by == note.id
    assert kinds(memory, first).count("supersede") == 1


@pytest.mark.parametrize("door", ["evolve", "commit"])
@pytest.mark.parametrize("is_made_in_part", [False, True])
def test_a_call_whose_decisions_could_not_be_written_is_in_the_ledger(told, is_made_in_part, door):
    memory, *_ = told
    given = {"namespace": ANN}
    if door == "commit":
        note, given["plan"] = proposed(memory)
    else:
        note = memory.add("In May we pack", namespace=ANN, thread="t", evolve=False)
    records = memory._runtime.store._records
    insert = records.insert

    def insert_in_part(points):
        records.insert = insert
        if is_made_in_part:
            insert(points[1:])
        raise errors.StoreUnavailableError("told to fail")

    records.insert = insert_in_part
    with pytest.raises(errors.StoreError, match="told to fail"):
        getattr(memory, door)(**given)
    for _ in range(2):
        assert sum(entry.calls for entry in memory.usage()) == len(memory.model.requests)
        getattr(memory, door)(**given)
    (link,) = memory.get(note.id, namespace=ANN).links.values()
    assert link.reason == "goes on with it"


def test_what_fails_while_the_next_write_finishes_something_else_is_finished_too(told, monkeypatch):
    memory, first, second = told
    store, resume = memory._runtime.store, writing.resume

    def fail_to_delete(note_id):
        fail_once(store._records, "swap")
        with pytest.raises(errors.StoreError):
            memory.delete(note_id, namespace=ANN)

    async def failing_meanwhile(writer):
        await resume(writer)
        monkeypatch.undo()
        fail_to_delete(second)

    fail_to_delete(first)
    monkeypatch.setattr(writing, "resume", failing_meanwhile)
    for text in ("One thing", "Another thing"):
        assert store.unfinished() == [ANN]
        memory.add(text, namespace=ANN, evolve=False)
    assert store.unfinished() == []


def test_an_undo_and_an_approval_that_were_interrupted_show_when_they_are_called_again(told):
    memory, first, _ = told
    fail_once(memory._runtime.store._notes, "swap")
    with pytest.raises(errors.StoreError, match="told to fail"):
        memory.undo(model="scripted", namespace=ANN)
    assert memory.undo(model="scripted", namespace=ANN).undone == ()
    assert memory.get(first, namespace=ANN).contexts == ()
    memory._runtime = replace(memory._runtime, config=replace(memory.config, review=True))
    memory.evolve(namespace=ANN)
    (proposal,) = [one for one in memory.proposals(namespace=ANN) if one.kind == "evolve"]
    fail_once(memory._runtime.store._notes, "swap")
    with pytest.raises(errors.StoreError, match="told to fail"):
        memory.approve(proposal.id, namespace=ANN)
    with pytest.raises(errors.InvalidInputError, match="was approved"):
        memory.approve(proposal.id, namespace=ANN)
    assert memory.get(first, namespace=ANN).contexts[-1].text == "It was moved to May."


@pytest.mark.enable_socket
def test_a_server_that_fails_in_between_is_asked_what_became_of_it(fake, open_memory):
    memory = open_memory(location=fake.url, pauses=())
    for works in (True, False):  # the answer is lost, or nothing is written
        note = memory.add(f"The trip is in April, {works}", namespace=ANN)
        fake.faults.append(Fault(works=works, status=503, path="/amem/points", method="PUT"))
        with pytest.raises(errors.StoreError, match="did not answer"):
            memory.update(note.id, namespace=ANN, metadata={"x": 1})
        assert not fake.faults
        assert (memory.get(note.id, namespace=ANN).metadata == {"x": 1}) == works
        assert (kinds(memory, note.id)[-1] == "update") == works
