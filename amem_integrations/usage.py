"""What the models cost: calls and tokens per task, and what of their answers was of no use."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping

from .ports import Completion


class Usage:
    """Thread-safe counters, readable as a dict at any time."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._tasks: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def completed(self, task: str, completion: Completion) -> None:
        """Count a call that was answered."""
        self.count(
            task,
            calls=1,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
        )

    def count(self, task: str, **amounts: int) -> None:
        """Add to the counters of a task, such as `rejected_replies`, `dropped`, `unavailable`."""
        with self._lock:
            self._tasks[task].update(amounts)

    def snapshot(self) -> dict[str, Mapping[str, int]]:
        """Return the counters of each task, and their sums under `"total"`."""
        with self._lock:
            tasks = {task: dict(counts) for task, counts in self._tasks.items()}
        total: Counter[str] = Counter()
        for counts in tasks.values():
            total.update(counts)
        return {**tasks, "total": dict(total)}
