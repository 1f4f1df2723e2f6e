"""`python -m benchmarks.evaluation … --answer` from end to end, against an endpoint on loopback that answers from a file."""

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("openai")
pytest.importorskip("sklearn")

from support.dialects import WINDOW
from support.openai_server import OpenAIServer, serving
from typer.testing import CliRunner

from amem_integrations.cli.options import Ports
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import Models, Named, Settings, evaluate, locomo
from benchmarks.evaluation.cache import PROBE
from benchmarks.evaluation.commands import app
from benchmarks.evaluation.systems import KNOWN
from benchmarks.tests import tiny_locomo
from benchmarks.tests.recorded_replies import Replies, Scribe

pytestmark = pytest.mark.enable_socket

DIMENSIONS = 256
EVERYTHING = ("--baselines", "--ablations")
TURNS = [*tiny_locomo.TALK["session_1"], *tiny_locomo.TALK["session_2"]]
AT_ONCE = 4  # batches, and more than questions
RUN = (
    "import signal\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a test runner may ignore it
    "from benchmarks.evaluation.commands import app\n"
    "from amem_integrations.cli.options import Ports\n"
    "from amem_integrations.testing import HashEmbedder\n"
    f"app(obj=Ports(embedder=lambda *_: HashEmbedder({DIMENSIONS})))\n"
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the dataset, and what a model says when it is asked about it."""
    file = tiny_locomo.write(tmp_path_factory.mktemp("data"))[0]
    known = locomo.load(file)
    scribe = Scribe(tiny_locomo.annotations(), known)
    named = Named(model=scribe, identity="")
    settings = Settings(ks=(3,), answer_ks=(3, 6), systems=KNOWN)
    models = Models(writer=named, answerer=named, judge=named)
    list(evaluate(known, settings, embedder=HashEmbedder(DIMENSIONS), models=models))
    scribe.write(file.with_name("replies.jsonl"))
    return file


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    # One for all tests: its address is part of what a reply is kept under, and of the report.
    with serving() as server:
        yield server


@pytest.fixture
def server(endpoint: OpenAIServer, dataset: Path) -> OpenAIServer:
    endpoint.answer = Replies(dataset.with_name("replies.jsonl"))
    endpoint.dialect.window = 2 * WINDOW  # the replies are to whole batches
    endpoint.refuse = lambda _: None
    endpoint.requests.clear()
    return endpoint


@pytest.fixture(scope="module")
def whole(
    endpoint: OpenAIServer, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """Run everything in one go; return where the reports are, and the prompts that were sent."""
    endpoint.answer = Replies(dataset.with_name("replies.jsonl"))
    endpoint.dialect.window = 2 * WINDOW
    endpoint.requests.clear()
    out = tmp_path_factory.mktemp("whole")
    done = run(*arguments(endpoint, dataset, out, *EVERYTHING))
    assert done.exit_code == 0, done.output
    assert endpoint.answer.missing == []
    return out, [request["messages"][-1]["content"] for request in endpoint.requests]


def arguments(server: OpenAIServer, dataset: Path, out: Path, *more: str) -> list[str]:
    return [
        *("locomo", str(dataset), "--out", str(out), "--k", "3"),
        *("--answer", "--answer-k", "3", "--model", "scripted", "--judge", "scripted"),
        *("--backend", "vllm", "--base-url", server.base_url, "--concurrency", "2"),
        *("--price-input", "0.15", "--price-output", "0.6", *more),
    ]


def run(*given: str) -> Any:
    return CliRunner().invoke(
        app, list(given), obj=Ports(embedder=lambda *_: HashEmbedder(DIMENSIONS))
    )


def read(out: Path, name: str = "report") -> dict[str, Any]:
    return json.loads((out / f"{name}.json").read_text(encoding="utf-8"))


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report but for what a clock has measured."""
    plain = copy.deepcopy(report)
    for part in (plain, *plain["conversations"].values()):
        del part["latency_ms"]
        for built in part["builds"].values():
            del built["seconds"]
    return plain


def test_a_whole_run_answers_scores_and_counts(
    whole: tuple[Path, list[str]], server: OpenAIServer
) -> None:
    out, prompts = whole
    report = read(out)
    assert list(report["answers"]) == list(KNOWN)
    ours = report["answers"]["amem"]
    assert ours["questions"] == 12
    # The file holds the gold answers; of that of category 3 only the part before ";" counts.
    assert ours["official"]["f1"]["mean"] == 0.9167
    assert ours["by_category"]["3"]["official"]["f1"]["mean"] == 0.5
    assert ours["official"]["judge"]["mean"] == 1.0
    assert ours["by_category"]["5"]["amem"]["f1"]["mean"] == 0.0
    assert ours["saved"] > report["answers"]["full"]["saved"] == 0.0
    assert set(ours["against"]) == set(KNOWN) - {"amem"}

    assert len(prompts) == len(set(prompts))  # nothing is paid for twice
    costs = report["costs"]
    assert costs["answer"]["calls"] + costs["judge"]["calls"] <= len(prompts)
    assert costs["build"]["cost"] > 0
    for one in report["conversations"].values():
        assert one["written_by"] == "scripted"

    settings = report["settings"]
    assert settings["models"]["model"]["base_url"] == server.base_url
    assert "No information available" in settings["prompts"]["answer"]
    assert "Correct answer" in settings["prompts"]["judge"]
    assert settings["scoring"]["embedder"] == HashEmbedder(DIMENSIONS).name
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "data:image/png" in page
    assert json.dumps(report).count("sk-") == 0


def stopped_after(requests: int, how: signal.Signals, server: OpenAIServer) -> Callable[..., None]:
    """Return a runner of a command in a process that gets a signal at its n-th request."""

    def start(*given: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "OPENAI_API_KEY"}
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *given],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        answer = server.answer
        seen = []

        def count(payload: dict[str, Any]) -> str | None:
            seen.append(payload)
            if len(seen) == requests:
                process.send_signal(how)
            return answer(payload)

        server.answer = count
        said = process.communicate(timeout=120)[1]
        server.answer = answer
        assert len(seen) >= requests, said
        assert process.returncode == (-9 if how is signal.SIGKILL else 130), said
        if how is signal.SIGINT:
            assert said.splitlines()[-1] == "amem: stopped"
            assert "Traceback" not in said

    return start


def test_an_interrupted_run_goes_on_and_ends_in_the_same_report(
    whole: tuple[Path, list[str]], server: OpenAIServer, dataset: Path, tmp_path: Path
) -> None:
    out, in_one_go = whole
    again = arguments(server, dataset, tmp_path / "again", *EVERYTHING)
    answered_from = next(n for n, prompt in enumerate(in_one_go) if "Question: " in prompt)
    for requests, how in [
        (3, signal.SIGKILL),  # in the middle of a memory
        (answered_from // 2, signal.SIGINT),  # in another one
        (answered_from // 2 + 20, signal.SIGKILL),  # in the middle of the answers
    ]:
        stopped_after(requests, how, server)(*again)
        assert not (tmp_path / "again" / "report.json").exists()
    assert run(*again).exit_code == 0
    assert without_times(read(tmp_path / "again")) == without_times(read(out))
    # What was on its way when a signal came is the most that is asked for again.
    assert len(server.requests) <= len(in_one_go) + 3 * AT_ONCE

    server.requests.clear()
    assert run(*again).exit_code == 0
    assert server.requests == []


def test_when_the_model_goes_away_the_error_is_one_line_and_the_run_goes_on_later(
    server: OpenAIServer, dataset: Path, tmp_path: Path
) -> None:
    out = arguments(server, dataset, tmp_path / "out")
    answer, seen = server.answer, []

    def gone(payload: dict[str, Any]) -> str | None:
        seen.append(payload)
        if len(seen) == 10:
            server.failures.extend([503] * 100)
        return answer(payload)

    server.answer = gone
    done = run(*out)
    assert done.exit_code == 1
    assert done.stderr.startswith("amem: ")
    assert done.stderr.count("\n") == 1
    server.failures.clear()
    assert run(*out).exit_code == 0
    assert read(tmp_path / "out")["answers"]["amem"]["official"]["f1"]["mean"] == 0.9167


def test_what_an_endpoint_refuses_is_wrong_and_counted_and_the_rest_goes_on(
    server: OpenAIServer, dataset: Path, tmp_path: Path
) -> None:
    def too_long(payload: dict[str, Any]) -> str | None:
        prompt = payload["messages"][-1]["content"]
        whole = "Question: " in prompt and prompt.count("\n- ") == len(TURNS)
        return "maximum context length exceeded" if whole else None

    server.refuse = too_long
    given = arguments(server, dataset, tmp_path, "--conversations", "conv-2", "--baselines")
    done = run(*given)
    assert done.exit_code == 0, done.output
    answers = read(tmp_path)["answers"]
    assert answers["full"]["unanswered"] == answers["full"]["questions"] == 6
    assert answers["full"]["official"]["f1"]["mean"] == 0.0
    assert answers["bm25"]["unanswered"] == 0


@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_a_model_can_be_asked_without_a_schema(
    server: OpenAIServer,
    dataset: Path,
    tmp_path: Path,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    given = arguments(server, dataset, tmp_path, "--conversations", "conv-2", "--reply", "words")
    given[given.index("--backend") + 1] = backend
    done = run(*given)
    assert done.exit_code == 0, done.output
    assert server.answer.missing == []
    formats = {request.get("response_format", {}).get("type") for request in server.requests}
    assert formats == {None}
    assert read(tmp_path)["answers"]["amem"]["official"]["f1"]["mean"] == 0.9167


def test_a_sweep_builds_each_memory_once_and_answers_at_every_number(
    server: OpenAIServer, dataset: Path, tmp_path: Path
) -> None:
    done = run(
        *("sweep", str(dataset), "--out", str(tmp_path / "out"), "--k", "3..6:3"),
        *("--answer", "--model", "scripted", "--base-url", server.base_url, "--backend", "sglang"),
        *("--choose", "conv-2"),
    )
    assert done.exit_code == 0, done.output
    found = read(tmp_path / "out", "sweep")
    assert (found["ks"], found["chosen_on"], found["reported_on"]) == (
        [3, 6],
        ["conv-2"],
        ["conv-1"],
    )
    assert found["choice"]["f1"] == {
        "k": 3,
        "reported": found["curves"]["reported_on"]["f1"]["all"]["3"],
    }
    assert len(list((tmp_path / "out" / "cache" / "memories").iterdir())) == 2
    assert server.answer.missing == []
    assert "# How many hits" in (tmp_path / "out" / "sweep.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--answer"], "--answer needs --model"),
        (["--judge", "m"], "--judge needs --answer"),
        (["--answer", "--model", "m", "--price-input", "1"], "need both"),
        (["--answer", "--model", "m", "--answer-k", "0"], "at least 1"),
        (["--golds", "missing.json"], "missing.json"),
        (["--answer", "--model", "m", "--concurrency", "0"], "concurrency=0"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(
    dataset: Path, tmp_path: Path, given: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    done = run("locomo", str(dataset), "--out", str(tmp_path / "out"), *given)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_corrected_golds_count(server: OpenAIServer, dataset: Path, tmp_path: Path) -> None:
    golds = tmp_path / "golds.json"
    golds.write_text(
        json.dumps(
            [{"conversation": "conv-1", "question": "Who broke the spade?", "answer": "Ines"}]
        )
    )
    plain = arguments(server, dataset, tmp_path / "out", "--conversations", "conv-1")
    assert run(*plain).exit_code == 0
    before = read(tmp_path / "out")["answers"]["amem"]["official"]["f1"]["mean"]
    assert run(*plain, "--golds", str(golds)).exit_code == 0
    report = read(tmp_path / "out")
    assert report["answers"]["amem"]["official"]["f1"]["mean"] < before
    assert report["settings"]["golds"]["answers"] == 1


def test_no_text_is_encoded_twice_in_a_run(dataset: Path, tmp_path: Path) -> None:
    encoded: list[tuple[str, str]] = []

    class Counting(HashEmbedder):
        def embed_documents(self, texts):
            encoded.extend(("document", text) for text in texts)
            return HashEmbedder(DIMENSIONS).embed_documents(texts)

        def embed_query(self, text):
            encoded.append(("query", text))
            return HashEmbedder(DIMENSIONS).embed_query(text)

    given = ["locomo", str(dataset), "--out", str(tmp_path / "out")]
    given += ["--baselines", "--ablations"]
    counting = Ports(embedder=lambda *_: Counting(DIMENSIONS))
    assert CliRunner().invoke(app, given, obj=counting).exit_code == 0
    assert len(encoded) == len(set(encoded)) > 0
    encoded.clear()
    assert CliRunner().invoke(app, given, obj=counting).exit_code == 0
    assert encoded == [("document", PROBE), ("query", PROBE)]  # is it still the same embedder?
