"""Fail open: a memory that is down must not take the conversation with it."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from amem_integrations import ModelUnavailableError, StoreUnavailableError

log = logging.getLogger("llamaindex_amem")

OnError = Literal["log", "raise"]

# What passes by itself. Anything else is a mistake that would be there next time as well, and raises.
PASSING = (StoreUnavailableError, ModelUnavailableError, TimeoutError)


class Failures:
    """Logs and counts outages; with `on_error="raise"` raises them as well."""

    def __init__(self, on_error: OnError = "log") -> None:
        self._on_error = on_error
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextmanager
    def tolerated(self, doing: str) -> Iterator[None]:
        """Leave the block early, with a warning, when the store or a model does not answer."""
        try:
            yield
        except PASSING as error:
            self.note(doing, error)
            if self._on_error == "raise":
                raise

    def note(self, doing: str, error: BaseException) -> None:
        """Log and count one failure."""
        with self._lock:
            self._counts[doing] += 1
        log.warning("%s failed and is skipped: %s", doing, error)

    def snapshot(self) -> dict[str, int]:
        """Return how often each thing failed so far."""
        with self._lock:
            return dict(self._counts)
