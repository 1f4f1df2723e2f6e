"""How many threads BLAS takes while a model of this process multiplies matrices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Condition
from typing import Any

from ..errors import needed


class Queue:
    """Lets one thread in after the other, in the order in which they came."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._tickets: list[object] = []

    def __enter__(self) -> None:
        """Wait until it is this thread's turn."""
        ticket = object()
        with self._changed:
            self._tickets.append(ticket)
            try:
                self._changed.wait_for(lambda: self._tickets[0] is ticket)
            except BaseException:
                self._tickets.remove(ticket)
                self._changed.notify_all()
                raise

    def __exit__(self, *error: object) -> None:
        """Let the next thread in."""
        with self._changed:
            self._tickets.pop(0)
            self._changed.notify_all()


# BLAS has one number of threads for the whole process. A plain lock would go to a thread that encodes many documents
# again and again, and a query would wait for all of them.
_queue = Queue()


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Let BLAS take so many threads meanwhile, and what it took before afterwards; None changes nothing.

    Only one thread of the process is in here at a time, unless `threads` is None.
    """
    if threads is None:
        yield
        return
    with _queue, libraries().limit(limits=threads, user_api="blas"):
        yield


@cache
def libraries() -> Any:  # noqa: ANN401 - a ThreadpoolController
    """Return what sets the threads of the BLAS libraries that are loaded; that of NumPy is.

    Raises:
        MissingExtraError: threadpoolctl is not installed.
    """
    return needed("threadpoolctl", "minilm").ThreadpoolController()


def _after_fork() -> None:
    """Let a forked child begin without the threads of its parent that wait or multiply."""
    global _queue  # noqa: PLW0603
    _queue = Queue()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
