"""What an adapter does when the memory does not answer: go on without it, and say so."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from amem_integrations import ConfigurationError, ModelUnavailableError, StoreUnavailableError

log = logging.getLogger("langchain_amem")

OnError = Literal["log", "raise"]

# Everything else is a mistake to be fixed, such as a wrong setting or a missing user id.
PASSING = (StoreUnavailableError, ModelUnavailableError, TimeoutError)


_lock = threading.Lock()
_total: Counter[str] = Counter()


def failures() -> dict[str, int]:
    """Return how often the memory did not answer in this process, by what an adapter was doing.

    Keys: `recall`, `remember`, `evolve`, and so on; also messages that could not be stored as they are.
    """
    with _lock:
        return dict(_total)


class Failures:
    """Logs and counts what passes by itself; with `on_error="raise"` raises it instead."""

    def __init__(self, on_error: OnError = "log") -> None:
        """Start at zero."""
        if on_error not in ("log", "raise"):
            raise ConfigurationError(f"on_error={on_error!r} must be 'log' or 'raise'")
        self._on_error = on_error
        self._counts: Counter[str] = Counter()

    @contextmanager
    def tolerated(self, doing: str) -> Iterator[list[str]]:
        """Leave the block early, with a warning, when the store or a model does not answer.

        Yields a list in which the reason is found afterwards.
        """
        reasons: list[str] = []
        try:
            yield reasons
        except PASSING as error:
            if self._on_error == "raise":
                raise
            self.note(doing, error)
            reasons.append(f"{doing}: {error}")

    def note(self, doing: str, error: BaseException) -> None:
        """Log and count one failure."""
        with _lock:
            self._counts[doing] += 1
            _total[doing] += 1
        log.warning("%s failed and is skipped: %s", doing, error)

    def snapshot(self) -> dict[str, int]:
        """Return how often each thing failed so far."""
        with _lock:
            return dict(self._counts)
