"""A store whose writes fail, are applied in part, have their answers lost, and arrive again late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from amem_integrations.errors import StoreUnavailableError

WRITES = ("insert_notes", "swap_notes", "insert_records", "swap_records")
LOST, PARTIAL, UNANSWERED, REPEATED = 0.01, 0.02, 0.01, 0.06  # how often each happens to a write


@dataclass
class Network:
    """What lies between several clients and a store.

    Attributes:
        dice: Decide what happens to a write.
        is_faulty: Whether anything goes wrong at present.
        under_way: Copies of writes that arrive later.
    """

    dice: Random
    is_faulty: bool = True
    under_way: list[Callable[[], object]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def calm(self) -> None:
        """Let every copy that is under way arrive; from now on nothing goes wrong."""
        self.is_faulty = False
        while self.under_way:
            self.under_way.pop()()


class Faulty:
    """A view of a store across a network; the attributes that are no writes of points are passed through."""

    def __init__(self, store: Any, network: Network) -> None:
        self._store, self._network = store, network

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if name not in WRITES:
            return attribute

        def write(namespace: Any, points: Sequence[Any]) -> None:
            with self._network.lock:
                self._write(lambda some: attribute(namespace, some), list(points))

        return write

    def _write(self, apply: Callable[[list[Any]], object], points: list[Any]) -> None:
        network = self._network
        if not network.is_faulty:
            apply(points)
            return
        if network.under_way and network.dice.random() < REPEATED:
            network.under_way.pop(network.dice.randrange(len(network.under_way)))()
        luck = network.dice.random()
        if luck < LOST:
            if network.dice.random() < 0.5:  # the request arrives after its sender gave up
                network.under_way.append(lambda: apply(points))
            raise StoreUnavailableError("the request was lost")
        if luck < LOST + PARTIAL:
            apply([point for point in points if network.dice.random() < 0.5])
            raise StoreUnavailableError("a part of the request was applied")
        apply(points)
        if luck < LOST + PARTIAL + UNANSWERED:
            raise StoreUnavailableError("the answer was lost")
        if luck < LOST + PARTIAL + UNANSWERED + REPEATED:
            network.under_way.append(lambda: apply(points))
