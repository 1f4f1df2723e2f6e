"""A model's kept replies and the user's verdicts tell what is current, rules never do; every fifth reported case."""

from __future__ import annotations

import pytest

from amem_integrations import AgenticMemory, MiniLmEmbedder
from benchmarks import currency
from benchmarks.currency import by_model, measure, with_right_verdicts, without_verdicts

CASES = currency.cases("report")[::5]


@pytest.fixture(scope="module")
def embedder():
    return MiniLmEmbedder(cache_size=20_000)  # the dialogues are the same in each test


def test_with_right_verdicts_no_outdated_note_stands_above_the_current_one(embedder):
    found = measure(CASES, embedder, with_right_verdicts).values()
    assert found["none_stale_above"] >= 0.95
    assert found["as_of_right"] >= 0.95
    assert found["false_per_note"] == 0


def test_a_models_verdicts_are_mostly_right_and_all_outdated_notes_stand_below(embedder):
    found = measure(CASES, embedder, by_model).values()
    assert found["precision"] >= 0.85
    assert found["none_stale_above"] >= 0.95


def test_rules_never_say_that_a_note_is_outdated_or_until_when_it_holds(embedder):
    found = measure(CASES, embedder, without_verdicts)
    assert (found.counts["right"], found.false) == (0, [])
    assert len(found.missed) >= 10
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        note = memory.add("This week the stand-up is at 11, until 31 May.", namespace=("ann",))
        assert note.until is None
