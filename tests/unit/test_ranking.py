from __future__ import annotations

from math import sqrt

import pytest
from support.notes import make_link, make_note

from amem_integrations.plans import FOLLOWS
from amem_integrations.ports import Ranked
from amem_integrations.retrieval import ranking


def fused(dense=(), lexical=(), **weights):
    return ranking.fuse(Ranked(dense=dense, lexical=lexical), weights)


def test_fusion_adds_the_reciprocal_ranks_of_both_lists():
    fusion, _ = fused([("a", 0.9), ("b", 0.8)], [("b", 7.0)])
    assert fusion == pytest.approx({"a": 1 / 11, "b": 1 / 12 + 1 / 11})


def test_lighter_notes_push_none_down_however_many_they_are():
    questions = [(f"q{n}", 1.0) for n in range(50)]
    fusion, match = fused([*questions, ("fact", 0.2)], **dict.fromkeys(dict(questions), 0.5))
    assert fusion["fact"] == max(fusion.values()) == pytest.approx(1 / 11)
    assert (fusion["q0"], fusion["q1"]) == (0.5 / 11, 0.5 / 12)
    assert match["q0"] == pytest.approx(0.5 / 11)


def test_the_one_speaker_whom_a_query_names_is_favoured():
    notes = [make_note(speaker="Ann"), make_note(speaker="Bob Stone"), make_note()]
    assert ranking.named_by("Where does Bob Stone live?", notes) == [notes[1].id]
    for who, some in (
        ("do Ann and Bob Stone", notes),
        ("does Anna", notes),
        ("does Ann", notes[:1]),
    ):
        assert ranking.named_by(f"Where {who} live?", some) == []


def test_a_note_matches_by_its_scores_as_shares_of_the_best():
    _, match = fused([("a", 0.8), ("b", 0.2)], [("b", 8.0), ("c", 2.0)])
    assert {i: 11 * m for i, m in match.items()} == pytest.approx({"a": 1, "b": 1.25, "c": 0.25})


def test_words_of_nearly_every_note_count_and_match_little():
    fusion, match = fused([("a", 0.8), ("b", 0.6)], [("b", 0.1)])
    assert match["a"] > match["b"]
    assert fusion["b"] == pytest.approx(1 / 12 + 0.1 / 11)


def test_without_vectors_and_without_words_nothing_matches():
    assert fused() == ({}, {})
    assert fused([("a", -0.1)]) == ({"a": 1 / 11}, {"a": 0})


def test_of_two_answers_the_first_stands_first():
    first = Ranked(dense=[("a", 0.5)], lexical=[("b", 2.0)])
    then = Ranked(dense=[("c", 0.9), ("a", 0.5)], lexical=[("c", 3.0)])
    both = ranking.joined(first, then)
    assert (both.dense, both.lexical) == ([("a", 0.5), ("c", 0.9)], [("b", 2.0), ("c", 3.0)])
    assert ranking.fuse(both, {})[1]["c"] == pytest.approx(2 / 11)  # the best of its list


def test_what_matches_best_stands_first_and_scores_never_rise_down_the_list():
    scores = {"between": 0.9, "far": 0.5, "before": 0.2, "after": 0.1}
    ordered = ranking.order(scores, {"before": 0.3, "after": 0.2, "between": 0.1})
    assert ordered == ["before", "after", "between", "far"]
    ranking.lead(scores, ordered)
    assert [scores[i] for i in ordered] == [0.9, 0.9, 0.9, 0.5]
    alone = {"a": 0.1}
    ranking.lead(alone, ranking.order(alone, {}))
    assert alone == {"a": 0.1}


def test_equal_scores_are_in_the_order_of_ids_and_of_equal_matches_the_best_scores_stand_first():
    fusion, match = fused([("b", 0.9)], [("a", 7.0)])
    assert ranking.order(fusion, match) == ["a", "b"]
    fusion, match = fused([("filler", -0.1), ("a", -0.2), ("b", -0.3)], filler=ranking.FILLER)
    assert ranking.order(fusion, match) == ["a", "b", "filler"]


def test_a_hit_gives_each_note_it_is_linked_to_its_share_and_less_over_links_of_order():
    stated = {name: make_link() for name in "xy"}
    turn, share = {"z": make_link(relation=FOLLOWS)}, 0.5 / sqrt(2)
    spread = dict.fromkeys(stated, ranking.SPREAD * share) | {"z": ranking.TURNS * share}
    assert ranking.lent(0.5, stated | turn) == pytest.approx(spread)
    assert ranking.lent(0.5, turn) == {"z": 0.5 * ranking.TURNS}
    assert ranking.TURNS < ranking.SPREAD


def test_so_many_of_the_best_hits_are_looked_at_as_are_wanted_within_bounds():
    assert [ranking.looked_at(k) for k in (1, 20, 30, 40, 60)] == [20, 20, 30, 40, 40]
