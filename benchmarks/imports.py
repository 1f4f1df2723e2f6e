"""How long it takes to import the packages, as ratios to what they cannot do without.

Each import is timed in a fresh process, without the start of Python itself. All are measured in turn, several times
over, so that a busy machine slows them alike; the ratios are those of the medians.

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
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""
BASE = "import numpy, pydantic"
# The framework's own modules that an adapter's first public class is made of.
LANGCHAIN = "import langchain_core.retrievers, langchain_core.messages, langchain_core.tools"
LLAMAINDEX = "import llama_index.core.memory, llama_index.core.base.llms.types"
# By statement: what it is compared with, and whether what the core may take is added to that.
MEASURED: Mapping[str, str] = {
    "import amem_integrations": BASE,
    "from amem_integrations import AgenticMemory": BASE,
    "import langchain_amem": LANGCHAIN,
    "from langchain_amem import AMemRetriever": LANGCHAIN,
    "import llamaindex_amem": LLAMAINDEX,
    "from llamaindex_amem import AMemMemory": LLAMAINDEX,
}
AIM = 1.5  # the core takes at most that often the time of the base, an adapter that much beside its framework


def seconds(statement: str) -> float:
    """Return the time that a statement takes in a fresh process."""
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
    print(f"Medians of {rounds} imports; the base is `{BASE}`: {medians[BASE]:.3f} s\n")
    print(f"{'':46}{'seconds':>8}{'base':>7}{'own':>7}{'aim':>7}")
    for statement, reference in MEASURED.items():
        aim = AIM * medians[BASE] + (0.0 if reference == BASE else medians[reference])
        taken = medians[statement]
        own = taken / medians[reference]
        verdict = "" if taken <= aim else "  missed"
        print(
            f"{statement:46}{taken:8.3f}{taken / medians[BASE]:7.2f}{own:7.2f}"
            f"{aim / medians[reference]:7.2f}{verdict}"
        )
    print("\nbase: ratio to the base; own: ratio to the base or, for an adapter, to its framework:")
    for framework in dict.fromkeys(MEASURED.values()):
        print(f"{medians[framework]:8.3f} s  {framework}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
