"""Scaling: the synthetic notes, what is measured on them, and how rows are kept."""

from __future__ import annotations

import gc
import json
import mmap
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial

import numpy as np
import pytest

pytest.importorskip("threadpoolctl")

from amem_integrations.errors import AmemError, InvalidInputError
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import scaling
from benchmarks.evaluation.cache import write_json
from benchmarks.evaluation.document import markdown
from benchmarks.evaluation.scaling import measure, run_apart
from benchmarks.synthetic import BLOCK, DIMENSIONS, TOPICS, World, note_id

TIMES = ("search_ms", "engine_ms", "without_links_ms", "dense_scan_ms")


def silent(*_):
    pass


def test_a_world_is_the_same_for_the_same_seed():
    one, other, third = (list(World(seed=seed).notes(30)) for seed in (3, 3, 4))
    assert [item.note for item in one] == [item.note for item in other]
    assert all((a.vector == b.vector).all() for a, b in zip(one, other, strict=True))
    assert [item.note for item in one] != [item.note for item in third]


def test_vectors_are_of_unit_length_and_those_of_a_topic_are_near():
    world = World()
    vectors = world.vectors(3 * TOPICS)
    assert vectors.shape == (3 * TOPICS, DIMENSIONS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert vectors[5] @ vectors[5 + TOPICS] == pytest.approx(0.5, abs=0.15)
    assert abs(vectors[5] @ vectors[6]) < 0.3
    assert world.query(5) @ vectors[5] == pytest.approx(0.5, abs=0.15)
    assert not (vectors == world.query(5)).all(axis=1).any()


def test_vectors_can_be_had_again():
    stored = [item.vector for item in World().notes(BLOCK + 2)]
    assert (np.stack(stored) == World().vectors(BLOCK + 2)).all()


def test_every_link_has_its_other_end_and_leads_to_an_earlier_note_of_the_topic():
    notes = {item.note.id: item.note for item in World(links=2).notes(1200)}
    out = [
        (a, b)
        for a, note in notes.items()
        for b, one in note.links.items()
        if one.direction == "out"
    ]
    into = [
        (b, a)
        for a, note in notes.items()
        for b, one in note.links.items()
        if one.direction == "in"
    ]
    assert sorted(out) == sorted(into)
    assert 1.2 * 1200 < len(out) <= 2 * 1200
    for source, target in out:
        place, earlier = int(source[-12:], 16), int(target[-12:], 16)
        assert earlier < place
        assert (place - earlier) % TOPICS == 0
    assert not notes[note_id(0)].links.get(note_id(0))


def test_words_are_as_unevenly_frequent_as_in_a_language():
    world = World()
    words = " ".join(world.text(n, 18) for n in range(2000)).split()
    counts = sorted(Counter(words).values(), reverse=True)
    assert counts[0] > 2 * counts[20] > 4 * counts[200]
    assert len(counts) > 3000


@pytest.mark.parametrize("wrong", [{"queries": 0}, {"k": 0}, {"links": -1}])
def test_a_setup_below_one_is_an_error(wrong):
    with pytest.raises(InvalidInputError, match="at least 1"):
        scaling.Setup(**wrong)


@pytest.mark.parametrize("count", [1, 260])
def test_a_memory_of_any_size_is_measured_whole(count, monkeypatch):
    # On a disk the engine's files have holes; a file system in memory may fill them.
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    told = []
    row = measure.measure_row(count, scaling.Setup(queries=2), lambda *said: told.append(said))
    assert row["notes"] == count
    assert all(0 < row[name]["p50"] <= row[name]["p95"] for name in TIMES)
    assert row["insert_ms"] > 0
    assert row["vectors_mb"] == pytest.approx(count * 384 * 4 / 2**20, abs=0.01)
    assert 0 < row["disk_mb"] < 100
    assert told[-1] == (f"{count} notes: search", measure.ROUNDS, measure.ROUNDS)
    assert (f"{count} notes: insert", count, count) in told
    assert json.loads(json.dumps(row)) == row


def test_the_scan_finds_the_nearest_best_first():
    matrix = World().vectors(500)
    found = measure._scan(matrix, matrix[7])
    assert found[0] == 7
    assert len(found) == 100
    assert found == np.argsort(-(matrix @ matrix[7]), kind="stable")[:100].tolist()


@pytest.mark.parametrize(
    ("module", "missing"),
    [("plots", "sklearn"), ("page", "jinja2"), ("scaling", "threadpoolctl")],
)
def test_what_is_missing_is_said_with_the_extra_that_brings_it(module, missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import benchmarks.evaluation.{module}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "amem-integrations[evaluation]" in done.stderr.splitlines()[-1]


def test_encoding_is_timed_apart():
    embedder = HashEmbedder()
    found = scaling.encoding_ms(embedder, scaling.Setup(queries=5))
    assert found["embedder"] == "hash"
    assert 0 < found["p50"] <= found["p95"]
    assert embedder.encoded == 6  # the first one is not counted


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_that_is_taken_is_seen():
    gc.collect()
    before = measure.memory_mb()
    # Straight from the system: an array might get memory back that this process let go of before.
    with mmap.mmap(-1, 40 * measure.MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"x" * len(block))
        grown = measure.growth_mb(before)
    assert 35 < grown["private_mb"] <= grown["memory_mb"] + 1


def test_a_folder_is_measured_by_what_it_takes_on_the_disk(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "whole").write_bytes(b"x" * 3 * 2**20)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(100 * 2**20)
    assert measure.disk_mb(tmp_path) == pytest.approx(3, abs=0.2)


# What `run_apart` runs has to be found by the other process, so it is of a module.
def test_work_apart_has_its_own_process_and_says_how_far_it_is(tmp_path):
    told = []
    work = partial(measure.measure_row, 1, scaling.Setup(queries=1))
    row = run_apart(work, lambda *said: told.append(said))
    assert row["notes"] == 1
    assert told[0] == ("1 notes: insert", 1, 1)
    assert run_apart(partial(_pid, tmp_path), silent) != os.getpid()


def _pid(_folder, _tell):
    return os.getpid()


def _fails(error, _tell):
    raise error


def _dies(_tell):
    os._exit(9)


@pytest.mark.parametrize("error", [AmemError("no room"), FileNotFoundError(2, "gone", "x")])
def test_an_error_apart_is_raised_here(error):
    with pytest.raises(type(error), match=r"no room|gone"):
        run_apart(partial(_fails, error), silent)


def test_a_process_that_dies_is_an_error():
    with pytest.raises(AmemError, match="status 9"):
        run_apart(_dies, silent)


@pytest.fixture
def quick(monkeypatch):
    """Measures nothing, here; keeps the sizes that were asked for."""
    sizes = []

    def apart(work, tell):
        (number, _) = work.args
        sizes.append(number)
        tell("insert", number, number)
        return {"notes": number}

    monkeypatch.setattr(scaling, "run_apart", apart)
    return sizes


def test_sizes_that_are_there_are_not_measured_again(quick, tmp_path):
    file, setup = tmp_path / "scale.json", scaling.Setup()
    scaling.measure_all([20, 10], setup, file, silent)
    assert quick == [10, 20]
    report = scaling.measure_all([30, 10, 30], setup, file, silent)
    assert quick == [10, 20, 30]
    assert [row["notes"] for row in report["rows"]] == [10, 20, 30]
    assert json.loads(file.read_text(encoding="utf-8")) == report


def test_rows_of_other_settings_are_replaced(quick, tmp_path):
    file = tmp_path / "scale.json"
    scaling.measure_all([10, 20], scaling.Setup(), file, silent)
    report = scaling.measure_all([10], scaling.Setup(queries=3), file, silent)
    assert quick == [10, 20, 10]
    assert [row["notes"] for row in report["rows"]] == [10]
    assert report["settings"]["queries"] == 3


def test_what_was_measured_is_kept_when_the_rest_is_stopped(quick, tmp_path, monkeypatch):
    measured = scaling.run_apart

    def apart(work, tell):
        if work.args[0] == 20:
            raise KeyboardInterrupt
        return measured(work, tell)

    monkeypatch.setattr(scaling, "run_apart", apart)
    file = tmp_path / "scale.json"
    with pytest.raises(KeyboardInterrupt):
        scaling.measure_all([10, 20, 30], scaling.Setup(), file, silent)
    assert [row["notes"] for row in json.loads(file.read_text(encoding="utf-8"))["rows"]] == [10]
    assert [path.name for path in tmp_path.iterdir()] == ["scale.json"]
    assert quick == [10]


def test_what_was_said_of_encoding_stays(quick, tmp_path):
    file, setup = tmp_path / "scale.json", scaling.Setup()
    report = scaling.measure_all([10], setup, file, silent)
    write_json(file, {**report, "encode_ms": {"embedder": "hash", "p50": 1.0, "p95": 2.0}})
    assert scaling.measure_all([20], setup, file, silent)["encode_ms"]["embedder"] == "hash"
    assert quick == [10, 20]


@pytest.mark.parametrize("text", ["{,", "[]", '{"rows": 3}', '{"rows": [{}], "settings": {}}'])
def test_a_file_of_something_else_is_an_error_and_stays(quick, tmp_path, text):
    file = tmp_path / "scale.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="no report of scaling"):
        scaling.measure_all([10], scaling.Setup(), file, silent)
    assert file.read_text(encoding="utf-8") == text
    assert quick == []


@pytest.mark.parametrize("sizes", [[], [0], [10, -1]])
def test_sizes_below_one_are_an_error(quick, tmp_path, sizes):
    with pytest.raises(InvalidInputError, match="sizes="):
        scaling.measure_all(sizes, scaling.Setup(), tmp_path / "scale.json", silent)
    assert quick == []


def test_the_page_in_markdown_holds_the_figures_and_their_ratio():
    from benchmarks.tests import reports  # noqa: PLC0415 - for this test alone

    def page(report):
        return markdown("Scale", scaling.sections(report), report["settings"])

    report = reports.scale()
    text = page(report)
    assert "| 10,000 | 40 (50) | 30 (37.5) | 20 (25) | 10 (12.5) | 4 |" in text
    assert "| 10,000 | 200 | 100 | 200 | 14.3 | 0.60 |" in text
    assert "Encoding" not in text
    report["encode_ms"] = {"embedder": "hash", "p50": 1.5, "p95": 2.0}
    report["rows"][0]["memory_mb"] = None
    text = page(report)
    assert "with hash takes 1.50 ms" in text
    assert "| 1,000 | \N{EN DASH} | 10 | 20 | 1.43 | 0.60 |" in text
