import threading
import time
from itertools import count

import pytest

from amem_integrations.errors import InvalidInputError, ModelReplyError, ModelUnavailableError
from amem_integrations.ports import Completion, ModelRequest
from benchmarks.evaluation import Answer, Question, Settings, Spent
from benchmarks.evaluation.answering import Examiner
from benchmarks.evaluation.models import Served
from benchmarks.evaluation.systems import Found


class Model:
    """Answers each request by a function; keeps what it was asked."""

    name = "m"

    def __init__(self, answer) -> None:
        self._answer = answer
        self.requests: list[ModelRequest] = []

    def generate(self, request: ModelRequest) -> Completion:
        self.requests.append(request)
        return Completion(text=self._answer(request), input_tokens=10, output_tokens=3)


def question(text: str, category: int = 4, answer: str | None = "red") -> Question:
    return Question(text=text, category=category, evidence=frozenset(), answer=answer)


def asked(
    model: Model,
    questions: list[Question],
    found: dict[str, list[Found]],
    ks: tuple[int, ...] = (5,),
    progress=lambda *_: None,
    **options,
) -> tuple[dict[tuple[str, int], tuple[Answer, ...]], dict[str, Spent]]:
    """Return the answers by system and number of hits, and what they took."""
    examiner = Examiner(answerer=model, **options)
    answers, spent = examiner.answers(questions, found, Settings(answer_ks=ks), progress)
    return {(one.system, one.k): given for one, given in answers.items()}, spent


def answer_of(model: Model, text: str, context: str, **options) -> Answer:
    """Return the answer to one question."""
    shown = [Found(ids=(), context=lambda _: context)]
    return asked(model, [question(text)], {"amem": shown}, **options)[0]["amem", 5][0]


def found(*contexts: str) -> list[Found]:
    return [Found(ids=(), context=lambda k, text=text: f"{text} of {k}") for text in contexts]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ('{"answer": " red\\n ink "}', "red ink"),
        ('```json\n{"answer": "red"}\n```', "red"),
        ("<think>blue? {no}</think> red", "red"),
        ("It is red.", "It is red."),
        ('{"answer": "Paul (the wine guy)"}', "Paul (the wine guy)"),
        ("", ""),
        ('{"answer": ["red", "blue"]}', "red blue"),
    ],
)
def test_an_answer_is_what_a_user_would_be_shown(said: str, answer: str) -> None:
    assert answer_of(Model(lambda _: said), "What colour?", "The ink is red.").text == answer


def test_a_request_that_is_refused_is_answered_by_nothing() -> None:
    def refuse(_: ModelRequest) -> str:
        raise ModelReplyError("too long for the model")

    shown = {"amem": found("x")}
    answers, spent = asked(Model(refuse), [question("q")], shown, judge=Model(refuse))
    (one,) = answers["amem", 5]
    assert (one.text, one.correct) == ("", False)
    assert spent == {"answer": Spent(calls=1), "judge": Spent(calls=1)}


def test_the_address_the_sdk_takes_from_the_environment_decides_answers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one/v1")
    first = Served(model="m").identity
    monkeypatch.setenv("OPENAI_BASE_URL", "http://two/v1")
    assert Served(model="m").address == "http://two/v1"
    assert Served(model="m").identity != first


def test_the_prompt_holds_the_context_and_the_question_and_no_gold() -> None:
    model = Model(lambda _: '{"answer": "x"}')
    answer_of(model, "Was $x {paid}?", "He paid $5 for {it}.")
    (request,) = model.requests
    assert "He paid $5 for {it}." in request.prompt
    assert "Was $x {paid}?" in request.prompt
    assert request.task == "answer"
    assert set(request.inputs) == {"question", "context"}
    answer_of(model, "Who?", "")
    assert "(nothing is remembered)" in model.requests[-1].prompt


@pytest.mark.parametrize(
    ("said", "correct"),
    [('{"correct": true}', True), ('{"correct": false}', False), ("Yes, surely.", False)],
)
def test_a_verdict_that_cannot_be_read_is_no(said: str, correct: bool) -> None:
    judge = Model(lambda _: said)
    assert answer_of(Model(lambda _: "red"), "q", "x", judge=judge).correct is correct


def test_the_same_question_from_the_same_context_is_asked_once() -> None:
    numbers = count(1)
    model = Model(lambda _: f'{{"answer": "{next(numbers)}"}}')
    told = []
    answers, spent = asked(
        model,
        [question("a?"), question("b?")],
        {"amem": found("x", "y"), "dense": found("x", "z")},
        (5, 10),
        lambda *report: told.append(report),
        concurrency=1,
    )
    assert len(model.requests) == 6
    assert spent == {"answer": Spent(calls=6, input_tokens=60, output_tokens=18)}
    assert answers["amem", 5][0] == answers["dense", 5][0]
    assert answers["amem", 5][1] != answers["dense", 5][1]
    assert answers["amem", 10][0].text != answers["amem", 5][0].text
    assert told[-1] == ("answer", 6, 6)


def test_a_judge_sees_what_can_be_compared() -> None:
    model = Model(lambda _: '{"answer": "blue"}')
    judge = Model(lambda request: f'{{"correct": {str("a?" in request.prompt).lower()}}}')
    questions = [question("a?"), question("b?"), question("c?", 5), question("d?", 4, None)]
    answers, spent = asked(model, questions, {"amem": found("x", "x", "x", "x")}, judge=judge)
    assert [one.correct for one in answers["amem", 5]] == [True, False, None, None]
    assert spent["judge"].calls == len(judge.requests) == 2


def test_no_more_calls_at_once_than_allowed() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def answer(_: ModelRequest) -> str:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1
        return "{}"

    questions = [question(f"{number}?") for number in range(12)]
    asked(Model(answer), questions, {"amem": found(*["x"] * 12)}, concurrency=3)
    assert most[0] == 3


def test_when_the_model_is_down_the_rest_is_not_asked() -> None:
    def answer(request: ModelRequest) -> str:
        if "3?" in request.prompt:
            raise ModelUnavailableError("down")
        return "{}"

    model = Model(answer)
    questions = [question(f"{number}?") for number in range(50)]
    with pytest.raises(ModelUnavailableError):
        asked(model, questions, {"amem": found(*["x"] * 50)}, concurrency=1)
    assert len(model.requests) == 4


def test_each_backend_has_its_usual_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert Served(model="m").address is None
    assert Served(model="m", backend="ollama").address == "http://localhost:11434/v1"
    assert Served(model="m", backend="vllm").address == "http://localhost:8000/v1"
    assert Served(model="m", backend="sglang").address == "http://localhost:30000/v1"
    assert Served(model="m", backend="vllm", base_url="http://gpu/v1").address == ("http://gpu/v1")


def test_what_decides_answers_is_in_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    served = Served(model="m", backend="vllm")
    others = [
        Served(model="m", backend="vllm", temperature=0.7),
        Served(model="m", backend="vllm", reply="words"),
        Served(model="n", backend="vllm"),
        Served(model="m", backend="sglang"),
    ]
    assert len({served.identity, *(one.identity for one in others)}) == 5
    assert "8000" in repr(served.connect())  # a server of one's own needs no key


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ks": ()}, "k="),
        ({"ks": (0,)}, "at least 1"),
        ({"answer_ks": (0,)}, "answer_k"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"systems": ("magic",)}, "no system 'magic'"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Settings(**given)


def test_the_whole_conversation_is_no_system_of_retrieval() -> None:
    named = ("full", "amem_without_links", "amem_without_both", "dense")
    settings = Settings(systems=named)
    assert settings.chosen == ("amem", "amem_without_links", "amem_without_both", "dense")
    assert list(settings.variants) == ["amem", "amem_without_both"]
    assert "full" in Settings(systems=named, answer_ks=(10,)).chosen
    assert Settings(ks=(5,), answer_ks=(30,)).depth == 30
