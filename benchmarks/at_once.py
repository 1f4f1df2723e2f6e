"""How long recalls take when many are made at once, and beside evolution in the background.

A memory in a folder, with the default embedder and without a language model. What is compared is measured by turns in one run.

    python -m benchmarks.at_once [ROUNDS [THREADS OF THE EMBEDDER; 0: AS MANY AS BLAS TAKES]]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from statistics import quantiles
from tempfile import TemporaryDirectory
from threading import Event, Thread

from amem_integrations import AgenticMemory, Embedder, MiniLmEmbedder, NoteInput

from .timing import milliseconds, print_ratio

NAMESPACE = ("ann",)
NOTES, AT_ONCE, BESIDE, BATCH = 300, 20, 60, 20
AIM_AT_ONCE, AIM_BESIDE = 1.5, 3.0
SPEECH = (
    "sister Lena wedding Porto June cake baker Lisbon train Madrid nuts allergy spring kiln pottery class barn "
    "roof repaired sold cello lesson teacher chess club Oslo winter harbour boat ferry ticket garden tomatoes"
)

_random, _number = random.Random(0), count()


def main(embedder: Embedder, rounds: int = 5) -> None:
    """Measure and print."""
    with TemporaryDirectory() as folder, AgenticMemory.open(folder, embedder=embedder) as memory:
        add(memory, NOTES)
        one_by_one, at_once, alone, beside = (list[float]() for _ in range(4))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in range(rounds):
                one_by_one.append(sum(recall(memory) for _ in range(AT_ONCE)))
                recalls = lambda: list(pool.map(recall, [memory] * AT_ONCE))  # noqa: E731
                at_once.append(milliseconds(recalls))
        for _ in range(rounds):
            alone.append(quantiles([recall(memory) for _ in range(BESIDE)], n=20)[-1])
            with evolving(memory):
                beside.append(quantiles([recall(memory) for _ in range(BESIDE)], n=20)[-1])
    print_ratio(f"{AT_ONCE} recalls: one by one, at once", one_by_one, at_once, AIM_AT_ONCE)
    print_ratio("95th: alone, beside evolution", alone, beside, AIM_BESIDE)


def recall(memory: AgenticMemory) -> float:
    """Return the milliseconds that the recall of a new question takes."""
    question = text(9)
    return milliseconds(lambda: memory.recall(question, namespace=NAMESPACE))


@contextmanager
def evolving(memory: AgenticMemory) -> Iterator[None]:
    """Add notes and evolve them in a thread, meanwhile."""
    stop = Event()

    def work() -> None:
        while not stop.is_set():
            add(memory, BATCH)

    worker = Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def add(memory: AgenticMemory, number: int) -> None:
    """Add notes and evolve them."""
    notes = [NoteInput(content=text(25), thread="chat") for _ in range(number)]
    memory.add_many(notes, namespace=NAMESPACE)


def text(words: int) -> str:
    """Return a text that has not been there before."""
    return f"{next(_number)} {' '.join(_random.choices(SPEECH.split(), k=words))}"


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    threads = given[1] if len(given) > 1 else 1
    main(MiniLmEmbedder(threads=threads or None), *given[:1])
