"""LoCoMo's own scoring: cases worked out by hand from its rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_integrations.errors import InvalidInputError
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import Question, scoring

EMBEDDER = HashEmbedder()


def scored(category: int, gold: str | None, answer: str, adversarial: str | None = None):
    question = Question(
        text="?", category=category, evidence=frozenset(), answer=gold, adversarial=adversarial
    )
    return scoring.score([(question, answer)], embedder=EMBEDDER)[0].official


@pytest.mark.parametrize(
    ("gold", "answer", "f1"),
    [
        ("9 June 2021", "June 9, 2021", 1),
        ("9 June 2021", "9 june 2021.", 1),
        ("2022", "In 2022", 2 / 3),
        # tuesday, july and 2021 of five words each: `the` is gone
        ("The tuesday before 4 July 2021", "on Tuesday, 1 July 2021", 3 / 5),
        ("the dog and a cat", "dog cat", 1),
        ("painting", "paintings", 1),
        ("she painted", "She paints", 1),
        ("De-stress", "destress!", 1),
        ("$2,000", "2000", 1),
        ("bye bye", "bye", 2 / 3),  # words count as often as they come
        ("bye", "bye bye", 2 / 3),
        ("Paris", "London", 0),
        ("the", "the", 0),  # nothing is left of it
        ("", "", 0),
        ("Paris", "", 0),
    ],
)
@pytest.mark.parametrize("category", [2, 3, 4])
def test_f1_is_over_stemmed_words_without_articles(category, gold, answer, f1):
    assert scored(category, gold, answer)["f1"] == pytest.approx(f1)


@pytest.mark.parametrize(
    ("gold", "answer", "f1"),
    [
        ("chess, sailing, fencing, drawing", "chess, sailing", (1 + 1 + 0 + 0) / 4),
        ("chess, sailing, fencing, drawing", "sailing, chess", (1 + 1 + 0 + 0) / 4),
        # one part of two words is the best match of both
        ("chess, sailing, fencing, drawing", "chess and sailing", (2 / 3 + 2 / 3) / 4),
        # what is too much costs nothing, as long as it is a part of its own
        ("sunset", "sunset, horse, lake", 1),
        ("sunset", "sunset horse lake", 2 / 4),
        ("The Long Road, Anna's Web", "annas web", (0 + 1) / 2),
        ("2", "2", 1),
        ("cats,", "cat", (1 + 0) / 2),  # the empty part after the comma counts
        ("a, b", "", 0),
    ],
)
def test_a_multi_hop_answer_is_a_list_and_each_part_of_the_gold_counts_by_its_best_match(
    gold, answer, f1
):
    assert scored(1, gold, answer)["f1"] == pytest.approx(f1)


def test_only_category_1_is_split():
    gold = "chess, sailing"
    assert scored(1, gold, "sailing, chess, golf")["f1"] == 1
    assert scored(4, gold, "sailing, chess, golf")["f1"] == pytest.approx(4 / 5)


def test_the_reason_after_a_semicolon_is_no_part_of_an_open_domain_gold():
    gold = "Probably not; because that day was rainy"
    assert scored(3, gold, "probably not")["f1"] == 1
    assert scored(3, gold, "it was rainy")["f1"] == 0
    assert scored(4, gold, "probably not")["f1"] == pytest.approx(2 * 2 / (2 + 7))


@pytest.mark.parametrize(
    ("answer", "f1"),
    [
        ("Not mentioned in the conversation", 1),
        ("That is NOT MENTIONED.", 1),
        ("no information available", 1),
        ("There is No Information Available on that", 1),
        ("tea is healthy", 0),
        ("I do not know", 0),
        ("No", 0),
        ("", 0),
    ],
)
@pytest.mark.parametrize("gold", [None, "No"])
def test_an_adversarial_question_is_answered_well_by_refusing_and_by_nothing_else(gold, answer, f1):
    found = scored(5, gold, answer, adversarial="tea is healthy")
    assert found == {**dict.fromkeys(scoring.MEASURES), "f1": f1}


def test_refusing_is_no_merit_where_there_is_an_answer():
    assert scored(4, "a red kite", "Not mentioned")["f1"] == 0


def test_the_other_measures_follow_the_same_parts():
    found = scored(1, "red kites, a barn", "the barn, kite: red")
    assert found["rouge1"] == found["bleu1"] == found["f1"] == 1
    assert found["rouge2"] == 0  # `red kite` against `kite red`, and a single word
    assert found["rougeL"] == pytest.approx((1 / 2 + 1) / 2)
    # two words in two chunks, and one word in one: each loses half
    assert found["meteor"] == pytest.approx(0.5)


def test_a_question_without_a_gold_is_not_scored():
    assert scored(4, None, "anything") == dict.fromkeys(scoring.MEASURES)


@pytest.mark.parametrize("category", [0, 6])
def test_an_unknown_category_is_an_error_that_shows_it(category):
    with pytest.raises(InvalidInputError, match=f"category={category}"):
        scored(category, "gold", "answer")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  The  A-team,\tand an  OX!\n", "ateam ox"),
        ("theatre android banana", "theatre android banana"),
        ("a.an", "aan"),  # punctuation goes first
        ("七月の “the” 猫", "七月の “ ” 猫"),  # only the punctuation of ASCII goes
    ],
)
def test_normalising_drops_punctuation_then_articles_then_spaces(text, expected):
    assert scoring.normalised(text) == expected


WORD = st.sampled_from(
    ["red", "kites", "flew", "over", "the", "barn", "2023", "Ann's", "and", "猫"]
)
TEXT = st.lists(WORD, max_size=6).map(" ".join)


@settings(deadline=None)
@given(TEXT, TEXT)
def test_f1_does_not_mind_which_of_the_two_is_the_gold(first, second):
    assert scored(4, first, second)["f1"] == scored(4, second, first)["f1"]


@settings(deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(TEXT, min_size=1, max_size=4))
def test_the_order_of_a_list_does_not_matter(golds, answers):
    there = scored(1, ", ".join(golds), ", ".join(answers))
    back = scored(1, ", ".join(reversed(golds)), ", ".join(reversed(answers)))
    assert there == pytest.approx(back)


@settings(deadline=None)
@given(TEXT, TEXT)
def test_case_articles_and_punctuation_do_not_matter(gold, answer):
    dressed = f'The "{answer.upper()}"; and!'
    assert scored(4, gold, dressed)["f1"] == scored(4, gold, answer)["f1"]
