"""The long work of the command line: storing and finishing many notes, so that it can be stopped.

What is stored stays stored, and what is finished stays finished, whenever Ctrl-C comes; the same command
goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..config import MemoryConfig
from ..engine.intake import check
from ..errors import InvalidInputError, ModelUnavailableError
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


def finish(
    memory: AgenticMemory,
    namespace: Namespace | None,
    tell: Tell,
    *,
    upgrade: bool = False,
    retry: bool = False,
) -> EvolutionReport:
    """Do what `evolve` does, and say how far it is.

    Raises:
        ModelUnavailableError: The model did not answer; what was finished stays.
    """
    report = memory.evolve(
        namespace=namespace,
        upgrade=upgrade,
        retry=retry,
        progress=lambda done, total: tell("linking", done, total),
    )
    if report.interrupted:
        raise ModelUnavailableError(report.interrupted)
    return report


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
