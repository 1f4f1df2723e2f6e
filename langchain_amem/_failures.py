"""What an adapter does when the memory does not answer: go on without it, and say so."""

from __future__ import annotations

import logging
import threading
from collections import Counter

from amem_integrations import adapting
from amem_integrations.adapting import OnError

__all__ = ["Failures", "OnError", "failures", "log"]

log = logging.getLogger("langchain_amem")

_lock = threading.Lock()
_total: Counter[str] = Counter()


def failures() -> dict[str, int]:
    """Return how often the memory did not answer in this process, by what an adapter was doing.

    Keys: `recall`, `remember`, `evolve`, and so on; also messages that could not be stored as they are.
    """
    with _lock:
        return dict(_total)


class Failures(adapting.Failures):
    """Counts for itself, and for the whole process."""

    def __init__(self, on_error: OnError = "log") -> None:
        """Start at zero."""
        super().__init__(log, on_error)

    def count(self, doing: str) -> None:
        """Count one failure."""
        super().count(doing)
        with _lock:
            _total[doing] += 1
