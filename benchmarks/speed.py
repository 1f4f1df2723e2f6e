"""The time of a memory beyond that of its engine, and recalls that are asked at once.

Vectors are known beforehand, so no time goes to an embedder, but for the last two. Printed are milliseconds and their ratios: of a call to the memory to the
engine calls that it made, which are made again at once with nothing round them;
of the longest time for which an event loop stands still to the longest engine call meanwhile; and of recalls at
once, and beside evolution in the background, to those alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from random import choice
from statistics import quantiles
from tempfile import TemporaryDirectory
from threading import Event, Thread

from amem_integrations import AgenticMemory, MiniLmEmbedder, NoteInput

from .command import script
from .synthetic import SPACE, KnownVectors, World, fill, note_id, opened
from .timing import Operation, Tape, by_turns, milliseconds, print_ratio

LINKS_OUT = 3
AT_ONCE, BESIDE, TALK = 20, 60, 300  # recalls, and the notes that they search
AIM_SEARCH, GRACE_MS = 1.5, 1.0  # at most that often the engine's time, and 1 ms
AIM_AT_ONCE, AIM_BESIDE = 1.5, 3.0


def measure(notes: int, queries: int, rounds: int) -> None:
    """Build a memory, measure, and print."""
    world, embedder = World(links=LINKS_OUT), KnownVectors()
    embedder.known = world.questions(queries)
    questions = list(embedder.known)
    print(f"{notes} notes in one namespace\n{'':36}{'base':>12}{'memory':>12}{'ratio':>8}")
    with (
        TemporaryDirectory(prefix="amem-bench-") as folder,
        opened(folder, embedder) as memory,
    ):
        fill(memory, world, notes)
        beyond_the_engine(memory, questions, world, rounds)
        asyncio.run(gaps(memory, questions, world, notes, rounds))
    at_once(questions, rounds)


def beyond_the_engine(
    memory: AgenticMemory, questions: list[str], world: World, rounds: int
) -> None:
    """Print what calls take against the engine calls that they make."""
    tape, fresh = Tape(memory), count()

    def add(place: int) -> object:
        text = f"{world.text(place, 18)} {next(fresh)}"
        return memory.add(text, namespace=SPACE, thread=f"new{place}", evolve=False)

    operations: dict[str, Operation] = {
        "search": lambda place: memory.search(questions[place], namespace=SPACE),
        "flat": lambda place: memory.search(questions[place], namespace=SPACE, links=False),
        "context": lambda place: memory.context(questions[place], namespace=SPACE),
        "get": lambda place: memory.get(note_id(place), namespace=SPACE),
        "add": add,
    }
    for name, operation in operations.items():
        operation(0)  # loads what is loaded on first use
        places = [place for _ in range(rounds) for place in range(len(questions))]
        pairs = (tape.time(partial(operation, place)) for place in places)
        whole, engine = zip(*pairs, strict=True)
        aim = {"aim": AIM_SEARCH, "grace": GRACE_MS} if name == "search" else {}
        print_ratio(name, engine, whole, **aim)


async def gaps(
    memory: AgenticMemory, questions: list[str], world: World, notes: int, rounds: int
) -> None:
    """Print for how long the loop stands still at most, against the longest engine call."""
    tape = Tape(memory)
    acts: dict[str, Callable[[int], Awaitable[object]]] = {
        "search": lambda n: memory.asearch(questions[n % len(questions)], namespace=SPACE),
        "add": lambda n: memory.aadd(f"{world.text(n, 18)} {n}", namespace=SPACE, thread="t"),
        "delete": lambda n: memory.adelete(note_id(notes // 3 + n), namespace=SPACE),
    }
    for name, act in acts.items():
        await act(rounds)  # loads what is loaded on first use
        longest, calls = 0.0, [0.0]
        for place in range(rounds):
            tape.calls.clear()
            longest = max(longest, await _gap(partial(act, place)))
            calls += [milliseconds(call) for call in list(tape.calls)]
        print_ratio(f"{name}, engine call and longest gap", [max(calls)], [longest])


async def _gap(act: Callable[[], Awaitable[object]]) -> float:
    """Return the longest time in milliseconds for which the loop stands still while something is done."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            last, before = time.perf_counter(), last
            longest = max(longest, (last - before) * 1000)

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)  # it begins
    await act()
    await asyncio.sleep(0)
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating
    return longest


def at_once(questions: list[str], rounds: int) -> None:
    """Print what recalls take in threads against one by one, and beside evolution against alone, with the default encoder."""
    fresh, stop = count(), Event()
    asked = [questions[n % len(questions)] for n in range(BESIDE)]

    def add(number: int) -> None:
        said = [f"{choice(questions)} {next(fresh)}" for _ in range(number)]
        memory.add_many([NoteInput(content=one, thread="chat") for one in said], namespace=SPACE)

    def recall(question: str) -> object:
        return memory.recall(f"{question} {next(fresh)}", namespace=SPACE)

    def slow() -> float:
        return quantiles([milliseconds(partial(recall, one)) for one in asked], n=20)[-1]

    def evolve() -> None:
        while not stop.is_set():
            add(20)

    with (
        TemporaryDirectory(prefix="amem-bench-") as folder,
        AgenticMemory.open(folder, embedder=MiniLmEmbedder()) as memory,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        add(TALK)
        both: dict[str, Operation] = {
            "one by one": lambda _: list(map(recall, asked[:AT_ONCE])),
            "at once": lambda _: list(pool.map(recall, asked[:AT_ONCE])),
        }
        one_by_one, together = by_turns(both, rounds).values()
        print_ratio(f"{AT_ONCE} recalls: one by one, at once", one_by_one, together, AIM_AT_ONCE)
        alone, beside = list[float](), list[float]()
        for _ in range(rounds):
            alone.append(slow())
            stop.clear()
            worker = Thread(target=evolve)
            worker.start()
            beside.append(slow())
            stop.set()
            worker.join()
        print_ratio("95th: alone, beside evolution", alone, beside, aim=AIM_BESIDE)


main = script("speed", __doc__, measure, notes=10_000, queries=40, rounds=5)

if __name__ == "__main__":
    sys.exit(main())
