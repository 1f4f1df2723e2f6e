"""The labelled dialogues of facts that change are what their description says."""

from __future__ import annotations

from collections import Counter

import pytest
from support import currency

CASES = currency.load()


def test_there_are_at_least_160_cases_with_ids_of_their_own():
    assert len(CASES) >= 160
    assert len({case.id for case in CASES}) == len(CASES)


def test_half_of_the_cases_are_no_updates():
    changing = sum(bool(case.supersedes) for case in CASES)
    assert abs(changing - len(CASES) / 2) <= len(CASES) * 0.02


def test_each_kind_is_spread_evenly_over_both_halves():
    tune, report = (
        Counter(case.kind for case in CASES if case.half == half) for half in ("tune", "report")
    )
    assert {kind: abs(tune[kind] - report[kind]) <= 1 for kind in tune | report} == dict.fromkeys(
        tune | report, True
    )


def test_a_kind_is_either_of_changes_or_of_none():
    changing = {case.kind for case in CASES if case.supersedes}
    assert changing.isdisjoint(case.kind for case in CASES if not case.supersedes)


def test_no_statement_is_used_twice():
    contents = Counter(turn.content for case in CASES for turn in case.turns)
    assert [content for content, count in contents.items() if count > 1 and len(content) > 8] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_turns_are_in_order_of_time_and_numbered(case):
    assert 3 <= len(case.turns) <= 9
    assert [turn.id for turn in case.turns] == [f"t{n + 1}" for n in range(len(case.turns))]
    times = [turn.at for turn in case.turns]
    assert all(time.tzinfo for time in times)
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.supersedes], ids=lambda case: case.id
)
def test_a_successor_is_later_and_no_statement_has_two_at_a_time(case):
    for one in case.supersedes:
        assert case.turn(one.older).at < case.turn(one.newer).at
        assert one.until is None or one.until > case.turn(one.newer).at
        asserted_by_others = case.turn(one.newer).source != "user"
        assert one.proposal == asserted_by_others
    olders = [one.older for one in case.supersedes]
    assert len(olders) == len(set(olders))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_stale_was_superseded_or_is_over(case):
    now = case.turns[-1].at
    outdated = {
        one.newer if one.until and one.until <= now else one.older
        for one in case.supersedes
        if one.relation != "contradicts" and not one.proposal
    }
    assert case.questions
    for question in case.questions:
        assert question.current
        assert set(question.stale) <= outdated
        for turn_id in {*question.current, *question.stale}:
            assert case.turn(turn_id)
        for point in question.as_of:
            assert point.at.tzinfo
            assert all(case.turn(turn_id).at <= point.at for turn_id in point.current)


def test_at_least_80_questions_have_stale_answers_which_are_not_current():
    asked = [question for case in CASES for question in case.questions if question.stale]
    assert len(asked) >= 80
    assert all(set(question.current).isdisjoint(question.stale) for question in asked)
