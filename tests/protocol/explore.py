"""Explore all scenarios, then all mutants, then what real engines make of random orders and kills.

`python -m protocol.explore [words of a name]`, from the folder of the tests. A scenario with more states than its bound is
explored again with at most 5, 4, 3, then 2 switches to another writer before a writer ends; its line says which bound
was reached.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from protocol import faulty
from protocol.explorer import Found
from protocol.mutants import MUTANTS, patched
from protocol.scenarios import NEEDS_FRESH_READS, SCENARIOS, Scenario

from benchmarks import kills

MOST_STATES = 700_000
SWITCHES = (None, 5, 4, 3, 2)
KILLS, ROUNDS, ACTS = 200, 20, 40


def explored(make: Scenario) -> tuple[Found, str]:
    """Return what was found of a scenario, and the bound under which it was explored, in words."""
    for switches in SWITCHES:
        exploration = make()
        exploration.limit, exploration.switches = MOST_STATES, switches
        found = exploration.explore()
        if not found.is_bounded:
            return found, "every order" if switches is None else f"up to {switches} switches"
    return found, "not finished"


def main(words: str = "") -> int:
    """Print a line for each scenario, mutant and run with these words in its name; return how many are not as they must be."""
    wrong, bounds = 0, Counter[str]()
    for name, make in {**SCENARIOS, **NEEDS_FRESH_READS}.items():
        if words in name:
            began = time.monotonic()
            found, bound = explored(make)
            wrong += (found.problem is None) is (name in NEEDS_FRESH_READS)
            bounds[bound] += name in SCENARIOS
            what = "breaks" if found.problem else "bound" if found.is_bounded else "holds"
            _say(what, name, found, bound, began)
            for number, step in enumerate(found.steps if name in SCENARIOS else (), start=1):
                sys.stdout.write(f"    {number:3} {step}\n")
    for name, mutant in MUTANTS.items():
        if words in name:
            began = time.monotonic()
            with patched(mutant) as scenarios:
                found, bound = explored(scenarios.SCENARIOS[mutant.breaks])
            wrong += found.problem is None
            _say("breaks" if found.problem else "SURVIVES", name, found, bound, began)
    with tempfile.TemporaryDirectory() as folder:
        if words in "processes killed over a folder":
            wrong += _ran(
                "processes killed over a folder", kills.run(Path(folder) / "kills", KILLS)
            )
        if words in "three clients over a bad network":
            report = faulty.run(Path(folder), ROUNDS, ACTS)
            wrong += _ran("three clients over a bad network", report)
    sys.stdout.write(f"{wrong} are not as they must be; scenarios by bound: {dict(bounds)}\n")
    return wrong


def _say(what: str, name: str, found: Found, bound: str, began: float) -> None:
    spent = time.monotonic() - began
    sys.stdout.write(f"{what:8} {name}: {found.states:,} states, {bound}, {spent:.0f} s\n")
    if found.problem:
        sys.stdout.write(f"         {found.problem[:200]}\n")
    sys.stdout.flush()


def _ran(name: str, report: kills.Report) -> bool:
    """Print what a run over a real engine found; return whether anything was wrong."""
    done = ", ".join(f"{count} {do}" for do, count in sorted(report.done.items()))
    what = "breaks" if report.faults else "holds"
    sys.stdout.write(f"{what:8} {name}: {report.kills} kills; acknowledged: {done}\n")
    for fault in report.faults[:20]:
        sys.stdout.write(f"         {fault}\n")
    sys.stdout.flush()
    return bool(report.faults)


if __name__ == "__main__":
    sys.exit(min(main(" ".join(sys.argv[1:])), 1))
