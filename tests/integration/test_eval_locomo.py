"""`amem eval locomo`, on a conversation of our own and, where `AMEM_DATA` is set, on LoCoMo."""

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
pytest.importorskip("sentence_transformers")

from typer.testing import CliRunner, Result

from amem_integrations import cli
from amem_integrations.cli.app import app
from amem_integrations.evaluation import Ablation, Report, Settings, build, evaluate, locomo
from amem_integrations.evaluation.recordings import load as load_recordings
from amem_integrations.providers import SentenceTransformerEmbedder
from amem_integrations.testing import HashEmbedder

DATA = os.environ.get("AMEM_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="AMEM_DATA is not set: no LoCoMo here")

TALK = {
    "session_1_date_time": "10:15 am on 3 June, 2024",
    "session_1": [
        ("Ines", "I finally planted the quince tree behind the shed yesterday."),
        ("Tariq", "Lovely! Did your brother Paulo help you dig?"),
        ("Ines", "He did, and he broke the spade doing it."),
        ("Tariq", "I have joined a rowing club on the Douro, by the way."),
        ("Ines", "Since when do you row? You hated boats!"),
        ("Tariq", "Since my doctor told me that my back needs it."),
    ],
    "session_2_date_time": "6:40 pm on 21 August, 2024",
    "session_2": [
        ("Tariq", "We won our first regatta on Sunday, the whole crew cried."),
        ("Ines", "Congratulations! What boat do you row in?"),
        ("Tariq", "A four, she is called Andorinha.", "a slim white rowing boat on a river"),
        ("Ines", "My quince lost all its leaves in the heat, I fear it is dead."),
        ("Tariq", "Water it in the evening, mine survived like that."),
        ("Ines", "Paulo says the same. He brought me a new spade, too."),
    ],
}
QUESTIONS = [
    ("Who broke the spade?", 4, ["D1:3"]),
    ("What has become of the quince tree?", 1, ["D1:01; D2:4"]),
    ("When did Tariq win a regatta?", 2, ["D2:1"]),
    ("What is the name of the rowing boat?", 4, ["D2:3"]),
    ("Would Tariq enjoy a canoe trip?", 3, ["D:1:4"]),
    ("What did Tariq break?", 5, ["D1:3"]),
]


def conversation(name: str = "conv-1") -> dict[str, Any]:
    def turn(session: int, place: int, said: tuple[str, ...]) -> dict[str, str]:
        caption = {"blip_caption": said[2]} if len(said) > 2 else {}
        return {"speaker": said[0], "dia_id": f"D{session}:{place}", "text": said[1], **caption}

    sessions: dict[str, Any] = {"speaker_a": "Ines", "speaker_b": "Tariq", **TALK}
    for number in (1, 2):
        said = enumerate(TALK[f"session_{number}"], start=1)
        sessions[f"session_{number}"] = [turn(number, place, one) for place, one in said]
    asked = [
        {"question": question, "category": category, "evidence": evidence, "answer": "-"}
        for question, category, evidence in QUESTIONS
    ]
    return {"sample_id": name, "conversation": sessions, "qa": asked}


def annotations() -> list[dict[str, Any]]:
    turns = [turn for n in (1, 2) for turn in conversation()["conversation"][f"session_{n}"]]
    records: dict[str, dict[str, Any]] = {
        turn["dia_id"]: {
            "id": turn["dia_id"],
            "keywords": turn["text"].split()[:2],
            "context": f"{turn['speaker']} says: {turn['text']}",
            "tags": ["garden" if "quince" in turn["text"] else "life"],
            "links": [],
            "updates": [],
        }
        for turn in turns
    }
    records["D2:4"]["links"] = [{"to": "D1:1", "why": "the same tree"}]
    records["D2:4"]["updates"] = [
        {"to": "D1:1", "context": "The quince tree Ines planted is dying.", "tags": ["loss"]}
    ]
    return list(records.values())


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps([conversation(), conversation("conv-2")]), encoding="utf-8")
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "conv-1.annotations.jsonl"
    path.write_text("\n".join(map(json.dumps, annotations())), encoding="utf-8")
    return path


def amem(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", "locomo", *map(str, arguments)])


def test_the_command_writes_a_report_for_machines_and_one_for_people(
    dataset: Path, recorded: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out"
    done = amem(dataset, "--out", out, "--annotations", recorded, "--baselines", "--no-progress")
    assert done.exit_code == 0, done.output
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))

    assert report["notes"] == 24
    assert report["questions"]["used"] == 8
    assert report["questions"]["skipped"] == 2
    assert report["questions"]["by_category"] == {"1": 2, "2": 2, "3": 0, "4": 4, "5": 2}
    ours = ["amem", "amem_without_links", "amem_without_evolution"]
    systems = [*ours, "dense", "bm25", "rrf"]
    assert sorted(report["retrieval"]) == sorted(systems)
    for system in systems:
        figures = report["retrieval"][system]
        assert set(figures["recall"]) == set(figures["all_evidence"]) == {"5", "10", "20"}
        assert set(figures["by_category"]) == set("12345")
    assert report["retrieval"]["amem"]["recall"]["20"] == 1.0  # of all twelve notes
    assert report["retrieval"]["amem"]["recall"]["5"] >= 0.75

    one, two = report["conversations"]["conv-1"], report["conversations"]["conv-2"]
    assert (one["annotated"], two["annotated"]) == (True, False)
    assert one["writes"]["model_calls"] == 4  # two sessions of six notes, in one batch each
    assert one["writes"]["candidate_recall"] == 1.0
    assert (one["writes"]["links"], one["writes"]["updates"]) == (1, 1)
    assert two["writes"]["model_calls"] == two["writes"]["input_tokens"] == 0
    assert two["writes"]["candidate_recall"] is None
    assert report["writes"]["unfinished"] == report["writes"]["rejected_replies"] == 0
    assert 0 < report["latency_ms"]["embed_query_p50"] < report["latency_ms"]["search_p50"]

    settings = report["settings"]
    assert settings["dataset"]["file"] == "tiny.json"
    assert settings["annotations"]["conv-1"]["file"] == recorded.name
    assert settings["encoder"]["dimensions"] == 384
    assert settings["constants"]["ranking.RRF_K"]
    assert str(tmp_path) not in json.dumps(report)
    assert "# Evidence recall on LoCoMo" in (out / "report.md").read_text(encoding="utf-8")


def test_json_goes_to_standard_output_alone(dataset: Path, tmp_path: Path) -> None:
    done = amem(dataset, "--out", tmp_path, "--json", "--conversations", "conv-2", "--k", "3,1")
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["settings"]["k"] == [1, 3]
    assert list(report["conversations"]) == ["conv-2"]
    assert report["settings"]["ablation"] == "none"
    assert list(report["retrieval"]) == ["amem"]


@pytest.mark.parametrize(
    ("ablation", "links", "updates"),
    [(Ablation.NONE, 1, 1), (Ablation.EVOLUTION, 1, 0), (Ablation.LINKS, 0, 0)],
)
def test_an_ablation_builds_a_memory_without(
    dataset: Path, recorded: Path, ablation: Ablation, links: int, updates: int
) -> None:
    known = locomo.load(dataset)[:1]
    told: list[tuple[str, str, int, int]] = []
    (result,) = evaluate(
        known,
        Settings(ablation=ablation),
        embedder=HashEmbedder(256),
        recordings=load_recordings([recorded], known),
        progress=lambda *said: told.append(said),
    )
    assert (result.writes.links, result.writes.updates) == (links, updates)
    assert len(result.search_ms) == len(result.embed_query_ms) == len(QUESTIONS)
    assert told[-1] == ("conv-1", "ask", 6, 6)


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


def test_without_typer_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("amem_integrations.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(cli, "app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"amem-integrations\[cli\]"):
        cli.main()


def test_ctrl_c_ends_it_in_one_line(dataset: Path, tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from amem_integrations import cli\n"
        "from amem_integrations.evaluation import runner\n"
        "runner._ask = lambda *_: os.kill(os.getpid(), signal.SIGINT) or ()\n"
        "cli.main()\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, "eval", "locomo", str(dataset), "--out", str(tmp_path)],
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
def encoder() -> SentenceTransformerEmbedder:
    # Questions and bare turns come again in the second mode.
    return SentenceTransformerEmbedder(cache_size=20_000)


def measured(
    encoder: SentenceTransformerEmbedder, *names: str, annotated: bool
) -> Iterator[Report]:
    folder = Path(str(DATA)) / "locomo"
    known = locomo.load(folder / "locomo_dev.json")
    files = [folder / f"{name}.annotations.jsonl" for name in names if annotated]
    settings = Settings()
    results = evaluate(
        locomo.select(known, names=names),
        settings,
        embedder=encoder,
        recordings=load_recordings(files, known),
    )
    yield build(list(results), settings.ks, {})


@pytest.fixture(scope="session")
def conv_26(encoder: SentenceTransformerEmbedder) -> Iterator[Report]:
    yield from measured(encoder, "conv-26", annotated=True)


@pytest.fixture(scope="session")
def conv_30(encoder: SentenceTransformerEmbedder) -> Iterator[Report]:
    yield from measured(encoder, "conv-30", annotated=True)


@pytest.fixture(scope="session")
def offline(encoder: SentenceTransformerEmbedder) -> Iterator[Report]:
    yield from measured(encoder, annotated=False)


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
    assert conv_26["writes"]["candidate_recall"] >= 0.86
    assert conv_30["writes"]["candidate_recall"] >= 0.78


@needs_data
def test_a_bulk_add_costs_less_than_a_third_of_a_call_for_a_note(conv_26: Report) -> None:
    assert conv_26["writes"]["model_calls"] <= 0.3 * conv_26["notes"]
    assert conv_26["writes"]["unfinished"] == 0


@needs_data
@pytest.mark.timeout(900)  # 2,760 notes
def test_without_a_language_model_most_of_the_evidence_is_found(offline: Report) -> None:
    assert offline["retrieval"]["amem"]["recall"]["10"] >= 0.65
    assert offline["writes"]["model_calls"] == 0
