"""Fail open: a memory that is down must not take the conversation with it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self

from ..errors import (
    AmemError,
    ConfigurationError,
    EmbedderMismatchError,
    MissingExtraError,
    NamespaceError,
    StoreClosedError,
)

OnError = Literal["log", "raise"]

# Mistakes that no chat should hide: nothing says whose memory it is, or the memory cannot be used at all.
ALWAYS = (NamespaceError, StoreClosedError, EmbedderMismatchError, MissingExtraError)

# A memory that failed only after this many seconds (a time-out, with repeats) is then left alone for ten times as
# long, but never for longer than a minute.
SLOW = 0.5
REST = 10.0
LONGEST_REST = 60.0


class Failures:
    """Counts and logs what the user of a chat cannot mend, so that no answer is lost by it.

    That is any error of the memory, of its store, its embedder and its models, such as a time-out or a refused key; and,
    where a callback is called, any error of the callback. A missing user id and a closed memory raise (`ALWAYS`). May be
    used by several threads at once.

    Example:
        >>> import logging
        >>> failures = Failures(logging.getLogger("my_adapter"))
        >>> def recall(question):
        ...     with failures.tolerated("recall"):
        ...         raise TimeoutError("too slow")
        ...     return []
        >>> recall("Where does Ann live?")
        []
        >>> failures.snapshot()
        {'recall': 1}
    """

    def __init__(self, log: logging.Logger, on_error: OnError = "log") -> None:
        """Start at zero.

        Args:
            log: Where warnings go.
            on_error: `"log"` skips what fails, with a warning; `"raise"` counts and raises it.

        Raises:
            ConfigurationError: `on_error` is something else.
        """
        if on_error not in ("log", "raise"):
            raise ConfigurationError(f"on_error={on_error!r} must be 'log' or 'raise'")
        self._log, self._on_error = log, on_error
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._rests_until: dict[str, float] = {}

    @contextmanager
    def tolerated(self, doing: str, *, callback: bool = False) -> Iterator[list[str]]:
        """Leave the block early, with a warning, when the memory does not work.

        Yields a list in which the reason is found afterwards.

        Args:
            doing: Names what is done, in the log and in the counts.
            callback: A function of the application is called, which may raise anything.
        """
        reasons: list[str] = []
        start = time.monotonic()
        try:
            yield reasons
        except ALWAYS:
            raise
        except Exception as error:
            if not callback and not isinstance(error, AmemError | TimeoutError):
                raise
            self.failed(doing, error)
            reasons.append(f"{doing}: {error}")
            now = time.monotonic()
            if now - start >= SLOW:
                self._rests_until[doing] = now + min(LONGEST_REST, REST * (now - start))

    def failed(self, doing: str, error: Exception | None) -> None:
        """Log and count an error, if there is one; with `on_error="raise"` raise the error."""
        if error is None:
            return
        if self._on_error == "raise":
            self.count(doing, error)
            raise error
        self.count(doing, error)
        self._log.warning("%s failed and is skipped: %s", doing, error)

    def resting(self, doing: str) -> bool:
        """Return whether to do without, as not every message can wait for the same time-out; count it."""
        if time.monotonic() >= self._rests_until.get(doing, 0.0):
            return False
        self.count(doing)
        return True

    def count(self, doing: str, error: BaseException | None = None) -> None:  # noqa: ARG002 - for adapters
        """Count one failure; without an error it was not tried again, so soon after a time-out."""
        with self._lock:
            self._counts[doing] += 1

    def __deepcopy__(self, memo: object) -> Self:
        """Return the counter itself: a copy of what uses it counts there too."""
        return self

    def snapshot(self) -> dict[str, int]:
        """Return how often each thing failed so far."""
        with self._lock:
            return dict(self._counts)
