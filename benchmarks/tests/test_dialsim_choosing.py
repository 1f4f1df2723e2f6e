"""Which question is asked where: as the published simulator draws, and the same in every run."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.evaluation import dialsim
from benchmarks.tests.dialsim import AGENT, JSON, UNKNOWN, loaded, question, session

WHO = ("Dee", "Ann", "Eve", "Ben", "Cy", "Ann", "Ben", "All", "Dee")
TALK = "\n".join(f"{speaker}: Turn {place}." for place, speaker in enumerate(WHO))


@pytest.fixture
def show() -> dialsim.Show:
    return dialsim.load(JSON, agent=AGENT)


def many(tmp_path: Path, sessions: int = 400, **changes) -> dialsim.Show:
    return loaded(tmp_path, *[session(TALK, **changes) for _ in range(sessions)])


def share(choice: dialsim.Choice, counted) -> float:
    return sum(map(counted, choice.asked)) / len(choice.asked)


def test_at_most_one_question_is_asked_in_a_session_in_their_order(show):
    choice = dialsim.choose(show, seed=1)
    assert [one.session.id for one in choice.asked] == [
        one.id
        for one in show.sessions
        if one.id.split()[0] + one.id[-2:] not in {"S01E02/2", "S01E03/2"}
    ]
    assert choice.left_out == {"the agent says nothing": 1, "nobody else is near": 1}


def test_the_same_seed_asks_the_same_and_another_one_something_else(show):
    assert dialsim.choose(show, seed=3) == dialsim.choose(show, seed=3)
    different = {tuple(one.text for one in dialsim.choose(show, seed=n).asked) for n in range(20)}
    assert len(different) > 10


def test_what_is_asked_does_not_depend_on_how_much_is_run(show):
    whole = dialsim.choose(show, seed=5).asked
    assert dialsim.choose(show, seed=5, questions=2).asked == whole[:2]
    start = dialsim.load(JSON, agent=AGENT, sessions=3)
    assert [(one.text, one.asker, one.turn) for one in dialsim.choose(start, seed=5).asked] == [
        (one.text, one.asker, one.turn) for one in whole[:3]
    ]


def test_what_is_asked_does_not_depend_on_the_process():
    code = (
        "from benchmarks.evaluation import dialsim\n"
        f"show = dialsim.load({str(JSON)!r}, agent={AGENT!r})\n"
        "print([(a.text, a.asker, a.turn) for n in range(9) for a in dialsim.choose(show, seed=n).asked])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_it_is_asked_after_an_utterance_of_the_agent_but_the_first(tmp_path):
    choice = dialsim.choose(many(tmp_path))
    assert {one.turn for one in choice.asked} == {5}
    once = loaded(tmp_path, session("Ben: Good morning.\nANN: Tea, please."))
    assert [one.turn for one in dialsim.choose(once).asked] == [1]


def test_who_asks_speaks_near_and_is_neither_the_agent_nor_everyone(tmp_path):
    asked = Counter(one.asker for one in dialsim.choose(many(tmp_path)).asked)
    assert set(asked) == {"Eve", "Ben", "Cy"}  # turns 2 to 7: of three before, and two after
    choir = loaded(tmp_path, session("Ben and Ann: Tea!\nAnn: Please.\nAnn (off): Now."))
    assert dialsim.choose(choir).left_out == {"nobody else is near": 1}


def test_the_question_is_put_in_the_words_of_who_asks(tmp_path):
    words = {"default": "Who?", "Ben": "Who, my dear?"}
    choice = dialsim.choose(many(tmp_path, hard_q={"cur": [question(questions=words)]}))
    assert {(one.asker == "Ben", one.text) for one in choice.asked} == {
        (True, "Who, my dear?"),
        (False, "Who?"),
    }
    asked = choice.asked[0]
    assert asked.as_question("Ann", 1).text == f"{asked.asker}: {asked.text}"


def test_without_a_wording_for_who_is_near_nothing_is_asked(tmp_path):
    of_zoe = [question(questions={"Zoe": "Who?"})]
    choice = dialsim.choose(many(tmp_path, 3, hard_q={"cur": of_zoe}))
    assert (choice.asked, choice.left_out) == ((), {"no question for who is near": 3})


def test_seven_of_ten_questions_are_of_the_graph_if_both_sources_have_some(tmp_path):
    easy = {"ans_wo_time": {"1": question()}}
    both = dialsim.choose(many(tmp_path, easy_q=easy))
    assert 0.62 < share(both, lambda one: one.question.source == "graph") < 0.78
    quiz = dialsim.choose(many(tmp_path, 30, hard_q={"cur": []}, easy_q=easy))
    assert share(quiz, lambda one: one.question.source == "quiz") == 1.0
    assert len(quiz.asked) == 30


@pytest.mark.parametrize(
    ("field", "rare", "other", "most"),
    [("hard_q", "fu_past", "cur", 0.215), ("easy_q", "dont_know_unans", "ans_w_time", 0.27)],
)
def test_kinds_without_an_answer_are_held_to_a_share(tmp_path, field, rare, other, most):
    kinds = [f"{rare}{number}" for number in range(4)]
    asked = {"hard_q": {}, "easy_q": {}}
    number = list if field == "hard_q" else lambda some: dict(enumerate(some))
    asked[field] = {kind: number([question(UNKNOWN)]) for kind in kinds}
    asked[field][other] = number([question()])
    found = share(
        dialsim.choose(many(tmp_path, 600, **asked)), lambda one: not one.question.answerable
    )
    assert most - 0.06 < found < most + 0.03  # without that it would be four of five


def test_if_all_kinds_are_rare_they_are_all_asked(tmp_path):
    future = {"fu": [question(UNKNOWN)], "cur_fu": [question(UNKNOWN)], "past": []}
    choice = dialsim.choose(many(tmp_path, 40, hard_q=future))
    assert {one.question.kind for one in choice.asked} == {"fu", "cur_fu"}


@pytest.mark.parametrize(
    "own", ["What did Ann drink in 2005?", "What did Ann drink in May 2005, then?"]
)
def test_a_question_of_the_graph_about_the_month_or_year_it_is_still_is_not_asked(tmp_path, own):
    def of_date(text: str) -> dict:
        return question(questions={"default": text})

    mixed = {"cur": [of_date(own), of_date("What did Ann drink on May 5, 2005?")]}
    choice = dialsim.choose(many(tmp_path, 50, hard_q=mixed))
    assert {one.text for one in choice.asked} == {"What did Ann drink on May 5, 2005?"}
    alone = dialsim.choose(many(tmp_path, 5, hard_q={"cur": [of_date(own)]}))
    assert alone.left_out == {"no question for who is near": 5}
    earlier = dialsim.choose(many(tmp_path, 5, hard_q={"cur": [of_date(own)]}, date="May 5, 2006"))
    assert len(earlier.asked) == 5
    quiz = {"hard_q": {}, "easy_q": {"ans_w_time": {"1": of_date(own)}}}
    assert len(dialsim.choose(many(tmp_path, 5, **quiz)).asked) == 5


def test_a_session_without_questions_or_words_asks_nothing(tmp_path):
    show = loaded(tmp_path, session(hard_q={}), session(""), session())
    assert dialsim.choose(show).left_out == {"no question": 1, "the agent says nothing": 1}
