import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amem_integrations.errors import InvalidInputError
from benchmarks.evaluation import Conversation, locomo


def sample(name: str = "conv-1", **changes: Any) -> dict[str, Any]:
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Tariq",
            "session_2_date_time": "12:05 am on 1 March, 2024",
            "session_2": [
                {"speaker": "Tariq", "dia_id": "D2:1", "text": "The heron came back."},
                {"speaker": "Ines", "dia_id": "D2:2", "text": "", "blip_caption": "a grey heron"},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {
                    "speaker": "Ines",
                    "dia_id": "D1:1",
                    "text": "Look at my pond!",
                    "blip_caption": "a pond with lilies",
                },
                {"speaker": "Tariq", "dia_id": "D1:2", "text": "  "},
            ],
            "session_3_date_time": "9:00 am on 2 March, 2024",
        },
        "qa": [
            {
                "question": "Which bird came back?",
                "answer": 1,
                "evidence": ["D2:01; D2:2"],
                "category": 1,
            }
        ],
        **changes,
    }


def written(folder: Path, samples: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(samples), encoding="utf-8")
    return path


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    return locomo.load(written(tmp_path, [sample()]))[0]


def test_turns_come_in_order_of_sessions_and_empty_ones_are_left_out(
    conversation: Conversation,
) -> None:
    assert [turn.id for turn in conversation.turns] == ["D1:1", "D2:1", "D2:2"]
    assert conversation.namespace == ("locomo", "conv-1")


def test_a_caption_stands_in_brackets_after_the_text(conversation: Conversation) -> None:
    contents = [turn.text for turn in conversation.turns]
    assert contents == [
        "Look at my pond! [image: a pond with lilies]",
        "The heron came back.",
        "[image: a grey heron]",
    ]


def test_a_turn_becomes_a_note_of_its_session(conversation: Conversation) -> None:
    note = conversation.turns[1].as_input()
    assert (note.key, note.thread, note.speaker) == ("D2:1", "session_2", "Tariq")
    assert note.at == datetime(2024, 3, 1, 0, 5, tzinfo=UTC)


def test_a_question_keeps_its_answer_as_text_and_its_evidence_as_turns(
    conversation: Conversation,
) -> None:
    (question,) = conversation.questions
    assert question.answer == "1"
    assert question.evidence == {"D2:1", "D2:2"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:00 pm on 29 February, 2024", datetime(2024, 2, 29, 12, 0, tzinfo=UTC)),
        ("12:30 am on 1 January, 2023", datetime(2023, 1, 1, 0, 30, tzinfo=UTC)),
        (" 9:05 AM on 31 december 2022 ", datetime(2022, 12, 31, 9, 5, tzinfo=UTC)),
    ],
)
def test_dates_are_read_as_utc(text: str, expected: datetime) -> None:
    assert locomo.parse_date(text) == expected


@pytest.mark.parametrize(
    "text", ["", "8 May 2023", "1:56 pm on 8 Mai, 2023", "1:56 pm on 31 June, 2023"]
)
def test_a_date_written_in_another_way_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not written as"):
        locomo.parse_date(text)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (["D8:6"], {"D8:6"}),
        (["D8:06"], {"D8:6"}),
        (["D08:6"], {"D8:6"}),
        (["D8:6; D9:17"], {"D8:6", "D9:17"}),
        (["D9:17 D8:6", "D8:6"], {"D8:6", "D9:17"}),
        (["D8:6,D9:17"], {"D8:6", "D9:17"}),
        (["D:11:26"], set()),
        (["D"], set()),
        (["D8:66"], set()),
        ([], set()),
    ],
)
def test_evidence_is_what_names_an_existing_turn(evidence: list[str], expected: set[str]) -> None:
    turns = {"D8:6": "D8:6", "D9:17": "D9:17"}
    assert locomo.evidence_ids(evidence, turns) == expected


def test_ratio_takes_the_first_conversations_and_at_least_one(tmp_path: Path) -> None:
    known = locomo.load(written(tmp_path, [sample(f"conv-{number}") for number in range(10)]))
    assert [one.id for one in locomo.select(known, ratio=0.3)] == ["conv-0", "conv-1", "conv-2"]
    assert len(locomo.select(known, ratio=0.01)) == 1
    assert [one.id for one in locomo.select(known, names=["conv-7", "conv-4"], ratio=0.5)] == [
        "conv-4"
    ]


@pytest.mark.parametrize("ratio", [0, -1, 1.5, float("nan")])
def test_a_ratio_beyond_its_range_is_an_error(conversation: Conversation, ratio: float) -> None:
    with pytest.raises(InvalidInputError, match="ratio="):
        locomo.select([conversation], ratio=ratio)


def test_an_unknown_conversation_is_an_error_that_lists_the_known_ones(
    conversation: Conversation,
) -> None:
    with pytest.raises(InvalidInputError, match="'conv-9'; there are conv-1"):
        locomo.select([conversation], names=["conv-9"])


@pytest.mark.parametrize(
    "samples",
    [
        [],
        {},
        [3],
        [{"sample_id": "x"}],
        [sample(qa=[{"question": "Who?", "category": "x"}])],
        [sample(qa=[{"question": "Who?", "category": float("inf")}])],
        [sample(conversation={})],
        [sample(), sample()],
    ],
)
def test_a_file_of_another_form_is_an_error(tmp_path: Path, samples: Any) -> None:
    with pytest.raises(InvalidInputError):
        locomo.load(written(tmp_path, samples))


def test_a_file_that_is_not_json_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(InvalidInputError, match="is not a JSON file"):
        locomo.load(path)


def record(turn: str) -> dict[str, Any]:
    return {"id": turn, "keywords": [], "context": "c", "tags": []}


def recorded(folder: Path, name: str, records: list[dict[str, Any]]) -> Path:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, records)) + "\n\n", encoding="utf-8")
    return path


def test_annotations_belong_to_the_conversation_that_the_file_is_named_after(
    tmp_path: Path,
) -> None:
    known = locomo.load(written(tmp_path, [sample("conv-1"), sample("conv-11")]))
    file = recorded(tmp_path, "conv-11.annotations.jsonl", [record("D1:1")])
    found = locomo.load_annotations([file], known)
    assert list(found) == ["conv-11"]
    assert found["conv-11"].as_records()[0]["links"] == []


def test_annotations_of_another_name_belong_to_the_conversation_of_these_turns(
    tmp_path: Path,
) -> None:
    other = sample("conv-2")
    other["conversation"]["session_3"] = [{"speaker": "Ines", "dia_id": "D3:1", "text": "Bye."}]
    known = locomo.load(written(tmp_path, [sample("conv-1"), other]))
    file = recorded(tmp_path, "model.jsonl", [record(t) for t in ("D1:1", "D2:1", "D2:2")])
    assert list(locomo.load_annotations([file], known)) == ["conv-1"]


def test_annotations_of_no_certain_conversation_are_an_error(tmp_path: Path) -> None:
    known = locomo.load(written(tmp_path, [sample("conv-1"), sample("conv-2")]))
    file = recorded(tmp_path, "model.jsonl", [record(t) for t in ("D1:1", "D2:1", "D2:2")])
    with pytest.raises(InvalidInputError, match="fit 2 conversations"):
        locomo.load_annotations([file], known)


def test_two_files_about_one_conversation_are_an_error(
    tmp_path: Path, conversation: Conversation
) -> None:
    files = [recorded(tmp_path, f"conv-1.{n}.jsonl", [record("D1:1")]) for n in "ab"]
    with pytest.raises(InvalidInputError, match="both"):
        locomo.load_annotations(files, [conversation])


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "line 2"), ('{"id": "D1:1"}', "keywords"), ('"x"', "line 2")],
)
def test_a_line_that_is_no_annotation_is_an_error_that_names_it(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "conv-1.jsonl"
    path.write_text(f"{json.dumps(record('D1:1'))}\n{line}\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=said):
        locomo.read_annotations(path)


def test_a_file_without_annotations_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "conv-1.jsonl"
    path.touch()
    with pytest.raises(InvalidInputError, match="no annotations"):
        locomo.read_annotations(path)
