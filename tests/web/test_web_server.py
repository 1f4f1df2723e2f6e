"""The web server of the examples: many users at once, the end of the process, and several processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

pytestmark = [pytest.mark.web, pytest.mark.enable_socket]

ROOT = Path(__file__).parents[2]
USERS, TURNS = 20, 5


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def server(location, *options):
    """Yield the address of the example's server, and its process."""
    port = str(free_port())
    program = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples/web_server")]
    process = subprocess.Popen(
        [*program, "--port", port, *options, "app:app"],
        env={**os.environ, "AMEM_LOCATION": str(location), "AMEM_EMBEDDER": "hash"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # its workers end with it
    )
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def say(address, user, text, thread="main"):
    import httpx  # noqa: PLC0415 - of this environment alone

    for _ in range(100):
        try:
            asked = {"text": text, "thread": thread}
            done = httpx.post(f"{address}/chat", json=asked, headers={"x-user": user}, timeout=60)
        except httpx.ConnectError:  # it is being started
            time.sleep(0.2)
            continue
        return str(done.raise_for_status().json()["answer"])
    raise AssertionError("the server does not start")


def test_of_many_users_at_once_no_turn_is_lost_and_sigterm_flushes(tmp_path):
    folder = tmp_path / "memory"
    with server(folder) as (address, process):
        say(address, "first", "Hello.")

        def talk(number):
            for turn in range(TURNS):
                say(address, f"user-{number}", f"My number {turn} is {number * 100 + turn}.")

        with ThreadPoolExecutor(USERS) as pool:
            list(pool.map(talk, range(USERS)))
        assert "301" in say(address, "user-3", "Which numbers?", "another")
        assert "301" not in say(address, "user-4", "Which numbers?", "another")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)
    with AgenticMemory.open(folder, embedder=HashEmbedder()) as memory:
        for number in range(USERS):
            notes = memory.get_all(namespace=(f"user-{number}",), limit=99)
            said = {note.content for note in notes if note.source == "user"}
            assert {f"My number {n} is {number * 100 + n}." for n in range(TURNS)} <= said
            assert {note.state for note in notes} == {"done"}


def test_several_processes_on_a_folder_get_an_error_that_names_the_url(tmp_path):
    with server(tmp_path / "memory", "--workers", "4") as (_, process):
        printed = ""
        while "http://localhost:6333" not in printed:
            printed += process.stdout.readline()
    assert "StoreLockedError" in printed
    assert "share one memory by a Qdrant server" in printed
