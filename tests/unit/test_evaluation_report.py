import json
from math import log

import numpy as np
import pytest

from amem_integrations import ranking
from amem_integrations.errors import InvalidInputError
from amem_integrations.evaluation import (
    Ablation,
    Outcome,
    Question,
    Report,
    Result,
    Settings,
    Writes,
    build,
    metrics,
)
from amem_integrations.evaluation import baselines as plain
from amem_integrations.evaluation.markdown import render
from amem_integrations.evaluation.provenance import constants
from amem_integrations.testing import HashEmbedder


@pytest.mark.parametrize(
    ("k", "recall", "complete"), [(1, 0, 0), (2, 1 / 3, 0), (4, 2 / 3, 0), (9, 1, 1)]
)
def test_recall_is_the_share_of_the_evidence_among_the_first_k(
    k: int, recall: float, complete: float
) -> None:
    found = ["x", "a", "y", "b", "c"]
    assert metrics.recall(found, {"a", "b", "c"}, k) == pytest.approx(recall)
    assert metrics.all_evidence(found, {"a", "b", "c"}, k) == complete


def test_evidence_that_is_found_twice_counts_once() -> None:
    assert metrics.recall(["a", "a"], ["a", "b", "b"], 2) == 0.5


def test_figures_of_nothing_are_none() -> None:
    assert metrics.mean([]) is None
    assert metrics.percentile([], 50) is None
    assert metrics.interval([]) is None


def test_percentiles_lie_between_values() -> None:
    assert metrics.percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5


def test_the_interval_repeats_and_is_that_of_a_mean() -> None:
    values = [0.0, 1.0] * 200
    low, high = metrics.interval(values) or (0, 0)
    assert metrics.interval(values) == (low, high)
    # The standard error of 400 coin tosses is .025.
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.01)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.01)
    assert metrics.interval([1.0, 1.0]) == (1.0, 1.0)


TEXTS = ["red kite", "red red kite over the barn", "a blue barn", "nothing at all"]


def test_bm25_weighs_rare_words_and_short_texts_up() -> None:
    ranks = plain.Baselines(TEXTS, HashEmbedder())
    assert ranks.bm25("red") == [0, 1]  # 1.21 for once in two words, 1.14 for twice in six
    assert ranks.bm25("kite") == [0, 1]
    assert ranks.bm25("KITE, blue!") == [2, 0, 1]
    assert ranks.bm25("unheard") == []


def test_bm25_is_the_formula() -> None:
    weights = dict(plain._weights([["red"], ["red", "kite", "barn"], ["barn", "barn"]])["barn"])
    rarity = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert weights[1] == pytest.approx(rarity * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 2)))
    assert weights[2] == pytest.approx(rarity * 2 * 2.2 / (2 + 1.2))


def test_dense_ranks_by_cosine() -> None:
    embedder = HashEmbedder()
    cosines = embedder.embed_documents(TEXTS) @ embedder.embed_query("blue barn")
    expected = sorted(range(4), key=lambda place: -cosines[place])
    assert plain.Baselines(TEXTS, embedder).dense("blue barn") == expected
    assert expected[0] == 2


def test_rrf_adds_the_reciprocal_ranks_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = plain.Baselines(TEXTS, HashEmbedder())
    monkeypatch.setattr(ranks, "dense", lambda _: [0, 1, 2, 3])
    monkeypatch.setattr(ranks, "bm25", lambda _: [2, 1])
    # 2: 1/63 + 1/61; 1: 1/62 + 1/62; 0: 1/61; 3: 1/64
    assert ranks.rrf("?") == [2, 1, 0, 3]


def test_baselines_of_no_texts_find_nothing() -> None:
    ranks = plain.Baselines([], HashEmbedder())
    assert ranks.dense("a") == ranks.bm25("a") == ranks.rrf("a") == []


@pytest.mark.parametrize("ks", [(), (0,), (5, -1)])
def test_k_below_one_is_an_error(ks: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="k="):
        Settings(ks=ks)


@pytest.mark.parametrize(
    ("ablation", "link", "evolve"),
    [
        (Ablation.NONE, True, True),
        (Ablation.EVOLUTION, True, False),
        (Ablation.LINKS, False, False),
    ],
)
def test_an_ablation_leaves_out_what_it_says(ablation: Ablation, link: bool, evolve: bool) -> None:
    config = Settings(ablation=ablation).config
    assert (config.link, config.evolve) == (link, evolve)


def outcome(category: int, evidence: str, found: list[str]) -> Outcome:
    question = Question(text="?", category=category, evidence=frozenset(evidence))
    return Outcome(question=question, found={"amem": found})


def result(name: str, *outcomes: Outcome, **writes: int) -> Result:
    return Result(
        conversation=name,
        annotated=bool(writes),
        notes=10,
        outcomes=outcomes,
        writes=Writes(**writes),
        search_ms=(1.0, 2.0, 9.0),
        embed_query_ms=(0.5,),
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
    assert report["writes"]["model_calls"] == 4
    assert report["writes"]["links"] == 3
    assert report["writes"]["candidate_recall"] == 0.75
    assert report["conversations"]["two"]["writes"]["candidate_recall"] is None
    assert report["latency_ms"] == {"search_p50": 2.0, "search_p95": 9.0, "embed_query_p50": 0.5}


def test_a_report_has_the_same_figures_for_each_conversation(report: Report) -> None:
    assert report["notes"] == 20
    assert report["conversations"]["one"]["questions"]["used"] == 2
    assert report["conversations"]["two"]["retrieval"]["amem"]["recall"] == {"1": 0.5, "2": 1.0}
    assert json.loads(json.dumps(report)) == report


def test_a_report_of_no_questions_can_be_made_and_read() -> None:
    report = build([result("one")], (5,), {"k": [5]})
    assert report["retrieval"] == {}
    assert "| one | offline | 10 | 0 | - | - |" in render(report)


def test_the_page_holds_the_figures(report: Report) -> None:
    page = render(report)
    assert "| `amem` | 0.500 (" in page
    assert "| `amem` | 1 multi-hop | 2 | 0.500 | 0.750 | 0.500 | 0.500 |" in page
    assert "| one | annotations | 10 | 2 | 0.500 | 0.750 | 0.750 |" in page
    assert "| config.calls | `joint` |" in page


def test_the_constants_of_ranking_are_reported_by_name() -> None:
    assert constants()["ranking.RRF_K"] == ranking.RRF_K
    assert all(np.isfinite(value) for value in constants().values())
