"""What a call to the memory costs in the engine alone: its engine calls are recorded and repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...stores import EdgeStore

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Tape:
    """The engine calls that an embedded store makes, from now on.

    A call to the memory followed by `replay` measures both in the same moment, so their ratio holds on a
    busy machine too.
    """

    def __init__(self, store: EdgeStore) -> None:
        self.calls: list[Call] = []
        for shard in (store._notes, store._history):  # noqa: SLF001 - the engine is private
            engine: Any = shard
            engine._shard = _Recorder(engine._shard, self.calls)  # noqa: SLF001

    def time(self, operation: Callable[[], object]) -> tuple[float, float]:
        """Return the milliseconds of an operation on the memory, and of its engine calls alone."""
        self.calls.clear()
        whole = milliseconds(operation)
        return whole, milliseconds(self.replay)

    def replay(self) -> None:
        """Make the recorded calls again, with nothing round them."""
        for method, args, options in self.calls:
            method(*args, **options)


class _Recorder:
    """Stands before an engine and records the calls that it passes on."""

    def __init__(self, engine: Any, calls: list[Call]) -> None:  # noqa: ANN401 - the engine's type is private
        self._engine, self._calls = engine, calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the engine's method, recording."""
        method = getattr(self._engine, name)

        def record(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it takes
            self._calls.append((method, args, options))
            return method(*args, **options)

        return record


def milliseconds(operation: Callable[[], object]) -> float:
    """Return how long an operation takes."""
    start = time.perf_counter()
    operation()
    return (time.perf_counter() - start) * 1000
