"""What a write that failed has left to be done, before anything is built on it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ..errors import StoreError

Step = Callable[[], None]


class Unsettled:
    """Steps that wait for the store to answer again, in order; safe to use from threads."""

    def __init__(self) -> None:
        """Start with none."""
        self._steps: deque[Step] = deque()
        self._lock = threading.Lock()

    def add(self, step: Step) -> None:
        """Have a step taken by the next `settle`."""
        self._steps.append(step)

    def surely(self, step: Step) -> None:
        """Take a step now, or should that fail, by the next `settle`."""
        try:
            step()
        except StoreError:
            self.add(step)
            raise

    def settle(self) -> None:
        """Take all steps; one that fails, and those after it, are left."""
        with self._lock:
            while self._steps:
                self._steps[0]()
                self._steps.popleft()
