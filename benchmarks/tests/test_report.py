"""From results to figures, tables and plots, on cases that can be worked out by hand."""

import json
from typing import Any

import pytest

from amem_integrations.testing import HashEmbedder
from benchmarks import report
from benchmarks.data import Conversation, Found, Question, Result, Spent
from benchmarks.provenance import code_digest
from benchmarks.rivals import table

COUNTS = ("model_calls", "input_tokens", "output_tokens", "rejected_replies", "links", "updates")
COUNTS += ("unfinished", "annotated_links", "offered_links")


def result(
    name: str, asked: list[tuple[int, str]], *, found=None, spent=None, **writes: int
) -> Result:
    """Return a result of questions by category, each with its evidence; contexts have 30 tokens a note."""
    questions = tuple(
        Question(text=f"{category}?", category=category, evidence=frozenset(due), answer="a quince", adversarial="a pear")
        for category, due in asked
    )  # fmt: skip
    ids = {"amem": "abc", "dense": "cba", "amem in 600 tokens": "ab"}
    searched = {
        system: [Found(ids=tuple(one), context=lambda k: "x" * 120 * k) for _ in questions]
        for system, one in ids.items()
    }
    return Result(
        conversation=Conversation(id=name, turns=(), questions=questions),
        written_by="annotations" if writes else "rules",
        notes=10,
        found=found or searched,
        writes={"amem": {"notes": 10, **dict.fromkeys(COUNTS, 0), **writes}},
        spent=spent or {},
        full_tokens=600,
    )


ONE = result(
    "one",
    # recall@1, @2, first rank: 1, 1, 1; 0, 1/2, 2; not counted over all; left out
    [(1, "a"), (1, "bx"), (5, "c"), (2, "")],
    links=3, annotated_links=8, offered_links=6, model_calls=4,
)  # fmt: skip
TWO = result("two", [(4, "ab")])  # 1/2, 1, 1


def built(*results: Result, **more) -> report.Report:
    made = report.build(results, (1, 2), {"k": [1, 2]}, embedder=HashEmbedder(), **more)
    assert json.loads(json.dumps(made)) == made
    return made


def text_of(made: report.Report) -> str:
    every = [*report.tables(made), *table.tables(made)]
    lines = "\n\n".join(str(one) for one in every if one.rows).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def means(figures: Any) -> Any:
    """Return figures with their means in place of estimates."""
    if not isinstance(figures, dict):
        return figures
    return figures.get("mean") if "low" in figures else {k: means(v) for k, v in figures.items()}


def test_recall_is_the_share_of_the_evidence_among_the_first_k():
    found = ["x", "a", "y", "b", "c", "a"]
    for k, recall, complete in ((1, 0, 0), (2, 1 / 3, 0), (4, 2 / 3, 0), (None, 1, 1)):
        assert report.recall(found, {"a", "b", "c"}, k) == pytest.approx(recall)
        assert report.all_evidence(found, {"a", "b", "c"}, k) == complete
    for k, rank in ((3, 0), (4, 1 / 4), (9, 1 / 4)):
        assert report.reciprocal_rank(found[:k], {"c", "b"}) == rank


def test_overall_figures_are_means_over_the_questions_of_categories_1_to_4():
    made = built(ONE, TWO, budgets=(600,))
    ours, dense = means(made["retrieval"]).values()
    assert made["questions"] == {
        "used": 3, "skipped": 1, "by_category": {"1": 2, "2": 0, "3": 0, "4": 1, "5": 1},
    }  # fmt: skip
    assert (ours["recall@1"], ours["recall@2"]) == (0.5, 0.8333)
    assert (ours["all_evidence@1"], ours["all_evidence@2"]) == (0.3333, 0.6667)
    assert ours["hit@1"] == 0.6667  # the first hit is evidence of two in three questions
    assert ours["mrr"] == round((1 + 1 / 2 + 1) / 3, 4)
    assert (dense["hit@1"], dense["mrr"]) == (0.0, round((1 / 3 + 1 / 2 + 1 / 2) / 3, 4))
    sure = made["retrieval"]["amem"]["recall@1"]
    assert sure["low"] <= 0.5 <= sure["high"]
    assert ours["by_category"]["5"] == {
        "questions": 1, "hit@1": 0.0, "mrr": 0.3333, "recall@1": 0.0, "recall@2": 0.0, "all_evidence@1": 0.0, "all_evidence@2": 0.0,
    }  # fmt: skip
    assert list(ours["by_category"]) == ["1", "4", "5"]
    gain = made["retrieval_against"]["dense"]
    assert (gain["hit@1"]["difference"], gain["recall@2"]["questions"]) == (0.6667, 3)
    assert gain["mrr"]["by_category"]["4"]["difference"] == 0.5
    within = means(made["within"]["600"])
    assert (within["recall"], within["by_category"]["5"]["recall"]) == (0.8333, 0.0)
    two = means(made["conversations"]["two"]["retrieval"])
    assert (two["amem"]["recall@1"], two["amem"]["recall@2"]) == (0.5, 1.0)
    page = text_of(made)
    assert "| amem | 4 single-hop | 1 | 1.000 (1.000 to 1.000) |" in page
    assert "| dense | +.667 (" in page
    assert "| one | annotations | 2 | .500 (" in page
    assert "| 600 | all | 3 | .833 (" in page

    # The length of a context is compared with the whole conversation.
    assert list(made["context"]["amem"].values()) == [30.0, 60.0, 0.95, 0.9]
    assert "| amem | 30.0 | 60.0 | .950 | .900 |" in page

    # What building and searching took is counted.
    ours = made["builds"]["amem"]
    assert (ours["calls_per_note"], ours["candidate_recall"], ours["links"]) == (0.2, 0.75, 3)
    assert made["conversations"]["two"]["builds"]["amem"]["candidate_recall"] is None
    assert made["costs"] == {"build": {"calls": 4, "input_tokens": 0, "output_tokens": 0}}
    assert len(code_digest()) == 64
    assert "answers" not in made

    empty = built(result("one", []))
    assert empty["retrieval"] == {}
    assert "| amem | 10 | 0 | 0 |" in text_of(empty)


def answered(name: str, right: bool, *, tokens: int = 100) -> Result:
    """Two questions, answered by the memory and from the whole conversation of 600 tokens."""

    def found(text: str, tokens: int, *, correct: bool | None = None) -> Found:
        return Found(context=str, answer=text, context_tokens=tokens, correct=correct)

    refusal, pear = found("No information available", tokens), found("a pear", 600)
    ours = [found("a quince" if right else "a pear", tokens, correct=right), refusal]
    systems = {"amem": ours, "full": [found("", 600, correct=False), pear]}
    spent = {"answer": Spent(calls=8, input_tokens=2_000_000, output_tokens=500_000)}
    return result(name, [(4, "b"), (5, "b")], found=systems, spent=spent)


def test_answers_have_both_scorings_by_category():
    made = built(answered("one", True), answered("two", True, tokens=200))
    ours, whole = made["answers"]["amem"], made["answers"]["full"]
    assert (ours["questions"], whole["unanswered"]) == (4, 2)
    assert (ours["official@f1"]["mean"], whole["official@f1"]["mean"]) == (1.0, 0.0)
    # The authors' script rewards what official scoring punishes.
    assert ours["by_category"]["5"]["amem@f1"]["mean"] == 0.0
    assert whole["by_category"]["5"]["amem@f1"]["mean"] == 1.0
    assert ours["by_category"]["5"]["official@bleu1"]["mean"] is None
    assert (ours["by_category"]["4"]["questions"], "1" in ours["by_category"]) == (2, False)
    assert (ours["official@judge"]["mean"], "amem@judge" in ours) == (1.0, False)
    gain = ours["against"]["full"]["official@f1"]
    assert (gain["difference"], gain["low"], gain["high"]) == (1.0, 1.0, 1.0)
    assert gain["by_category"]["5"]["difference"] == 1.0
    assert "against" not in whole
    assert (ours["context_tokens"], ours["saved"], whole["saved"]) == (150.0, 0.75, 0.0)
    assert made["costs"]["answer"]["calls"] == 16
    page = text_of(made)
    assert "| amem | 4 single-hop | 2 | 1.000 (1.000 to 1.000) |" in page
    sure = "+1.000 (+1.000 to +1.000)"
    assert f"| full | {sure} | {sure} | {sure} | ours |" in page
    assert "| amem | 150 | .750 | 0 |" in page


def test_figures_are_written_as_papers_write_them():
    for value, text in (
        (0.87, ".870"),
        (-0.0789, "-.079"),
        (2.345, "2.35"),
        (1234.5, "1,234"),
        (None, "-"),
        ({"mean": None, "low": None, "high": None}, "-"),
        ({"mean": 0.5, "low": 0.25, "high": 1.0}, ".500 (.250 to 1.000)"),
        ({"difference": 0.0, "low": -0.5, "high": 0.02}, "+.000 (-.500 to +.020)"),
        ("a|b\nc", "a/b c"),
    ):
        assert report.cell(value) == text


def test_a_table_of_any_names_is_written_with_its_settings(tmp_path):
    made = built(answered("one", True), answered("$new_{日本", False))
    report.write(tmp_path / "deep" / "out", "report", made, report.tables(made), {})
    page = (tmp_path / "deep" / "out" / "report.md").read_text(encoding="utf-8")
    assert "| $new_{日本 " in page
    assert json.loads(page.partition("```json")[2].partition("```")[0]) == {"k": [1, 2]}
