"""How much time the memory takes beyond the engine's own, printed as ratios.

Every call to the memory is followed at once by the engine calls that it made, recorded and made again
with nothing round them. Both are measured in the same run, so the ratio holds on a busy machine too.
The embedder is left out: vectors are known beforehand.

    python benchmarks/search.py [number of notes]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count, islice
from statistics import median
from tempfile import TemporaryDirectory

from amem_integrations import AgenticMemory
from benchmarks.evaluation.scaling.measure import Tape
from benchmarks.evaluation.scaling.synthetic import (
    DIMENSIONS,
    SPACE,
    KnownVectors,
    World,
    note_id,
)

NOTES = 10_000
LINKS_OUT = 3  # and as many in, on average
QUERIES = 40
ROUNDS = 5
BATCH = 250

AIM_RATIO, AIM_MS = 1.5, 1.0  # a search should take at most that often the engine's time, and 1 ms


def main(number: int) -> None:
    """Build the memory, measure, and print."""
    world, embedder = World(links=LINKS_OUT), KnownVectors()
    with (
        TemporaryDirectory(prefix="amem-bench-") as folder,
        AgenticMemory.open(folder, embedder=embedder) as memory,
    ):
        store = memory._runtime.store  # noqa: SLF001
        notes = world.notes(number)
        while batch := list(islice(notes, BATCH)):
            store.insert(SPACE, batch, [])
        tape = Tape(store)
        print(f"{number} notes in one namespace, {DIMENSIONS} dimensions\n")
        print(f"{'':10}{'engine':>10}{'memory':>10}{'ratio':>8}{'beyond':>10}")
        for name, operation in _operations(memory, world, embedder, number).items():
            _report(name, *_measure(operation, tape), tape)
    print(f"\nAim: a search takes at most {AIM_RATIO} times the engine's time and {AIM_MS:.0f} ms.")


def _operations(
    memory: AgenticMemory, world: World, embedder: KnownVectors, number: int
) -> dict[str, Callable[[int], object]]:
    questions = [world.text(topic, 9) for topic in range(QUERIES)]
    embedder.known |= {text: world.query(topic) for topic, text in enumerate(questions)}
    fresh = count()

    def add(place: int) -> object:
        text = f"{world.text(place, 18)} {next(fresh)}"
        return memory.add(text, namespace=SPACE, thread=f"new{place}", evolve=False)

    return {
        "search": lambda place: memory.search(questions[place], namespace=SPACE),
        "flat": lambda place: memory.search(questions[place], namespace=SPACE, links=False),
        "context": lambda place: memory.context(questions[place], namespace=SPACE),
        "get": lambda place: memory.get(note_id(place * 7 % number), namespace=SPACE),
        "add": add,
    }


def _measure(operation: Callable[[int], object], tape: Tape) -> tuple[list[float], list[float]]:
    """Return the milliseconds of the operation, and of its engine calls alone, one by one."""
    operation(0)  # loads what is loaded on first use
    times = [
        tape.time(partial(operation, place)) for _ in range(ROUNDS) for place in range(QUERIES)
    ]
    whole, engine = zip(*times, strict=True)
    return list(whole), list(engine)


def _report(name: str, whole: list[float], engine: list[float], tape: Tape) -> None:
    own, raw = median(whole), median(engine)
    made = ", ".join(call.func.__name__ for call in tape.calls)
    aim = ""
    if name == "search":
        aim = "  aim met" if own <= AIM_RATIO * raw + AIM_MS else "  AIM MISSED"
    figures = f"{raw:7.2f} ms{own:7.2f} ms{own / raw:8.2f}{own - raw:7.2f} ms"
    print(f"{name:10}{figures}  {made}{aim}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NOTES)
