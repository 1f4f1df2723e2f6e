"""The budget: what namespaces spend on chat models in a day (UTC), and the limits of that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from .errors import BudgetExceededError
from .ids import now
from .notes import Namespace

log = logging.getLogger("amem_integrations")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The cost of a model for one namespace, task and day (UTC): answered calls and their tokens."""

    day: date
    namespace: Namespace
    task: str
    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of prompts and replies together."""
        return self.input_tokens + self.output_tokens


@dataclass(slots=True)
class _Day:
    """The tokens and calls that one namespace has spent on one day, with the calls under way and the wish of a refused call."""

    day: date
    calls: int = 0
    tokens: int = 0
    wanted: int = 1
    is_logged: bool = False


class Budget:
    """Counts calls and tokens by namespace and day, and refuses a call that would go over a limit.

    What this process spends counts at once, from all its threads and tasks; what others have spent, as far as
    `take_over` was told of it.
    """

    def __init__(self, calls: int | None = None, tokens: int | None = None) -> None:
        """Set the limits of a day for each namespace; None: there is none."""
        self._calls, self._tokens = calls, tokens
        self._lock = threading.Lock()
        self._day, self._days = date.min, dict[Namespace, _Day]()  # of one day

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return (self._calls, self._tokens) != (None, None)

    def take_over(self, namespace: Namespace, entries: Iterable[LedgerEntry]) -> None:
        """Count what was spent today by the ledger of a namespace, which holds calls of other processes too."""
        with self._lock:
            today = self._today(namespace)
            spent = [entry for entry in entries if entry.day == today.day]
            today.calls = max(today.calls, sum(entry.calls for entry in spent))
            today.tokens = max(today.tokens, sum(entry.tokens for entry in spent))

    def refusal(self, namespace: Namespace, tokens: int | None = None) -> str | None:
        """Return why there is no room for a call of so many tokens, or (None) like the last one that was refused today.

        None: there is room.
        """
        with self._lock:
            today = self._today(namespace)
            return self._limit_reached(namespace, today, tokens or today.wanted)

    @contextmanager
    def call(self, namespace: Namespace, tokens: int) -> Iterator[list[int]]:
        """Count a call while it is made; yield a list for its cost in tokens, which stays empty without an answer.

        Args:
            namespace: For whose notes the call is.
            tokens: What it costs at least, about.

        Raises:
            BudgetExceededError: It would go over a limit.
        """
        with self._lock:
            today = self._today(namespace)
            if refusal := self._limit_reached(namespace, today, tokens):
                today.wanted = tokens
                raise BudgetExceededError(refusal)
            today.calls, today.tokens = today.calls + 1, today.tokens + tokens
        costs = list[int]()
        try:
            yield costs
        finally:
            with self._lock:
                today.calls += len(costs) - 1
                today.tokens += sum(costs) - tokens

    def _today(self, namespace: Namespace) -> _Day:
        day = now().date()
        if day != self._day:
            self._day, self._days = day, {}
        return self._days.setdefault(namespace, _Day(day))

    def _limit_reached(self, namespace: Namespace, today: _Day, tokens: int) -> str | None:
        """Return which limit leaves no room for a call of so many tokens, in words, and log that once a day."""
        limits = (
            ("calls", self._calls, today.calls, 1),
            ("tokens", self._tokens, today.tokens, tokens),
        )
        for unit, limit, spent, wanted in limits:
            if limit is None or spent + wanted <= limit:
                continue
            refusal = (
                f"namespace {namespace!r} has spent {spent} of its {limit} {unit} of {today.day} (UTC), and the next call "
                f"would go over MemoryConfig.daily_{unit}={limit}; evolve() goes on the next day, or with a higher limit"
            )
            if not today.is_logged:
                log.warning("%s; notes that wait stay pending, and are found as they are", refusal)
            today.is_logged = True
            return refusal
        return None
