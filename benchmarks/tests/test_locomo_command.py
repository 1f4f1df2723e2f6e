"""`python -m benchmarks.evaluation locomo`, on a conversation of our own and, where `AMEM_DATA` is set, on LoCoMo."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("tokenizers")

from typer.testing import CliRunner, Result

from amem_integrations.providers import MiniLmEmbedder
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import Settings, evaluate, locomo
from benchmarks.evaluation.commands import app
from benchmarks.evaluation.report import Report, build
from benchmarks.tests import tiny_locomo

DATA = os.environ.get("AMEM_DATA")
# Without annotations as with them; AMEM_THOROUGH takes all five, 2,760 notes instead of 788.
FEW = () if os.environ.get("AMEM_THOROUGH") else ("conv-26", "conv-30")
needs_data = pytest.mark.skipif(not DATA, reason="AMEM_DATA is not set: no LoCoMo here")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return tiny_locomo.write(tmp_path)[0]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return tiny_locomo.write(tmp_path)[1]


def amem(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["locomo", *map(str, arguments)])


def test_the_command_writes_a_report_for_machines_and_one_for_people(
    dataset: Path, recorded: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out"
    done = amem(dataset, "--out", out, "--annotations", recorded, "--baselines", "--ablations")
    assert done.exit_code == 0, done.output
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))

    assert report["notes"] == 24
    assert report["questions"]["used"] == 8
    assert report["questions"]["skipped"] == 2
    assert report["questions"]["by_category"] == {"1": 2, "2": 2, "3": 0, "4": 4, "5": 2}
    variants = ["amem", "amem_without_evolution", "amem_without_both", "amem_paper_calls"]
    systems = [*variants, "amem_without_links", "dense", "bm25", "rrf"]
    assert sorted(report["retrieval"]) == sorted(systems)
    for system in systems:
        figures = report["retrieval"][system]
        assert set(figures["recall"]) == set(figures["all_evidence"]) == {"5", "10", "20"}
        assert set(figures["by_category"]) == set("12345")
    assert report["retrieval"]["amem"]["recall"]["20"] == 1.0  # of all twelve notes
    assert report["retrieval"]["amem"]["recall"]["5"] >= 0.75

    one, two = (report["conversations"][name] for name in ("conv-1", "conv-2"))
    assert (one["written_by"], two["written_by"]) == ("annotations", "rules")
    assert list(one["builds"]) == variants
    built = one["builds"]["amem"]
    assert built["model_calls"] == 4  # two sessions of six notes, in one batch each
    assert built["calls_per_note"] == 0.3333
    assert built["candidate_recall"] == 1.0
    assert (built["links"], built["updates"]) == (11, 1)  # ten from turn to turn
    assert one["builds"]["amem_without_evolution"]["updates"] == 0
    assert one["builds"]["amem_without_evolution"]["links"] == 11
    assert one["builds"]["amem_without_both"]["links"] == 0
    assert one["builds"]["amem_paper_calls"]["calls_per_note"] > 2
    assert two["builds"]["amem"]["model_calls"] == two["builds"]["amem"]["input_tokens"] == 0
    assert two["builds"]["amem"]["candidate_recall"] is None
    assert report["builds"]["amem"]["unfinished"] == 0
    assert report["costs"]["build"]["calls"] > 0
    assert "answers" not in report
    assert 0 < report["latency_ms"]["embed_query_p50"] < report["latency_ms"]["search_p50"]

    settings = report["settings"]
    assert settings["dataset"]["file"] == "tiny.json"
    assert settings["annotations"]["conv-1"]["file"] == recorded.name
    assert settings["embedder"]["dimensions"] == 384
    assert settings["constants"]["ranking.RRF_K"]
    assert str(tmp_path) not in json.dumps(report)
    assert "# LoCoMo" in (out / "report.md").read_text(encoding="utf-8")


def test_json_goes_to_standard_output_alone(dataset: Path, tmp_path: Path) -> None:
    done = amem(dataset, "--out", tmp_path, "--json", "--conversations", "conv-2", "--k", "3,1")
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["settings"]["k"] == [1, 3]
    assert list(report["conversations"]) == ["conv-2"]
    assert report["settings"]["systems"] == ["amem"]
    assert list(report["retrieval"]) == ["amem"]


def test_with_a_budget_recall_is_also_of_what_is_shown_in_so_many_tokens(
    dataset: Path, tmp_path: Path
) -> None:
    options = ["--json", "--conversations", "conv-2", "--budget", "40,4000"]
    report = json.loads(amem(dataset, "--out", tmp_path, *options).stdout)
    little, all_of_it = (report["within"][budget]["all"]["recall"] for budget in ("40", "4000"))
    assert little["mean"] < all_of_it["mean"] == 1.0


def test_progress_names_the_conversation_and_what_is_done(dataset: Path, recorded: Path) -> None:
    known = locomo.load(dataset)[:1]
    told: list[tuple[str, str, int, int]] = []
    (result,) = evaluate(
        known,
        Settings(systems=("amem_without_evolution",)),
        embedder=HashEmbedder(256),
        annotations=locomo.load_annotations([recorded], known),
        progress=lambda *said: told.append(said),
    )
    assert len(result.search_ms) == len(result.embed_query_ms) == len(tiny_locomo.QUESTIONS)
    assert ("conv-1", "build", 12, 12) in told
    assert ("conv-1", "build amem_without_evolution", 12, 12) in told


def test_a_run_repeats_to_the_digit(dataset: Path) -> None:
    def figures() -> Any:
        results = list(evaluate(locomo.load(dataset), Settings(), embedder=HashEmbedder()))
        return build(results, (5,), {})["retrieval"], [one.outcomes for one in results]

    assert figures() == figures()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "missing.json: No such file"),
        (["{bad}"], "is not a JSON file"),
        (["{data}", "--k", "five"], "k='five'"),
        (["{data}", "--k", "0"], "at least 1"),
        (["{data}", "--ratio", "0"], "ratio=0.0"),
        (["{data}", "--conversations", "conv-9"], "no conversation 'conv-9'"),
        (["{data}", "--annotations", "missing.jsonl"], "missing.jsonl"),
        (["{data}", "--annotations", "{bad}"], "no annotation"),
        (["{data}", "--out", "{data}"], "tiny.json"),
    ],
)
def test_an_error_is_one_line_and_a_status(
    dataset: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{,", encoding="utf-8")
    given = [part.format(data=dataset, bad=bad) for part in arguments]
    done = amem("--out", tmp_path / "out", *given)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.startswith("amem: ")
    assert done.stderr.count("\n") == 1


def test_ctrl_c_ends_it_in_one_line(dataset: Path, tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from benchmarks.evaluation import commands, runner\n"
        "runner.memory_finder = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\n"
        "commands.app()\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, "locomo", str(dataset), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
        restore_signals=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.stderr.splitlines()[-1:] == ["amem: stopped"]
    assert "Traceback" not in done.stderr
    assert done.returncode == 130
    assert not (tmp_path / "report.json").exists()
    assert not list(temporary.glob("amem-eval-*"))


@pytest.fixture(scope="session")
def embedder() -> MiniLmEmbedder:
    # Questions and bare turns come again in the second mode.
    return MiniLmEmbedder(cache_size=20_000)


def measured(embedder: MiniLmEmbedder, *names: str, annotated: bool) -> Iterator[Report]:
    folder = Path(str(DATA)) / "locomo"
    known = locomo.load(folder / "locomo_dev.json")
    files = [folder / f"{name}.annotations.jsonl" for name in names if annotated]
    settings = Settings()
    results = evaluate(
        locomo.select(known, names=names),
        settings,
        embedder=embedder,
        annotations=locomo.load_annotations(files, known),
    )
    yield build(list(results), settings.ks, {})


@pytest.fixture(scope="session")
def conv_26(embedder: MiniLmEmbedder) -> Iterator[Report]:
    yield from measured(embedder, "conv-26", annotated=True)


@pytest.fixture(scope="session")
def conv_30(embedder: MiniLmEmbedder) -> Iterator[Report]:
    yield from measured(embedder, "conv-30", annotated=True)


@pytest.fixture(scope="session")
def by_rules(embedder: MiniLmEmbedder) -> Iterator[Report]:
    yield from measured(embedder, *FEW, annotated=False)


@needs_data
def test_with_a_language_model_the_evidence_is_found_in_conv_26(conv_26: Report) -> None:
    assert conv_26["retrieval"]["amem"]["recall"]["10"] >= 0.85


@needs_data
def test_with_a_language_model_the_evidence_is_found_in_conv_30(conv_30: Report) -> None:
    assert conv_30["retrieval"]["amem"]["recall"]["10"] >= 0.85


@needs_data
def test_what_a_model_would_link_to_is_among_the_candidates(
    conv_26: Report, conv_30: Report
) -> None:
    assert conv_26["builds"]["amem"]["candidate_recall"] >= 0.86
    assert conv_30["builds"]["amem"]["candidate_recall"] >= 0.78


@needs_data
def test_a_bulk_add_costs_less_than_a_third_of_a_call_for_a_note(conv_26: Report) -> None:
    assert conv_26["builds"]["amem"]["model_calls"] <= 0.3 * conv_26["notes"]
    assert conv_26["builds"]["amem"]["unfinished"] == 0


@needs_data
@pytest.mark.timeout(900)
def test_without_a_language_model_most_of_the_evidence_is_found(by_rules: Report) -> None:
    assert by_rules["retrieval"]["amem"]["recall"]["10"] >= (0.78 if FEW else 0.65)
    assert by_rules["builds"]["amem"]["model_calls"] == 0
