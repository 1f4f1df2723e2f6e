"""`python -m benchmarks.evaluation dialsim`, on a show of our own and with a model on this machine."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from support.dialects import Payload
from typer.testing import CliRunner, Result

from amem_integrations.cli.options import Ports
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation.commands import app
from benchmarks.tests.dialsim import AGENT, JSON, PICKLE, session, written

local = pytest.mark.enable_socket


def amem(*arguments: object) -> Result:
    ports = Ports(embedder=lambda name, _: HashEmbedder(256, name=name or "hash"))
    return CliRunner().invoke(app, ["dialsim", *map(str, arguments)], obj=ports)


def said(payload: Payload) -> str:
    return json.dumps({"answer": "(A)", "correct": True, "notes": []})


@pytest.fixture
def served(openai_server) -> list[object]:
    """The options that name a model on this machine."""
    openai_server.answer = said
    return ["--model", "m", "--base-url", openai_server.base_url, "--rule-notes", "--k", "4"]


@local
def test_the_command_writes_a_report_for_machines_and_one_for_people(served, tmp_path):
    out = tmp_path / "deep" / "out"
    done = amem(PICKLE, "--agent", AGENT, "--out", out, "--judge", "j", *served)
    assert done.exit_code == 0, done.output
    report = json.loads((out / "dialsim.json").read_text(encoding="utf-8"))
    page = (out / "dialsim.md").read_text(encoding="utf-8")
    assert report["caution"] in page
    assert report["caution"] in (out / "report.html").read_text(encoding="utf-8")
    assert (report["show"], report["agent"], report["sessions"]) == ("harbour", "Nell", 7)
    assert report["written_by"] == "rules"
    assert list(report["answers"]) == ["choice", "open"]
    assert report["answers"]["open"]["accuracy"]["mean"] == 1.0  # so says the judge
    assert {stage: one["calls"] for stage, one in report["costs"].items()} == {
        "build": 0,
        "answer": 10,
        "judge": 5,
    }
    settings = report["settings"]
    assert settings["dataset"]["file"] == "harbour_dialsim.pickle"
    assert settings["models"]["model"]["model"] == "m"
    assert str(tmp_path) not in json.dumps(report)
    assert "right answers with 95 %" in " ".join(done.stdout.split())
    assert str(out / "report.html") in "".join(done.stdout.split())


@local
def test_json_goes_to_standard_output_alone_and_options_are_followed(
    served, openai_server, tmp_path
):
    options = ["--sessions", 4, "--questions", 2, "--seed", 3, "--formats", "choice"]
    names = ["--rename", "Nell=Igraine", "--rename", "Otis = Odo"]
    done = amem(JSON, "--agent", AGENT, "--out", tmp_path, "--json", *options, *names, *served)
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "dialsim.json").read_text(encoding="utf-8"))
    assert report["questions"]["asked"] == 2
    assert report["agent"] == "Igraine"
    assert list(report["answers"]) == ["choice"]
    settings = report["settings"]
    assert (settings["seed"], settings["k"], settings["sessions"]) == (3, 4, 4)
    assert settings["names"] == {"Nell": "Igraine", "Otis": "Odo"}
    asked = json.dumps(openai_server.requests)
    assert "asks Igraine: " in asked
    assert "Nell" not in asked
    assert "Otis" not in asked


@local
def test_the_same_command_again_asks_no_model(served, openai_server, tmp_path):
    command = [JSON, "--agent", AGENT, "--out", tmp_path, *served]
    assert amem(*command).exit_code == 0
    first = (tmp_path / "dialsim.json").read_text(encoding="utf-8")
    asked = len(openai_server.requests)
    assert asked > 0
    assert amem(*command).exit_code == 0
    assert len(openai_server.requests) == asked
    again = json.loads((tmp_path / "dialsim.json").read_text(encoding="utf-8"))
    assert again["answers"] == json.loads(first)["answers"]


@local
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["friends_dialsim.pickle"], "friends_dialsim.pickle: No such file"),
        (["{json}"], "who is asked in 'harbour'"),
        (["{json}", "--agent", "Nelly"], "nothing can be asked of 'Nelly'"),
        (["{json}", "--agent", "Nell", "--formats", "essay"], "formats='essay'"),
        (["{json}", "--agent", "Nell", "--formats", ","], "formats=','"),
        (["{json}", "--agent", "Nell", "--k", "0"], "k=(0,)"),
        (["{json}", "--agent", "Nell", "--rename", "Nell"], "rename='Nell' must be OLD=NEW"),
        (["{evil}", "--agent", "Ann"], "could run code"),
        (["{other}", "--agent", "Ann"], "must hold a dict of episodes"),
        (["{undated}", "--agent", "Ann"], "date: Field required"),
    ],
)
def test_an_error_is_one_line_and_a_status(served, tmp_path, arguments, said):
    folders = {name: tmp_path / name for name in ("evil", "other", "undated")}
    for folder in folders.values():
        folder.mkdir()
    undated = session()
    del undated["date"]
    files = {
        "json": JSON,
        "evil": written(folders["evil"], {"a": {1: Path("x")}}, protocol=pickle.HIGHEST_PROTOCOL),
        "other": written(folders["other"], [session()]),
        "undated": written(folders["undated"], {"a": {"1": undated}}),
    }
    given = [part.format(**files) for part in arguments]
    done = amem("--out", tmp_path / "out", *served, *given)
    assert done.exit_code == 1, done.output
    assert said in done.stderr
    assert done.stderr.startswith("amem: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "dialsim.json").exists()


def test_without_a_model_the_command_says_which_option_is_missing(tmp_path):
    done = amem(JSON, "--agent", AGENT, "--out", tmp_path)
    assert done.exit_code == 1
    assert "give --model" in done.stderr


def test_the_help_says_that_the_real_files_were_not_run():
    help_ = " ".join(amem("--help").stdout.split())
    assert "has not been run on the published files yet" in help_
    for option in (
        "--agent",
        "--seed",
        "--sessions",
        "--questions",
        "--formats",
        "--rename",
        "--out",
    ):
        assert option in help_
    assert "--answer " not in help_
