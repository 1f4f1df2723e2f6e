"""Telling a caller how far a long piece of work is."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .errors import InvalidInputError

log = logging.getLogger("amem_integrations")

Progress = Callable[[int, int], None]


def reporter(progress: bool | Progress) -> Progress | None:
    """Return the function to call with how far it is: the caller's, one that logs, or none."""
    if callable(progress):
        return progress
    if not isinstance(progress, bool):
        raise InvalidInputError(f"progress={progress!r} must be True, False or a function")
    return (lambda done, total: log.info("%d of %d notes", done, total)) if progress else None


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
