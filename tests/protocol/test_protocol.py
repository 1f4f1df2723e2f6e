"""The writes of the journal under every order, kill and late copy, as far as a minute goes; `make explore` does all."""

from __future__ import annotations

import json
import re

import pytest
from protocol import faulty, kills, scenarios
from protocol.mutants import MUTANTS, patched

from amem_integrations import AgenticMemory
from amem_integrations.errors import StoreError
from amem_integrations.journal import projection
from amem_integrations.testing import HashEmbedder

MOST_STATES = 1_500  # of the scenarios that are gone through here
# The larger ones among them that show what small ones do not.
LARGER = (
    "late answer and delete, kill",
    "stale writer and a good one take one slot",
    "thorough delete and late answer, kill",
    "two imports of one file, kill, late copy",
)


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_what_is_promised_holds_in_every_order(name):
    exploration = scenarios.SCENARIOS[name]()
    exploration.limit = 400_000 if name in LARGER else MOST_STATES
    found = exploration.explore()
    assert found.problem is None, "\n".join(found.steps)
    assert not (found.is_bounded and name in LARGER)


@pytest.mark.parametrize("name", MUTANTS)
def test_each_safeguard_is_needed(name):
    mutant = MUTANTS[name]
    with patched(mutant) as mutated:
        assert mutated.SCENARIOS[mutant.breaks]().explore().problem is not None


def test_a_stale_replica_breaks_what_is_promised():
    (make,) = scenarios.NEEDS_FRESH_READS.values()
    assert make().explore().problem is not None


def test_a_view_never_changes_what_the_user_said(monkeypatch):
    collections = scenarios.begin("b")

    def forger(stored, decisions, most_links):
        del decisions, most_links
        return scenarios.replace(stored, note=scenarios.replace(stored.note, content="forged"))

    monkeypatch.setattr(projection, "fold", forger)
    before = collections.contents
    with pytest.raises(StoreError, match="would change content"):
        collections.run("w", lambda writer: projection.project(writer, ["a"]))
    assert collections.contents == before


@pytest.mark.enable_socket
def test_three_clients_over_a_bad_network_leave_nothing_wrong(tmp_path):
    report = faulty.run(tmp_path, rounds=1, acts=12)
    assert report.faults == []
    assert report.done["add"] > 0


def test_a_lost_note_one_that_is_back_and_a_secret_that_stays_are_found(tmp_path):
    texts = {key: f"It is pin{n}77." for n, key in enumerate("abc", 1)}
    done = [{"do": "add", "texts": texts}, *({"do": "delete", "key": key} for key in "ac")]
    lines = [
        line
        for op, one in enumerate(done)
        for line in ({"op": op, "space": ["ann"], **one}, {"op": op, "do": "done"})
    ]
    journal = tmp_path / "journal"
    journal.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with AgenticMemory.open(tmp_path / "m", embedder=HashEmbedder()) as memory:
        memory.add("It is pin177.", namespace=("ann",), key="a", evolve=False)
        memory.add("They say it is PIN377", namespace=("ann",), key="d", evolve=False)
        found = list(kills.faults(kills.Journal.read(journal), kills.Left(memory)))
    assert [re.sub(r"\[.*\]", "", fault) for fault in found] == [
        "a was deleted and acknowledged, and is there",
        "b was added and acknowledged, and is lost",
        "'pin377' of c was deleted, and stands in ",
    ]
