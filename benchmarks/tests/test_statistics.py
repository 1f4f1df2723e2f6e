from __future__ import annotations

import json
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_integrations.errors import InvalidInputError
from benchmarks.evaluation import statistics as stats

SOME = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def interval(values):
    """Return the bounds of an estimate."""
    found = stats.estimate(values)
    return None if found is None else (found["low"], found["high"])


def coin(size: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).integers(0, 2, size).astype(float).tolist()


def test_figures_of_nothing_are_none():
    assert stats.mean([]) is None
    assert stats.percentile([], 50) is None
    assert interval([]) is None
    assert stats.estimate([]) is stats.estimate([None, None]) is None
    assert stats.difference([], []) is None
    assert stats.difference([1.0, None], [None, 1.0]) is None


def test_percentiles_lie_between_values():
    assert stats.percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = [0.0, 1.0] * 200
    low, high = interval(values) or (0, 0)
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)


def test_every_run_gives_the_same():
    values = coin(200)
    first = interval(values)
    stats._draws.cache_clear()
    assert interval(values) == first


def test_resamples_of_two_values_come_as_often_as_they_should():
    # Of two drawn twice the mean is 0 in 1 of 4, 1/2 in 2 of 4, 1 in 1 of 4.
    means = stats._resampled([0.0, 1.0])
    shares = [np.mean(means == value) for value in (0, 0.5, 1)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert len(means) == stats.RESAMPLES


def test_an_estimate_is_the_mean_of_what_there_is():
    known = stats.estimate([0.0, 1.0, 1.0])
    assert stats.estimate([None, 0.0, 1.0, None, 1.0]) == known
    assert known is not None
    assert known["mean"] == pytest.approx(2 / 3)
    assert (known["low"], known["high"]) == interval([0.0, 1.0, 1.0])


@settings(deadline=None)
@given(SOME)
def test_an_interval_lies_within_the_values(values):
    low, high = interval(values) or (0, 0)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 20))
def test_equal_values_leave_nothing_open(value, size):
    found = stats.estimate([value] * size)
    assert found == pytest.approx({"mean": value, "low": value, "high": value})


def test_a_difference_is_taken_question_by_question():
    found = stats.difference([1.0, 0.5, 1.0], [0.0, 0.5, 0.5])
    assert found is not None
    assert found["difference"] == pytest.approx(0.5)
    assert (found["low"], found["high"]) == interval([1.0, 0.0, 0.5])
    assert found["questions"] == 3


def test_what_is_hard_for_both_does_not_widen_a_difference():
    second = coin(300)
    first = [value + 0.1 for value in second]
    paired = stats.difference(first, second)
    assert paired == {
        "difference": pytest.approx(0.1),
        "low": pytest.approx(0.1),
        "high": pytest.approx(0.1),
        "other_side": 0.0,
        "questions": 300,
    }
    alone = stats.estimate(first)
    assert alone is not None
    assert alone["high"] - alone["low"] > 0.1


def test_a_question_counts_where_both_have_a_value():
    found = stats.difference([1.0, None, 0.5, 1.0], [0.0, 0.0, None, 1.0])
    assert found == stats.difference([1.0, 1.0], [0.0, 1.0])


def test_the_share_on_the_other_side_is_about_the_one_sided_p_value():
    # 60 of 100 won and 40 lost: the mean is .2 and its standard error .098, 2.04 of them from 0.
    won = [1.0] * 60 + [0.0] * 40
    found = stats.difference(won, [1 - value for value in won])
    assert found is not None
    assert found["difference"] == pytest.approx(0.2)
    assert found["low"] == pytest.approx(0.2 - 1.96 * sqrt(0.96 / 100), abs=0.03)
    assert found["other_side"] == pytest.approx(0.026, abs=0.015)  # half of the ties at 0 included


@pytest.mark.parametrize(("first", "second"), [([1.0, 0.0], [1.0, 0.0]), ([1.0, 0.0], [0.0, 1.0])])
def test_of_equal_systems_neither_is_better(first, second):
    found = stats.difference(first, second)
    assert found is not None
    assert (found["difference"], found["other_side"]) == (0, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_a_difference_turns_round_with_its_sides(pairs):
    first, second = map(list, zip(*pairs, strict=True))
    there, back = stats.difference(first, second), stats.difference(second, first)
    assert there is not None
    assert back is not None
    assert back["difference"] == pytest.approx(-there["difference"])
    assert (back["low"], back["high"]) == pytest.approx((-there["high"], -there["low"]))
    assert back["other_side"] == there["other_side"]


VALUES = {
    "amem": [1.0, 1.0, 0.5, None, 0.0],
    "dense": [0.0, 1.0, 0.5, 1.0, 0.5],
    "full": [None, None, None, 1.0, None],
}
CATEGORIES = [1, 1, 4, 5, 4]


def test_the_main_system_is_compared_with_every_other_over_all_and_by_category():
    found = stats.compare(VALUES, CATEGORIES, "amem")
    assert list(found) == ["dense"]  # with `full` there is no question in common
    against = found["dense"]
    parts = against.pop("by_category")
    assert against == stats.difference(VALUES["amem"], VALUES["dense"])
    assert parts == {
        "1": stats.difference([1.0, 1.0], [0.0, 1.0]),
        "4": stats.difference([0.5, 0.0], [0.5, 0.5]),
    }
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: stats.compare(VALUES, CATEGORIES, "bm25"), "'bm25'; there are amem, dense, full"),
        (lambda: stats.compare(VALUES, [1], "amem"), "'categories': 1"),
        (lambda: stats.difference([1.0], []), "'second': 0"),
    ],
)
def test_what_does_not_belong_together_is_an_error(use, said):
    with pytest.raises(InvalidInputError, match=said):
        use()


def test_intervals_hold_the_true_mean_about_19_times_of_20():
    held = 0
    for seed, share in product(range(100), (0.3, 0.5)):
        values = (np.random.default_rng(seed).random(120) < share).astype(float).tolist()
        low, high = interval(values) or (0, 0)
        held += low <= share <= high
    assert 0.90 <= held / 200 <= 0.99
