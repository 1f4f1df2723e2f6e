"""`python -m benchmarks.scale` on memories small enough for a test."""

from __future__ import annotations

import json

import pytest

from benchmarks import scale


def run(out, *more):
    return scale.main(["--out", str(out), "--queries", "2", *more])


def test_each_size_is_measured_once_and_shown(tmp_path, capsys, monkeypatch):
    out = tmp_path / "deep" / "report"
    assert run(out, "--sizes", "120,60") == 0
    report = json.loads((out / "scale.json").read_text(encoding="utf-8"))
    assert [row["notes"] for row in report["rows"]] == [60, 120]
    for row in report["rows"]:
        assert all(0 < row[name]["p50"] <= row[name]["p95"] for name in scale.TIMES)
        assert row["vectors_mb"] == pytest.approx(row["notes"] * 384 * 4 / 2**20, abs=0.01)
        assert row["disk_mb"] > row["vectors_mb"]
        found = {way: one["recall"] for way, one in row["bare"].items()}
        assert found[scale.EXACT] == found[scale.ON_DISK] == 1.0
        assert 0.8 <= found[scale.INT8] <= found[scale.RESCORED]

    monkeypatch.setattr(scale, "ROOT", tmp_path)  # where nothing can be measured
    assert run(out, "--sizes", "60,120") == 0
    assert json.loads((out / "scale.json").read_text(encoding="utf-8")) == report
    assert "search / scan" in (out / "scale.md").read_text(encoding="utf-8")
    times, spaces = scale.figure(report["rows"]).axes
    labels = [[line.get_label().split(" ~ ")[0] for line in axes.lines] for axes in (times, spaces)]
    assert labels == [list(scale.TIMES.values()), list(scale.SPACES.values())]
    assert "bare vectors ~ n^1.00" in [line.get_label() for line in spaces.lines]
    assert (times.get_xscale(), spaces.get_yscale()) == ("log", "log")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit(1)", encoding="utf-8")
    for size, said in ("10", "ended with status 1"), ("0", "sizes='0'"):
        assert run(out, "--sizes", size) == 1
        assert said in capsys.readouterr().err


def test_growth_is_fitted_and_one_size_says_nothing_about_it():
    rows = [{"notes": n, "search_ms": {"p50": 3 * n**0.5}, "disk_mb": 0.0} for n in (10, 100, 1000)]
    assert scale.exponent(rows, "search_ms") == pytest.approx(0.5)
    assert scale.exponent(rows[:1], "search_ms") is scale.exponent(rows, "disk_mb") is None
