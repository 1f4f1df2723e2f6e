"""Intervals of means and of differences between systems."""

from itertools import product

import numpy as np
import pytest

from amem_integrations.errors import InvalidInputError
from benchmarks import statistics as stats


def coin(size: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).integers(0, 2, size).astype(float).tolist()


def test_figures_of_nothing_are_none():
    assert stats.estimate([None, None]) == {"mean": None, "low": None, "high": None}
    assert stats.difference([1.0, None], [None, 1.0]) is None
    with pytest.raises(InvalidInputError, match="1 with 0"):
        stats.difference([1.0], [])


def test_the_interval_of_a_mean_is_that_of_its_standard_error_and_always_the_same():
    found = stats.estimate([None, *[0.0, 1.0] * 200])
    assert found["mean"] == 0.5
    assert found["low"] == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert found["high"] == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)


def test_a_difference_is_taken_question_by_question():
    found = stats.difference([1.0, None, 0.5, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5, None])
    assert (found["difference"], found["questions"]) == (0.5, 3)
    bounds = stats.estimate([1.0, 0.0, 0.5])
    assert (found["low"], found["high"]) == (bounds["low"], bounds["high"])
    # What is hard for both does not widen it.
    second = coin(300)
    paired = stats.difference([value + 0.1 for value in second], second)
    assert (paired["low"], paired["high"]) == (0.1, 0.1)
    assert stats.estimate(second)["high"] - stats.estimate(second)["low"] > 0.1


def test_the_main_system_is_compared_with_every_other_over_all_and_by_category():
    values = {
        "amem": [1.0, 1.0, 0.5, None, 0.0],
        "dense": [0.0, 1.0, 0.5, 1.0, 0.5],
        "full": [None, None, None, 1.0, None],
    }
    found = stats.compare(values, [1, 1, 4, 5, 4], "amem")
    assert list(found) == ["dense"]  # with `full` there is no question in common
    parts = found["dense"].pop("by_category")
    assert found["dense"] == stats.difference(values["amem"], values["dense"])
    assert parts == {
        "1": stats.difference([1.0, 1.0], [0.0, 1.0]),
        "4": stats.difference([0.5, 0.0], [0.5, 0.5]),
    }


def test_intervals_hold_the_true_mean_about_19_times_of_20():
    held = 0
    for seed, share in product(range(100), (0.3, 0.5)):
        values = (np.random.default_rng(seed).random(120) < share).astype(float).tolist()
        found = stats.estimate(values)
        held += found["low"] <= share <= found["high"]
    assert 0.90 <= held / 200 <= 0.99
