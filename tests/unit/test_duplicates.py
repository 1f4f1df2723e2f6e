"""What tells two notes apart, and the pairs of texts that the thresholds are found on."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from support.notes import NOON, make_note

from amem_integrations import MemoryConfig
from amem_integrations.calibration import (
    calibrate,
    duplicate_cosines,
    duplicate_pairs,
    duplicate_threshold,
    rates,
)
from amem_integrations.duplicates import completeness, difference, is_equal, text_difference
from amem_integrations.relevance import FLOORS
from amem_integrations.testing import HashEmbedder

PAIRS = duplicate_pairs()
BY_WORDS = (
    "number",
    "date",
    "name",
    "negation",
    "person",
    "certainty",
    "tense",
    "opposite",
    "order",
    "sign",
)


def test_the_pairs_are_many_different_and_half_of_them_say_the_same():
    assert len(PAIRS) >= 120
    assert len({frozenset((pair.one, pair.other)) for pair in PAIRS}) == len(PAIRS)
    assert 0.4 < sum(pair.same for pair in PAIRS) / len(PAIRS) < 0.6
    assert min(Counter(pair.kind for pair in PAIRS if not pair.same).values()) >= 1
    assert not any(pair.one == pair.other and pair.kind != "equal" for pair in PAIRS)


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.kind in BY_WORDS], ids=str)
def test_what_differs_in_a_fact_is_told_apart_by_words_alone(pair):
    assert text_difference(pair.one, pair.other) is not None
    assert text_difference(pair.other, pair.one) is not None


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_it_makes_no_difference_which_text_comes_first(pair):
    one, other = pair.one, pair.other
    assert (text_difference(one, other) is None) == (text_difference(other, one) is None)
    assert is_equal(one, other) == is_equal(other, one)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_text_says_what_it_says(pair):
    assert text_difference(pair.one, pair.one) is None


FACTS = [
    ("I paid 1,200 for the roof.", "I paid 1.200 for the roof."),
    ("I paid 12 for the cap.", "I paid -12 for the cap."),
    ("The code is 0042.", "The code is 42."),
    ("I have a son.", "I have two sons."),
    ("Tom likes Ann.", "Ann likes Tom."),
    ("I told him the truth.", "He told me the truth."),
    ("I don't smoke.", "I do smoke."),
    ("I can't swim.", "I can swim."),
    ("Let us meet at 5 pm.", "Let us meet at 6 pm."),
    ("The gate is open, is it?", "The gate is open, it is."),
    ("I live with Ann in Rome.", "I lived with Ann in Rome."),
    ("I have 5% left.", "I have 5 left."),
    ("Ich war nicht in Rom.", "Ich war in Rom."),
    ("猫が好きです。", "犬が好きです。"),
]


@pytest.mark.parametrize(("one", "other"), FACTS)
def test_a_number_name_negation_or_tense_makes_another_fact(one, other):
    assert text_difference(one, other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("On Fridays I swim in the lake.", "I swim in the lake on Fridays."),
        ("I have 2 cats.", "I have two cats."),
        ("I bought a sofa.", "I purchased a couch."),
        ("I cannot swim!", "I can't swim."),
    ],
)
def test_another_wording_alone_is_no_difference(one, other):
    assert text_difference(one, other) is None


def test_the_same_words_on_another_day_are_another_event():
    one, other = (
        make_note("I had a headache."),
        make_note("I had a headache.", at=NOON + timedelta(days=1)),
    )
    assert "days" in (difference(one, other) or "")
    lasting = "I am allergic to nuts."
    assert difference(make_note(lasting), make_note(lasting, at=other.at)) is None
    dated = "The house was built on 4 May 1911."
    assert difference(make_note(dated), make_note(dated, at=other.at)) is None
    vague = "I was born yesterday."
    assert difference(make_note(vague), make_note(vague, at=other.at)) is not None


def test_completeness_counts_words_with_a_meaning():
    assert completeness("I really do have a red red car") == completeness("My car is red") == 2


def test_a_threshold_lets_no_pair_pass_that_differs():
    embedder = HashEmbedder(256)
    found = calibrate(embedder)
    cosines = duplicate_cosines(embedder, PAIRS)
    assert found.min_duplicate_similarity == duplicate_threshold(PAIRS, cosines)
    assert rates(PAIRS, cosines, found.min_duplicate_similarity) == (found.duplicates_found, 0)
    assert found.duplicates_found > 0.4
    assert rates(PAIRS, cosines, found.min_duplicate_similarity - 0.02)[1] > 0
    assert MemoryConfig(**found.config).min_gate_similarity == found.min_gate_similarity


def test_the_settings_are_those_of_the_default_embedder():
    minilm = pytest.importorskip("amem_integrations.providers.minilm")
    found = calibrate(minilm.MiniLmEmbedder())
    default = MemoryConfig(min_relevance=FLOORS[found.embedder])
    assert MemoryConfig(**found.config) == default
    assert found.unrelated_hidden > 0.95
    assert (found.false_duplicates, found.duplicates_found > 0.65) == (0, True)
    assert found.random_stopped > 0.95
