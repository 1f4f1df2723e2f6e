"""`python -m benchmarks.locomo`, on conversations of our own, and with a model on this machine."""

import json
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.dialects import WINDOW
from support.openai_server import OpenAIServer

from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.testing import HashEmbedder, RecordedModel
from benchmarks import data, locomo
from benchmarks.answering import Models
from benchmarks.cache import PROBE
from benchmarks.runner import evaluate
from benchmarks.systems import KNOWN, Settings

TINY = Path(__file__).with_name("tiny_locomo.json")  # two conversations of our own
ANNOTATIONS = TINY.with_name("conv-1.annotations.jsonl")
AT_ONCE = 4  # batches, and more than questions
# A test runner may ignore the signal of Ctrl-C.
RUN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from benchmarks import locomo; sys.exit(locomo.main())"
)
ENCODED: list[tuple[str, str]] = []


class Listing(HashEmbedder):
    """An embedder that lists what was encoded."""

    def embed_documents(self, texts):
        ENCODED.extend(("document", text) for text in texts)
        return HashEmbedder(256).embed_documents(texts)

    def embed_query(self, text):
        ENCODED.append(("query", text))
        return HashEmbedder(256).embed_query(text)


LISTING = Listing(256)


def run(file: object, out: Path, *more: object) -> int:
    return locomo.main(list(map(str, [file, "--out", out, "--embedder", "hash", *more])))


def read(out: Path) -> dict[str, Any]:
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


def test_the_command_writes_a_report_for_machines_and_one_for_people(tmp_path, capsys):
    more = ["--annotations", ANNOTATIONS, "--baselines", "--ablations", "--budget", "60,250"]
    more += ["--embedder", f"python:{__name__}:LISTING"]
    assert run(TINY, tmp_path / "deep", *more) == 0
    report = read(tmp_path / "deep")
    assert list(report["questions"].values())[:2] == [8, 2]
    assert list(report["retrieval"]) == list(KNOWN[:-1])
    assert report["retrieval"]["amem"]["recall@20"]["mean"] == 1.0  # of all twelve notes
    assert report["retrieval"]["amem"]["recall@5"]["mean"] >= 0.75
    shown = [report["within"][budget]["recall"]["mean"] for budget in ("60", "250")]
    assert 0 < shown[0] <= shown[1] < 1.0  # words alone tell what has to do with a question here
    one, two = (report["conversations"][name] for name in ("conv-1", "conv-2"))
    assert (one["written_by"], two["written_by"]) == ("annotations", "rules")
    whole, plain, bare, paper = one["builds"].values()
    assert whole["model_calls"] == 4  # two sessions of six notes, in one batch each
    assert (whole["links"], whole["updates"]) == (11, 1)  # ten from turn to turn
    assert (plain["links"], plain["updates"], bare["links"]) == (11, 0, 0)
    assert paper["calls_per_note"] > 2
    assert (two["builds"]["amem"]["model_calls"], two["builds"]["amem"]["unfinished"]) == (0, 0)
    assert "answers" not in report
    assert report["settings"]["annotations"]["conv-1"]["file"] == ANNOTATIONS.name
    assert str(tmp_path) not in json.dumps(report)
    page = (tmp_path / "deep" / "report.md").read_text(encoding="utf-8")
    assert "| amem_without_links " in page
    assert "| amem " in capsys.readouterr().out
    # No text is encoded twice, and in the next run none but the one by which an embedder is known.
    assert len(ENCODED) == len(set(ENCODED)) > 0
    ENCODED.clear()
    assert run(TINY, tmp_path / "deep", *more, "--conversations", "conv-2", "--k", "3,1") == 0  # fmt: skip
    assert ENCODED == [("document", PROBE), ("query", PROBE)]
    again = read(tmp_path / "deep")
    assert (again["settings"]["k"], list(again["conversations"])) == ([1, 3], ["conv-2"])
    assert again["retrieval"]["dense"]["recall@3"] == two["retrieval"]["dense"]["recall@3"]


def test_a_run_repeats_to_the_digit_and_tells_how_far_it_is():
    told: list[tuple[str, str, int, int]] = []
    options = {"embedder": HashEmbedder(), "progress": lambda *said: told.append(said)}
    known = data.load(TINY)
    one, other = (
        [found.ids for result in evaluate(known, Settings(ks=(5,)), **options) for found in result.found["amem"]]
        for _ in range(2)
    )  # fmt: skip
    assert one == other
    assert ("conv-1", "build", 12, 12) in told


def test_an_error_is_one_line_and_a_status(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    bad = tmp_path / "bad.json"
    bad.write_text("{,", encoding="utf-8")
    for arguments, said in (
        ("missing.json", "missing.json"),
        (f"{bad}", "Invalid JSON"),
        (f"{TINY} --k 10..50:0", "k='10..50:0'"),
        (f"{TINY} --k 5,0", "k='5,0'"),
        (f"{TINY} --budget 50..10", "budget='50..10'"),
        (f"{TINY} --conversations conv-9", "no conversation 'conv-9'"),
        (f"{TINY} --out {TINY}", "tiny_locomo.json"),
        (f"{TINY} --answer", "give --model"),
        (f"{TINY} --systems readagent", "give --answer"),
        (f"{TINY} --model m --reply magic", "structured='magic'"),
    ):
        file, *more = arguments.split()
        assert run(file, tmp_path / "out", *more) == 1
        error = capsys.readouterr().err
        assert said in error
        assert error.startswith("python -m benchmarks.locomo: ")
        assert error.count("\n") == 1
    with pytest.raises(SystemExit):
        run(TINY, tmp_path / "out", "--turns", "0")
    assert "--turns: 0 is less than 1" in capsys.readouterr().err


class Scribe:
    """A chat model that answers from annotations and gold answers; keeps its replies by their prompt."""

    name = "scripted"

    def __init__(self) -> None:
        self.replies: dict[str, str] = {}
        lines = ANNOTATIONS.read_text(encoding="utf-8").splitlines()
        self._notes = RecordedModel([json.loads(line) for line in lines])
        asked = [one for conversation in data.load(TINY) for one in conversation.questions]
        self._golds = {one.text: one.answer or "No information available" for one in asked}

    def generate(self, request: ModelRequest) -> Completion:
        if request.task == "answer":
            text = json.dumps({"answer": self._golds[request.inputs["question"]]})
        elif request.task == "judge":
            text = json.dumps({"correct": request.inputs["gold"] == request.inputs["answer"]})
        else:
            text = self._notes.generate(request).text
        self.replies[request.prompt] = text
        return Completion(text=text)


@pytest.fixture
def server(openai_server: OpenAIServer) -> OpenAIServer:
    """Return a server that says what the scribe says."""
    scribe = Scribe()
    settings = Settings(ks=(3,), answer_k=3, systems=KNOWN)
    models = Models(scribe, scribe, scribe)
    list(evaluate(data.load(TINY), settings, embedder=HashEmbedder(256), models=models))
    openai_server.dialect.window = 2 * WINDOW  # the replies are to whole batches
    # In words a prompt ends with the schema. What the scribe was not asked is answered by nothing.
    openai_server.answer = lambda payload: scribe.replies.get(
        payload["messages"][-1]["content"].partition("\n\nAnswer with JSON only")[0], ""
    )
    return openai_server


def stop(server: OpenAIServer, requests: int, how: signal.Signals, *given: object) -> None:
    """Run the command in a process that gets a signal at its n-th request."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, given), "--embedder", "hash"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    answer, seen = server.answer, count(1)

    def counted(payload: dict[str, Any]) -> str | None:
        if next(seen) == requests:
            process.send_signal(how)
        return answer(payload)

    server.answer = counted
    said = process.communicate(timeout=240)[1]
    server.answer = answer
    assert process.returncode == (-9 if how is signal.SIGKILL else 130), said
    if how is signal.SIGINT:
        assert said.splitlines()[-1] == "python -m benchmarks.locomo: stopped"
        assert "Traceback" not in said


@pytest.mark.enable_socket
@pytest.mark.timeout(900)
def test_a_run_answers_scores_and_counts_and_an_interrupted_one_ends_in_the_same_report(
    server, tmp_path
):
    everything = ["--k", "3", "--answer", "--answer-k", "3", "--baselines", "--ablations"]
    everything += ["--model", "scripted", "--judge", "scripted", "--base-url", server.base_url]
    everything += ["--concurrency", "2"]
    assert run(TINY, tmp_path / "whole", *everything) == 0
    prompts = [request["messages"][-1]["content"] for request in server.requests]
    assert len(prompts) == len(set(prompts))  # nothing is paid for twice
    report = read(tmp_path / "whole")
    assert list(report["answers"]) == list(KNOWN)
    ours = report["answers"]["amem"]
    # The file holds the gold answers; of that of category 3 only the part before ";" counts.
    assert (ours["questions"], ours["official@f1"]["mean"]) == (12, 0.9167)
    assert ours["by_category"]["3"]["official@f1"]["mean"] == 0.5
    assert ours["official@judge"]["mean"] == 1.0
    assert ours["by_category"]["5"]["amem@f1"]["mean"] == 0.0
    assert ours["saved"] > report["answers"]["full"]["saved"] == 0.0
    assert set(ours["against"]) == set(KNOWN) - {"amem"}
    assert report["conversations"]["conv-1"]["written_by"] == "scripted"
    assert report["settings"]["models"]["model"]["base_url"] == server.base_url
    assert "No information available" in report["settings"]["prompts"]["answer"]

    again = tmp_path / "again"
    server.requests.clear()
    answered_from = next(n for n, prompt in enumerate(prompts) if "Question: " in prompt)
    for requests, how in [
        (answered_from // 2, signal.SIGKILL),  # in the middle of a memory
        (answered_from // 2 + 20, signal.SIGINT),  # in the middle of the answers
    ]:
        stop(server, requests, how, TINY, "--out", again, *everything)
        assert not (again / "report.json").exists()
    assert run(TINY, again, *everything) == 0
    for part in ("answers", "retrieval", "retrieval_against", "context", "costs", "settings"):
        assert read(again)[part] == report[part]
    # What was on its way when a signal came is the most that is asked for again.
    assert len(server.requests) <= len(prompts) + 2 * AT_ONCE
