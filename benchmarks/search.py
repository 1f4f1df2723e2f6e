"""How much time the memory takes beyond the engine's own, as ratios: `python -m benchmarks.search [NOTES]`.

Every call to the memory is followed at once by the engine calls that it made, recorded and made again
with nothing round them. The embedder is left out: vectors are known beforehand.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import count
from tempfile import TemporaryDirectory

from .synthetic import SPACE, KnownVectors, World, fill, note_id, opened
from .timing import Operation, Tape, print_ratio

NOTES, LINKS_OUT = 10_000, 3
QUERIES, ROUNDS = 40, 5
AIM_RATIO, AIM_MS = 1.5, 1.0  # a search should take at most that often the engine's time, and 1 ms


def main(number: int = NOTES) -> None:
    """Build the memory, measure, and print."""
    world, embedder = World(links=LINKS_OUT), KnownVectors()
    embedder.known = world.questions(QUERIES)
    questions, fresh = list(embedder.known), count()
    with TemporaryDirectory(prefix="amem-bench-") as folder, opened(folder, embedder) as memory:
        fill(memory, world, number)
        tape = Tape(memory)

        def add(place: int) -> object:
            text = f"{world.text(place, 18)} {next(fresh)}"
            return memory.add(text, namespace=SPACE, thread=f"new{place}", evolve=False)

        operations: dict[str, Operation] = {
            "search": lambda place: memory.search(questions[place], namespace=SPACE),
            "flat": lambda place: memory.search(questions[place], namespace=SPACE, links=False),
            "context": lambda place: memory.context(questions[place], namespace=SPACE),
            "get": lambda place: memory.get(note_id(place * 7 % number), namespace=SPACE),
            "add": add,
        }
        print(f"{number} notes in one namespace\n{'':36}{'engine':>12}{'memory':>12}{'ratio':>8}")
        for name, operation in operations.items():
            operation(0)  # loads what is loaded on first use
            places = [place for _ in range(ROUNDS) for place in range(QUERIES)]
            whole, engine = zip(
                *(tape.time(partial(operation, place)) for place in places), strict=True
            )
            aim = {"aim": AIM_RATIO, "grace": AIM_MS} if name == "search" else {}
            print_ratio(name, engine, whole, **aim)
    print(f"\nAim: a search takes at most {AIM_RATIO} times the engine's time and {AIM_MS:.0f} ms.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
