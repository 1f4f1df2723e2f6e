"""`amem worker`: on a folder and on a server, until nothing is pending, or a signal comes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import models
from support.processes import environment
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, ModelUnavailableError
from amem_integrations.testing import HashEmbedder, ScriptedModel

ROOT = Path(__file__).parents[2]
ANN = ("ann",)
# A program with its own ports, that runs the command; the model says when it is asked.
PROGRAM = """
import sys, time
from support import models
from amem_integrations.cli import commands
from amem_integrations.cli.app import Ports
from amem_integrations.testing import HashEmbedder

class Slow:
    name = "slow"
    inner = models.model(models.link_to_first)
    def generate(self, request):
        print("asked", flush=True)
        time.sleep(float(sys.argv[1]))
        return self.inner.generate(request)

commands()(sys.argv[2:], obj=Ports(embedder=lambda *_: HashEmbedder(256, name="hash"), model=lambda *_: Slow()))
"""


def start(seconds, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(seconds), *map(str, arguments)],
        env=environment(ROOT, ROOT / "tests"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def opened(location):
    return AgenticMemory.open(str(location), embedder=HashEmbedder(256, name="hash"))


def store(location, *texts, namespace=ANN):
    with opened(location) as memory:
        memory.add_many(texts, namespace=namespace, evolve=False)


def test_once_finishes_what_is_pending_in_all_namespaces_of_a_folder(amem):
    amem.model = models.model(models.link_to_first)
    amem("add", "the trip", "--later")
    amem("add", "the trip goes on", "--later")
    amem("add", "a cello", "--later", "--namespace", "bob")
    assert amem.json("stats", namespace=None)["states"] == {"pending": 3}
    done = amem.json("worker", "--once", namespace=None)
    assert (done["done"], done["links"], done["failed"], done["interrupted"]) == (3, 1, 0, None)
    assert amem.json("stats", namespace=None)["states"] == {"done": 3}
    assert amem.json("worker", "--once", namespace=None)["done"] == 0


def test_a_namespace_and_a_place_can_be_named(amem, tmp_path):
    amem("add", "the trip", "--later")
    amem("add", "a cello", "--later", "--namespace", "bob")
    amem.folder, folder = tmp_path / "none", amem.folder
    assert "1 notes finished" in amem("worker", folder, "--once").output
    assert "there is no memory" in amem.fails("worker", "--once")
    assert "keeps nothing" in amem.fails("worker", ":memory:", "--once")


def test_a_budget_ends_it(amem):
    model = models.model()
    amem.model = model
    for n in range(3):
        amem("add", f"note {n}", "--later", "--thread", n)
    amem.json("worker", "--budget", 2, "--concurrency", 1, "--model", "x")
    assert len(model.requests) == 2


def test_a_model_that_is_down_ends_a_single_run_with_an_error(amem):
    amem.model = ScriptedModel(lambda _request: ModelUnavailableError("out of reach"))
    amem("add", "the trip", "--later")
    done = amem("worker", "--once", "--model", "x")
    assert done.exit_code == 1
    assert "out of reach" in done.stderr.splitlines()[-1]
    assert amem.json("stats")["states"] == {"pending": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_call_of_the_model_lets_it_finish(tmp_path, number):
    store(tmp_path, "the trip", "a cello")
    with start(0.5, "worker", tmp_path, "--concurrency", 1) as process:
        assert process.stdout.readline() == "asked\n"
        process.send_signal(number)
        said, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "2 notes finished" in said
    with opened(tmp_path) as memory:
        assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}


def test_an_idle_worker_ends_at_once(tmp_path):
    store(tmp_path, "the trip")
    with start(0, "worker", tmp_path, "--poll", 60, "--json") as process:
        assert process.stdout.readline() == "asked\n"
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(said.replace("asked", ""))["done"] == 1


def test_a_second_signal_does_not_wait(tmp_path):
    store(tmp_path, "the trip")
    with start(60, "worker", tmp_path) as process:
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.enable_socket
def test_three_workers_of_a_server_share_the_work():
    with serving(FakeQdrant()) as fake:
        store(fake.url, *(f"note {n}" for n in range(4)))
        for n in range(8):
            store(fake.url, f"note {n}", namespace=(f"user {n}",))
        running = [start(0.3, "worker", fake.url, "--once", "--json") for _ in range(3)]
        ended = [process.communicate(timeout=120) for process in running]
        assert [process.returncode for process in running] == [0, 0, 0], ended
        said = [output for output, _ in ended]
        assert sum(json.loads(text.replace("asked", ""))["done"] for text in said) == 12
        # The batch of four is asked about twice; of the others there is nothing to link.
        assert sum(text.count("asked") for text in said) == 2 + 8
