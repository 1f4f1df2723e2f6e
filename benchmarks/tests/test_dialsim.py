"""DialSim: what its files hold, what is asked, what a memory may know by then, and how answers are marked."""

import collections
import json
import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amem_integrations.errors import InvalidInputError
from amem_integrations.testing import HashEmbedder, ScriptedModel
from benchmarks import dialsim
from benchmarks.answering import Models
from benchmarks.data import Question
from benchmarks.report import by_type
from benchmarks.runner import evaluate
from benchmarks.systems import Settings

JSON = Path(__file__).with_name("harbour_dialsim.json")  # a show of our own
PICKLE = JSON.with_suffix(".pickle")  # the same as the dataset is published
UNKNOWN = "I don't know. (None of the above)"


def question(answer: Any = "Tea", text: str = "What does Ann drink?", **changes: Any) -> Any:
    options = ["Milk", "Tea", "Cocoa", "Rain", UNKNOWN]
    return {"questions": {"default": text}, "options": options, "answer": answer, **changes}


def session(script: str = "Ann: Tea, please.\nBen: Here you are.", **changes: Any) -> Any:
    return {"date": "May 5, 2005", "script": script, "hard_q": {"cur": [question()]}, **changes}


def written(folder: Path, data: object) -> Path:
    path = folder / "tea_dialsim.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def loaded(folder: Path, *sessions: Any) -> dialsim.Show:
    data = {"S01E01": {str(number): one for number, one in enumerate(sessions, start=1)}}
    return dialsim.load(written(folder, data), agent="Ann")


@pytest.fixture
def show() -> dialsim.Show:
    return dialsim.load(JSON, agent="Nell")


def test_a_show_has_its_sessions_questions_and_utterances_in_the_order_of_the_file(show, tmp_path):
    assert dialsim.load(PICKLE, agent="Nell") == show
    found = [(one.id[:6], one.id[-1], len(one.questions)) for one in show.sessions]
    assert found[:3] == [("S01E01", "1", 5), ("S01E01", "2", 3), ("S01E02", "1", 4)]
    assert show.sessions[0].at == datetime(2011, 3, 4, tzinfo=UTC)
    boat, *_, animal = show.sessions[0].questions
    assert (boat.source, boat.kind, boat.answer) == ("graph", "cur", "The Sandpiper")
    assert (boat.answerable, animal.answerable) == (True, False)
    assert boat.wording("Otis") == "Say, which of my boats is taking in water on March 4, 2011?"
    assert boat.wording("Bram") == "Which boat is taking in water on March 4, 2011?"
    friends = written(tmp_path, JSON.read_bytes()).rename(tmp_path / "friends_dialsim.json")
    assert dialsim.load(friends, sessions=2)[1:] == ("Ross", show.sessions[:2])
    script = (
        "He comes in.\nAnn: It is 5:30.\nLate, that is.\n\n  Ben : No.\nAnn:\nTeleplay: A. Writer\n"
        "[Scene: the quay]\nA long sentence that is nobody's name and goes on and on, and then has: a colon\n"
    )
    (one,) = loaded(tmp_path, session(script)).sessions
    assert [(one.key, one.speaker, one.content.partition(",")[0]) for one in one.turns] == [
        ("S01E01/1#0", None, "He comes in."),
        ("S01E01/1#1", "Ann", "It is 5:30.\nLate"),
        ("S01E01/1#2", "Ben", "No."),
        ("S01E01/1#3", None, "[Scene: the quay]"),
        ("S01E01/1#4", None, "A long sentence that is nobody's name and goes on and on"),
    ]


class Exploit:
    """What a pickle that runs a command is made of."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        kept = {"a": collections.OrderedDict({1: session(note={1}, place=frozenset({"quay"}))})}
        path = written(tmp_path, pickle.dumps(kept, protocol))
        assert dialsim.load(path, "Ann").sessions[0].id == "a/1"
        harm = {"a": {1: session(x=Exploit(tmp_path / "made"))}}
        written(tmp_path, pickle.dumps(harm, protocol))
        with pytest.raises(InvalidInputError, match=r"builds \w+\.mkdir, and so could run code"):
            dialsim.load(path, agent="Ann")
        assert not (tmp_path / "made").exists()


def test_a_file_of_another_form_is_an_error_that_says_where(tmp_path):
    for data, said in (
        ({"a": {"1": {"script": "Ann: Hello."}}}, r"a\.1\.date: Field required"),
        ({"a": {"1": session(date="Mai 5, 2005")}}, r"a\.1\.date: .*'September 22, 1994'"),
        (b'{"a": ', "is neither JSON"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "builds builtins.eval, and so could run code"),
        (pickle.dumps({"a": 1})[:-3], "nor a whole pickle"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            dialsim.load(written(tmp_path, data), agent="Ann")


WHO = ("Dee", "Ann", "Eve", "Ben", "Cy", "Ann", "Ben", "All", "Dee")
TALK = "\n".join(f"{speaker}: Turn {place}." for place, speaker in enumerate(WHO))


def many(folder: Path, sessions: int = 400, **changes: Any) -> list[Question]:
    whole, _ = dialsim.choose(loaded(folder, *[session(TALK, **changes)] * sessions))
    return list(whole.questions)


def share(asked: list[Question], counted: str) -> float:
    return sum(one.types[0] == counted or one.types[1].startswith(counted) for one in asked) / len(asked)  # fmt: skip


def test_the_same_seed_asks_the_same_and_another_one_something_else(show):
    whole, left_out = dialsim.choose(show, 5)
    assert left_out == {"the agent says nothing": 1, "nobody else is near": 1}
    assert [whole.turns[one.after - 1].thread[-1] for one in whole.questions] == [*"12113"]
    assert len({dialsim.choose(show, n)[0].questions for n in range(20)}) > 10
    start = dialsim.load(JSON, agent="Nell", sessions=3)
    assert dialsim.choose(start, 5)[0].questions == whole.questions[:3]


def test_it_is_asked_after_an_utterance_of_the_agent_by_somebody_near(tmp_path):
    words = {"default": "Who?", "Ben": "Who, my dear?"}
    asked = many(tmp_path, hard_q={"cur": [question(questions=words)]})
    # After turn 5 of 9, not the first of the agent's if there is another one.
    assert {one.after % len(WHO) for one in asked} == {6}
    # By those of turns 2 to 7, and not by everyone.
    assert {one.text for one in asked} == {"Eve: Who?", "Ben: Who, my dear?", "Cy: Who?"}
    choir = session("Ben and Ann: Tea!\nAnn: Please.\nAnn (off): Now.")
    zoe = session(hard_q={"cur": [question(questions={"Zoe": "Who?"})]})
    assert dialsim.choose(loaded(tmp_path, choir, zoe, session()))[1] == {
        "nobody else is near": 1, "no question for who is near": 1,
    }  # fmt: skip


def test_kinds_are_drawn_as_the_published_simulator_draws_them(tmp_path):
    for field, rare, other, most in (
        ("hard_q", "fu_past", "cur", 0.215),
        ("easy_q", "dont_know_unans", "ans_w_time", 0.27),
    ):
        kinds = {f"{rare}{number}": [question(UNKNOWN)] for number in range(4)}
        asked = many(tmp_path, 600, **{"hard_q": {}, field: {**kinds, other: [question()]}})
        assert {one.answer for one in asked} == {"I don't know.", "Tea"}
        # Without that it would be four of five.
        assert most - 0.06 < share(asked, "unanswerable") < most + 0.03
    # Seven of ten are of the graph, and none is about its own month or year.
    dated = [question(text=text) for text in ("Who drank in 2005?", "Who, in May 2005, drank?")]
    easy = {"ans_wo_time": {"1": question(text="In May 2005?")}}
    asked = many(tmp_path, hard_q={"cur": [*dated, question(text="On May 5, 2005?")]}, easy_q=easy)
    assert {one.text.partition(": ")[2] for one in asked} == {"On May 5, 2005?", "In May 2005?"}
    assert 0.62 < share(asked, "graph") < 0.78


def test_nothing_is_recalled_that_is_said_later(show):
    whole, _ = dialsim.choose(show, seed=2)
    asked = {one.put: one for one in whole.questions}

    def answer(request: Any) -> dict[str, str]:
        one = asked[request.inputs["question"]]
        return {"answer": "The Kestrel" if "graph/past" in one.types else one.answer}

    def verdict(request: Any) -> dict[str, bool]:
        return {"correct": request.inputs["gold"] == request.inputs["answer"]}

    model = ScriptedModel({"dialsim": answer, "judge": verdict})
    settings = Settings(ks=(50,), answer_k=50, prompt="dialsim", concurrency=1)
    models = Models(answerer=model, judge=model)
    (result,) = evaluate([whole], settings, embedder=HashEmbedder(256), models=models)
    order = [turn.key for turn in whole.turns]
    for one, found in zip(whole.questions, result.found["amem"], strict=True):
        assert sorted(found.ids) == sorted(order[: one.after])  # all of it: k is larger
    request = model.asked("dialsim")[0]
    asker, _, text = whole.questions[0].text.partition(": ")
    assert request.inputs["question"] == f"On March 4, 2011, {asker} asks Nell: {text}"
    assert set(request.inputs) == {"question", "context"}  # and no gold
    found = by_type([result], (50,), HashEmbedder(256))  # right everywhere but in one of five
    shares = {name: one["judge"]["mean"] for name, one in found.items()}
    assert (shares["all"], shares["answerable"], shares["unanswerable"]) == (0.8, 0.75, 1.0)
    assert (shares["graph/past"], found["graph/past"]["f1"]["mean"]) == (0.0, 0.0)
    assert [found[name]["refused"]["mean"] for name in ("all", "unanswerable")] == [0.2, 1.0]


def run(arguments: str) -> int:
    return dialsim.main([*arguments.split(), "--embedder", "hash"])


@pytest.mark.enable_socket
def test_the_command_writes_a_report_and_asks_nothing_twice(openai_server, tmp_path, capsys):
    openai_server.answer = lambda _: json.dumps({"answer": "(A)", "correct": True, "notes": []})
    given = f"{PICKLE} --agent Nell --out {tmp_path} --model m --judge j --rule-notes --k 4"
    given += f" --base-url {openai_server.base_url}"
    assert run(given) == 0
    report = json.loads((tmp_path / "dialsim.json").read_text(encoding="utf-8"))
    found = report["by_type"]["all"]
    assert (found["questions"], found["judge"]["mean"]) == (5, 1.0)  # so says the judge
    costs = {stage: one["calls"] for stage, one in report["costs"].items()}
    assert costs == {"build": 0, "answer": 5, "judge": 5}
    assert report["settings"]["sessions_left_out"]["nobody else is near"] == 1
    page = (tmp_path / "dialsim.md").read_text(encoding="utf-8")
    assert "is asked 5 questions on the way" in report["about"] in page
    asked = len(openai_server.requests)
    assert run(given) == 0
    assert len(openai_server.requests) == asked > 0
    capsys.readouterr()
    for arguments, said in (
        (f"{JSON}", "who is asked in 'harbour'"),
        (f"{JSON} --agent Nelly", "'Nelly' in 'harbour': {'the agent says nothing': 7}"),
        (f"{JSON} --agent Nell", "give --model"),
    ):
        assert run(f"{arguments} --out {tmp_path / 'out'}") == 1
        assert said in capsys.readouterr().err
