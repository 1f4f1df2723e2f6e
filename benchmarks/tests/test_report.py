import json
from dataclasses import replace
from math import log

import numpy as np
import pytest

from amem_integrations import ranking
from amem_integrations.errors import InvalidInputError
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import (
    Answer,
    Condition,
    Conversation,
    Outcome,
    Question,
    Result,
    Settings,
    Spent,
    Writes,
    report_sections,
    sweep,
)
from benchmarks.evaluation import report as figures
from benchmarks.evaluation import systems as plain
from benchmarks.evaluation.document import markdown
from benchmarks.evaluation.provenance import code_digest, constants
from benchmarks.evaluation.report import Report, build


def render(report: Report) -> str:
    return markdown("LoCoMo", report_sections.sections(report), report["settings"])


@pytest.mark.parametrize(
    ("k", "recall", "complete"), [(1, 0, 0), (2, 1 / 3, 0), (4, 2 / 3, 0), (9, 1, 1)]
)
def test_recall_is_the_share_of_the_evidence_among_the_first_k(
    k: int, recall: float, complete: float
) -> None:
    found = ["x", "a", "y", "b", "c"]
    assert figures.recall(found, {"a", "b", "c"}, k) == pytest.approx(recall)
    assert figures.all_evidence(found, {"a", "b", "c"}, k) == complete


def test_evidence_that_is_found_twice_counts_once() -> None:
    assert figures.recall(["a", "a"], ["a", "b", "b"], 2) == 0.5


TEXTS = ["red kite", "red red kite over the barn", "a blue barn", "nothing at all"]


def test_bm25_weighs_rare_words_and_short_texts_up() -> None:
    ranks = plain.Rankings(TEXTS, HashEmbedder())
    assert ranks.bm25("red") == [0, 1]  # 1.21 for once in two words, 1.14 for twice in six
    assert ranks.bm25("kite") == [0, 1]
    assert ranks.bm25("KITE, blue!") == [2, 0, 1]
    assert ranks.bm25("unheard") == []


def test_bm25_is_the_formula() -> None:
    weights = dict(plain.bm25_weights([["red"], ["red", "kite", "barn"], ["barn", "barn"]])["barn"])
    rarity = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert weights[1] == pytest.approx(rarity * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 2)))
    assert weights[2] == pytest.approx(rarity * 2 * 2.2 / (2 + 1.2))


def test_dense_ranks_by_cosine() -> None:
    embedder = HashEmbedder()
    cosines = embedder.embed_documents(TEXTS) @ embedder.embed_query("blue barn")
    expected = sorted(range(4), key=lambda place: -cosines[place])
    assert plain.Rankings(TEXTS, embedder).dense("blue barn") == expected
    assert expected[0] == 2


def test_rrf_adds_the_reciprocal_ranks_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = plain.Rankings(TEXTS, HashEmbedder())
    monkeypatch.setattr(ranks, "dense", lambda _: [0, 1, 2, 3])
    monkeypatch.setattr(ranks, "bm25", lambda _: [2, 1])
    # 2: 1/63 + 1/61; 1: 1/62 + 1/62; 0: 1/61; 3: 1/64
    assert ranks.rrf("?") == [2, 1, 0, 3]


def test_baselines_of_no_texts_find_nothing() -> None:
    ranks = plain.Rankings([], HashEmbedder())
    assert ranks.dense("a") == ranks.bm25("a") == ranks.rrf("a") == []


@pytest.mark.parametrize(
    ("system", "link", "evolve"),
    [
        ("amem", True, True),
        ("amem_without_evolution", True, False),
        ("amem_without_both", False, False),
    ],
)
def test_an_ablation_leaves_out_what_it_says(system: str, link: bool, evolve: bool) -> None:
    config = Settings(systems=(system,)).variants[system]
    assert (config.link, config.evolve) == (link, evolve)


def test_the_paper_s_calls_are_one_of_each_kind_for_each_note() -> None:
    config = Settings(systems=("amem_paper_calls",)).variants["amem_paper_calls"]
    assert (config.calls, config.batch_size) == ("paper", 1)


def outcome(category: int, evidence: str, found: list[str]) -> Outcome:
    question = Question(text="?", category=category, evidence=frozenset(evidence))
    return Outcome(question=question, found={"amem": found}, shown={"amem": {1: 30, 2: 60}})


def result(name: str, *outcomes: Outcome, **writes: int) -> Result:
    return Result(
        conversation=name,
        written_by="annotations" if writes else "rules",
        notes=10,
        outcomes=outcomes,
        writes={"amem": Writes(notes=10, **writes)},
        search_ms=(1.0, 2.0, 9.0),
        embed_query_ms=(0.5,),
        full_tokens=600,
    )


FOUND = ["a", "b", "c"]
RESULTS = [
    result(
        "one",
        outcome(1, "a", FOUND),  # recall@1 1, @2 1
        outcome(1, "bx", FOUND),  # 0, .5
        outcome(5, "c", FOUND),  # not counted overall
        outcome(2, "", FOUND),  # skipped
        links=3,
        annotated_links=8,
        offered_links=6,
        model_calls=4,
    ),
    result("two", outcome(4, "ab", FOUND)),  # .5, 1
]


@pytest.fixture
def report() -> Report:
    about = {"k": [1, 2], "config": {"calls": "joint"}}
    return build(RESULTS, (1, 2), about)


def test_overall_figures_are_means_over_the_questions_of_categories_1_to_4(report: Report) -> None:
    figures = report["retrieval"]["amem"]
    assert figures["recall"] == {"1": 0.5, "2": pytest.approx(2.5 / 3, abs=1e-4)}
    assert figures["all_evidence"] == {
        "1": pytest.approx(1 / 3, abs=1e-4),
        "2": pytest.approx(2 / 3, abs=1e-4),
    }
    low, high = figures["recall_interval"]["1"]
    assert 0 <= low < 0.5 < high <= 1


def test_each_category_has_its_figures(report: Report) -> None:
    by_category = report["retrieval"]["amem"]["by_category"]
    assert by_category["1"] == {
        "recall": {"1": 0.5, "2": 0.75},
        "all_evidence": {"1": 0.5, "2": 0.5},
    }
    assert by_category["5"]["recall"] == {"1": 0.0, "2": 0.0}
    assert by_category["3"]["recall"] == {"1": None, "2": None}


def test_questions_without_usable_evidence_are_counted_as_skipped(report: Report) -> None:
    assert report["questions"] == {
        "used": 3,
        "skipped": 1,
        "by_category": {"1": 2, "2": 0, "3": 0, "4": 1, "5": 1},
    }


def test_costs_are_summed_and_candidate_recall_is_that_of_annotated_conversations(
    report: Report,
) -> None:
    assert report["builds"]["amem"]["model_calls"] == 4
    assert report["builds"]["amem"]["calls_per_note"] == 0.2
    assert report["builds"]["amem"]["links"] == 3
    assert report["builds"]["amem"]["candidate_recall"] == 0.75
    assert report["conversations"]["two"]["builds"]["amem"]["candidate_recall"] is None
    assert report["costs"]["build"] == {
        "calls": 4,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": None,
    }
    assert report["latency_ms"] == {"search_p50": 2.0, "search_p95": 9.0, "embed_query_p50": 0.5}


def test_the_length_of_a_context_is_compared_with_the_whole_conversation(report: Report) -> None:
    assert report["context"]["amem"] == {
        "tokens": {"1": 30.0, "2": 60.0},
        "saved": {"1": 0.95, "2": 0.9},
    }
    assert "| `amem` | 30 | 60 | 95.0 % | 90.0 % |" in render(report)


def test_a_report_has_the_same_figures_for_each_conversation(report: Report) -> None:
    assert report["notes"] == 20
    assert report["conversations"]["one"]["questions"]["used"] == 2
    assert report["conversations"]["two"]["retrieval"]["amem"]["recall"] == {"1": 0.5, "2": 1.0}
    assert json.loads(json.dumps(report)) == report


def test_a_report_of_no_questions_can_be_made_and_read() -> None:
    report = build([result("one")], (5,), {"k": [5]})
    assert report["retrieval"] == {}
    assert "| `amem` | 10 | 0 | 0 |" in render(report)  # what building took


def test_the_page_holds_the_figures(report: Report) -> None:
    page = render(report)
    assert "| `amem` | .500 (" in page
    assert "| `amem` | 1 multi-hop | 2 | .500 | .750 | .500 | .500 |" in page
    assert "| one | annotations | 10 | 2 | .500 | .750 | .750 |" in page
    assert "| config.calls | `joint` |" in page


def test_the_constants_of_ranking_are_reported_by_name() -> None:
    assert constants()["ranking.RRF_K"] == ranking.RRF_K
    assert all(np.isfinite(value) for value in constants().values())


def test_the_digest_of_the_code_is_that_of_what_makes_a_memory() -> None:
    assert code_digest() == code_digest()
    assert len(code_digest()) == 64


def answered(name: str, right: bool, *, tokens: int = 100) -> Result:
    """Two questions, answered by the memory and from the whole conversation of a thousand tokens."""

    def asked(text: str, category: int, answer: str | None, adversarial: str | None) -> Outcome:
        question = Question(
            text=text,
            category=category,
            evidence=frozenset("a"),
            answer=answer,
            adversarial=adversarial,
        )
        return Outcome(question=question, found={"amem": ["b", "a"]})

    def said(first: str, second: str, shown: int, correct: bool) -> tuple[Answer, ...]:
        return (
            Answer(text=first, context_tokens=shown, correct=correct),
            Answer(text=second, context_tokens=shown),
        )

    ours = said("a quince" if right else "a pear", "No information available", tokens, right)
    whole = said("a pear", "a spade", 1000, False)
    return replace(
        result(
            name,
            asked("What tree?", 4, "a quince", None),
            asked("What did he break?", 5, None, "a spade"),
        ),
        answers={
            Condition("answer", system, k): given
            for system, given in (("amem", ours), ("full", whole))
            for k in (5, 10)
        },
        spent={"answer": Spent(calls=8, input_tokens=2_000_000, output_tokens=500_000)},
        full_tokens=1000,
    )


@pytest.fixture
def answers() -> Report:
    return build(
        [answered("one", True), answered("two", True, tokens=300)],
        (1, 2),
        {"k": [1, 2]},
        embedder=HashEmbedder(),
        prices={"build": (0.15, 0.6), "answer": (0.15, 0.6)},
    )


def test_answers_have_both_scorings_by_category(answers: Report) -> None:
    ours, whole = (answers["answers"][system] for system in ("amem", "full"))
    assert ours["questions"] == 4
    assert ours["official"]["f1"]["mean"] == 1.0
    assert whole["official"]["f1"]["mean"] == 0.0
    # The authors' script rewards what official scoring punishes.
    assert ours["by_category"]["5"]["amem"]["f1"]["mean"] == 0.0
    assert whole["by_category"]["5"]["amem"]["f1"]["mean"] == 1.0
    assert ours["by_category"]["5"]["official"]["bleu1"] == {
        "mean": None,
        "low": None,
        "high": None,
    }
    assert ours["by_category"]["4"]["questions"] == 2
    assert "1" not in ours["by_category"]
    assert ours["official"]["judge"]["mean"] == 1.0
    assert ours["amem"]["judge"]["mean"] is None


def test_answers_are_compared_question_by_question(answers: Report) -> None:
    gain = answers["answers"]["amem"]["against"]["full"]["official"]["f1"]
    assert (gain["difference"], gain["low"], gain["high"]) == (1.0, 1.0, 1.0)
    assert gain["by_category"]["5"]["difference"] == 1.0
    assert "against" not in answers["answers"]["full"]


def test_what_answers_took_and_what_was_shown(answers: Report) -> None:
    assert answers["answered_from"] == 10
    ours = answers["answers"]["amem"]
    assert (ours["context_tokens"], ours["saved"]) == (200.0, 0.8)
    assert answers["answers"]["full"]["saved"] == 0.0
    assert answers["costs"]["answer"] == {
        "calls": 16,
        "input_tokens": 4_000_000,
        "output_tokens": 1_000_000,
        "cost": pytest.approx(4 * 0.15 + 0.6),
    }


def test_the_page_shows_answers(answers: Report) -> None:
    page = render(answers)
    assert "LoCoMo's own scoring" in page
    assert "| `amem` | 4 single-hop | 2 | 1.000 (1.000 to 1.000) |" in page
    assert "| `full` | +1.000 (+1.000 to +1.000) |" in page
    assert "| `amem` | 200 | 80.0 % | 0 |" in page
    assert json.loads(json.dumps(answers)) == answers


def test_a_sweep_chooses_on_some_and_reports_on_the_others() -> None:
    found = sweep.build(
        [answered("one", True), answered("two", False)],
        (5, 10),
        (["one"], ["two"]),
        {"k": [5, 10]},
        embedder=HashEmbedder(),
    )
    assert found["curves"]["chosen_on"]["f1"]["all"]["5"]["mean"] == 1.0
    assert found["curves"]["reported_on"]["f1"]["4"]["10"]["mean"] == 0.0
    assert found["curves"]["reported_on"]["recall"]["4"]["5"]["mean"] == 1.0
    assert found["choice"]["f1"]["k"] == 5  # the smallest of equals
    assert found["choice"]["f1"]["reported"] == found["curves"]["reported_on"]["f1"]["all"]["5"]
    assert set(found["choice"]) == {"f1", "bleu1"}  # more hits always hold more evidence
    page = markdown("Sweep", sweep.sections(found), found["settings"])
    assert "chosen on one and reported on two:" in page
    assert "| F1 | 5 | .500 (" in page


def test_a_choice_is_not_made_of_nothing() -> None:
    unknown = replace(
        answered("one", True),
        outcomes=(),
        answers={Condition("answer", "amem", k): () for k in (5, 10)},
    )
    found = sweep.build(
        [unknown, answered("two", False)],
        (5, 10),
        (["one"], ["two"]),
        {"k": [5, 10]},
        embedder=HashEmbedder(),
    )
    assert found["curves"]["chosen_on"]["recall"]["all"]["5"]["mean"] is None
    assert "f1" not in found["choice"] or found["choice"]["f1"]["k"] is None
    markdown("Sweep", sweep.sections(found), found["settings"])


def test_answers_to_no_questions_are_no_part_of_a_report() -> None:
    nobody = replace(
        answered("one", True), outcomes=(), answers={Condition("answer", "amem", 5): ()}
    )
    report = build([nobody], (1,), {"k": [1]}, embedder=HashEmbedder())
    assert "answers" not in report
    render(report)


def conversations(*names: str) -> list[Conversation]:
    return [Conversation(id=name, turns=(), questions=()) for name in names]


@pytest.mark.parametrize(
    ("choose", "chosen", "rest"),
    [((), ["a"], ["b", "c"]), (("c", "a"), ["a", "c"], ["b"])],
)
def test_who_chooses_is_not_reported(
    choose: tuple[str, ...], chosen: list[str], rest: list[str]
) -> None:
    assert sweep.split(conversations("a", "b", "c"), choose) == (chosen, rest)


@pytest.mark.parametrize(
    ("names", "choose", "said"),
    [
        (("a",), (), "at least one"),
        (("a", "b"), ("a", "b"), "at least one"),
        (("a", "b"), ("z",), "no conversation 'z'"),
    ],
)
def test_a_sweep_needs_both(names: tuple[str, ...], choose: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        sweep.split(conversations(*names), choose)
