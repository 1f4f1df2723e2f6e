"""What goes wrong on a real machine, as a user sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.processes import environment

from amem_integrations import (
    AgenticMemory,
    EmbedderMismatchError,
    InvalidInputError,
    NoteInput,
    OpenAIChatModel,
    StoreLockedError,
)
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
memory = AgenticMemory.open(sys.argv[1], embedder=HashEmbedder())
for number in range(100_000):
    note = memory.add(f"note number {number}", namespace=("ann",), thread="t", evolve=sys.argv[2] == "evolve")
    print(note.id, flush=True)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(ROOT),
    )


@pytest.mark.parametrize("evolve", ["evolve", "raw"])
def test_a_kill_right_after_add_returned_loses_nothing(tmp_path, evolve):
    with start(WRITER, tmp_path / "m", evolve) as process:
        acknowledged = [process.stdout.readline().strip() for _ in range(30)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
    with AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder()) as memory:
        stored = {note.id: note for note in memory.get_all(namespace=ANN, limit=10_000)}
        assert set(acknowledged) <= set(stored)
        # Nothing is half done either: every link has its other end, and the rest can be finished.
        memory.evolve(namespace=ANN)
        stored = {note.id: note for note in memory.get_all(namespace=ANN, limit=10_000)}
        assert {note.state for note in stored.values()} == {"done"}
        for note in stored.values():
            assert all(note.id in stored[target].links for target in note.links)


def test_a_second_process_on_the_folder_is_told_at_once(tmp_path):
    with start(WRITER, tmp_path / "m", "raw") as process:
        process.stdout.readline()
        try:
            begun = time.monotonic()
            with pytest.raises(StoreLockedError, match="server"):
                AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder())
            assert time.monotonic() - begun < 5
        finally:
            process.kill()
    AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder()).close()


def test_a_second_memory_in_the_same_process_is_told_too(tmp_path):
    with (
        AgenticMemory.open(tmp_path, embedder=HashEmbedder()),
        pytest.raises(StoreLockedError),
    ):
        AgenticMemory.open(tmp_path, embedder=HashEmbedder())


def test_what_was_closed_is_found_again(tmp_path):
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        notes = memory.add_many(["one", "two"], namespace=ANN)
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        assert memory.get_all(namespace=ANN) == notes


def test_closing_a_memory_again_does_nothing(tmp_path):
    memory = AgenticMemory.open(tmp_path, embedder=HashEmbedder())
    memory.add("one", namespace=ANN)
    memory.close()
    memory.close()
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as again:
        assert len(again.get_all(namespace=ANN)) == 1


def test_another_embedder_is_refused_by_name(tmp_path):
    AgenticMemory.open(tmp_path, embedder=HashEmbedder(name="a")).close()
    with pytest.raises(EmbedderMismatchError, match="reindex"):
        AgenticMemory.open(tmp_path, embedder=HashEmbedder(name="b"))
    with pytest.raises(EmbedderMismatchError, match="reindex"):
        AgenticMemory.open(tmp_path, embedder=HashEmbedder(name="a", dimensions=32))


@pytest.mark.enable_socket
def test_a_slow_model_loses_nothing(tmp_path, openai_server):
    openai_server.failures = ["hang"] * 4
    model = OpenAIChatModel(
        "m", base_url=openai_server.base_url, api_key="k", timeout=0.3, max_retries=0
    )
    with AgenticMemory.open(tmp_path, model=model, embedder=HashEmbedder()) as memory:
        note = memory.add("My passport expires in June", namespace=ANN)
        assert note.state == "pending"
        assert memory.search("passport", namespace=ANN)[0].note.id == note.id


@pytest.mark.parametrize("content", ["", "   \n", "\0", "x" * 100_001, None, 5])
def test_content_that_cannot_be_kept_is_a_clear_error_and_stores_nothing(memory, content):
    with pytest.raises(InvalidInputError, match="content"):
        memory.add_many(["fine", NoteInput(content=content)], namespace=ANN)
    assert memory.get_all(namespace=ANN) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at", datetime(2024, 1, 1)),  # noqa: DTZ001 - that is the point
        ("source", "alien"),
        ("metadata", {"when": datetime(2024, 1, 1, tzinfo=UTC)}),
        ("metadata", {"x": float("nan")}),
        ("key", 5),
        ("thread", ["t"]),
    ],
)
def test_a_bad_field_is_a_clear_error(memory, field, value):
    with pytest.raises(InvalidInputError, match=field):
        memory.add("hello", namespace=ANN, **{field: value})
    assert memory.get_all(namespace=ANN) == []


@pytest.mark.parametrize("arguments", [{"query": " "}, {"query": "x", "k": 0}])
def test_a_bad_search_is_a_clear_error(memory, arguments):
    with pytest.raises(InvalidInputError):
        memory.search(namespace=ANN, **arguments)
