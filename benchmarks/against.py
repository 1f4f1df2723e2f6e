"""Times of this checkout as shares of another's, in one run.

Each checkout builds a memory of some size in a folder by its own public methods, with a model and an embedder that answer at
once: neither is what is compared. Then both take turns, each time in a process of its own that does everything some times. The
first times warm the process up and do not count, and texts are made before the clock starts. A process is killed in the
middle of a batch, and the next one is timed while it opens the folder. Bytes are those of a closed folder beyond an empty one,
by note.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np

SPACE = ("bench",)
THREAD = 20  # notes
WARM = 1 / 2  # so many times as often is each done first in a turn, which does not count
# How often each counts in a turn, and the most that is wanted as a share of the other checkout's; of a search by the number of notes.
ASKED: dict[str, tuple[int, Any]] = {
    "search": (40, {1_000: 0.8, 10_000: 1.0}),
    "raw add": (40, 1 / 2),
    "evolving add": (8, 1 / 2),
    "batch of 20": (2, 3 / 4),
    "correction": (8, 1 / 20),
    "delete": (8, 1 / 20),
    "undo": (6, 1.0),
    "bytes a note": (1, 0.6),
    "open after kill": (1, 2 / 3),
}
WORDS = (
    "sister Lena wedding Porto June cake baker Lisbon train Madrid nuts allergy spring kiln pottery class barn roof "
    "repaired sold cello lesson teacher chess club Oslo winter harbour boat ferry ticket garden tomatoes market violin "
    "doctor appointment Monday Friday passport visa bicycle stolen insurance letter neighbour dog walk lake swimming"
)
# Runs in a process that imports the packages of one checkout, and nothing of this package.
Seconds = dict[str, list[float]]


class QuickModel:
    """A chat model that answers at once: attributes for each note, links to three candidates, and a sentence for one."""

    name = "quick"

    def generate(self, request: Any) -> Any:  # noqa: ANN401 - of whichever checkout
        """Return the answer to a request."""
        from amem_integrations.ports import Completion  # noqa: PLC0415 - that of the checkout

        shown, near = request.inputs["notes"], request.inputs.get("candidates", ())
        notes: list[dict[str, Any]] = [{"id": one["alias"]} for one in shown]
        for note, one in zip(notes, shown, strict=True):
            if request.task == "construct":
                words = one["content"].split()[:3]
                note |= {"c": f"About {one['content'][:60]}", "k": words, "t": ["life"]}
            elif near:
                link = {"rel": "same topic", "why": "alike", "s": "medium"}
                note["links"] = [{"to": to["alias"], **link} for to in near[:3]]
                note["updates"] = [{"to": near[0]["alias"], "c": f"Later: {one['content'][:50]}"}]
        return Completion(text=json.dumps({"notes": notes}), input_tokens=1, output_tokens=1)


class QuickEmbedder:
    """An embedder that answers at once: a text is the sum of the directions of its words."""

    name, dimensions = "quick", 384

    def __init__(self) -> None:
        """Draw the directions, the same ones in every process."""
        random = np.random.default_rng(0)
        self._directions = random.standard_normal((4096, self.dimensions), dtype=np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - an array
        """Return a vector of length 1 for each text."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Any:  # noqa: ANN401 - an array
        """Return a vector of length 1."""
        words = [crc32(word) % len(self._directions) for word in text.lower().encode().split()]
        total = np.add.reduce(self._directions[words])
        return total / np.sqrt(total @ total)


def texts() -> Iterator[str]:
    """Yield statements of 18 words, each another one, the same ones in every process."""
    for number in count():
        yield f"Item {number} {' '.join(random.Random(number).choices(WORDS.split(), k=16))}"


def opened(folder: str) -> Any:  # noqa: ANN401 - of whichever checkout
    """Return the memory in a folder."""
    from amem_integrations import AgenticMemory, MemoryConfig  # noqa: PLC0415

    config = MemoryConfig(min_gate_similarity=-1)
    return AgenticMemory.open(folder, model=QuickModel(), embedder=QuickEmbedder(), config=config)


def build(folder: str, number: int) -> None:
    """Make a memory of so many notes, all of them evolved, and an empty one beside it."""
    from amem_integrations import NoteInput  # noqa: PLC0415

    said = texts()
    opened(f"{folder}-empty").close()
    with opened(folder) as memory:
        for start in range(0, number, THREAD):
            notes = [NoteInput(content=next(said), thread=f"t{start}") for _ in range(THREAD)]
            memory.add_many(notes, namespace=SPACE)


def work(folder: str, number: int, turn: int) -> Seconds:
    """Do everything some times, and return the milliseconds of each."""
    from amem_integrations import AmemError, NoteInput  # noqa: PLC0415

    fresh = (f"{text} {turn}" for text in texts())
    times: Seconds = defaultdict(list)
    with opened(folder) as memory:
        notes = memory.get_all(namespace=SPACE, limit=number)
        first = turn * 97 % (number // 2)
        some = iter(notes[first :: max(1, number // 400)])
        every = (
            change.id
            for note in [*notes[first:], *notes[:first]]
            for change in memory.history(note.id, namespace=SPACE)
            if change.kind == "evolve" and getattr(change, "state", "on") == "on"
        )
        evolved = list(islice(every, 10 * ASKED["undo"][0]))
        many = (
            [NoteInput(content=next(fresh), thread=f"many{turn}") for _ in range(THREAD)]
            for _ in count()
        )
        actions: dict[str, tuple[Iterable[Any], Callable[[Any], object]]] = {
            "search": (
                (text[8:60] for text in fresh),
                lambda text: memory.search(text, namespace=SPACE, k=10),
            ),
            "raw add": (
                fresh,
                lambda text: memory.add(text, namespace=SPACE, thread="raw", evolve=False),
            ),
            "undo": (evolved, lambda change: memory.undo(change, namespace=SPACE)),
            "evolving add": (
                fresh,
                lambda text: memory.add(text, namespace=SPACE, thread=f"add{turn}"),
            ),
            "batch of 20": (many, lambda notes: memory.add_many(notes, namespace=SPACE)),
            "correction": (
                zip(some, fresh, strict=False),
                lambda both: memory.update(both[0].id, namespace=SPACE, content=both[1]),
            ),
            "delete": (some, lambda note: memory.delete(note.id, namespace=SPACE)),
        }
        for name, (given, action) in actions.items():
            often = ASKED[name][0]
            warm = round(WARM * often)
            for one in given:
                with suppress(AmemError):  # such as of a change that was undone before
                    times[name].append(milliseconds(partial(action, one)))
                if len(times[name]) == warm + often:
                    break
            del times[name][:warm]
    return times


def be_killed(folder: str, turn: int) -> None:
    """Add batches of 20 notes, and die in the middle of one."""
    from amem_integrations import NoteInput  # noqa: PLC0415

    fresh = (f"{text} killed {turn}" for text in texts())
    memory = opened(folder)

    def batch() -> None:
        notes = [NoteInput(content=next(fresh), thread=f"killed{turn}") for _ in range(THREAD)]
        memory.add_many(notes, namespace=SPACE)

    batch()
    lasts = milliseconds(batch) / 1000
    threading.Timer(lasts * (0.2 + 0.15 * (turn % 5)), os.kill, (os.getpid(), 9)).start()
    while True:
        batch()


def opening(folder: str) -> float:
    """Return the milliseconds that opening takes, without those of importing modules."""
    with TemporaryDirectory() as other:
        opened(other).close()
    start = time.perf_counter()
    memory = opened(folder)
    taken = (time.perf_counter() - start) * 1000
    memory.close()
    return taken


def milliseconds(action: Callable[[], object]) -> float:
    """Return how long something takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def bytes_of(folder: Path) -> int:
    """Return what a folder takes on the disk; the engine's files have holes."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def run_in(checkout: Path, *arguments: object) -> Any:  # noqa: ANN401 - JSON
    """Run this file with the packages of a checkout, and return what the process prints."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, "PYTHONPATH": str(checkout), **threads}
    file = str(Path(__file__).resolve())
    command = [sys.executable, "-P", file, "--in-checkout", *map(str, arguments)]
    done = subprocess.run(command, check=False, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
    if done.returncode not in (0, -9):
        raise RuntimeError(f"{checkout} failed at {arguments!r}")
    return json.loads(done.stdout or "null")


def compare(checkouts: Sequence[Path], number: int, rounds: int) -> list[Seconds]:
    """Return for each checkout what everything takes in a memory of so many notes, by turns."""
    found: list[Seconds] = [defaultdict(list) for _ in checkouts]
    with TemporaryDirectory(prefix="amem-against-") as place:
        for turn in range(-1, rounds):
            for side, checkout in enumerate(checkouts):
                folder = Path(place, str(side))
                if turn < 0:
                    run_in(checkout, "build", folder, number, 0)
                    grown = bytes_of(folder) - bytes_of(Path(f"{folder}-empty"))
                    found[side]["bytes a note"].append(grown / number)
                    continue
                for name, times in run_in(checkout, "work", folder, number, turn).items():
                    found[side][name] += times
                run_in(checkout, "be killed", folder, number, turn)
                found[side]["open after kill"].append(
                    run_in(checkout, "open", folder, number, turn)
                )
    return found


def show(number: int, other: Seconds, own: Seconds) -> None:
    """Print a table: the medians of the other checkout and of this one, their ratio, and whether the aim is met."""
    print(f"\n{number:,} notes\n{'':18}{'other':>10}{'this':>10}{'ratio':>8}{'aim':>8}")
    for name, (_, aim) in ASKED.items():
        before, now = median(other[name]), median(own[name])
        most = aim.get(number) if isinstance(aim, dict) else aim
        verdict = (
            "" if most is None else f"{most:8.2f}  {'met' if now <= most * before else 'MISSED'}"
        )
        print(f"{name:18}{before:10.2f}{now:10.2f}{now / before:8.3f}{verdict}", flush=True)


def in_checkout(what: str, folder: str, number: int, turn: int) -> object:
    """Do one thing in the process of a checkout, and return what is to be printed."""
    if what == "work":
        return work(folder, number, turn)
    if what == "open":
        return opening(folder)
    return be_killed(folder, turn) if what == "be killed" else build(folder, number)


def _against(given: Namespace) -> None:
    print("milliseconds, and bytes; medians. The embedded engine, a model that answers at once")
    both = [given.checkout.resolve(), Path(__file__).parents[1]]
    for number in map(int, given.sizes.split(",")):
        show(number, *compare(both, number, given.rounds))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    from benchmarks.command import parser_of, run  # noqa: PLC0415 - not in the process of a checkout

    parser = parser_of("against", __doc__)
    add = parser.add_argument
    add("checkout", type=Path, help="folder of the checkout that this one is compared with")
    add("--sizes", default="1000,10000", help="numbers of notes, separated by commas")
    add("--rounds", type=int, default=5, help="how often each checkout has its turn")
    return run(lambda: parser, _against, arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-checkout"]:
        done = in_checkout(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        sys.stdout.write(json.dumps(done))
    else:
        sys.exit(main())
