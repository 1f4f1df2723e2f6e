"""`python -m benchmarks.evaluation scale`, on memories small enough for a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from typer.testing import CliRunner

from amem_integrations.cli.options import Ports
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation.commands import app


def scale(out, *more, names=None):
    """Run the command; `names` gets the embedders that it asks for."""

    def embedder(name, _):
        names.append(name)
        return HashEmbedder(256, name=name)

    given = ["scale", "--out", out, "--queries", 2, *more]
    return CliRunner().invoke(app, [str(one) for one in given], obj=Ports(embedder=embedder))


def failure(out, *more):
    """Return the one line that a run fails with."""
    done = scale(out, *more)
    assert done.exit_code == 1
    assert done.stderr.startswith("amem: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_each_size_is_measured_and_put_on_the_page(tmp_path):
    out, names = tmp_path / "deep" / "report", []
    done = scale(out, "--sizes", "120,60", "--json", "--embedder", "any", names=names)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report == json.loads((out / "scale.json").read_text(encoding="utf-8"))
    assert [row["notes"] for row in report["rows"]] == [60, 120]
    assert report["settings"]["queries"] == 2
    assert report["encode_ms"]["embedder"] == "any"
    assert names == ["any"]
    assert "| 120 |" in (out / "scale.md").read_text(encoding="utf-8")
    assert "Time and space" in (out / "report.html").read_text(encoding="utf-8")
    assert (out / "plots" / "scale.png").is_file()

    rows = [{**row, "insert_ms": 77.25} for row in report["rows"]]
    (out / "scale.json").write_text(json.dumps({**report, "rows": rows}), encoding="utf-8")
    again = scale(out, "--sizes", "60,120")
    assert again.exit_code == 0, again.output
    assert "Milliseconds: median" in again.stdout
    assert str(out / "report.html") in again.stdout.replace("\n", "")
    kept = json.loads((out / "scale.json").read_text(encoding="utf-8"))["rows"]
    assert kept == rows  # not measured again
    assert names == ["any"]  # no embedder unless one is named


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--sizes", "many"], "sizes='many'"),
        (["--sizes", "0"], "at least 1"),
        (["--sizes", "10", "--queries", "0"], "queries=0"),
    ],
)
def test_an_error_is_one_line(tmp_path, more, said):
    assert said in failure(tmp_path / "out", *more)


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "scale.json").write_text("{,", encoding="utf-8")
    assert "remove it" in failure(tmp_path, "--sizes", "10")


def test_ctrl_c_keeps_what_is_measured_and_leaves_nothing_else(tmp_path):
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    command = ["scale", "--sizes", "50,200000", "--queries", "2", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "amem_integrations.cli", *command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,  # as of a terminal: the signal goes to all of its processes
    )
    try:
        wait((out / "scale.json").exists)
        wait(lambda: any(temporary.glob("amem-scale-*")))
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert errors.splitlines()[-1:] == ["amem: stopped"]
    assert "Traceback" not in errors
    assert process.returncode == 130
    assert not list(temporary.glob("amem-scale-*"))
    rows = json.loads((out / "scale.json").read_text(encoding="utf-8"))["rows"]
    assert [row["notes"] for row in rows] == [50]


def wait(until):
    for _ in range(1200):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within a minute")
