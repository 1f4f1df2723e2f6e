"""The long work of the command line: storing and finishing many notes, so that it can be stopped.

What is stored stays stored, and what is finished stays finished, whenever Ctrl-C comes; the same command
goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..config import MemoryConfig
from ..engine.evolution import batches
from ..engine.intake import check
from ..errors import InvalidInputError
from ..memory import AgenticMemory
from ..notes import Namespace, Note, NoteInput
from ..plans import EvolutionReport
from .looks import Tell

STORED_AT_ONCE = 64  # a second or so of encoding
PAGE = 256


def check_all(items: Sequence[NoteInput]) -> None:
    """Do nothing if all of these can be stored, so that none is if one cannot.

    Raises:
        InvalidInputError: One cannot; the message says which.
    """
    config = MemoryConfig()
    for number, item in enumerate(items, start=1):
        try:
            check(item, config)
        except InvalidInputError as error:
            raise InvalidInputError(f"item {number}: {error}") from error


def store(
    memory: AgenticMemory, namespace: Namespace, items: Sequence[NoteInput], tell: Tell
) -> None:
    """Store notes raw, some at a time."""
    for start in range(0, len(items), STORED_AT_ONCE):
        some = items[start : start + STORED_AT_ONCE]
        memory.add_many(some, namespace=namespace, evolve=False)
        tell("storing", start + len(some), len(items))


def finish(memory: AgenticMemory, namespace: Namespace, tell: Tell) -> EvolutionReport:
    """Construct, link and evolve what is unfinished, as `evolve` would, and say how far it is."""
    config = MemoryConfig()
    waiting = [note for note in scan(memory, namespace) if note.state != "done"]
    work = batches(waiting, config.batch_size)
    report, done = EvolutionReport(), 0
    for start in range(0, len(work), config.max_concurrency):
        wave = [note for batch in work[start : start + config.max_concurrency] for note in batch]
        report += _steps(memory, namespace, [note.id for note in wave])
        done += len(wave)
        tell("linking", done, len(waiting))
    return report


def _steps(memory: AgenticMemory, namespace: Namespace, ids: Sequence[str]) -> EvolutionReport:
    made = memory.construct(ids, namespace=namespace)
    report = EvolutionReport(constructed=tuple(made["constructed"]), failed=made["failed"])
    return report + memory.commit(memory.propose(ids, namespace=namespace))


def scan(memory: AgenticMemory, namespace: Namespace) -> Iterator[Note]:
    """Return all notes of a namespace, oldest first."""
    after = -1
    while True:
        where = {"seq": {"$gt": after}}
        page = memory.get_all(namespace=namespace, where=where, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq
