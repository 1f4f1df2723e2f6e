"""Fail open: a memory that is down must not take the conversation with it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Generic, Literal, Self, TypeVar

from ..errors import (
    AmemError,
    ConfigurationError,
    EmbedderMismatchError,
    ModelUnavailableError,
    StoreError,
)

OnError = Literal["log", "raise"]

# What the user of a chat cannot mend in that moment: a store that is down, full or damaged, a model that does
# not answer. Anything else is wrong from the start, and raises.
PASSING = (StoreError, ModelUnavailableError, TimeoutError)
MISTAKES = (EmbedderMismatchError,)
# Once the chat model has answered, its answer must not be thrown away, whatever is wrong.
AFTER_ANSWER = (AmemError, TimeoutError)

# What failed only after this many seconds (a time-out, with repeats) is then left alone for ten times as
# long, but never for longer than a minute.
SLOW = 0.5
REST = 10.0
LONGEST_REST = 60.0

# What is tried again in one turn, and what is kept at most; beyond it the oldest is given up.
AT_ONCE = 8
MOST_WAITING = 1000

T = TypeVar("T")


class Failures:
    """Counts and logs what the user of a chat cannot mend, so that the chat goes on without the memory.

    That is a store or a model that does not answer, a full disk, a time-out (`PASSING`). All other errors are
    mistakes to be fixed, such as a wrong setting or a missing user id, and are raised, as long as no answer
    can be lost by it. May be used by several threads at once.

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
    def tolerated(self, doing: str, *, answered: bool = False) -> Iterator[list[str]]:
        """Leave the block early, with a warning, when the memory does not work.

        Yields a list in which the reason is found afterwards.

        Args:
            doing: Names what is done, in the log and in the counts.
            answered: The chat model has answered already: every `AmemError` is tolerated, a revoked key too.
        """
        reasons: list[str] = []
        start = time.monotonic()
        try:
            yield reasons
        except AFTER_ANSWER as error:
            passing = isinstance(error, PASSING) and not isinstance(error, MISTAKES)
            if not (passing or answered):
                raise
            if self._on_error == "raise":
                self.count(doing, error)
                raise
            self.note(doing, error)
            reasons.append(f"{doing}: {error}")
            now = time.monotonic()
            if now - start >= SLOW:
                self._rests_until[doing] = now + min(LONGEST_REST, REST * (now - start))

    def resting(self, doing: str) -> bool:
        """Return whether to do without, as not every message can wait for the same time-out; count it."""
        if time.monotonic() >= self._rests_until.get(doing, 0.0):
            return False
        self.count(doing)
        return True

    def note(self, doing: str, error: BaseException) -> None:
        """Count one failure, and log that its work is skipped."""
        self.count(doing, error)
        self._log.warning("%s failed and is skipped: %s", doing, error)

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


class Waiting(Generic[T]):
    """What could not be stored, oldest first, until a later turn of anybody tries again.

    Each thing has a key, so that it waits once. May be used by several threads at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Hashable, T] = {}

    def take(self) -> dict[Hashable, T]:
        """Return the oldest of it, a bounded number, and keep it no longer."""
        with self._lock:
            return {key: self._kept.pop(key) for key in list(islice(self._kept, AT_ONCE))}

    def keep(self, left: Mapping[Hashable, T]) -> int:
        """Keep what is left of what was taken, or is new; return how many things are given up for it."""
        with self._lock:
            kept = {**left, **self._kept}
            self._kept = dict(islice(kept.items(), max(0, len(kept) - MOST_WAITING), None))
            return len(kept) - len(self._kept)

    def __deepcopy__(self, memo: object) -> Self:
        """Return the object itself: what waits is stored once, by whichever copy."""
        return self
