"""What tells two notes apart, and the pairs of texts that the thresholds are found on."""

from __future__ import annotations

import pytest

from amem_integrations.config import MEASURED
from amem_integrations.repetition import is_equal, text_difference
from benchmarks.calibrate import (
    gate,
    pairs,
    relevance_floor,
    similarity_of_repeats,
)

PAIRS = pairs()
BY_WORDS = (
    "number",
    "date",
    "name",
    "negation",
    "certainty",
    "tense",
    "opposite",
    "order",
    "sign",
)


def test_what_differs_in_a_fact_is_told_apart_by_words_alone():
    for pair in [p for p in PAIRS if p.kind in BY_WORDS]:
        assert text_difference(pair.one, pair.other) is not None, pair
        assert text_difference(pair.other, pair.one) is not None, pair


def test_it_makes_no_difference_which_text_comes_first():
    for pair in PAIRS:
        one, other = pair.one, pair.other
        assert (text_difference(one, other) is None) == (text_difference(other, one) is None)
        assert is_equal(one, other) == is_equal(other, one)


FACTS = [
    ("My sister broke her wrist.", "My brother broke his wrist."),
    ("I lent him my drill.", "He lent me his drill."),
    ("I was promoted.", "She was promoted."),
    ("I live upstairs.", "I live downstairs."),
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


def test_a_number_name_negation_or_tense_makes_another_fact():
    for one, other in FACTS:
        assert text_difference(one, other) is not None, (one, other)


WORDINGS = [
    ("On Fridays I swim in the lake.", "I swim in the lake on Fridays."),
    ("I have 2 cats.", "I have two cats."),
    ("I bought a sofa.", "I purchased a couch."),
    ("I cannot swim!", "I can't swim."),
]


def test_another_wording_alone_is_no_difference():
    for one, other in WORDINGS:
        assert text_difference(one, other) is None, (one, other)


def test_the_table_has_what_is_found_for_the_default_embedder():
    minilm = pytest.importorskip("amem_integrations.providers.minilm")
    embedder = minilm.MiniLmEmbedder()
    (similar, found, false), (least, stopped) = similarity_of_repeats(embedder), gate(embedder)
    floor, hidden = relevance_floor(embedder)
    measured = MEASURED[embedder.name]
    assert (similar, least, floor) == (measured.repeats, measured.gate, measured.relevance)
    assert (false, found > 0.65) == (0, True)
    assert min(stopped, hidden) > 0.95
