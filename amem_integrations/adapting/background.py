"""Work in the background: one thread, and what waits for it."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Task = TypeVar("Task", bound=Hashable)

log = logging.getLogger("amem_integrations")

# How long `close` and the end of the interpreter wait for the step under way, in seconds.
PATIENCE = 1.0


class Background(Generic[Task]):
    """Does tasks in a thread, oldest first, a bounded step at a time; the thread is there while there are any.

    What a task works on must be stored already, since tasks are lost with the process: a task says where to
    look for work, such as a namespace in which notes are pending. Submit it again at the next start. May be
    used by several threads at once.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> note = memory.add("I moved to Oslo.", namespace=("ann",), evolve=False)
        >>> def step(namespace):
        ...     report = memory.evolve(namespace=namespace, limit=8)
        ...     return len(report.done) == 8  # there may be more
        >>> background = Background(step)
        >>> memory.on_close(background.close)
        >>> background.submit(("ann",))
        >>> background.flush(timeout=10)
        True
        >>> memory.get(note.id, namespace=("ann",)).state
        'done'
    """

    def __init__(self, step: Callable[[Task], bool | None]) -> None:
        """Start with nothing to do.

        Args:
            step: Does a bounded part of a task, and returns whether there is more of it to do. What it raises
                comes out of `flush`; what should be logged, it logs.
        """
        self._step = step
        self._changed = threading.Condition()
        self._waiting: dict[Task, None] = {}
        self._current: tuple[Task, ...] = ()
        self._error: BaseException | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        _all.add(self)

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more; what a step raises from then on is of no interest."""
        return self._closed

    def submit(self, task: Task) -> None:
        """Take a task, without waiting; one that waits already is done once. After `close` it is not taken."""
        with self._changed:
            if self._closed:
                return
            self._waiting[task] = None
            # The thread ends when there is nothing to do, and a forked child has none.
            if self._thread is None or not self._thread.is_alive():
                self._current = ()
                self._thread = threading.Thread(
                    target=self._run, name="amem-background", daemon=True
                )
                self._thread.start()

    def drop(self, unwanted: Callable[[Task], bool], timeout: float | None = PATIENCE) -> bool:
        """Forget the tasks that wait and are unwanted.

        Returns whether none of them was under way any more after `timeout` seconds.
        """
        with self._changed:
            for task in filter(unwanted, list(self._waiting)):
                del self._waiting[task]
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not any(map(unwanted, self._current)), timeout)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to do; return False if that took longer than `timeout` seconds.

        Raises:
            BaseException: The first that came out of a task since the last call.
        """
        with self._changed:
            done = self._changed.wait_for(self._idle, timeout)
            error, self._error = self._error, None
        if error is not None:
            raise error
        return done

    def close(self, timeout: float | None = PATIENCE) -> bool:
        """Take nothing more, leave what waits, and wait for the step under way.

        Returns whether that ended within `timeout` seconds. If it did not, it ends by itself, and what it
        raises then is of no interest to anybody. What is left is found in the store at the next start.
        """
        self._stop()
        if threading.current_thread() is self._thread:
            return False  # a step that closes its memory cannot wait for itself
        with self._changed:
            return self._changed.wait_for(self._idle, timeout)

    def _stop(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _idle(self) -> bool:
        return not self._waiting and not self._current

    def _run(self) -> None:
        while self._took_next():
            more, error = False, None
            try:
                more = bool(self._step(self._current[0]))
            except BaseException as raised:  # noqa: BLE001 - raised again by `flush`
                error = raised
            self._ended(error, more=more)

    def _ended(self, error: BaseException | None, *, more: bool) -> None:
        with self._changed:
            if self._closed and error is not None:
                log.debug("background work was stopped: %r", error)
            else:
                self._error = self._error or error
            if more and not self._closed:
                self._waiting.update(dict.fromkeys(self._current))
            self._current = ()
            self._changed.notify_all()

    def _took_next(self) -> bool:
        """Take the oldest task; without one, return False and let the thread end."""
        with self._changed:
            self._current = tuple(self._waiting)[:1]
            for task in self._current:
                del self._waiting[task]
            if not self._current:
                self._thread = None
                self._changed.notify_all()
            return bool(self._current)


_all: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let no thread work on while the interpreter is taken apart."""
    backgrounds = list(_all)
    for background in backgrounds:
        background._stop()  # noqa: SLF001 - so that they stop together
    end = time.monotonic() + PATIENCE
    for background in backgrounds:
        background.close(max(0.0, end - time.monotonic()))
