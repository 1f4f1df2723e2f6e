"""What the model of a memory costs: calls and tokens, and what of its answers was of no use."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from .ports import Completion


class Usage:
    """Thread-safe counters of one model, readable as a dict at any time."""

    def __init__(self, model: str) -> None:
        """Start at zero; `model` is the name it is recorded by in notes and history."""
        self._model = model
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
        """Add to the counters of a task, such as `rejected_replies`, `refused`, `unavailable`."""
        with self._lock:
            self._tasks[task].update(amounts)

    def snapshot(self) -> dict[str, Mapping[str, Any]]:
        """Return the counters of each task, their sums under `"total"`, and under `"models"` those by model."""
        with self._lock:
            tasks = {task: dict(counts) for task, counts in self._tasks.items()}
        total: Counter[str] = Counter()
        for counts in tasks.values():
            total.update(counts)
        models = {self._model: dict(total)} if tasks else {}
        return {**tasks, "total": dict(total), "models": models}
