"""The command line as a process of its own: Ctrl-C, pipes, and what is imported."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from support.processes import environment

ROOT = Path(__file__).parents[2]
# An embedder that takes its time, and says when Ctrl-C is to come. A process that a shell runs in the
# background ignores Ctrl-C, and so do those it starts, unless they say otherwise.
SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from amem_integrations.cli import commands
from amem_integrations.cli.app import Session
from amem_integrations.testing import HashEmbedder

class Slow(HashEmbedder):
    def embed_query(self, text):
        time.sleep(0.005)
        if self.encoded == int(sys.argv[1]):
            print("now", flush=True)
        return super().embed_query(text)

class Own(Session):
    def make_embedder(self, name):
        return Slow(256, name="hash")

commands()(sys.argv[2:], obj=Own)
"""


def run(*arguments, **options):
    command = [sys.executable, *map(str, arguments)]
    env = environment(ROOT, AMEM_NAMESPACE="ann")
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False, **options
    )


def amem_process(*arguments, **options):
    return run("-m", "amem_integrations.cli", *arguments, **options)


def test_ctrl_c_leaves_a_good_folder_and_the_import_goes_on(amem, tmp_path):
    path = tmp_path / "notes.jsonl"
    rows = [{"text": f"Note {n} is about topic {n % 9}.", "thread": "t"} for n in range(100)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for when in (10, 140):  # while notes are stored, and while they are linked
        amem.folder = tmp_path / str(when)
        command = [sys.executable, "-c", SLOW, when, "import", path, "--memory", amem.folder]
        with subprocess.Popen(
            [*map(str, command)], env=environment(ROOT, AMEM_NAMESPACE="ann"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert "now" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, "amem: stopped\n")
        if amem.folder.exists() and amem.json("stats")["notes"]:
            assert amem("doctor").exit_code == 0, amem("doctor").output
            assert amem.json("stats")["states"] != {"done": 100}
        assert amem("import", path).exit_code == 0
        assert amem.json("stats")["states"] == {"done": 100}
        assert amem("doctor").exit_code == 0


def test_a_terminal_that_lacks_a_character_shows_an_escape_and_json_stays_json(
    amem, tmp_path, monkeypatch
):
    text = "Zo\u00eb lives in K\u00f6ln \u65e5\u672c"
    amem("add", text, "--key", "k")
    at = ("--memory", amem.folder)
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    assert "\\u65e5" in amem_process("show", "k", *at, encoding="cp1252").stdout
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    shown = amem_process("show", "k", "--json", *at, encoding="ascii").stdout
    assert json.loads(shown)["content"] == text
    exported = amem_process("export", "-", *at, encoding="utf-8").stdout
    amem("export", tmp_path / "out.jsonl")
    assert exported == (tmp_path / "out.jsonl").read_text(encoding="utf-8")
