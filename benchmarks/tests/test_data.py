"""Reading LoCoMo and annotations of it: what is irregular, and what is refused."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amem_integrations.errors import InvalidInputError
from benchmarks import data


def sample(name: str = "conv-1", **changes: Any) -> dict[str, Any]:
    sessions = {
        "session_2_date_time": "12:05 am on 1 March, 2024",
        "session_2": [
            {"speaker": "Tariq", "dia_id": "D2:1", "text": "The heron came back."},
            {"speaker": "Ines", "dia_id": "D2:2", "text": "", "blip_caption": "a grey heron"},
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ines", "dia_id": "D1:1", "text": "My pond!", "blip_caption": "lilies"},
            {"speaker": "Tariq", "dia_id": "D1:2", "text": "  "},
        ],
        "session_3_date_time": "9:00 am on 2 March, 2024",
    }
    asked = {"question": "Which bird?", "answer": 1, "evidence": ["D2:01; D2:2"], "category": 1}
    return {"sample_id": name, "conversation": sessions, "qa": [asked], **changes}


def written(folder: Path, samples: object, name: str = "data.json") -> Path:
    path = folder / name
    path.write_text(samples if isinstance(samples, str) else json.dumps(samples), encoding="utf-8")
    return path


def test_turns_come_in_order_as_notes_of_their_session_and_empty_ones_are_left_out(tmp_path):
    (one,) = data.load(written(tmp_path, [sample()]))
    assert [(turn.key, turn.content) for turn in one.turns] == [
        ("D1:1", "My pond! [image: lilies]"),
        ("D2:1", "The heron came back."),
        ("D2:2", "[image: a grey heron]"),
    ]
    turn, at = one.turns[1], datetime(2024, 3, 1, 0, 5, tzinfo=UTC)
    assert (turn.thread, turn.speaker, turn.at) == ("session_2", "Tariq", at)
    assert (one.questions[0].answer, one.questions[0].evidence) == ("1", {"D2:1", "D2:2"})


def test_dates_are_read_as_utc_and_others_are_an_error_that_shows_them(tmp_path):
    def read(date: str) -> datetime | None:
        one = sample()
        one["conversation"]["session_1_date_time"] = date
        return data.load(written(tmp_path, [one]))[0].turns[0].at

    for text, expected in (
        ("12:00 pm on 29 February, 2024", (2024, 2, 29, 12, 0)),
        (" 12:30 AM on 31 december 2022 ", (2022, 12, 31, 0, 30)),
    ):
        assert read(text) == datetime(*expected, tzinfo=UTC)
    for text in ("8 May 2023", "1:56 pm on 8 Mai, 2023", "1:56 pm on 31 June, 2023"):
        with pytest.raises(InvalidInputError, match=f"'{text}' is not written as"):
            read(text)


def test_evidence_is_what_names_an_existing_turn(tmp_path):
    for evidence, expected in (
        (["D02:01"], {"D2:1"}),
        ("D2:1; D1:1", {"D2:1", "D1:1"}),
        (["D2:1 D1:1", "D1:1"], {"D2:1", "D1:1"}),
        (["D:2:1", "D", "D2:66", "D1:2"], set()),  # the last one is empty
        (None, set()),
    ):
        asked = {"question": " Who? ", "category": 4, "evidence": evidence}
        (one,) = data.load(written(tmp_path, [sample(qa=[asked])]))
        assert (one.questions[0].text, one.questions[0].evidence) == ("Who?", expected)


def test_conversations_are_chosen_by_name(tmp_path):
    known = data.load(written(tmp_path, [sample(f"conv-{number}") for number in range(3)]))
    assert data.select(known, []) == known
    assert [one.id for one in data.select(known, ["conv-2", "conv-1"])] == ["conv-1", "conv-2"]
    with pytest.raises(InvalidInputError, match="'conv-x'; there are conv-0, conv-1"):
        data.select(known, ["conv-x"])


def test_a_file_of_another_form_is_an_error(tmp_path):
    odd = sample(qa=[{"question": "Who?", "category": "x"}])
    for samples in ("{", [], [sample(), sample()], [sample(conversation={})], [odd]):
        with pytest.raises(InvalidInputError):
            data.load(written(tmp_path, samples))


def record(turn: str) -> str:
    return json.dumps({"id": turn, "keywords": [], "context": "c", "tags": []})


def test_annotations_belong_to_the_conversation_of_their_name(tmp_path):
    known = data.load(written(tmp_path, [sample("conv-1"), sample("conv-11")]))
    path = written(tmp_path, f"{record('D1:1')}\n\n{record('D2:1')}", "conv-11.annotations.jsonl")
    ((found, annotations),) = data.load_annotations([path], known).items()
    assert (found, annotations.records[1]["links"]) == ("conv-11", [])
    for files, said in (
        ({"model.jsonl": record("D1:1")}, "named after one"),
        ({"conv-1.a.jsonl": record("D1:1"), "conv-1.b.jsonl": record("D1:1")}, "the only file"),
        ({"conv-1.jsonl": f"{record('D1:1')}\n{{"}, "line 2"),
        ({"conv-1.jsonl": '{"id": "D1:1"}'}, "context"),
    ):
        paths = [written(tmp_path, text, name) for name, text in files.items()]
        with pytest.raises(InvalidInputError, match=said):
            data.load_annotations(paths, known)
