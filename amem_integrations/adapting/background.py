"""Work in the background: one thread, and what waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Task = TypeVar("Task", bound=Hashable)


class Background(Generic[Task]):
    """Does tasks in a thread, one after the other, oldest first; the thread is there while there are any.

    Tasks are lost with the process, so a task should say where to look for work, such as a namespace in
    which notes are pending: submit it again at the next start. May be used by several threads at once.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> note = memory.add("I moved to Oslo.", namespace=("ann",), evolve=False)
        >>> background = Background(lambda space: memory.evolve(namespace=space))
        >>> background.submit(("ann",))
        >>> background.flush(timeout=10)
        True
        >>> memory.get(note.id, namespace=("ann",)).state
        'done'
    """

    def __init__(self, work: Callable[[Task], object], *, daemon: bool = True) -> None:
        """Start with nothing to do.

        Args:
            work: Does a task. What it raises comes out of `flush`; what should be logged, it logs.
            daemon: Whether the process may end in the middle of a task. False has it wait for the one
                under way, which should be short then; what waits is left.
        """
        self._work, self._daemon = work, daemon
        self._changed = threading.Condition()
        self._waiting: dict[Task, None] = {}
        self._current: tuple[Task, ...] = ()
        self._error: BaseException | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, task: Task) -> None:
        """Take a task, without waiting; one that waits already is done once."""
        with self._changed:
            if self._closed or self._ending():
                return
            self._waiting[task] = None
            # It ends when there is nothing to do, and a forked child has none.
            if self._thread is None or not self._thread.is_alive():
                self._current = ()
                self._thread = threading.Thread(
                    target=self._run, name="amem-background", daemon=self._daemon
                )
                self._thread.start()

    def drop(self, unwanted: Callable[[Task], bool]) -> None:
        """Forget the tasks that wait and are unwanted, and return when none such is under way."""
        with self._changed:
            for task in filter(unwanted, list(self._waiting)):
                del self._waiting[task]
            self._changed.notify_all()
            self._changed.wait_for(lambda: not any(map(unwanted, self._current)))

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

    def close(self, timeout: float | None = None) -> bool:
        """Take nothing more, and finish what is left, as `flush` does."""
        with self._changed:
            self._closed = True
        return self.flush(timeout)

    def _idle(self) -> bool:
        return not self._waiting and not self._current

    def _ending(self) -> bool:
        """Return whether the interpreter ends and waits for this thread."""
        return not self._daemon and not threading.main_thread().is_alive()

    def _run(self) -> None:
        while self._took_next():
            error: BaseException | None = None
            try:
                self._work(self._current[0])
            except BaseException as raised:  # noqa: BLE001 - raised again by `flush`
                error = raised
            with self._changed:
                self._error = self._error or error
                self._current = ()
                self._changed.notify_all()

    def _took_next(self) -> bool:
        """Take the oldest task; without one, return False and let the thread end."""
        with self._changed:
            if self._ending():
                self._waiting.clear()
            self._current = tuple(self._waiting)[:1]
            for task in self._current:
                del self._waiting[task]
            if not self._current:
                self._thread = None
                self._changed.notify_all()
            return bool(self._current)
