"""The scoring of A-MEM's authors: cases worked out by hand from what their script does."""

from __future__ import annotations

from math import exp

import pytest

from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import Question, scoring

EMBEDDER = HashEmbedder()


def scored(gold: str | None, answer: str, category: int = 4, adversarial: str | None = None):
    question = Question(
        text="?", category=category, evidence=frozenset(), answer=gold, adversarial=adversarial
    )
    return scoring.score([(question, answer)], embedder=EMBEDDER)[0].amem


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
        ("Paris", "", 0),
        ("", "Paris", 0),
        ("?!", "?!", 0),
    ],
)
def test_f1_is_over_sets_of_words_without_four_marks(gold, answer, f1):
    assert scored(gold, answer)["f1"] == pytest.approx(f1)


def test_lists_and_reasons_are_compared_as_they_stand():
    listed = [scored("chess, sailing", "sailing, golf", category)["f1"] for category in (1, 4)]
    assert listed == [0.5, 0.5]
    gold = "Probably not; because that day was rainy"
    assert scored(gold, "probably not", 3)["f1"] == pytest.approx(
        2 * 1 / (2 + 7)
    )  # `not;` is a word


def test_the_gold_of_an_adversarial_question_is_the_wrong_answer():
    wrong = {"category": 5, "adversarial": "tea is healthy"}
    assert scored(None, "Tea is healthy.", **wrong)["f1"] == 1
    assert scored("No", "Tea is healthy.", **wrong)["f1"] == 1
    assert scored(None, "Not mentioned in the conversation", **wrong)["f1"] == 0


def test_without_a_gold_there_is_no_score():
    assert scored(None, "anything") == dict.fromkeys(scoring.MEASURES)
    assert scored("No", "anything", category=5) == dict.fromkeys(scoring.MEASURES)


@pytest.mark.parametrize(
    ("gold", "answer", "bleu1"),
    [
        ("The cat sat on mats", "the cat sat", exp(1 - 5 / 3)),  # all right, and too short
        ("the cat", "the the the", 1 / 3),  # a word counts as often as the gold has it
        ("the cat", "a dog", 0),
        ("It's here.", "it is here.", 3 / 4),  # it 's here . against it is here .
        ("She left. He stayed.", "he stayed. she left.", 1),  # stops within a text come off
        ("cat", "", 0),
    ],
)
def test_bleu_1_is_the_clipped_precision_with_a_penalty_for_brevity(gold, answer, bleu1):
    assert scored(gold, answer)["bleu1"] == pytest.approx(bleu1)


@pytest.mark.parametrize(
    ("gold", "answer", "rouge"),
    [
        ("cat runs", "Cats, running", (1, 1, 1)),  # stemmed, in ASCII words
        ("red kite", "kite red", (1, 0, 1 / 2)),
        ("a b c d", "a b", (2 / 3, 2 * 1 / (3 + 1), 2 / 3)),
        ("kite", "kite", (1, 0, 1)),
        ("七月", "七月", (0, 0, 0)),  # no letter of ASCII
    ],
)
def test_rouge_is_that_of_rouge_score_with_stemming(gold, answer, rouge):
    found = scored(gold, answer)
    assert (found["rouge1"], found["rouge2"], found["rougeL"]) == pytest.approx(rouge)


@pytest.mark.parametrize(
    ("gold", "answer", "meteor"),
    [
        ("the cat", "The cat", 1 - 0.5 / 2**3),
        ("cats", "cat", 0.5),  # by its stem
        ("cat.", "cat", 0),  # words are what stands between spaces
        # precision 1, recall 1/2, weighted 1 to 9; two words in one chunk
        ("a b c d", "a b", (0.5 / (0.9 + 0.05)) * (1 - 0.5 * (1 / 2) ** 3)),
        ("a b", "b a", 0.5),  # two words in two chunks
        ("cat", "dog", 0),
    ],
)
def test_meteor_weighs_recall_and_takes_off_for_chunks(gold, answer, meteor):
    assert scored(gold, answer)["meteor"] == pytest.approx(meteor)
