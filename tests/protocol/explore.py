"""Explore all scenarios and mutants, and what real engines make of random orders and kills.

`python -m protocol.explore [words of a name]`, from the folder of the tests. Large scenarios come last. Of one with more
states than the bound those are gone through that need the fewest switches to another writer before a writer ends; its line
says up to how many switches every order was gone through.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from protocol import faulty, kills
from protocol.explorer import Found
from protocol.mutants import MUTANTS, patched
from protocol.scenarios import NEEDS_FRESH_READS, SCENARIOS, Scenario

FEW_STATES = 50_000  # scenarios of more are explored after all others
MOST_STATES = 2_500_000  # with so many every scenario is known up to two switches or more
KILLS, ROUNDS, ACTS = 200, 20, 40


def within(make: Scenario, most: int) -> Found:
    """Return what is found of a scenario within so many states."""
    exploration = make()
    exploration.limit = most
    gc.disable()  # millions of states stand, and none goes before the end
    try:
        return exploration.explore()
    finally:
        gc.enable()


def main(words: str = "") -> int:
    """Print a line for each scenario, mutant and run with these words in its name; return how many are not as they must be."""
    wrong, bounds, large = 0, Counter[str](), dict[str, Scenario]()
    wanted = {n: make for n, make in {**SCENARIOS, **NEEDS_FRESH_READS}.items() if words in n}
    for name, make in wanted.items():
        began = time.monotonic()
        found = within(make, FEW_STATES)
        if found.is_bounded:
            large[name] = make
            continue
        bounds[_bound(found)] += name in SCENARIOS
        wrong += _say(name, found, began, must_break=name in NEEDS_FRESH_READS)
    for name, mutant in MUTANTS.items():
        if words in name:
            began = time.monotonic()
            with patched(mutant) as scenarios:
                found = within(scenarios.SCENARIOS[mutant.breaks], MOST_STATES)
            wrong += _say(name, found, began, must_break=True)
    with tempfile.TemporaryDirectory() as folder:
        if words in (name := "three clients over a bad network"):
            wrong += _ran(name, faulty.run(Path(folder), ROUNDS, ACTS))
        if words in (name := "processes killed over a folder"):
            wrong += _ran(name, kills.run(Path(folder) / "kills", KILLS))
    for name, make in large.items():
        began = time.monotonic()
        found = within(make, MOST_STATES)
        bounds[_bound(found)] += 1
        wrong += _say(name, found, began)
    sys.stdout.write(f"{wrong} are not as they must be; scenarios by bound: {dict(bounds)}\n")
    return wrong


def _bound(found: Found) -> str:
    """Return in words how much of a scenario was gone through."""
    return "every order" if found.switches is None else f"up to {found.switches} switches"


def _say(name: str, found: Found, began: float, *, must_break: bool = False) -> bool:
    """Print what was found; return whether that is not as it must be."""
    what = "breaks" if found.problem else "holds"
    is_wrong = (found.problem is None) is must_break
    spent = time.monotonic() - began
    sys.stdout.write(f"{what:8} {name}: {found.states:,} states, {_bound(found)}, {spent:.0f} s\n")
    if found.problem:
        sys.stdout.write(f"         {found.problem[:200]}\n")
    if is_wrong:
        for number, step in enumerate(found.steps, start=1):
            sys.stdout.write(f"    {number:3} {step}\n")
        sys.stdout.write("    this is not as it must be\n")
    sys.stdout.flush()
    return is_wrong


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
