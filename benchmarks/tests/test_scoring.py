"""Both scorings: cases worked out by hand from LoCoMo's rules, and from what the authors' script does."""

import json
import os
import subprocess
import sys
from math import exp
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_integrations.errors import InvalidInputError
from amem_integrations.testing import HashEmbedder
from benchmarks import data, scoring

DATA = os.environ.get("AMEM_DATA")
OFFICIAL, AMEM = 0, 1
REASON = "Probably not; because that day was rainy"


def scored(category: int, gold: str | None, answer: str, which: int, wrong: str | None = None):
    asked = data.Question(text="?", category=category, answer=gold, adversarial=wrong)
    return scoring.score([(asked, answer)], embedder=HashEmbedder())[0][which]


@pytest.mark.parametrize(
    ("category", "gold", "answer", "f1"),
    [
        (2, "9 June 2021", "june 9, 2021.", 1),
        (2, "2022", "In 2022", 2 / 3),
        # tuesday, july and 2021 of five words each: `the` is gone
        (2, "The tuesday before 4 July 2021", "on Tuesday, 1 July 2021", 3 / 5),
        (4, "the dog and a cat", "dog cat", 1),
        (4, "she painted", "She paints", 1),
        (4, "De-stress", "destress!", 1),
        (4, "$2,000", "2000", 1),
        (4, "bye bye", "bye", 2 / 3),  # words count as often as they come
        (4, "Paris", "London", 0),
        (4, "the", "the", 0),  # nothing is left of it
        (4, "", "", 0),
        (4, "a red kite", "Not mentioned", 0),  # refusing is no merit where there is an answer
        (4, "chess, sailing", "sailing, chess, golf", 4 / 5),
        # A list: each part of the gold counts by its best match, and too much costs nothing.
        (1, "chess, sailing, fencing, drawing", "sailing, chess", 2 / 4),
        (1, "chess, sailing, fencing, drawing", "chess and sailing", (2 / 3 + 2 / 3) / 4),
        (1, "sunset", "sunset, horse, lake", 1),
        (1, "sunset", "sunset horse lake", 2 / 4),
        (1, "cats,", "cat", (1 + 0) / 2),  # the empty part after the comma counts
        # The reason after a semicolon is no part of an open-domain gold.
        (3, REASON, "probably not", 1),
        (3, REASON, "it was rainy", 0),
        (4, REASON, "probably not", 2 * 2 / (2 + 7)),
        # Refusing, and nothing else, answers an adversarial question.
        (5, None, "That is NOT MENTIONED.", 1),
        (5, "No", "There is No Information Available on that", 1),
        (5, None, "tea is healthy", 0),
        (5, "No", "No", 0),
    ],
)
def test_f1_is_over_stemmed_words_without_articles(category, gold, answer, f1):
    found = scored(category, gold, answer, OFFICIAL, "tea is healthy")
    assert found["f1"] == pytest.approx(f1)
    if category == 5:
        assert {found[name] for name in scoring.MEASURES[1:]} == {None}


@pytest.mark.parametrize(
    ("gold", "answer", "f1"),
    [
        ("9 June 2021", "June 9, 2021", 1),
        ("the cat", "cat", 2 / 3),  # articles count
        ("painting", "paintings", 0),  # no stemming
        ("bye bye", "bye", 1),  # sets
        ("no; she left", "No", 0),  # a semicolon is none of the four marks
        ("what?! yes.", "yes what", 1),
        ("a.b", "a b", 1),  # a mark separates
        ("七月", "七月", 1),
        ("", "", 0),
        ("chess, sailing", "sailing, golf", 0.5),
        (REASON, "probably not", 2 * 1 / (2 + 7)),  # `not;` is a word
    ],
)
def test_f1_is_over_sets_of_words_without_four_marks(gold, answer, f1):
    for category in (1, 3, 4):  # lists and reasons are compared as they stand
        assert scored(category, gold, answer, AMEM)["f1"] == pytest.approx(f1)


@pytest.mark.parametrize(
    ("measure", "gold", "answer", "value"),
    [
        ("bleu1", "The cat sat on mats", "the cat sat", exp(1 - 5 / 3)),  # all right, too short
        ("bleu1", "the cat", "the the the", 1 / 3),  # a word counts as often as the gold has it
        ("bleu1", "It's here.", "it is here.", 3 / 4),  # it 's here . against it is here .
        ("bleu1", "She left. He stayed.", "he stayed. she left.", 1),  # stops within come off
        ("rouge1", "cat runs", "Cats, running", 1),  # stemmed, in ASCII words
        ("rouge2", "a b c d", "a b", 2 * 1 / (3 + 1)),
        ("rougeL", "red kite", "kite red", 1 / 2),
        ("meteor", "the cat", "The cat", 1 - 0.5 / 2**3),
        ("meteor", "cats", "cat", 0.5),  # by its stem
        # precision 1, recall 1/2, weighted 1 to 9; two words in one chunk
        ("meteor", "a b c d", "a b", (0.5 / (0.9 + 0.05)) * (1 - 0.5 * (1 / 2) ** 3)),
        ("meteor", "a b", "b a", 0.5),  # two words in two chunks
    ],
)
def test_the_other_measures_of_the_authors_scoring(measure, gold, answer, value):
    assert scored(4, gold, answer, AMEM)[measure] == pytest.approx(value)


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


def test_without_a_gold_there_is_no_score_and_without_a_known_category_an_error():
    for category, which in ((4, OFFICIAL), (4, AMEM), (5, AMEM)):
        assert scored(category, None, "anything", which) == dict.fromkeys(scoring.MEASURES)
    with pytest.raises(InvalidInputError, match="category=6"):
        scored(6, "gold", "answer", OFFICIAL)


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


@settings(deadline=None)
@given(st.integers(1, 5), st.text(max_size=30), st.text(max_size=30))
def test_any_text_has_scores_within_their_ranges(category, gold, answer):
    asked = data.Question(text="?", category=category, answer=gold, adversarial=gold)
    (found,) = scoring.score([(asked, answer)], embedder=HashEmbedder())
    for values in found:
        assert all(
            one is None or -(name == "sbert") <= one <= 1 + 1e-9 for name, one in values.items()
        )


SCORE = """
import json
from amem_integrations.testing import HashEmbedder
from benchmarks import data, scoring
question = data.Question(text="?", category=4, answer="auto")
found = scoring.score([(question, "car")], embedder=HashEmbedder())[0]
print(json.dumps([scoring.describe(HashEmbedder())["meteor_stages"], found.official["meteor"]]))
"""


def test_meteor_knows_synonyms_only_where_the_users_nltk_has_wordnet(tmp_path):
    files = tmp_path / "corpora" / "wordnet"  # of one synset: car, auto
    files.mkdir(parents=True)
    for part in ("adj", "adv", "noun", "verb"):
        for name in (f"index.{part}", f"data.{part}", f"{part}.exc", "cntlist.rev", "index.sense"):
            (files / name).touch()
    (files / "lexnames").write_text("00\tnoun.artifact\t1\n")
    (files / "data.noun").write_text("00000000 00 n 02 car 0 auto 0 000 | a motor vehicle  \n")
    index = "auto n 1 0 1 0 00000000  \ncar n 1 0 1 0 00000000  \n"
    (files / "index.noun").write_text(index)
    for place, expected in (
        (tmp_path, [["exact", "stem", "synonyms"], 0.5]),
        (tmp_path / "none", [["exact", "stem"], 0.0]),
    ):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SCORE],
            capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[2],
            env={**os.environ, "NLTK_DATA": str(place), "HOME": str(tmp_path)},
        )  # fmt: skip
        assert json.loads(done.stdout) == expected, done.stderr


@pytest.mark.skipif(not DATA, reason="AMEM_DATA is not set: no LoCoMo here")
def test_on_locomo_every_gold_is_a_perfect_answer_in_both_scorings():
    known = data.load(Path(str(DATA)) / "locomo" / "locomo_dev.json")
    asked = [one for conversation in known for one in conversation.questions]
    for which in (OFFICIAL, AMEM):
        items = [(one, one.adversarial if one.category == 5 else one.answer) for one in asked]
        if which == OFFICIAL:
            items = [
                (one, gold.split(";")[0] if one.category == 3 else gold) for one, gold in items
            ]
        found = scoring.score(items, embedder=HashEmbedder())
        for (one, gold), scores in zip(items, found, strict=True):
            if one.category == 5 and which == OFFICIAL:  # of one the "wrong" answer is a refusal
                assert scores[which]["f1"] == (gold == "Not mentioned"), one
            else:
                names = ("f1", "bleu1", "rouge1", "rougeL", "sbert")
                assert [scores[which][name] for name in names] == pytest.approx([1] * 5), one
