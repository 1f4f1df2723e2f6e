"""What must not grow with a memory, and what must not stop an event loop, printed as ratios.

- A delete in a memory of many notes, against one in a memory of 100.
- Opening after a kill, against opening what was closed.
- The longest time for which an event loop stands still while a memory of many notes is searched, added to and
  deleted from, against the longest single call of the engine meanwhile.

Both sides of a ratio are measured in the same run, so it holds on a busy machine too.

    python benchmarks/bounded.py [number of notes]
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
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from amem_integrations import AgenticMemory
from amem_integrations.stores import EdgeStore
from benchmarks.evaluation.scaling.measure import Tape, milliseconds
from benchmarks.evaluation.scaling.synthetic import (
    DIMENSIONS,
    SPACE,
    KnownVectors,
    World,
    note_id,
)

NOTES, FEW = 10_000, 100
LINKS_OUT = 3
BATCH = 250
ROUNDS = 20
OPENINGS = 5
AIM = 3.0  # most that a delete, or an open after a kill, may take beyond the other


def opened(folder: str | Path) -> AgenticMemory:
    """Return the memory in a folder."""
    return AgenticMemory.open(folder, embedder=KnownVectors())


def fill(folder: Path, number: int, links: int) -> None:
    """Put notes with some links each into a new memory."""
    notes = World(links=links).notes(number)
    store = EdgeStore(folder, dimensions=DIMENSIONS, embedder=KnownVectors().name)
    while batch := list(islice(notes, BATCH)):
        store.insert(SPACE, batch, [])
    store.close()


def deletes(few: Path, many: Path, number: int) -> tuple[float, float]:
    """Return the milliseconds of a delete in each of two memories, measured by turns."""
    times: tuple[list[float], list[float]] = ([], [])
    with opened(few) as small, opened(many) as large:
        for place in range(ROUNDS):
            for memory, size, taken in ((small, FEW, times[0]), (large, number, times[1])):
                gone = note_id(size // 2 + place)
                taken.append(milliseconds(lambda m=memory, i=gone: m.delete(i, namespace=SPACE)))
    return median(times[0]), median(times[1])


def opens(folder: Path) -> tuple[float, float]:
    """Return the milliseconds of opening what was closed, and of opening after a kill."""
    clean, killed = [], []
    for _ in range(OPENINGS):
        clean.append(milliseconds(lambda: opened(folder).close()))
        command = [sys.executable, __file__, "--work", str(folder)]
        done = subprocess.run(command, check=False)  # noqa: S603 - this file
        if done.returncode != -signal.SIGKILL:
            raise RuntimeError(f"the process ended with {done.returncode} instead of a kill")
        killed.append(milliseconds(lambda: opened(folder).close()))
    return median(clean), median(killed)


def work_until_killed(folder: str) -> None:
    """Add notes with links, delete one, correct one, and die without closing."""
    memory = opened(folder)
    notes = [memory.add(f"It is {time.time_ns()}", namespace=SPACE, thread="t") for _ in range(8)]
    memory.delete(notes[2].id, namespace=SPACE)
    memory.update(notes[4].id, namespace=SPACE, content="It is another")
    os.kill(os.getpid(), signal.SIGKILL)


class Heartbeat:
    """A task that wants to run all the time, and knows for how long it could not."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def beat(self) -> None:
        """Go on until cancelled."""
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            last, before = time.perf_counter(), last
            self.longest = max(self.longest, (last - before) * 1000)


async def gap(act: Callable[[int], Awaitable[object]], tape: Tape) -> tuple[float, float]:
    """Return the longest gap while something is done, and the longest engine call of it, in milliseconds."""
    heart, calls = Heartbeat(), [0.0]
    await act(ROUNDS)  # loads what is loaded on first use
    beating = asyncio.create_task(heart.beat())
    for place in range(ROUNDS):
        tape.calls.clear()
        await act(place)
        calls += [milliseconds(call) for call in list(tape.calls)]
        await asyncio.sleep(0)
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating
    return heart.longest, max(calls)


async def gaps(folder: Path, number: int) -> dict[str, tuple[float, float]]:
    """Return for each operation the longest gap of the loop, and the longest engine call."""
    world, embedder = World(links=LINKS_OUT), KnownVectors()
    questions = [world.text(topic, 9) for topic in range(ROUNDS + 1)]
    embedder.known |= {text: world.query(topic) for topic, text in enumerate(questions)}
    with AgenticMemory.open(folder, embedder=embedder) as memory:
        tape = Tape(memory._runtime.store)  # noqa: SLF001

        def search(place: int) -> Awaitable[object]:
            return memory.asearch(questions[place], namespace=SPACE)

        def add(place: int) -> Awaitable[object]:
            text = f"{world.text(place, 18)} {time.time_ns()}"
            return memory.aadd(text, namespace=SPACE, thread="t")

        def delete(place: int) -> Awaitable[object]:
            return memory.adelete(note_id(number // 3 + place), namespace=SPACE)

        return {act.__name__: await gap(act, tape) for act in (search, add, delete)}


def report(name: str, base: float, value: float, aim: float | None = None) -> None:
    """Print a ratio."""
    ratio = value / base
    met = "" if aim is None else "  aim met" if ratio <= aim else f"  AIM OF {aim:.0f} MISSED"
    print(f"{name:34}{base:9.2f} ms{value:9.2f} ms{ratio:8.2f}{met}")


def main(number: int) -> None:
    """Build two memories, measure, and print."""
    with TemporaryDirectory(prefix="amem-bench-") as folder:
        few, many, linked = (Path(folder) / name for name in ("few", "many", "linked"))
        fill(
            few, FEW, 0
        )  # what is linked to a note is rewritten with it: here it is nothing in both
        fill(many, number, 0)
        fill(linked, number, LINKS_OUT)
        report(f"delete, {FEW} and {number} notes", *deletes(few, many, number), AIM)
        report("open, closed and killed", *opens(linked), AIM)
        for name, (longest, call) in asyncio.run(gaps(linked, number)).items():
            report(f"{name}, engine call and longest gap", call, longest)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work_until_killed(sys.argv[2])
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NOTES)
