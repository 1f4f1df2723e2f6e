from __future__ import annotations

from math import sqrt

import pytest
from support.notes import make_link, make_note

from amem_integrations.plans import FOLLOWS
from amem_integrations.ports import Ranked
from amem_integrations.retrieval import ranking


def test_fusion_adds_the_reciprocal_ranks_of_both_lists():
    found = ranking.fuse(Ranked(dense=[("a", 0.9), ("b", 0.8)], lexical=[("b", 7.0)]))
    assert found["a"].score == pytest.approx(1 / 11)
    assert found["b"].score == pytest.approx(1 / 12 + 1 / 11)
    assert (found["b"].dense_rank, found["b"].lexical_rank) == (2, 1)


def test_lighter_notes_push_none_down_however_many_they_are():
    questions = [(f"q{n}", 1.0) for n in range(50)]
    found = ranking.fuse(
        Ranked(dense=[*questions, ("fact", 0.2)]), dict.fromkeys(dict(questions), 0.5)
    )
    assert found["fact"].score == pytest.approx(1 / 11)
    assert ranking.order(found)[:2] == ["fact", "q0"]
    assert (found["q0"].score, found["q1"].score) == (0.5 / 11, 0.5 / 12)


def test_the_one_speaker_whom_a_query_names_is_favoured():
    notes = [make_note(speaker="Ann"), make_note(speaker="Bob Stone"), make_note()]
    ids = [note.id for note in notes]

    def named(query):
        found = ranking.fuse(Ranked(dense=[(i, 0.5) for i in ids]))
        ranking.favour_named(found, query, notes)
        return [found[i].named for i in ids]

    assert named("Where does Bob Stone live?") == [0, ranking.NAMED, 0]
    assert named("Where do Ann and Bob Stone live?") == [0, 0, 0]
    assert named("Where does Anna live?") == [0, 0, 0]


def test_a_note_matches_by_its_scores_as_shares_of_the_best():
    found = ranking.fuse(Ranked(dense=[("a", 0.8), ("b", 0.2)], lexical=[("b", 8.0), ("c", 2.0)]))
    matches = {note_id: note.match * 11 for note_id, note in found.items()}
    assert matches == pytest.approx({"a": 1.0, "b": 0.25 + 1.0, "c": 0.25})


def test_words_of_nearly_every_note_match_little():
    found = ranking.fuse(Ranked(dense=[("a", 0.8), ("b", 0.6)], lexical=[("b", 0.1)]))
    assert found["a"].match > found["b"].match


def test_without_vectors_and_without_words_nothing_matches():
    assert ranking.fuse(Ranked()) == {}
    assert ranking.fuse(Ranked(dense=[("a", -0.1)]))["a"].match == 0


def test_what_a_list_raises_stands_as_high_as_its_score():
    raised = ranking.raised([("a", 0.5), ("b", 0.4), ("c", 0.3)], {"c": 0.6, "a": 0.1, "z": 1.0})
    assert raised == [("c", 0.6), ("a", 0.5), ("b", 0.4)]


def test_what_matches_best_stands_above_what_stands_between_two_hits():
    between = {"before": make_link(relation=FOLLOWS), "after": make_link(relation=FOLLOWS)}
    found = ranking.fuse(
        Ranked(dense=[("before", 0.64), ("after", 0.4), ("between", 0.3), ("far", 0.1)])
    )
    back = {"between": make_link(relation=FOLLOWS)}
    ranking.spread(found, {"before": back, "after": back, "between": between})
    assert ranking.order(found)[0] == "between"
    ranking.lead(found)
    assert ranking.order(found) == ["before", "after", "between", "far"]


def test_links_of_order_give_less_than_links_of_content():
    found = ranking.fuse(Ranked(dense=[("a", 0.8), ("b", 0.6)]))
    ranking.spread(found, {"a": {"x": make_link(), "y": make_link(relation=FOLLOWS)}})
    assert found["y"].spread == pytest.approx(found["x"].spread * ranking.TURNS / ranking.SPREAD)
    assert (found["x"].match, found["y"].match) == (0, 0)


def test_scores_never_rise_down_the_list():
    found = ranking.fuse(Ranked(dense=[("a", 0.9), ("b", 0.8), ("c", 0.1)]))
    ranking.spread(found, {"a": {"c": make_link()}, "b": {"c": make_link()}})
    ranking.lead(found)
    scores = [found[note_id].score for note_id in ranking.order(found)]
    assert scores == sorted(scores, reverse=True)
    assert ranking.order(found) == ["a", "b", "c"]


def test_equal_scores_are_ordered_by_id():
    found = ranking.fuse(Ranked(dense=[("b", 0.9)], lexical=[("a", 7.0)]))
    assert ranking.order(found) == ["a", "b"]


def test_a_hit_gives_each_note_it_is_linked_to_its_share():
    found = ranking.fuse(Ranked(dense=[("a", 0.9)]))
    links = {"a": {"x": make_link(), "y": make_link()}}
    ranking.spread(found, links)
    assert found["x"].score == pytest.approx(ranking.SPREAD * (1 / 11) / sqrt(2))
    assert found["x"].fusion == 0
    assert found["x"].sources == ((found["x"].spread, "a"),)


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
