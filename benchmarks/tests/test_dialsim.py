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
from benchmarks.answering import Models, Named
from benchmarks.runner import evaluate
from benchmarks.systems import Settings

JSON = Path(__file__).with_name("harbour_dialsim.json")  # a show of our own
PICKLE = JSON.with_suffix(".pickle")  # the same as the dataset is published
UNKNOWN = "I don't know. (None of the above)"


def question(
    answer: Any = "Tea", text: str = "What does Ann drink?", **changes: Any
) -> dict[str, Any]:
    options = ["Milk", "Tea", "Cocoa", "Rain", UNKNOWN]
    return {"questions": {"default": text}, "options": options, "answer": answer, **changes}


def session(
    script: str = "Ann: Tea, please.\nBen: Here you are.", **changes: Any
) -> dict[str, Any]:
    return {"date": "May 5, 2005", "script": script, "hard_q": {"cur": [question()]}, **changes}


def written(folder: Path, data: object, protocol: int | None = None) -> Path:
    path = folder / "tea_dialsim.json"
    raw = json.dumps(data).encode() if protocol is None else pickle.dumps(data, protocol=protocol)
    path.write_bytes(raw)
    return path


def loaded(folder: Path, *sessions: dict[str, Any]) -> dialsim.Show:
    data = {"S01E01": {str(number): one for number, one in enumerate(sessions, start=1)}}
    return dialsim.load(written(folder, data), agent="Ann")


@pytest.fixture
def show() -> dialsim.Show:
    return dialsim.load(JSON, agent="Nell")


def test_a_show_has_its_sessions_and_questions_in_the_order_of_the_file(show, tmp_path):
    assert dialsim.load(PICKLE, agent="Nell") == show
    assert [(one.id[:6], one.id[-1], len(one.questions)) for one in show.sessions] == [
        ("S01E01", "1", 5), ("S01E01", "2", 3), ("S01E02", "1", 4), ("S01E02", "2", 1),
        ("S01E03", "1", 6), ("S01E03", "2", 1), ("S01E03", "3", 5),
    ]  # fmt: skip
    assert show.sessions[0].at == datetime(2011, 3, 4, tzinfo=UTC)
    boat, *_, animal = show.sessions[0].questions
    assert (boat.source, boat.kind, boat.right, boat.gold) == ("graph", "cur", 1, "The Sandpiper")
    assert (boat.answerable, animal.answerable, animal.gold) == (True, False, "I don't know.")
    assert boat.wording("Otis") == "Say, which of my boats is taking in water on March 4, 2011?"
    assert boat.wording("Bram") == "Which boat is taking in water on March 4, 2011?"
    assert show.left_out == {"the answer is none of the options": 1, "no wording": 1}
    assert show.sessions[-1].questions[-1].gold == "TAM"  # case and spaces do not matter
    odd = [question(options=["Tea"]), question(7, options=[6, 7.5, 7, UNKNOWN])]
    easy = {"ans_wo_time": {"1": question()}, "unans": None}
    other = loaded(tmp_path, session(hard_q={"cur": odd}), session(hard_q=None, easy_q=easy))
    assert other.left_out == {"1 options": 1}
    assert [one.questions[0].gold for one in other.sessions] == ["7", "Tea"]
    friends = written(tmp_path, json.loads(JSON.read_text(encoding="utf-8")))
    friends = friends.rename(tmp_path / "friends_dialsim.json")
    assert dialsim.load(friends, sessions=2)[1:] == ("Ross", show.sessions[:2], {})


def test_a_turn_begins_at_a_line_with_a_colon_and_is_a_note_of_its_session(tmp_path):
    (one,) = loaded(
        tmp_path,
        session(
            "He comes in.\nAnn: It is 5:30.\nLate, that is.\n\n  Ben : No.\nAnn:\nTeleplay: A. Writer\n"
            "[Scene: the quay]\nA long sentence that is nobody's name and goes on and on, and then has: a colon\n"
        ),
    ).sessions
    assert [(one.key, one.speaker, one.content.partition(",")[0]) for one in one.turns] == [
        ("S01E01/1#0", None, "He comes in."),
        ("S01E01/1#1", "Ann", "It is 5:30.\nLate"),
        ("S01E01/1#2", "Ben", "No."),
        ("S01E01/1#3", None, "[Scene: the quay]"),
        ("S01E01/1#4", None, "A long sentence that is nobody's name and goes on and on"),
    ]


def test_names_are_replaced_everywhere_and_at_once():
    names = {"Nell": "Otis", "Otis": "Nell", "Bram": "Igor"}
    other = dialsim.load(JSON, agent="Nell", rename=names)
    first = other.sessions[0]
    said = [(one.speaker, one.content) for one in first.turns[1:3]]
    assert said[0] == ("Nell", "Otis, the Sandpiper is taking in water again.")
    assert (other.agent, said[1][0]) == ("Otis", "Otis")
    pump = first.questions[1]
    assert pump.wording("Igor") == "Who was kind enough to lend Nell a pump, then?"
    assert pump.options == ["Wren", "Igor", "Nell", "Tam", UNKNOWN]


@pytest.mark.parametrize("text", ["May 5th, 2005", " May 05 2005 ", "may 5 2005", "2005-05-05"])
def test_dates_are_read_in_the_ways_they_are_written(text):
    assert dialsim.parse_date(text) == datetime(2005, 5, 5, tzinfo=UTC)


class Exploit:
    """What a pickle that runs a command is made of."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, protocol):
    kept = {"a": collections.OrderedDict({1: session(note={1, 2}, place=frozenset({"quay"}))})}
    assert dialsim.load(written(tmp_path, kept, protocol), "Ann").sessions[0].id == "a/1"
    path = written(tmp_path, {"a": {1: session(extra=Exploit(tmp_path / "made"))}}, protocol)
    with pytest.raises(InvalidInputError, match=r"builds \w+\.mkdir, and so could run code"):
        dialsim.load(path, agent="Ann")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([session()], "is not in the form of DialSim"),
        ({}, "no question that can be asked"),
        ({"a": [session()]}, "a: Input should be a valid dictionary"),
        ({"a": {"1": {"script": "Ann: Hello."}}}, r"a\.1\.date: Field required"),
        ({"a": {"1": session(date="Mai 5, 2005")}}, r"a\.1\.date: .*'September 22, 1994'"),
        ({"a": {"1": session(script=["Ann: Hello."])}}, r"a\.1\.script: "),
        ({"a": {"1": session(hard_q={"cur": ["Who?"]})}}, r"a\.1\.hard_q\.cur\.0: "),
        ({"a": {"1": session(hard_q={"cur": [{}]})}}, "can be asked: {'no wording': 1}"),
        (b'{"a": ', "is not a JSON file"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "builds builtins.eval, and so could run code"),
        (b"c_codecs\nencode\n(Vx\nVlatin1\ntR.", "could run code"),
        (pickle.dumps({"a": 1})[:-3], "nor a whole pickle"),
    ],
)
def test_a_file_of_another_form_is_an_error_that_says_where(tmp_path, data, said):
    path = tmp_path / "tea_dialsim.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    with pytest.raises(InvalidInputError, match=said):
        dialsim.load(path, agent="Ann")


WHO = ("Dee", "Ann", "Eve", "Ben", "Cy", "Ann", "Ben", "All", "Dee")
TALK = "\n".join(f"{speaker}: Turn {place}." for place, speaker in enumerate(WHO))


def many(folder: Path, sessions: int = 400, **changes: Any) -> list[dialsim.Asked]:
    return dialsim.choose(loaded(folder, *[session(TALK, **changes)] * sessions))[0]


def share(asked: list[dialsim.Asked], counted: Any) -> float:
    return sum(map(counted, asked)) / len(asked)


def test_the_same_seed_asks_the_same_and_another_one_something_else(show):
    whole, left_out = dialsim.choose(show, 5)
    assert left_out == {"the agent says nothing": 1, "nobody else is near": 1}
    assert [one.session.id[-1] for one in whole] == ["1", "2", "1", "1", "3"]
    assert len({tuple(one.text for one in dialsim.choose(show, n)[0]) for n in range(20)}) > 10
    start = dialsim.load(JSON, agent="Nell", sessions=3)
    assert dialsim.choose(start, 5)[0] == whole[:3]
    with pytest.raises(InvalidInputError, match=r"of 'Nelly' in 'harbour': .*says nothing': 7"):
        dialsim.choose(show._replace(agent="Nelly"))


def test_it_is_asked_after_an_utterance_of_the_agent_by_somebody_near(tmp_path):
    words = {"default": "Who?", "Ben": "Who, my dear?"}
    asked = many(tmp_path, hard_q={"cur": [question(questions=words)]})
    assert {one.turn for one in asked} == {5}  # not the first, if there is another one
    assert {one.asker for one in asked} == {"Eve", "Ben", "Cy"}  # turns 2 to 7, and not everyone
    texts = {(one.asker == "Ben", one.text) for one in asked}
    assert texts == {(True, "Who, my dear?"), (False, "Who?")}
    once = session("Ben: Good morning.\nANN: Tea, please.")
    assert [one.turn for one in dialsim.choose(loaded(tmp_path, once))[0]] == [1]
    choir = session("Ben and Ann: Tea!\nAnn: Please.\nAnn (off): Now.")
    zoe = session(hard_q={"cur": [question(questions={"Zoe": "Who?"})]})
    assert dialsim.choose(loaded(tmp_path, choir, zoe, session()))[1] == {
        "nobody else is near": 1, "no question for who is near": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "rare", "other", "most"),
    [("hard_q", "fu_past", "cur", 0.215), ("easy_q", "dont_know_unans", "ans_w_time", 0.27)],
)
def test_kinds_without_an_answer_are_held_to_a_share(tmp_path, field, rare, other, most):
    kinds = {f"{rare}{number}": [question(UNKNOWN)] for number in range(4)}
    asked = many(tmp_path, 600, **{"hard_q": {}, field: {**kinds, other: [question()]}})
    found = share(asked, lambda one: not one.question.answerable)
    assert most - 0.06 < found < most + 0.03  # without that it would be four of five
    alone = many(tmp_path, 40, **{"hard_q": {}, field: kinds})
    assert {one.question.kind for one in alone} == set(kinds)


def test_seven_of_ten_questions_are_of_the_graph_and_none_is_about_its_own_month_or_year(tmp_path):
    dated = [question(text=text) for text in ("Who drank in 2005?", "Who, in May 2005, drank?")]
    easy = {"ans_wo_time": {"1": question(text="In May 2005?")}}
    asked = many(tmp_path, hard_q={"cur": [*dated, question(text="On May 5, 2005?")]}, easy_q=easy)
    assert {one.text for one in asked} == {"On May 5, 2005?", "In May 2005?"}
    assert 0.62 < share(asked, lambda one: one.question.source == "graph") < 0.78
    assert len(many(tmp_path, 9, hard_q={"cur": dated}, date="May 5, 2006")) == 9


@pytest.mark.parametrize(
    ("answer", "whether"),
    [
        ("I don't know.", True),
        ("I don\N{RIGHT SINGLE QUOTATION MARK}t know who it was", True),
        ("The memories do not say.", True),
        ("That cannot be determined", True),
        ("It is not mentioned", True),
        ("Wren knows", False),
        ("", False),
    ],
)
def test_a_refusal_is_told_from_an_answer(answer, whether):
    assert dialsim.refuses(answer) is whether


def simulated(
    show: dialsim.Show, seed: int, **changes: str
) -> tuple[dict[str, Any], ScriptedModel, Any]:
    """Ask a model that knows every answer, but for those of some kinds."""
    asked, left_out = dialsim.choose(show, seed)

    def answer(request: Any) -> dict[str, str]:
        one = next(one.question for one in asked if request.inputs["question"].endswith(one.text))
        return {"answer": changes.get(one.kind, one.gold)}

    def verdict(request: Any) -> dict[str, bool]:
        return {"correct": request.inputs["gold"] == request.inputs["answer"]}

    model = ScriptedModel({"dialsim": answer, "judge": verdict})
    named = Named(model=model, identity=model.name)
    (result,) = evaluate(
        [dialsim.conversation(show, asked)],
        Settings(ks=(50,), answer_ks=(50,), prompt="dialsim", concurrency=1),
        embedder=HashEmbedder(256),
        models=Models(answerer=named, judge=named),
    )
    report = dialsim.build(show, asked, left_out, result, {}, embedder=HashEmbedder(256))
    assert json.loads(json.dumps(report)) == report
    return report, model, result.outcomes


@pytest.mark.parametrize("seed", [0, 2])
def test_nothing_is_recalled_that_is_said_later(show, seed):
    _, model, outcomes = simulated(show, seed)
    order = [turn.key for one in show.sessions for turn in one.turns]
    for outcome in outcomes:
        heard = order[: outcome.question.after]
        assert sorted(outcome.found["amem"]) == sorted(heard)  # all of it: k is larger
    first, request = dialsim.choose(show, seed)[0][0], model.asked("dialsim")[0]
    assert request.inputs["question"] == f"On March 4, 2011, {first.asker} asks Nell: {first.text}"
    assert set(request.inputs) == {"question", "context"}  # and no gold


def test_who_knows_everything_is_right_everywhere_and_others_are_wrong_where_they_are(show):
    report, _, _ = simulated(show, 2)
    found = report["answers"]
    assert found["accuracy"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    shares = [found[name]["refused"] for name in ("unanswerable", "answerable")]
    assert (found["refused"], *shares) == (0.2, 1.0, 0.0)
    assert found["unanswerable"]["amem"]["f1"]["mean"] == 1.0
    assert report["questions"] == {
        "asked": 5,
        "unanswerable": 1,
        "sessions_left_out": {"the agent says nothing": 1, "nobody else is near": 1},
        "questions_left_out": {"the answer is none of the options": 1, "no wording": 1},
    }
    found = simulated(show, 2, past="The Kestrel", dont_know_unans="A walrus")[0]["answers"]
    assert (found["accuracy"]["mean"], found["answerable"]["accuracy"]["mean"]) == (0.6, 0.75)
    assert found["by_kind"]["graph/past"]["accuracy"]["mean"] == 0.0
    assert found["by_kind"]["graph/past"]["amem"]["f1"]["mean"] == 0.5  # "The" is shared


def run(arguments: str) -> int:
    return dialsim.main([*arguments.split(), "--embedder", "hash"])


@pytest.mark.enable_socket
def test_the_command_writes_a_report_and_asks_nothing_twice(openai_server, tmp_path):
    openai_server.answer = lambda _: json.dumps({"answer": "(A)", "correct": True, "notes": []})
    given = f"{PICKLE} --agent Nell --out {tmp_path} --model m --judge j --rule-notes --k 4"
    given += f" --base-url {openai_server.base_url} --rename Nell=Igraine --rename Otis=Odo"
    assert run(given) == 0
    report = json.loads((tmp_path / "dialsim.json").read_text(encoding="utf-8"))
    assert (report["show"], report["agent"], report["sessions"]) == ("harbour", "Igraine", 7)
    assert report["answers"]["accuracy"]["mean"] == 1.0  # so says the judge
    costs = {stage: one["calls"] for stage, one in report["costs"].items()}
    assert costs == {"build": 0, "answer": 5, "judge": 5}
    assert report["settings"]["names"] == {"Nell": "Igraine", "Otis": "Odo"}
    page = (tmp_path / "dialsim.md").read_text(encoding="utf-8")
    assert report["caution"] in page
    assert "is asked 5 questions on the way" in page
    assert (tmp_path / "dialsim-accuracy.png").exists()
    sent = json.dumps(openai_server.requests)
    assert "asks Igraine: " in sent
    assert "Nell" not in sent
    asked = len(openai_server.requests)
    assert run(f"{given} --json") == 0
    assert len(openai_server.requests) == asked > 0
    assert run(f"{given} --sessions 2 --seed 3") == 0
    report = json.loads((tmp_path / "dialsim.json").read_text(encoding="utf-8"))
    assert report["questions"]["asked"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("friends_dialsim.pickle", "friends_dialsim.pickle"),
        (f"{JSON}", "who is asked in 'harbour'"),
        (f"{JSON} --agent Nelly", "nothing can be asked of 'Nelly'"),
        (f"{JSON} --agent Nell --rename Nell", "rename='Nell' must be OLD=NEW"),
        (f"{JSON} --agent Nell --sessions 0", "sessions=0"),
        (f"{JSON} --agent Nell", "give --model"),
    ],
)
def test_an_error_is_one_line_and_a_status(tmp_path, arguments, said, capsys):
    assert run(f"{arguments} --out {tmp_path / 'out'}") == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("python -m benchmarks.dialsim: ")
    assert error.count("\n") == 1
