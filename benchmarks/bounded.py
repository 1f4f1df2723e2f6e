"""What must not grow with a memory, and what must not stop an event loop: `python -m benchmarks.bounded [NOTES]`.

- A delete in a memory of many notes, against one in a memory of 100.
- Opening after a kill, against opening what was closed.
- The longest time for which an event loop stands still while a memory of many notes is searched, added to and
  deleted from, against the longest single call of the engine meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from .synthetic import SPACE, KnownVectors, World, fill, note_id, opened
from .timing import Tape, by_turns, milliseconds, print_ratio

ROOT = Path(__file__).parents[1]
NOTES, FEW = 10_000, 100
LINKS_OUT = 3
ROUNDS, OPENINGS = 20, 5
AIM = 3.0  # most that a delete, or an open after a kill, may take beyond the other


def main(number: int = NOTES) -> None:
    """Build three memories, measure, and print."""
    with TemporaryDirectory(prefix="amem-bench-") as made:
        few, many, linked = (Path(made) / name for name in ("few", "many", "linked"))
        # What is linked to a note is written with the note: there is nothing in the first two.
        for folder, size, links in ((few, FEW, 0), (many, number, 0), (linked, number, LINKS_OUT)):
            with opened(folder) as memory:
                fill(memory, World(links=links), size)
        print_ratio(f"delete, {FEW} and {number} notes", *deletes(few, many, number), aim=AIM)
        print_ratio("open, closed and killed", *opens(linked), aim=AIM)
        for name, (longest, call) in asyncio.run(gaps(linked, number)).items():
            print_ratio(f"{name}, engine call and longest gap", [call], [longest])


def deletes(few: Path, many: Path, number: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of deletes in each of two memories."""
    with opened(few) as small, opened(many) as large:
        one, other = by_turns(
            {
                "few": lambda place: small.delete(note_id(FEW // 2 + place), namespace=SPACE),
                "many": lambda place: large.delete(note_id(number // 2 + place), namespace=SPACE),
            },
            ROUNDS,
        ).values()
    return one, other


def opens(folder: Path) -> tuple[list[float], list[float]]:
    """Return the milliseconds of opening what was closed, and of opening after a kill."""
    closed, killed = [], []
    for _ in range(OPENINGS):
        closed.append(milliseconds(lambda: opened(folder).close()))
        command = [sys.executable, "-m", __spec__.name, "--work", str(folder)]
        done = subprocess.run(command, check=False, cwd=ROOT)  # noqa: S603 - this module
        if done.returncode != -signal.SIGKILL:
            raise RuntimeError(f"the process ended with {done.returncode} instead of a kill")
        killed.append(milliseconds(lambda: opened(folder).close()))
    return closed, killed


def work_until_killed(folder: str) -> None:
    """Add notes with links, delete one, correct one, and die without closing."""
    memory = opened(folder)
    notes = [memory.add(f"It is {time.time_ns()}", namespace=SPACE, thread="t") for _ in range(8)]
    memory.delete(notes[2].id, namespace=SPACE)
    memory.update(notes[4].id, namespace=SPACE, content="It is another")
    os.kill(os.getpid(), signal.SIGKILL)


async def gaps(folder: Path, number: int) -> dict[str, tuple[float, float]]:
    """Return by operation the longest time the loop stood still, and the longest engine call, in milliseconds."""
    world, embedder = World(links=LINKS_OUT), KnownVectors()
    embedder.known = world.questions(ROUNDS + 1)
    questions = list(embedder.known)
    with opened(folder, embedder) as memory:
        tape = Tape(memory)

        acts: dict[str, Callable[[int], Awaitable[object]]] = {
            "search": lambda n: memory.asearch(questions[n], namespace=SPACE),
            "add": lambda n: memory.aadd(f"{world.text(n, 18)} {n}", namespace=SPACE, thread="t"),
            "delete": lambda n: memory.adelete(note_id(number // 3 + n), namespace=SPACE),
        }
        return {name: await gap(act, tape) for name, act in acts.items()}


async def gap(act: Callable[[int], Awaitable[object]], tape: Tape) -> tuple[float, float]:
    """Return the longest gap of the loop while something is done, and the longest engine call of it."""
    longest, calls = 0.0, [0.0]

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            last, before = time.perf_counter(), last
            longest = max(longest, (last - before) * 1000)

    await act(ROUNDS)  # loads what is loaded on first use
    for place in range(ROUNDS):
        tape.calls.clear()
        beating = asyncio.create_task(beat())
        await asyncio.sleep(0)  # it begins
        await act(place)
        await asyncio.sleep(0)
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        calls += [milliseconds(call) for call in list(tape.calls)]
    return longest, max(calls)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work_until_killed(sys.argv[2])
    main(*map(int, sys.argv[1:]))
