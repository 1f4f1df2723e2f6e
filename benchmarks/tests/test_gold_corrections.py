from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from amem_integrations.errors import InvalidInputError
from benchmarks.evaluation import Conversation, Question, Turn, gold_corrections, locomo

DATA = os.environ.get("AMEM_DATA")
PRIZE = "What did Ines win?"


def conversation(name: str = "conv-26") -> Conversation:
    turns = [
        Turn(id=f"D{session}:{n}", thread=f"session_{session}", speaker="Ines", text="…")
        for session in (1, 12)
        for n in (1, 2, 3)
    ]
    texts = ["When did the heron come?", PRIZE, PRIZE]
    questions = [
        Question(
            text=text, category=2, evidence=frozenset({"D1:1"}), answer="2022", adversarial="x"
        )
        for text in texts
    ]
    return Conversation(id=name, turns=tuple(turns), questions=tuple(questions))


def written(folder: Path, content: Any) -> Path:
    path = folder / "golds.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def corrected(folder: Path, *items: Any, among: tuple[str, ...] = ("conv-26",)) -> Conversation:
    known = [conversation(name) for name in among]
    return gold_corrections.apply(known, gold_corrections.load(written(folder, list(items))))[0]


HERON = {"conversation": "conv-26", "question": "When did the heron come?"}
AUDITED = {
    "question_id": "locomo_0_qa0",
    "question": "When did the heron come?",
    "golden_answer": "2022",
    "category": 2,
    "error_type": "TEMPORAL_ERROR",
    "cited_evidence": ["D1:1"],
    "correct_evidence": ["D1:2"],
    "reasoning": "…",
    "correct_answer": "2023",
}


def test_an_answer_and_its_evidence_are_replaced_and_all_else_stays(tmp_path):
    before = conversation()
    after = corrected(tmp_path, {**HERON, "answer": "May 2023", "evidence": ["D1:2", "D12:03"]})
    first, *others = after.questions
    assert (first.answer, first.evidence) == ("May 2023", {"D1:2", "D12:3"})
    assert (first.text, first.category, first.adversarial) == ("When did the heron come?", 2, "x")
    assert tuple(others) == before.questions[1:]
    assert (after.id, after.turns) == (before.id, before.turns)
    assert before == conversation()


def test_what_is_not_given_stays(tmp_path):
    assert corrected(tmp_path, {**HERON, "answer": 2023}).questions[0].answer == "2023"
    assert corrected(tmp_path, {**HERON, "answer": 2023}).questions[0].evidence == {"D1:1"}
    cited = corrected(tmp_path, {**HERON, "evidence": ["D1:2; D12:1"], "why": "it was she"})
    assert (cited.questions[0].answer, cited.questions[0].evidence) == ("2022", {"D1:2", "D12:1"})
    assert corrected(tmp_path, {**HERON, "evidence": []}).questions[0].evidence == frozenset()


def test_a_question_can_be_named_by_its_place(tmp_path):
    named = {"conversation": "conv-26", "index": 2, "answer": "a cup"}
    answers = ["2022", "2022", "a cup"]
    assert [one.answer for one in corrected(tmp_path, named).questions] == answers
    both = {**named, "question": PRIZE}
    assert [one.answer for one in corrected(tmp_path, both).questions] == answers


def test_spaces_in_a_question_do_not_matter(tmp_path):
    spaced = {**HERON, "question": " When did  the heron come? ", "answer": "2023"}
    assert corrected(tmp_path, spaced).questions[0].answer == "2023"


def test_the_entries_of_the_audit_are_read(tmp_path):
    first = corrected(tmp_path, AUDITED).questions[0]
    assert (first.answer, first.evidence) == ("2023", {"D1:2"})


def test_where_the_audit_found_only_the_citation_wrong_the_answer_stays(tmp_path):
    remark = "2022 (answer is correct, citation is wrong)"
    entry = {**AUDITED, "error_type": "WRONG_CITATION", "correct_answer": remark}
    first = corrected(tmp_path, entry).questions[0]
    assert (first.answer, first.evidence) == ("2022", {"D1:2"})


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_corrections_may_stand_on_lines_of_their_own(tmp_path, end):
    items = [{**HERON, "answer": "2023"}, {**HERON, "question": PRIZE, "index": 1, "answer": "ä"}]
    lines = "\n\n".join(json.dumps(item, ensure_ascii=False) for item in items) + end
    found = gold_corrections.load(written(tmp_path, lines))
    assert [one.answer for one in found] == ["2023", "ä"]
    assert gold_corrections.load(written(tmp_path, json.dumps(items[0]))) == found[:1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds no corrections"),
        ("[]", "holds no corrections"),
        ("[" * 100_000, "no correction"),
        ("{", "line 1"),
        ('{"conversation": "conv-26", "index": 0, "answer": "x"}\nx', "line 2"),
        ([3], "entry 1"),
        ([{**HERON, "answer": "x"}, {"question": "?", "answer": "x"}], "entry 2.*conversation"),
        ([{"conversation": "conv-26", "answer": "x"}], "no question is named"),
        ([{**HERON}], "nothing is corrected"),
        ([{**HERON, "answer": None}], "nothing is corrected"),
        ([{**HERON, "answer": ["x"]}], "answer"),
        ([{**HERON, "answer": True}], "answer"),
        ([{**HERON, "evidence": "D1:2"}], "evidence"),
        ([{"conversation": "conv-26", "index": -1, "answer": "x"}], "index"),
        ([{**AUDITED, "question_id": "conv-26/0"}], "locomo_0_qa1"),
    ],
)
def test_a_file_of_another_form_is_an_error_that_says_where(tmp_path, content, said):
    with pytest.raises(InvalidInputError, match=said):
        gold_corrections.load(written(tmp_path, content))


def test_a_file_that_is_no_text_is_an_error(tmp_path):
    path = tmp_path / "golds.json"
    path.write_bytes(b"\xff\xfe{\x00")
    with pytest.raises(InvalidInputError, match="line 1"):
        gold_corrections.load(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(OSError, match=r"none\.json"):
        gold_corrections.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({**HERON, "conversation": "conv-1", "answer": "x"}, "'conv-1'.*there are conv-26, mine"),
        ({**HERON, "question": "Who?", "answer": "x"}, "'Who\\?' of 'conv-26'.*no such question"),
        ({"conversation": "conv-26", "index": 3, "answer": "x"}, "question 3 .*no such question"),
        ({**HERON, "index": 1, "answer": "x"}, "no such question at index 1"),
        ({**HERON, "question": PRIZE, "answer": "x"}, r"more than once; add 'index'.*\[1, 2\]"),
        ({**HERON, "evidence": ["D1:1", "D1:9"]}, "'D1:9' names no turn"),
        ({**HERON, "evidence": ["the heron"]}, "'the heron' names no turn"),
    ],
)
def test_what_does_not_exist_is_an_error_that_names_it(tmp_path, item, said):
    with pytest.raises(InvalidInputError, match=said):
        corrected(tmp_path, item, among=("mine", "conv-26"))


def test_two_corrections_of_one_question_are_an_error(tmp_path):
    named = {"conversation": "conv-26", "index": 0, "answer": "x"}
    with pytest.raises(InvalidInputError, match="corrected twice"):
        corrected(tmp_path, {**HERON, "answer": "y"}, named)


def test_a_correction_of_a_locomo_conversation_that_is_not_here_is_left_out(tmp_path):
    elsewhere = {**HERON, "conversation": "conv-50", "answer": "x"}
    assert corrected(tmp_path, elsewhere) == conversation()


def test_what_was_corrected_is_counted(tmp_path):
    items = [
        {**HERON, "answer": "2022", "evidence": ["D1:2"]},  # the answer was right
        {"conversation": "conv-26", "index": 1, "answer": "a cup", "evidence": ["D1:3"]},
        {**HERON, "conversation": "conv-50", "answer": "x"},
    ]
    corrections = gold_corrections.load(written(tmp_path, items))
    before = [conversation("mine"), conversation()]
    after = gold_corrections.apply(before, corrections)
    assert gold_corrections.count(corrections, before, after) == {
        "corrections": 3,
        "elsewhere": 1,
        "answers": 1,
        "evidence": 2,
    }


@pytest.mark.skipif(not DATA, reason="AMEM_DATA is not set: no LoCoMo here")
def test_the_places_that_the_audit_names_are_those_of_the_dataset(tmp_path):
    known = locomo.load(Path(DATA or "") / "locomo" / "locomo_dev.json")
    entries = [  # as the audit has them, without the texts
        {"question_id": "locomo_0_qa37", "category": 1, "correct_evidence": ["D8:6", "D9:17"]},
        {"question_id": "locomo_1_qa44", "category": 4, "correct_evidence": ["D1:25"]},
        {"question_id": "locomo_3_qa88", "category": 4, "correct_evidence": ["D1:16", "D1:18"]},
        {"question_id": "locomo_4_qa60", "category": 2, "correct_evidence": ["D23:3"]},
        {"question_id": "locomo_9_qa69", "category": 2, "correct_evidence": ["D30:5"]},
    ]
    for entry, one, index in zip(entries, (0, 1, 3, 4), (37, 44, 88, 60), strict=False):
        assert known[one].id == gold_corrections.LOCOMO10[one]
        assert known[one].questions[index].category == entry["category"]
    corrections = gold_corrections.load(written(tmp_path, entries))
    counted = gold_corrections.count(corrections, known, gold_corrections.apply(known, corrections))
    # The first of them names the same turns in a string of another form.
    assert counted == {"corrections": 5, "elsewhere": 1, "answers": 0, "evidence": 3}
