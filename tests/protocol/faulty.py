"""Three clients of the stand-in for a server at once, over a bad network, and killed now and then.

Writes are lost, applied in part, have their answers lost, and arrive again late. Every client adds, corrects, deletes,
undoes, evolves and clears at random, as in `kills`; what was acknowledged is checked as it is there, once every
late copy has arrived and the memory was opened again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from protocol.kills import SETTINGS, CopyingModel, Report, Worker
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory, StoreUnavailableError
from amem_integrations.testing import HashEmbedder

CLIENTS = 3
WRITES = ("insert_notes", "swap_notes", "insert_records", "swap_records", "remove_decisions")
# How often each happens to a write.
LOST, PARTIAL, UNANSWERED, REPEATED, KILLED = 0.01, 0.02, 0.01, 0.06, 0.01


class KilledError(BaseException):
    """The process of a client is killed."""


@dataclass
class Network:
    """What lies between several clients and a store.

    Attributes:
        dice: Decide what happens to a write.
        is_faulty: Whether anything goes wrong at present.
        under_way: Copies of writes that arrive later.
        kills: How often a client was killed.
    """

    dice: Random
    is_faulty: bool = True
    under_way: list[Callable[[], object]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    kills: int = 0

    def calm(self) -> None:
        """Let every copy that is under way arrive; from now on nothing goes wrong."""
        self.is_faulty = False
        while self.under_way:
            self.under_way.pop(self.dice.randrange(len(self.under_way)))()

    def write(self, apply: Callable[[list[Any]], object], points: list[Any]) -> None:
        """Do a write, or what the network makes of the write.

        Raises:
            StoreUnavailableError: The writer cannot know what was applied.
            KilledError: The writer is killed, before or after the write.
        """
        if not self.is_faulty:
            apply(points)
            return
        if self.under_way and self.dice.random() < REPEATED:
            self.under_way.pop(self.dice.randrange(len(self.under_way)))()
        luck = self.dice.random()
        if luck < KILLED:
            self.kills += 1
            if self.dice.random() < 0.5:  # the request arrives after its sender died
                self.under_way.append(lambda: apply(points))
            raise KilledError
        luck -= KILLED
        if luck < LOST:
            if self.dice.random() < 0.5:  # the request arrives after its sender gave up
                self.under_way.append(lambda: apply(points))
            raise StoreUnavailableError("the request was lost")
        if luck < LOST + PARTIAL:
            apply([point for point in points if self.dice.random() < 0.5])
            raise StoreUnavailableError("a part of the request was applied")
        apply(points)
        if luck < LOST + PARTIAL + UNANSWERED:
            raise StoreUnavailableError("the answer was lost")
        if luck < LOST + PARTIAL + UNANSWERED + REPEATED:
            self.under_way.append(lambda: apply(points))


class Faulty:
    """A view of a store across a network; the attributes that are no writes of points are passed through."""

    def __init__(self, store: Any, network: Network) -> None:
        self._store, self._network = store, network

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if name not in WRITES:
            return attribute

        def write(namespace: Any, points: Sequence[Any]) -> None:
            time.sleep(0)  # another client may be first
            with self._network.lock:
                self._network.write(lambda some: attribute(namespace, some), list(points))

        return write


class Client:
    """One client, which is started anew when it is killed."""

    def __init__(self, open_: Callable[[], AgenticMemory], network: Network, told: int, name: str):
        self._open, self._network, self._told, self._name = open_, network, told, name
        self.memories = list[AgenticMemory]()

    def work(self, acts: int) -> None:
        """Do so many things at random."""
        worker = self._started()
        for _ in range(acts):
            try:
                worker.act(StoreUnavailableError)
            except KilledError:
                worker = self._started()

    def _started(self) -> Worker:
        memory = self._open()
        memory._runtime = replace(
            memory._runtime, store=Faulty(memory._runtime.store, self._network)
        )
        self.memories.append(memory)
        return Worker(memory, self._told, f"{self._name}-{len(self.memories)}")


def run(folder: Path, rounds: int, acts: int, seed: int = 0) -> Report:
    """Let three clients do so many things each at once, that many times, and return what was found."""
    report = Report()
    with serving(FakeQdrant()) as fake:
        for number in range(rounds):
            path, network = folder / f"{seed}-{number}.journal", Network(Random(f"{seed}-{number}"))

            def opened(collection: str = f"c{number}") -> AgenticMemory:
                return AgenticMemory.open(
                    fake.url,
                    collection=collection,
                    model=CopyingModel(),
                    embedder=HashEmbedder(),
                    config=SETTINGS,
                )

            with _journal(path) as told:
                clients = [Client(opened, network, told, f"{seed}-{n}") for n in range(CLIENTS)]
                threads = [threading.Thread(target=one.work, args=(acts,)) for one in clients]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            network.calm()
            for memory in (memory for one in clients for memory in one.memories):
                memory.close()
            with opened() as memory:
                report.check(memory, path, f"round {number}")
            report.kills += network.kills
    return report


@contextmanager
def _journal(path: Path) -> Iterator[int]:
    told = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        yield told
    finally:
        os.close(told)
