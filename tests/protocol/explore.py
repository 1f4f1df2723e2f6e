"""Explore all scenarios, then all mutants: `python -m protocol.explore [words of a name]`, from the folder of the tests.

A scenario with more states than its bound is explored again with at most 5, 4, 3, then 2 switches to another writer
before a writer ends; the line of the scenario says which bound was reached.
"""

from __future__ import annotations

import sys
import time

from protocol.explorer import Found
from protocol.mutants import MUTANTS, patched
from protocol.scenarios import NEEDS_FRESH_READS, SCENARIOS, Scenario

MOST_STATES = 700_000
MOST_STATES_BY_SWITCHES = 2_000_000
SWITCHES = (5, 4, 3, 2)


def explored(make: Scenario) -> tuple[Found, str]:
    """Return what was found of a scenario, and the bound under which it was explored, in words."""
    exploration = make()
    exploration.limit = MOST_STATES
    found = exploration.explore()
    for switches in SWITCHES:
        if not found.is_bounded:
            return found, "every order" if switches == SWITCHES[
                0
            ] else f"up to {switches + 1} switches"
        exploration = make()
        exploration.limit, exploration.switches = MOST_STATES_BY_SWITCHES, switches
        found = exploration.explore()
    return found, f"up to {SWITCHES[-1]} switches" if not found.is_bounded else "not finished"


def main(words: str = "") -> int:
    """Print a line for each scenario and mutant with these words in its name; return how many are not as they must be."""
    wrong = 0
    for name, make in {**SCENARIOS, **NEEDS_FRESH_READS}.items():
        if words in name:
            began = time.monotonic()
            found, bound = explored(make)
            wrong += (found.problem is None) is (name in NEEDS_FRESH_READS)
            _say("breaks" if found.problem else "holds", name, found, bound, began)
            for number, step in enumerate(found.steps if name in SCENARIOS else (), start=1):
                sys.stdout.write(f"    {number:3} {step}\n")
    for name, mutant in MUTANTS.items():
        if words in name:
            began = time.monotonic()
            with patched(mutant) as scenarios:
                found, bound = explored(scenarios.SCENARIOS[mutant.breaks])
            wrong += found.problem is None
            _say("breaks" if found.problem else "SURVIVES", name, found, bound, began)
    return wrong


def _say(what: str, name: str, found: Found, bound: str, began: float) -> None:
    spent = time.monotonic() - began
    sys.stdout.write(f"{what:8} {name}: {found.states:,} states, {bound}, {spent:.0f} s\n")
    if found.problem:
        sys.stdout.write(f"         {found.problem[:200]}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(min(main(" ".join(sys.argv[1:])), 1))
