"""The command line as a process of its own: Ctrl-C, pipes, and what is imported."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import environment

ROOT = Path(__file__).parents[2]
# An embedder that takes its time, and says when Ctrl-C is to come. A process that a shell runs in the
# background ignores Ctrl-C, and so do those it starts, unless they say otherwise.
SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from amem_integrations.cli import commands
from amem_integrations.cli.app import Ports
from amem_integrations.testing import HashEmbedder

class Slow(HashEmbedder):
    def embed_query(self, text):
        time.sleep(0.005)
        if self.encoded == int(sys.argv[1]):
            print("now", flush=True)
        return super().embed_query(text)

made = Slow(64)
commands()(sys.argv[2:], obj=Ports(embedder=lambda name, url: made))
"""


def run(*arguments, **options):
    command = [sys.executable, "-m", "amem_integrations.cli", *map(str, arguments)]
    env = environment(ROOT, AMEM_NAMESPACE="ann")
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False, **options
    )


def slow(when, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, str(when), *map(str, arguments)],
        env=environment(ROOT, AMEM_NAMESPACE="ann"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("when", [10, 60, 140])
def test_ctrl_c_leaves_a_good_folder_and_the_import_goes_on(amem, tmp_path, when):
    # At first while notes are stored, at last while they are linked.
    path = tmp_path / "notes.jsonl"
    rows = [{"text": f"Note {n} is about topic {n % 9}.", "thread": "t"} for n in range(100)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with slow(when, "import", path, "--memory", amem.folder) as process:
        assert "now" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "amem: stopped\n")

    if amem.folder.exists() and amem.json("stats")["notes"]:
        assert amem("doctor").exit_code == 0, amem("doctor").output
        assert amem.json("stats")["notes"] < 100 or when > 100
    with slow(-1, "import", path, "--memory", amem.folder) as process:
        assert process.wait(timeout=120) == 0
    assert amem.json("stats")["states"] == {"done": 100}
    assert amem("doctor").exit_code == 0


def test_an_error_is_one_line_and_a_status(tmp_path):
    done = run("stats", "--memory", tmp_path / "none")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("amem: there is no memory in ")
    assert done.stderr.count("\n") == 1
    assert run("nonsense").returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_lacks_a_character_shows_an_escape_and_json_stays_json(
    amem, tmp_path, monkeypatch, encoding
):
    text = "Zo\u00eb lives in K\u00f6ln \u65e5\u672c"
    amem("add", text, "--key", "k")
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    at = ("--memory", amem.folder)
    assert "\\u65e5" in run("show", "k", *at, encoding=encoding).stdout
    assert json.loads(run("show", "k", "--json", *at, encoding=encoding).stdout)["content"] == text
    exported = run("export", "-", *at, encoding="utf-8").stdout
    assert run("export", tmp_path / "out.jsonl", *at).returncode == 0
    assert exported == (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_commands_that_read_import_neither_pytorch_nor_the_client_of_the_server(talk):
    code = (
        "import sys\n"
        "from amem_integrations.cli import commands\n"
        "try:\n"
        "    commands()(sys.argv[1:])\n"
        "finally:\n"
        "    slow = {'torch', 'qdrant_client', 'matplotlib', 'openai'} & set(sys.modules)\n"
        "    assert not slow, slow\n"
    )
    env = environment(ROOT, AMEM_NAMESPACE="ann")
    for arguments in (
        ["show", "1:7"],
        ["history"],
        ["doctor"],
        ["graph", str(talk.folder) + ".html"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--memory", str(talk.folder)],
            env=env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
