"""How long it takes to import the packages, as ratios to the time of what they need anyway.

The processor time of each import is measured in a fresh process, without the start of Python. All take turns, several times
over; the ratios are those of the medians.

    python benchmarks/imports.py [rounds]
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

ROUNDS = 7
TIMED = """
import time
start = time.process_time()
{statement}
print(time.process_time() - start)
"""
BASE = "import numpy, pydantic"
# The framework's own modules that an adapter's first public class is made of.
LANGCHAIN = "import langchain_core.retrievers, langchain_core.messages, langchain_core.tools"
LLAMAINDEX = "import llama_index.core.memory, llama_index.core.base.llms.types"
# By statement: what it needs anyway.
CORE = {
    "import amem_integrations": BASE,
    "from amem_integrations import AgenticMemory": BASE,
}
MEASURED: Mapping[str, str] = {
    **CORE,
    "import langchain_amem": LANGCHAIN,
    "from langchain_amem import AMemRetriever": LANGCHAIN,
    "import llamaindex_amem": LLAMAINDEX,
    "from llamaindex_amem import AMemMemory": LLAMAINDEX,
}
AIM = 1.5  # the core takes at most so many times the base, an adapter so many beside its framework


def seconds(statement: str) -> float:
    """Return the processor time that a statement takes in a fresh process."""
    done = subprocess.run(  # noqa: S603 - the statements above
        [sys.executable, "-c", TIMED.format(statement=statement)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    return float(done.stdout)


def main(rounds: int) -> None:
    """Measure, and print a table."""
    statements = list(dict.fromkeys([*MEASURED.values(), *MEASURED]))
    times: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(rounds):
        for statement in statements:
            times[statement].append(seconds(statement))
    medians = {statement: median(taken) for statement, taken in times.items()}
    print(
        f"Medians of {rounds} imports, as ratios to the time of `{BASE}` ({medians[BASE]:.3f} s)\n"
    )
    print(f"{'':46}{'took':>7}{'at most':>9}")
    for statement, reference in MEASURED.items():
        _print_row(statement, medians[statement], medians[reference], medians[BASE])
    print()
    for framework in (LANGCHAIN, LLAMAINDEX):
        print(f"The framework's own: {medians[framework] / medians[BASE]:.2f}  {framework}")


def _print_row(statement: str, taken: float, reference: float, base: float) -> None:
    most = AIM if statement in CORE else reference / base + AIM
    missed = "  too slow" if taken / base > most else ""
    print(f"{statement:46}{taken / base:7.2f}{most:9.2f}{missed}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
