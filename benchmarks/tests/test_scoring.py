"""Both scorings: cases worked out by hand from LoCoMo's rules, and from what the authors' script does."""

import csv
from pathlib import Path

import pytest

from amem_integrations.testing import HashEmbedder
from benchmarks import data, scoring

OFFICIAL, AMEM = "official", "amem"


def scored(category: int, gold: str | None, answer: str, which: str, wrong: str | None = None):
    asked = data.Question(text="?", category=category, answer=gold, adversarial=wrong)
    (found,) = scoring.score([(asked, answer)], embedder=HashEmbedder())
    return {name: found[f"{which}@{name}"] for name in scoring.MEASURES}


def test_both_scorings_give_what_was_worked_out_by_hand():
    with Path(__file__).with_name("scoring.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 40
    for row in rows:
        category = int(row["category"])
        found = scored(category, row["gold"], row["answer"], row["scoring"], "tea is healthy")
        assert found[row["measure"]] == pytest.approx(float(row["score"]), abs=1e-4), row
        if category == 5:
            assert {found[name] for name in scoring.MEASURES[1:]} == {None}


def test_the_other_measures_follow_the_same_parts_in_the_official_scoring():
    found = scored(1, "red kites, a barn", "the barn, kite: red", OFFICIAL)
    assert found["rouge1"] == found["bleu1"] == found["f1"] == 1
    assert found["rouge2"] == 0  # `red kite` against `kite red`, and a single word
    assert found["rougeL"] == pytest.approx((1 / 2 + 1) / 2)
    red, barn, owl = HashEmbedder().embed_documents(["red kite", "barn", "grey owl"])
    found = scored(1, "red kite, barn", "grey owl, barn", OFFICIAL)
    best = max(float(red @ owl), float(red @ barn))
    assert found["sbert"] == pytest.approx((best + 1) / 2, abs=1e-6)


def test_falling_for_an_adversarial_question_is_good_only_in_the_authors_scoring():
    for answer, official, amem in (("tea is healthy", 0, 1), ("Not mentioned here", 1, 0)):
        for gold in (None, "No"):
            assert scored(5, gold, answer, OFFICIAL, "Tea is healthy.")["f1"] == official
            assert scored(5, gold, answer, AMEM, "Tea is healthy.")["f1"] == amem


def test_without_a_gold_there_is_no_score():
    for category, which in ((4, OFFICIAL), (4, AMEM), (5, AMEM)):
        assert scored(category, None, "anything", which) == dict.fromkeys(scoring.MEASURES)


def test_each_distinct_text_is_encoded_once_and_all_in_one_batch():
    batches = []

    class Counting(HashEmbedder):
        def embed_documents(self, texts):
            batches.append(sorted(texts))
            return super().embed_documents(texts)

    asked = [(1, "kite, barn", "barn, owl"), (4, "kite", "barn"), (4, "kite", ""), (4, None, "x")]
    items = [(data.Question(text="?", category=c, answer=g), text) for c, g, text in asked]
    scoring.score(items, embedder=Counting())
    assert batches == [["barn", "barn, owl", "kite", "kite, barn", "owl"]]
