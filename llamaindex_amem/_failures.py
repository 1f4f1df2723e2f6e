"""Fail open: a memory that is down must not take the conversation with it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from amem_integrations import ConfigurationError, ModelUnavailableError, StoreUnavailableError

log = logging.getLogger("llamaindex_amem")

OnError = Literal["log", "raise"]

# What passes by itself. Anything else is a mistake that would be there next time as well, and raises.
PASSING = (StoreUnavailableError, ModelUnavailableError, TimeoutError)


# What failed only after this many seconds (a time-out, with repeats) is then left alone for ten times as
# long, but never for longer than a minute.
SLOW = 0.5
REST = 10.0
LONGEST_REST = 60.0


class Failures:
    """Logs and counts outages; with `on_error="raise"` raises them as well."""

    def __init__(self, on_error: OnError = "log") -> None:
        if on_error not in ("log", "raise"):
            raise ConfigurationError(f"on_error={on_error!r} must be 'log' or 'raise'")
        self._on_error = on_error
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._rests_until: dict[str, float] = {}

    @contextmanager
    def tolerated(self, doing: str) -> Iterator[None]:
        """Leave the block early, with a warning, when the store or a model does not answer."""
        start = time.monotonic()
        try:
            yield
        except PASSING as error:
            self.note(doing, error)
            if self._on_error == "raise":
                raise
            now = time.monotonic()
            if now - start >= SLOW:
                self._rests_until[doing] = now + min(LONGEST_REST, REST * (now - start))

    def resting(self, doing: str) -> bool:
        """Return whether to do without, as not every message can wait for the same time-out; count it."""
        if time.monotonic() >= self._rests_until.get(doing, 0.0):
            return False
        with self._lock:
            self._counts[doing] += 1
        return True

    def note(self, doing: str, error: BaseException) -> None:
        """Log and count one failure."""
        with self._lock:
            self._counts[doing] += 1
        log.warning("%s failed and is skipped: %s", doing, error)

    def snapshot(self) -> dict[str, int]:
        """Return how often each thing failed so far."""
        with self._lock:
            return dict(self._counts)
