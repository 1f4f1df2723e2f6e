"""`amem worker`: on a folder and on a server, until nothing is pending, or a signal comes."""

from __future__ import annotations

import json
import signal
import time

from cli_kit import start
from support import models

from amem_integrations import ModelUnavailableError
from amem_integrations.testing import ScriptedModel


def test_once_finishes_what_is_pending_in_all_namespaces_of_a_folder(amem, tmp_path):
    amem.model = models.model(models.link_to_first)
    for text, name in (("the trip", "ann"), ("the trip goes on", "ann"), ("a cello", "bob")):
        amem("add", text, "--later", "--namespace", name)
    amem.folder, folder = tmp_path / "none", amem.folder
    assert amem.json("worker", folder, "--once", "--namespace", "bob")["done"] == 1
    assert "keeps nothing" in amem.fails("worker", ":memory:", "--once")
    amem.folder = folder
    assert amem.json("stats", namespace=None)["states"] == {"pending": 2, "done": 1}
    good = amem.model
    amem.model = ScriptedModel(lambda _request: ModelUnavailableError("it is away"))
    assert "it is away" in amem("worker", "--once", "--model", "x").stderr.splitlines()[-1]
    amem.model = good
    done = amem.json("worker", "--once", namespace=None)
    assert (done["done"], done["links"], done["failed"], done["interrupted"]) == (2, 1, 0, None)
    assert amem.json("stats", namespace=None)["states"] == {"done": 3}
    assert "done: 0" in amem("worker", "--once", namespace=None).stdout


def test_a_signal_during_a_call_of_the_model_lets_it_finish(amem):
    for text in ("the trip", "a cello"):
        amem("add", text, "--later")
    with start("worker", amem.folder, "--concurrency", 1, "--json", seconds=0.5) as process:
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(said.replace("now", ""))["done"] == 2


def test_an_idle_worker_ends_at_once_and_a_busy_one_at_the_second_signal(amem, tmp_path):
    for name in ("idle", "busy"):
        amem.folder = tmp_path / name
        amem("add", "the trip", "--later")
    with (
        start("worker", tmp_path / "idle", "--poll", 60, "--json", seconds=0.01) as idle,
        start("worker", tmp_path / "busy", seconds=60) as busy,
    ):
        busy.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert busy.poll() is None
        idle.send_signal(signal.SIGTERM)
        said, errors = idle.communicate(timeout=30)
        assert (idle.returncode, errors) == (0, "")
        assert json.loads(said.replace("now", ""))["done"] == 1
        for _ in range(100):  # on a busy machine two signals may come as one
            if busy.poll() is None:
                busy.send_signal(signal.SIGTERM)
                time.sleep(0.1)
        assert (busy.communicate(timeout=60)[1], busy.returncode) == ("", -signal.SIGTERM)
