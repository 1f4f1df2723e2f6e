"""Reading DialSim's files: what they hold, what is irregular in them, and what is no such file."""

import collections
import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_integrations.errors import InvalidInputError
from benchmarks.evaluation import Turn, dialsim
from benchmarks.evaluation.dialsim.tv_show import parse_date, read, script_turns
from benchmarks.tests.dialsim import (
    AGENT,
    JSON,
    PICKLE,
    UNKNOWN,
    as_published,
    harbour,
    loaded,
    question,
    session,
    written,
)

DAY = datetime(2005, 5, 5, tzinfo=UTC)


@pytest.fixture
def show() -> dialsim.Show:
    return dialsim.load(JSON, agent=AGENT)


def test_a_show_has_its_sessions_in_the_order_of_the_file(show):
    assert (show.name, show.agent) == ("harbour", "Nell")
    conversation = dialsim.choose(show).conversation(show)
    assert conversation.namespace == ("dialsim", "harbour")
    assert [one.id.split()[0] + one.id[-2:] for one in show.sessions] == [
        "S01E01/1",
        "S01E01/2",
        "S01E02/1",
        "S01E02/2",
        "S01E03/1",
        "S01E03/2",
        "S01E03/3",
    ]
    assert show.sessions[0].at == datetime(2011, 3, 4, tzinfo=UTC)
    assert [len(one.questions) for one in show.sessions] == [5, 3, 4, 1, 6, 1, 5]


def test_a_pickle_and_json_of_the_same_shape_give_the_same_show(show):
    assert dialsim.load(PICKLE, agent=AGENT) == show
    assert read(PICKLE) == as_published(harbour())
    numbers = [number for sessions in read(PICKLE).values() for number in sessions]
    assert set(map(type, numbers)) == {int}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_of_pickle_is_read(tmp_path, protocol):
    data = as_published(harbour()) | {"extra": collections.OrderedDict({9: session(note={1, 2})})}
    data["extra"][10] = collections.defaultdict(list, session(place=frozenset({"quay"})))
    path = written(tmp_path, data, protocol=protocol)
    assert read(path) == data
    assert [one.id for one in dialsim.load(path, agent=AGENT).sessions][-1] == "extra/10"


def test_questions_are_those_of_the_graph_and_of_the_quiz(show):
    first = show.sessions[0].questions
    assert [one.id for one in first] == [
        "graph/cur/0",
        "graph/cur/1",
        "graph/fu/0",
        "quiz/ans_wo_time/12",
        "quiz/dont_know_unans/31",
    ]
    boat, *_, animal = first
    assert (boat.source, boat.kind, boat.right, boat.gold) == ("graph", "cur", 1, "The Sandpiper")
    assert boat.options[-1] == UNKNOWN
    assert boat.answerable
    assert (animal.answerable, animal.gold) == (False, "I don't know.")


def test_each_asker_has_a_wording_or_takes_that_for_everyone(show):
    boat = show.sessions[0].questions[0]
    assert boat.wording("Otis") == "Say, which of my boats is taking in water on March 4, 2011?"
    assert boat.wording("Bram") == "Which boat is taking in water on March 4, 2011?"
    assert (
        dialsim.ShowQuestion(
            id="", source="quiz", kind="", wordings={"Ann": "Who?"}, options=("a", "b"), right=0
        ).wording("Ben")
        is None
    )


def test_questions_that_cannot_be_asked_are_counted(show):
    assert show.left_out == {"the answer is none of the options": 1, "no wording": 1}


def test_case_and_spaces_of_the_right_option_do_not_matter(show):
    home = show.sessions[-1].questions[-1]
    assert (home.id, home.right, home.gold) == ("quiz/ans_wo_time/52", 3, "TAM")
    assert home.wordings == {"default": "Who is coming home?"}  # not Wren's empty one


def test_too_few_options_are_counted_and_numbers_read_as_text(tmp_path):
    asked = [
        question(options=["Tea"]),
        question(options=[], answer=""),
        question(7, options=[6, 7.5, 7, UNKNOWN]),
    ]
    show = loaded(tmp_path, session(hard_q={"cur": asked}))
    assert show.left_out == {"1 options": 1, "0 options": 1}
    assert show.sessions[0].questions[0].gold == "7"


def test_a_session_may_be_without_questions_of_a_source(tmp_path):
    bare = {"date": "May 5, 2005", "script": "Ann: Hello."}
    other = session(hard_q=None, easy_q={"ans_wo_time": {"1": question()}, "unans": None})
    show = loaded(tmp_path, bare, other, session(hard_q=[]), session())
    assert [len(one.questions) for one in show.sessions] == [0, 1, 0, 1]


def test_a_turn_begins_at_a_line_with_a_colon():
    said = script_turns(
        "He comes in.\nAnn: It is 5:30.\nLate, that is.\n\n  Ben : No.\nAnn:\nTeleplay: A. Writer\n"
        "[Scene: the quay]\nA long sentence that is nobody's name and goes on and on, and then has: a colon\n",
        "s",
        DAY,
    )
    assert [(one.speaker, one.text) for one in said] == [
        (None, "He comes in."),
        ("Ann", "It is 5:30.\nLate, that is."),
        ("Ben", "No."),
        (None, "[Scene: the quay]"),
        (
            None,
            "A long sentence that is nobody's name and goes on and on, and then has: a colon",
        ),
    ]


def test_a_script_may_be_empty():
    assert list(script_turns(" \n\n", "s", DAY)) == []


def test_a_turn_becomes_a_note_of_its_session(show):
    every = [turn.as_input() for turn in show.sessions[0].turns]
    notes = every[1:3]
    assert [(one.speaker, one.content) for one in notes] == [
        ("Otis", "Nell, the Sandpiper is taking in water again."),
        ("Nell", "Again? You patched her on Sunday."),
    ]
    assert {one.thread for one in notes} == {"S01E01 The Leaking Boat.txt/1"}
    assert [one.key for one in notes] == [f"S01E01 The Leaking Boat.txt/1#{n}" for n in (1, 2)]
    assert {one.at for one in notes} == {datetime(2011, 3, 4, tzinfo=UTC)}
    assert len(every) == 9


@pytest.mark.parametrize(
    "text",
    ["May 5, 2005", "May 5th, 2005", " May 05 2005 ", "may 5 2005", "2005-05-05"],
)
def test_dates_are_read_in_the_ways_they_are_written(text):
    assert parse_date(text) == datetime(2005, 5, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "May 2005", "Mai 5, 2005", "February 30, 2005", "5 May 2005"])
def test_a_date_in_another_way_is_an_error_that_names_the_session(tmp_path, text):
    with pytest.raises(InvalidInputError, match=r"session 'S01E01/1': date .*'September 22, 1994'"):
        loaded(tmp_path, session(date=text))


def test_only_the_first_sessions_are_read_if_so_many_are_wanted(tmp_path):
    data = {"a": {"1": session()}, "b": {"1": session(), "2": {"date": None}}}
    path = written(tmp_path, data)
    assert [one.id for one in dialsim.load(path, agent="Ann", sessions=2).sessions] == [
        "a/1",
        "b/1",
    ]
    with pytest.raises(InvalidInputError, match="'b/2'"):
        dialsim.load(path, agent="Ann")


def test_the_order_of_the_file_is_kept_and_dates_that_go_back_are_counted(tmp_path):
    dates = ["May 5, 2005", "May 7, 2005", "May 6, 2005", "May 6, 2005"]
    show = loaded(tmp_path, *[session(date=date) for date in dates])
    assert [one.date for one in show.sessions] == dates
    assert show.dated_back == 1


def test_who_is_asked_is_known_of_the_published_shows(tmp_path):
    for name, agent in (("friends", "Ross"), ("bigbang", "Sheldon"), ("theoffice", "Michael")):
        path = tmp_path / f"{name}_dialsim.pickle"
        path.write_bytes(pickle.dumps({"a": {1: session()}}))
        assert dialsim.load(path).agent == agent
        assert dialsim.load(path, agent="Ann").agent == "Ann"
    with pytest.raises(InvalidInputError, match="who is asked in 'harbour'"):
        dialsim.load(JSON)


def test_names_are_replaced_everywhere_and_at_once(show):
    other = dialsim.renamed(show, {"Nell": "Otis", "Otis": "Nell", "Bram": "Igor"})
    assert other.agent == "Otis"
    first = other.sessions[0]
    assert [(one.speaker, one.text) for one in first.turns[1:3]] == [
        ("Nell", "Otis, the Sandpiper is taking in water again."),
        ("Otis", "Again? You patched her on Sunday."),
    ]
    pump = first.questions[1]
    assert pump.wording("Igor") == "Who was kind enough to lend Nell a pump, then?"
    assert pump.options == ("Wren", "Igor", "Nell", "Tam", UNKNOWN)
    assert dialsim.renamed(show, {}) is show
    whole = Turn(id="1#0", thread="1", speaker="Ann", text="Ann's banner, Annie")
    same = dialsim.renamed(
        dialsim.Show(
            name="s",
            agent="Ann",
            sessions=(
                dialsim.Session(
                    id="1", date="", at=parse_date("2005-05-05"), turns=(whole,), questions=()
                ),
            ),
        ),
        {"Ann": "Bo"},
    )
    (turn,) = same.sessions[0].turns
    assert (turn.speaker, turn.text) == ("Bo", "Bo's banner, Annie")


class Exploit:
    """What a pickle that runs a command is made of."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, protocol):
    data = {"S01E01": {1: session(extra=Exploit(tmp_path / "made"))}}
    path = written(tmp_path, data, protocol=protocol)
    with pytest.raises(InvalidInputError, match=r"builds \w+\.mkdir, and so could run code"):
        dialsim.load(path, agent="Ann")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\nexec\n(S'1'\ntR.",
        b"cbuiltins\ngetattr\n(cbuiltins\ndict\nS'__base__'\ntR.",
        b"\x80\x04\x8c\x08builtins\x8c\x05print\x93.",
        b"\x80\x04\x8c\x0bcollections\x8c\x0eabc.sys.modules\x93.",
        b"(ios\nsystem\n(S'true'\n.",
        b"c_codecs\nencode\n(Vx\nVlatin1\ntR.",
    ],
)
def test_nothing_but_containers_can_be_named(tmp_path, raw):
    path = tmp_path / "bad.pickle"
    path.write_bytes(raw)
    with pytest.raises(InvalidInputError, match=r"bad\.pickle"):
        read(path)


def test_what_a_pickle_leaves_to_its_reader_is_refused(tmp_path):
    path = tmp_path / "bad.pickle"
    path.write_bytes(b"Pwhatever\n.")
    with pytest.raises(InvalidInputError, match="nor a whole pickle"):
        read(path)


def test_a_pickle_that_breaks_off_is_an_error(tmp_path):
    whole = pickle.dumps(as_published(harbour()))
    path = tmp_path / "cut.pickle"
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidInputError, match=r"cut\.pickle"):
            read(path)


@given(raw=st.binary(max_size=60))
def test_bytes_are_plain_values_or_an_error(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "any.pickle"
    path.write_bytes(raw)
    try:
        found = read(path)
    except InvalidInputError:
        return
    allowed = (dict, list, set, frozenset, tuple, str, bytes, bytearray, int, float, bool, type)
    assert found is None or isinstance(found, allowed)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "must hold a dict of episodes"),
        ({}, "must hold a dict of episodes"),
        ([session()], "must hold a dict of episodes"),
        ({"a": [session()]}, "episode 'a' of .* must be a dict of sessions"),
        ({"a": {"1": "Ann: Hello."}}, "session 'a/1' is not in the form of DialSim: the whole: "),
        ({"a": {"1": {"script": "Ann: Hello."}}}, "'a/1' .*: date: Field required"),
        ({"a": {"1": session(date=None)}}, "'a/1' .*: date: "),
        ({"a": {"1": {"date": "May 5, 2005"}}}, "'a/1' .*: script: Field required"),
        ({"a": {"1": session(script=["Ann: Hello."])}}, "'a/1' .*: script: "),
        ({"a": {"1": session(hard_q="past")}}, "'a/1' .*: hard_q: "),
        ({"a": {"1": session(hard_q={"cur": "Who?"})}}, r"'a/1' .*: hard_q\.cur: "),
        ({"a": {"1": session(hard_q={"cur": ["Who?"]})}}, r"'a/1' .*: hard_q\.cur\.0: "),
        (
            {"a": {"1": session(easy_q={"unans": {"7": question(options="Tea")}})}},
            r"'a/1' .*: easy_q\.unans\.7\.options: ",
        ),
        (
            {"a": {"1": session(hard_q={"cur": [question(questions="Who?")]})}},
            r"'a/1' .*: hard_q\.cur\.0\.questions: ",
        ),
        (
            {"a": {"1": session(hard_q={"cur": [{}]})}},
            "no question that can be asked: {'no wording': 1}",
        ),
        ({"a": {}}, "no question that can be asked"),
    ],
)
def test_a_file_of_another_form_is_an_error_that_says_where(tmp_path, data, said):
    with pytest.raises(InvalidInputError, match=said):
        dialsim.load(written(tmp_path, data), agent="Ann")


@pytest.mark.parametrize("raw", [b"{", b'{"a": ', b"[1,", b"  {'a': 1}"])
def test_json_that_is_none_is_an_error(tmp_path, raw):
    path = tmp_path / "bad.json"
    path.write_bytes(raw)
    with pytest.raises(InvalidInputError, match="is not a JSON file"):
        read(path)


def test_json_may_begin_with_a_mark_and_spaces(tmp_path):
    path = tmp_path / "marked.json"
    path.write_bytes(b"\xef\xbb\xbf\n  {}")
    assert read(path) == {}


def test_a_missing_file_is_the_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        dialsim.load(tmp_path / "friends_dialsim.pickle")
