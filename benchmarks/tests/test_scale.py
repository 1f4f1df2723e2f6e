"""`python -m benchmarks.scale` on memories small enough for a test, and the synthetic notes that they are made of."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from benchmarks import scale
from benchmarks.synthetic import BLOCK, TOPICS, World


def run(out, *more):
    return scale.main(["--out", str(out), "--queries", "2", *more])


def test_each_size_is_measured_once_and_shown(tmp_path, capsys, monkeypatch):
    out = tmp_path / "deep" / "report"
    assert run(out, "--sizes", "120,60", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((out / "scale.json").read_text(encoding="utf-8"))
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
    for size, said in ("10", "ended with status 1"), ("0", "size=0"):
        assert run(out, "--sizes", size) == 1
        assert said in capsys.readouterr().err


def test_growth_is_fitted_and_one_size_says_nothing_about_it():
    rows = [{"notes": n, "search_ms": {"p50": 3 * n**0.5}, "disk_mb": 0.0} for n in (10, 100, 1000)]
    assert scale.exponent(rows, "search_ms") == pytest.approx(0.5)
    assert scale.exponent(rows[:1], "search_ms") is scale.exponent(rows, "disk_mb") is None


def test_the_scan_finds_the_nearest_best_first():
    matrix = World().vectors(500)
    found = scale.nearest(matrix, matrix[7])
    assert found == np.argsort(-(matrix @ matrix[7]), kind="stable")[:100].tolist()
    assert found[0] == 7


def test_synthetic_notes_are_the_same_for_the_same_seed_with_vectors_near_those_of_their_topic():
    one, other, third = (list(World(seed=seed).notes(BLOCK + 2)) for seed in (3, 3, 4))
    assert [item.note for item in one] == [item.note for item in other]
    assert [item.note for item in one] != [item.note for item in third]
    world, vectors = World(seed=3), World(seed=3).vectors(BLOCK + 2)
    assert (np.concatenate([item.vectors for item in one]) == vectors).all()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert vectors[5] @ vectors[5 + TOPICS] == pytest.approx(0.5, abs=0.15)
    assert world.query(5) @ vectors[5] == pytest.approx(0.5, abs=0.15)
    assert abs(vectors[5] @ vectors[6]) < 0.3
    counts = sorted(Counter(" ".join(item.note.content for item in one).split()).values())
    assert counts[-1] > 2 * counts[-20] > 4 * counts[-200]  # as in a language


def test_each_synthetic_link_has_its_other_end_and_leads_to_an_earlier_note_of_the_topic():
    notes = {item.note.id: item.note for item in World(links=2).notes(1200)}
    ends = [(a, b, link.direction) for a, note in notes.items() for b, link in note.links.items()]
    out = {(a, b) for a, b, direction in ends if direction == "out"}
    assert out == {(b, a) for a, b, direction in ends if direction == "in"}
    assert len(out) == sum(1200 - TOPICS * step for step in (1, 2))
    steps = {int(a[-12:], 16) - int(b[-12:], 16) for a, b in out}
    assert steps == {TOPICS, 2 * TOPICS}
