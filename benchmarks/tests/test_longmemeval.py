"""`python -m benchmarks.longmemeval`, on a small sample of our own in the published form."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import longmemeval
from benchmarks.longmemeval import ABSTENTION, RULES, load

TINY = Path(__file__).with_name("tiny_longmemeval.json")


def test_each_question_has_its_own_history_in_the_order_of_its_days():
    first, *others = load(TINY)
    assert [one.questions[0].types for one in others] == [("knowledge-update",), (ABSTENTION,)]
    keys = ["s1#0", "s1#1", "s2#0", "s2#1"]  # not the empty one
    assert [turn.key for turn in first.turns] == keys
    assert first.turns[0].at == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert (first.turns[0].thread, first.turns[1].speaker) == ("s1", "assistant")
    (question,) = first.questions
    assert (question.evidence, question.sessions) == ({"s1#0"}, {"s1"})
    assert question.put == "Today is 2023/05/30 (Tue) 23:40. What is the name of my kestrel?"
    update, absent = (one.questions[0] for one in others)
    assert (update.gold, update.rule) == ("7", RULES["knowledge-update"])
    assert (absent.evidence, absent.sessions, absent.rule) == (set(), set(), RULES[ABSTENTION])


def run(out: Path, *more: str, file: Path = TINY) -> int:
    return longmemeval.main(
        [str(file), "--out", str(out), "--embedder", "hash", "--k", "1,2", *more]
    )


@pytest.mark.enable_socket
def test_recall_of_turns_and_sessions_and_answers_stand_by_type(openai_server, tmp_path):
    def reply(payload):
        prompt = payload["messages"][-1]["content"]
        correct = "Answer to compare: 7" in prompt and RULES["knowledge-update"] in prompt
        answer = "7" if "hens do I have" in prompt else "Bella"
        return json.dumps({"answer": answer, "correct": correct})

    openai_server.answer = reply
    more = ["--answer", "--model", "m", "--judge", "j", "--rule-notes"]
    assert run(tmp_path, *more, "--base-url", openai_server.base_url) == 0
    report = json.loads((tmp_path / "longmemeval.json").read_text(encoding="utf-8"))
    found = report["by_type"]
    assert list(found) == ["all", "single-session-user", "knowledge-update", ABSTENTION]
    assert found["all"]["questions"] == 3
    for measure in ("turns", "sessions"):  # of the update one of two
        assert [one[f"{measure}@1"]["mean"] for one in found.values()] == [0.75, 1.0, 0.5, None]
    assert found["knowledge-update"]["sessions@2"]["mean"] == 1.0
    assert [one["judge"]["mean"] for one in found.values()] == [0.3333, 0.0, 1.0, 0.0]
    assert found["knowledge-update"]["f1"]["mean"] == 1.0
    assert report["about"] in (tmp_path / "longmemeval.md").read_text(encoding="utf-8")
    asked = len(openai_server.requests)
    assert run(tmp_path, *more, "--base-url", openai_server.base_url, "--questions", "1") == 0
    assert len(openai_server.requests) == asked


def test_a_file_of_another_form_is_one_line_of_an_error(tmp_path, capsys):
    first, other = json.loads(TINY.read_text(encoding="utf-8"))[0], tmp_path / "other.json"
    for change, said in (
        ({"question_date": 3, "haystack_dates": ["30 May"]}, "sessions without date"),
        ({"haystack_dates": ["30 May", "31 May"]}, "'30 May' is not written as"),
        ({"haystack_sessions": "none"}, "not in the form of LongMemEval"),
    ):
        other.write_text(json.dumps([first | change]), encoding="utf-8")
        assert run(tmp_path, file=other) == 1
        assert said in capsys.readouterr().err
