"""The command line as a process of its own: Ctrl-C, pipes, and what is imported."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from cli_kit import ROOT, start
from support.processes import environment

from amem_integrations import cli


def test_ctrl_c_leaves_a_good_folder_and_the_import_goes_on(amem, tmp_path):
    path = tmp_path / "notes.jsonl"
    rows = [{"text": f"Note {n} is about topic {n % 9}.", "thread": "t"} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for when in (10, 55):  # while notes are stored, and while they are linked
        amem.folder = tmp_path / str(when)
        with start("import", path, "--memory", amem.folder, texts=when) as process:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, "amem: stopped\n")
        if amem.folder.exists() and amem.json("stats")["notes"]:
            assert amem("doctor").exit_code == 0, amem("doctor").output
            assert amem.json("stats")["states"] != {"done": 40}
        assert amem("import", path).exit_code == 0
        assert amem.json("stats")["states"] == {"done": 40}
        assert amem("doctor").exit_code == 0


def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "commands", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130


def test_what_the_library_logs_is_told_in_words_of_the_command_line(amem):
    with start("add", "Said.", "--memory", amem.folder, seconds=-1) as process:
        _, said = process.communicate(timeout=60)
    assert said.startswith("amem: ")
    assert said.endswith("the notes are stored, a later `amem evolve` goes on with them\n")


def test_a_terminal_that_lacks_a_character_shows_an_escape_and_json_stays_json(
    amem, tmp_path, monkeypatch
):
    def amem_process(*arguments, encoding):
        command = [sys.executable, "-m", "amem_integrations.cli", *map(str, arguments)]
        env, how = environment(ROOT, AMEM_NAMESPACE="ann"), {"capture_output": True, "timeout": 120}
        return subprocess.run(command, env=env, encoding=encoding, check=False, **how)

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


def test_streams_that_are_closed_end_no_command(amem):
    amem("add", "Said.")
    env = environment(ROOT, AMEM_NAMESPACE="ann", AMEM_MEMORY=str(amem.folder))
    for closed, command, status, said in [
        (">&-", "stats --json", 0, ""),
        (">&-", "export -", 0, ""),
        ("2>&-", "show nothing", 1, ""),
        ("<&-", "add - --embedder hash", 1, "amem: content '' is empty"),
    ]:
        line = f"{sys.executable} -m amem_integrations.cli {command} {closed}"
        done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (status, b""), line
        assert done.stderr.startswith(said.encode()), line
        assert said or not done.stderr, line
