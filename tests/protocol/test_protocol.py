"""The writes of the journal under every order, kill and late copy, as far as a minute goes; `make explore` does all."""

from __future__ import annotations

import pytest
from protocol import scenarios
from protocol.mutants import MUTANTS, patched

from amem_integrations.errors import StoreError
from amem_integrations.journal import projection

# Scenarios of at most some twenty thousand states.
QUICK = [
    "late answer and delete, kill",
    "another writer projects the same notes, kill",
    "stale writer and a good one take one slot",
    "two workers evolve one thread",
    "undo of an entry, then evolve again",
    "undo of an answer that nobody looked at, beside a writer",
    "two corrections at once",
    "late copy of the add after the delete",
    "sweep while the user extends the note",
    "a form, and another made of it, of a deleted note",
    "power cut: delete",
    "power cut: commit and delete",
    "power cut: delete, add again",
    "power cut: thorough delete",
    "thorough delete and late answer, kill",
    "redacted, then made again",
    "a worker died after its insertion, another does the work, nobody resumes",
    "the user supersedes while a model links",
    "tombstone collected, same key again, evolved",
    "clear, late copy of an add",
    "an import brings a deleted note back, beside a late answer for the old one, kill",
    "two imports of one file, kill, late copy",
    "late answer for an expired note that is not swept yet",
    "bounded views: the newest sentence goes, kill",
]
# Mutants that break within some seconds.
SLOW_MUTANTS = {
    "what was not looked at shows",
    "tokens of decisions are read after the look",
    "a view that stays the same is not written",
    "a view is finished by its own token only",
    "that a delete is thorough has no rev",
    "decisions are redacted once",
    "notes are cleared once",
    "a decision without its call is believed",
    "what the user decided is redacted like a model's",
}


@pytest.mark.parametrize("name", QUICK)
def test_what_is_promised_holds_in_every_order(name):
    found = scenarios.SCENARIOS[name]().explore()
    assert not found.is_bounded
    assert found.problem is None, "\n".join(found.steps)


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in SLOW_MUTANTS])
def test_each_safeguard_is_needed(name):
    mutant = MUTANTS[name]
    with patched(mutant) as mutated:
        assert mutated.SCENARIOS[mutant.breaks]().explore().problem is not None


def test_a_stale_replica_breaks_what_is_promised():
    (make,) = scenarios.NEEDS_FRESH_READS.values()
    assert make().explore().problem is not None


def test_every_mutant_names_a_scenario_and_stands_in_the_source():
    for mutant in MUTANTS.values():
        assert mutant.breaks in scenarios.SCENARIOS
        with patched(mutant):
            pass


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
