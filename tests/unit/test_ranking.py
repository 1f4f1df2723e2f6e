from __future__ import annotations

from math import sqrt

import pytest
from support.notes import make_link

from amem_integrations import ranking
from amem_integrations.ports import Ranked


def test_fusion_adds_the_reciprocal_ranks_of_both_lists():
    found = ranking.fuse(Ranked(dense=[("a", 0.9), ("b", 0.8)], lexical=[("b", 7.0)]))
    assert found["a"].score == pytest.approx(1 / 11)
    assert found["b"].score == pytest.approx(1 / 12 + 1 / 11)
    assert (found["b"].dense_rank, found["b"].lexical_rank) == (2, 1)


def test_only_the_top_of_a_list_counts():
    ids = [(str(n), 1.0) for n in range(ranking.FUSION_DEPTH + 5)]
    assert len(ranking.fuse(Ranked(dense=ids))) == ranking.FUSION_DEPTH


def test_equal_scores_are_ordered_by_id():
    found = ranking.fuse(Ranked(dense=[("b", 0.9)], lexical=[("a", 7.0)]))
    assert ranking.order(found) == ["a", "b"]


def test_a_hit_gives_each_note_it_is_linked_to_its_share():
    found = ranking.fuse(Ranked(dense=[("a", 0.9)]))
    links = {"a": {"x": make_link(), "y": make_link()}}
    ranking.spread(found, links)
    assert found["x"].score == pytest.approx(ranking.SPREAD * (1 / 11) / sqrt(2))
    assert found["x"].fusion == 0
    assert found["x"].sources == [(found["x"].spread, "a")]


def test_activation_spreads_once_and_from_fusion_only():
    one = {"b": make_link()}
    back = {"a": make_link()}
    forward = ranking.fuse(Ranked(dense=[("a", 0.9), ("b", 0.8)]))
    ranking.spread(forward, {"a": one, "b": back})
    reverse = ranking.fuse(Ranked(dense=[("a", 0.9), ("b", 0.8)]))
    ranking.spread(reverse, {"b": back, "a": one})
    assert {n: a.score for n, a in forward.items()} == {n: a.score for n, a in reverse.items()}


def test_what_matches_is_what_a_search_without_links_finds():
    found = ranking.fuse(Ranked(dense=[("a", 0.9), ("b", 0.8), ("c", 0.7)]))
    ranking.spread(found, {"a": {"c": make_link(), "z": make_link()}})
    assert ranking.order(found)[:2] == ["c", "a"]
    assert ranking.matched(found, 2) == ["a", "b"]
    assert "z" not in ranking.matched(found, 10)
