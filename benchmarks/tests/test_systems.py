"""What is compared: baselines worked out by hand, ablations, settings; and what a model is asked."""

from contextlib import closing
from dataclasses import replace
from itertools import count
from math import log

import pytest

from amem_integrations.errors import ModelReplyError
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.testing import HashEmbedder
from benchmarks.answering import Models, Served, examine
from benchmarks.cache import Cache
from benchmarks.data import Found, Question, Spent
from benchmarks.systems import Rankings, Settings, bm25_weights

TEXTS = ["red kite", "red red kite over the barn", "a blue barn", "nothing at all"]


def test_bm25_is_the_formula_and_weighs_rare_words_and_short_texts_up():
    weights = dict(bm25_weights([["red"], ["red", "kite", "barn"], ["barn", "barn"]])["barn"])
    rarity = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert weights[1] == pytest.approx(rarity * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 2)))
    assert weights[2] == pytest.approx(rarity * 2 * 2.2 / (2 + 1.2))
    ranks = Rankings(TEXTS, HashEmbedder())
    assert ranks.bm25("red") == [0, 1]  # 1.21 for once in two words, 1.14 for twice in six
    assert ranks.bm25("KITE, blue!") == [2, 0, 1]
    assert ranks.bm25("unheard") == Rankings([], HashEmbedder()).rrf("a") == []


def test_dense_ranks_by_cosine_and_rrf_adds_the_reciprocal_ranks_of_both(monkeypatch):
    embedder = HashEmbedder()
    cosines = embedder.embed_documents(TEXTS) @ embedder.embed_query("blue barn")
    ranks = Rankings(TEXTS, embedder)
    assert ranks.dense("blue barn") == sorted(range(4), key=lambda place: -cosines[place])
    monkeypatch.setattr(ranks, "dense", lambda _: [0, 1, 2, 3])
    monkeypatch.setattr(ranks, "bm25", lambda _: [2, 1])
    # 2: 1/63 + 1/61; 1: 1/62 + 1/62; 0: 1/61; 3: 1/64
    assert ranks.rrf("?") == [2, 1, 0, 3]


def test_an_ablation_leaves_out_what_it_says():
    systems = ("amem_paper_calls", "amem_without_both", "amem_without_links", "dense", "full")
    settings = Settings(systems=systems, ks=(5,))
    assert settings.chosen == ("amem", *systems[2::-1], "dense")  # the whole only answers
    assert Settings(systems=systems, answer_k=30).chosen[-1] == "full"
    assert Settings(ks=(5,), answer_k=30).depth == 30
    whole, both, paper = settings.variants.values()
    assert (whole.link, whole.evolve, both.link, both.evolve) == (True, True, False, False)
    assert (paper.calls, paper.batch_size) == ("paper", 1)
    (_, plain) = Settings(systems=("amem_without_evolution",)).variants.values()
    assert (plain.link, plain.evolve) == (True, False)


class Model:
    """Answers each request by a function; keeps what it was asked."""

    name = "m"

    def __init__(self, answer) -> None:
        self._answer = answer
        self.requests: list[ModelRequest] = []

    def generate(self, request: ModelRequest) -> Completion:
        self.requests.append(request)
        return Completion(text=self._answer(request), input_tokens=10, output_tokens=3)


def found(*contexts: str) -> list[Found]:
    return [
        Found(context=lambda k, text=text: f"{text} of {k}" if text else "") for text in contexts
    ]


def asked(model, *questions, systems=None, judge=None, progress=lambda *_: None):
    """Return what is answered, by system, and what that took."""
    some = [
        Question(text=one, category=4, answer="red") if isinstance(one, str) else one
        for one in questions
    ]
    answered = systems or {"amem": found(*["x"] * len(questions))}
    models = Models(answerer=model, judge=judge)
    settings = Settings(answer_k=5, concurrency=1)
    return answered, examine(models, some, answered, settings, progress)


def test_an_answer_is_what_a_user_would_be_shown():
    for said, answer in (
        ('{"answer": " red\\n ink "}', "red ink"),
        ('```json\n{"answer": "red"}\n```', "red"),
        ("<think>blue? {no}</think> red", "red"),
        ("It is red.", "It is red."),
        ("", ""),
        ('{"answer": ["red", "blue"]}', "red blue"),
    ):
        answers, _ = asked(Model(lambda _, said=said: said), "What colour?")
        assert answers["amem"][0].answer == answer


def test_a_request_that_is_refused_is_answered_by_nothing_and_counted():
    def refuse(_: ModelRequest) -> str:
        raise ModelReplyError("too long for the model")

    answers, spent = asked(Model(refuse), "q", judge=Model(refuse))
    (one,) = answers["amem"]
    assert (one.answer, one.context_tokens, one.correct) == ("", 2, False)
    assert spent == {"answer": Spent(calls=1), "judge": Spent(calls=1)}


def test_the_prompt_holds_the_context_and_the_question_and_no_gold():
    model = Model(lambda _: '{"answer": "x"}')
    asked(model, "Was $x {paid}?", "Who?", systems={"amem": found("He paid $5.", "")})
    first, second = model.requests
    assert "He paid $5." in first.prompt
    assert "Was $x {paid}?" in first.prompt
    assert set(first.inputs) == {"question", "context"}
    assert "(nothing is remembered)" in second.prompt


def test_the_same_question_from_the_same_context_is_asked_once_and_judged_by_its_gold():
    numbers, told = count(1), []
    model = Model(lambda _: f'{{"answer": "{next(numbers)}"}}')
    systems = {"amem": found("x", "y"), "dense": found("x", "z")}
    answers, spent = asked(model, "a?", "b?", systems=systems, progress=lambda *one: told.append(one))  # fmt: skip
    assert spent == {"answer": Spent(calls=3, input_tokens=30, output_tokens=9)}
    said = [[one.answer for one in some] for some in answers.values()]
    assert said == [["1", "2"], ["1", "3"]]
    assert told[-1] == ("answer", 3, 3)

    verdicts = {"a?": '{"correct": true}', "b?": '{"correct": false}', "c?": "Yes, surely."}
    judge = Model(lambda request: verdicts[request.inputs["question"]])
    others = Question(text="d?", category=5, answer="red"), Question(text="e?", category=4)
    answers, spent = asked(Model(lambda _: '{"answer": "blue"}'), *verdicts, *others, judge=judge)
    assert [one.correct for one in answers["amem"]] == [True, False, False, None, None]
    assert spent["judge"].calls == len(judge.requests) == 3


def test_what_decides_answers_is_in_the_identity_of_a_model(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    served = Served(model="m", base_url="http://one/v1")
    with closing(Cache()) as kept:  # a server of one's own needs no key
        assert served.connect(kept).name == "m"
    others = ({}, {"temperature": 0.7}, {"reply": "words"}, {"model": "n"}, {"base_url": None})
    assert len({replace(served, **one).identity for one in others}) == 5
    plain = Served(model="m")
    before = plain.identity
    monkeypatch.setenv("OPENAI_BASE_URL", "http://two/v1")  # so the SDK takes it
    assert (plain.address, plain.identity != before) == ("http://two/v1", True)
