"""What tells two texts apart, and the thresholds of the default embedder."""

from __future__ import annotations

import json
from pathlib import Path

from support.notes import make_link, make_note

from amem_integrations.config import MEASURED
from amem_integrations.notes import ScoredNote
from amem_integrations.plans import REPEATS
from amem_integrations.providers.minilm import MiniLmEmbedder
from amem_integrations.repetition import is_reworded, said_once
from benchmarks.calibrate import gate, relevance_floor

ROWS = Path(__file__).parents[1].joinpath("data", "repeats.jsonl").read_text("utf-8").splitlines()
PAIRS = [json.loads(row) for row in ROWS]


def test_three_of_four_pairs_that_say_the_same_are_found_and_none_that_differs_in_a_fact():
    found = [pair for pair in PAIRS if is_reworded(pair["one"], pair["other"])]
    assert all(pair["same"] for pair in found)
    assert len(found) >= 0.75 * sum(pair["same"] for pair in PAIRS)
    assert 0.4 < sum(pair["same"] for pair in PAIRS) / len(PAIRS) < 0.6
    for pair in PAIRS:
        assert is_reworded(pair["one"], pair["one"]), pair
        assert is_reworded(pair["other"], pair["one"]) == (pair in found), pair


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
    ("I was at home.", "I am at home."),
    ("I live with Ann in Rome.", "I lived with Ann in Rome."),
    ("I have 5% left.", "I have 5 left."),
    ("Ich war nicht in Rom.", "Ich war in Rom."),
    ("猫が好きです。", "犬が好きです。"),
    ("यह दिन है।", "यह दान है।"),
]


def test_a_number_name_negation_or_tense_makes_another_fact():
    for one, other in FACTS:
        assert not is_reworded(one, other), (one, other)


WORDINGS = [
    ("On Fridays I swim in the lake.", "I swim in the lake on Fridays."),
    ("I have 2 cats.", "I have two cats."),
    ("I bought a sofa.", "I purchased a couch."),
    ("I cannot swim!", "I can't swim."),
]


def test_another_wording_alone_is_no_difference():
    for one, other in WORDINGS:
        assert is_reworded(one, other), (one, other)


def test_the_table_has_what_is_found_for_the_default_embedder():
    embedder = MiniLmEmbedder()
    (least, stopped), (floor, hidden) = gate(embedder), relevance_floor(embedder)
    measured = MEASURED[embedder.name]
    assert (least, floor) == (measured.gate, measured.relevance)
    assert min(stopped, hidden) > 0.95


class CountedId(str):
    """An id that counts how often one is compared with another."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other):
        CountedId.compared += 1
        return str(self) < other


def test_of_many_notes_that_say_the_same_none_is_compared_with_each_other_one():
    first = [make_note("Done", id=CountedId(f"a{n}")) for n in range(200)]
    again = [make_note("It is done", id=CountedId(f"b{n}")) for n in range(200)]
    linked = {"links": {again[-1].id: make_link(relation=REPEATS)}}
    notes = [*first, *again, make_note("Done", id=CountedId("last"), **linked)]
    hits = [ScoredNote(note=note, score=0, similarity=None, via="match") for note in notes]
    (shown,) = said_once(hits)
    assert shown.times_said == len(notes)
    assert CountedId.compared <= len(notes)
