"""The scripts that print ratios, run once at a small size; a ratio itself is nothing that a test can hold."""

from __future__ import annotations

import re

import pytest

from amem_integrations.testing import HashEmbedder
from benchmarks import adapters, against, calibrate, served, speed


def rows(text):
    """Return the numbers of each line that has a ratio, by its name."""
    found = {}
    for line in text.splitlines():
        name, *figures = re.split(r"  +", line)
        numbers = [float(one.removesuffix(" ms")) for one in figures if re.match(r"-?[\d.]+", one)]
        if len(numbers) >= 3:
            found[name] = numbers
    return found


def test_the_memory_is_compared_with_its_engine_and_with_itself(capsys, monkeypatch):
    for name, number in {"AT_ONCE": 3, "BESIDE": 3, "TALK": 20}.items():
        monkeypatch.setattr(speed, name, number)
    assert speed.main(["--notes", "120", "--queries", "2", "--rounds", "2"]) == 0
    found = rows(capsys.readouterr().out)
    assert list(found) == [
        *("search", "flat", "context", "get", "add"),
        *(f"{act}, engine call and longest gap" for act in ("search", "add", "delete")),
        *("3 recalls: one by one, at once", "95th: alone, beside evolution"),
    ]
    assert all(base > 0 and time > 0 for base, time, _ in found.values())


def test_a_checkout_is_compared_with_another_in_everything_that_is_to_be_quicker(
    capsys, monkeypatch
):
    apart = against.run_in

    def run_in(checkout, what, folder, *more):
        if what == "be killed":
            return apart(checkout, what, folder, *more)
        return against.in_checkout(what, str(folder), *more)

    monkeypatch.setattr(against, "run_in", run_in)
    monkeypatch.setattr(
        against, "ASKED", {one: (2, aim) for one, (_, aim) in against.ASKED.items()}
    )
    against.main([str(speed.__file__).partition("/benchmarks/")[0], "--sizes=40", "--rounds=1"])
    found = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()}
    for name in against.ASKED:
        other, own, ratio, *_ = map(float, found[name][:3])
        assert ratio == pytest.approx(own / other, rel=0.1)
    assert found["delete"][-1] == "MISSED"


def test_each_adapter_is_compared_with_the_core_and_its_turn_calls_the_embedder_twice(capsys):
    assert adapters.main(["--notes", "20", "--rounds", "2"]) == 0
    said = capsys.readouterr().out
    kinds = [name.partition(":")[0] for name in rows(said)]
    assert [kinds.count(kind) for kind in ("langchain", "llamaindex", "langgraph")] == [7, 4, 1]
    assert said.count("a turn of") == 4
    assert said.count(": 2 calls of the embedder  aim met") == 2


@pytest.mark.enable_socket
def test_a_served_search_is_compared_with_the_bare_client(capsys):
    assert served.main(["--calls", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:10].strip() for line in lines[1:]] == ["1 thread", "32 threads", "200 tasks"]
    assert all(float(line.split()[-1]) > 0 for line in lines[1:])


def test_calibrating_prints_the_settings_and_the_row_of_the_table(capsys):
    assert calibrate.main(["--embedder", "hash"]) == 0
    about, _, settings, row = capsys.readouterr().out.splitlines()
    embedder = HashEmbedder(256)
    floor, (least, stopped) = calibrate.relevance_floor(embedder)[0], calibrate.gate(embedder)
    assert f"{stopped:.0%} of the sentences about something else" in about
    assert settings == f"MemoryConfig(min_relevance={floor:.2f}, min_gate_similarity={least:.2f})"
    assert row.startswith(f'"{embedder.name}": Cosines(')
    assert row.endswith(f"relevance={floor:.2f}, gate={least:.2f}),")
