"""Telling a caller how far a long piece of work is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]


class Meter:
    """Counts what is done of a total, and tells a function of it, if there is one."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        """Start at zero; nothing is told before something is done."""
        self._progress = progress
        self._total = total
        self.done = 0

    def add(self, number: int) -> None:
        """Count so many more; what came in meanwhile makes the total larger."""
        self.done += number
        self._total = max(self._total, self.done)
        if self._progress is not None and number:
            self._progress(self.done, self._total)
