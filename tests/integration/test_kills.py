"""Killed at random moments while four threads work: kept is kept, gone is gone, both ends agree."""

from __future__ import annotations

import importlib
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KILLS = 6


def test_kills_at_random_moments_leave_nothing_wrong(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kills = importlib.import_module("kills")
    report = kills.run(tmp_path, KILLS)
    assert report.faults == []
    assert report.kills == KILLS
    assert report.done["add"] > 0
