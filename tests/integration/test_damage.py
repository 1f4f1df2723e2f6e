"""Folders that are damaged, belong to something else, or lie on a disk that is full."""

from __future__ import annotations

import shutil

import pytest
from support import models
from support.processes import run_python

from amem_integrations import AgenticMemory, StoreError, StoreFullError, StoreLockedError
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
MIB = 2**20


def open_memory(folder, **options):
    return AgenticMemory.open(folder, model=models.model(), embedder=HashEmbedder(), **options)


@pytest.fixture
def folder(tmp_path):
    """A folder with a closed memory of one note."""
    with open_memory(tmp_path / "m") as memory:
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
    files = [
        path
        for path in (folder / "amem").glob("notes/segments/*/vector_storage-dense/**/*")
        if path.is_file()
    ]
    assert files
    for path in files:
        path.write_bytes(b"")
    done = run_python(OPEN, folder, timeout=60)
    # The cause is no Exception at all; a plain `except Exception` would have let it through.
    assert done.stdout.startswith("PanicException the engine failed"), done.stderr
    assert "restore it from a backup" in done.stdout
    assert done.returncode == 0


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("part", ["notes", "journal", "amem.json"])
@pytest.mark.parametrize("other", [None, "a file", "a folder"])
def test_a_folder_with_a_part_missing_or_replaced_is_a_store_error(folder, part, other):
    path = folder / "amem" / part
    remove(path)
    if other == "a file":
        path.write_text("hello")
    elif other == "a folder":
        path.mkdir()
    with pytest.raises(StoreError) as caught:
        open_memory(folder)
    assert str(folder) in str(caught.value)
    assert not isinstance(caught.value, StoreLockedError)


def test_a_place_that_is_no_folder_is_a_store_error(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"notes\.txt"):
        open_memory(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_written_to_is_a_store_error_and_is_let_go_of(folder):
    obstacle = folder / "amem" / "amem.tmp"
    obstacle.mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        open_memory(folder)
    obstacle.rmdir()
    with open_memory(folder) as memory:
        assert memory.stats()["notes"] == 1


def test_no_memory_is_made_where_there_is_no_room(tmp_path):
    with pytest.raises(StoreFullError, match="only 100 MiB are free"):
        open_memory(tmp_path / "a" / "m", free_bytes=lambda _path: 100 * MIB)
    assert list(tmp_path.iterdir()) == []
    open_memory(tmp_path / "a" / "m").close()


def test_with_little_room_a_memory_can_be_read_and_is_not_written_to(folder):
    left = [128 * MIB]
    model = models.model()
    with AgenticMemory.open(
        folder, model=model, embedder=HashEmbedder(), free_bytes=lambda _path: left[0]
    ) as memory:
        (note,) = memory.get_all(namespace=ANN)
        assert memory.search("choir", namespace=ANN)[0].note == note
        for write in (
            lambda: memory.add("We sing on Mondays", namespace=ANN),
            lambda: memory.update(note.id, namespace=ANN, content="I left"),
            lambda: memory.delete(note.id, namespace=ANN),
            lambda: memory.clear(namespace=ANN),
        ):
            with pytest.raises(StoreFullError, match="nothing was written"):
                write()
        assert memory.get_all(namespace=ANN) == [note]
        assert model.requests == []
        left[0] = 10**12
        assert memory.add("We sing on Mondays", namespace=ANN).state == "done"


def test_a_disk_that_runs_full_in_the_middle_of_work_costs_no_note(folder):
    left = [10**12]

    def fill(request):
        left[0] = 0
        return models.construct(request)

    with AgenticMemory.open(
        folder,
        model=models.model(construct=fill),
        embedder=HashEmbedder(),
        free_bytes=lambda _path: left[0],
    ) as memory:
        with pytest.raises(StoreFullError):
            memory.add("We sing on Mondays", namespace=ANN)
        (note,) = memory.get_all(namespace=ANN, where={"state": "pending"})
        assert note.content == "We sing on Mondays"
        left[0] = 10**12
        with pytest.raises(StoreFullError):  # the model fills it again
            memory.evolve()
    with open_memory(folder) as memory:
        assert memory.evolve().done == (note.id,)
