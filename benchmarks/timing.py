"""Times of operations that take turns in one run: their ratios hold on a busy machine too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Any

from amem_integrations import AgenticMemory

Times = Sequence[float]  # milliseconds
Operation = Callable[[int], object]  # is given the number of the round


def milliseconds(operation: Callable[[], object]) -> float:
    """Return how long an operation takes."""
    start = time.perf_counter()
    operation()
    return (time.perf_counter() - start) * 1000


def by_turns(
    operations: Mapping[str, Operation],
    rounds: int,
    timed: Callable[[Callable[[], object]], float] = milliseconds,
) -> dict[str, list[float]]:
    """Return the milliseconds of each operation, by name; in every round each has its turn."""
    times: dict[str, list[float]] = {name: [] for name in operations}
    for number in range(rounds):
        for name, operation in operations.items():
            times[name].append(timed(partial(operation, number)))
    return times


def print_ratio(name: str, base: Times, times: Times, aim: float = inf, grace: float = 0) -> None:
    """Print a line: the medians of two series of milliseconds, and the ratio of the second to the first.

    Args:
        name: What was measured.
        base: What the times are compared with.
        times: The times.
        aim: The greatest ratio that is wanted.
        grace: Milliseconds that the times may take beyond that.
    """
    least, own = median(base), median(times)
    met = "" if aim == inf else "  aim met" if own <= aim * least + grace else "  AIM MISSED"
    print(f"{name:36}{least:9.2f} ms{own:9.2f} ms{own / least:8.2f}{met}")


class Tape:
    """The calls that a memory in a folder makes to Qdrant's engine, to be made again alone."""

    def __init__(self, memory: AgenticMemory) -> None:
        self.calls: list[partial[Any]] = []
        store: Any = memory._runtime.store  # noqa: SLF001 - the engine is private
        for shard in (store._notes, store._records):  # noqa: SLF001
            shard._shard = _Recorder(shard._shard, self.calls)  # noqa: SLF001

    def time(self, operation: Callable[[], object]) -> tuple[float, float]:
        """Return the milliseconds of an operation on the memory, and of its engine calls made again at once."""
        self.calls.clear()
        return milliseconds(operation), milliseconds(lambda: [call() for call in self.calls])


class _Recorder:
    def __init__(self, engine: Any, calls: list[partial[Any]]) -> None:  # noqa: ANN401
        self._engine, self._calls = engine, calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def record(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            call = partial(getattr(self._engine, name), *args, **options)
            self._calls.append(call)
            return call()

        return record
