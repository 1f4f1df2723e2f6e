"""The background worker of a memory: one thread that evolves, namespace by namespace, what turns have left pending."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable

from .errors import AmemError, ModelUnavailableError, StoreUnavailableError
from .notes import Namespace

log = logging.getLogger("amem_integrations")

PATIENCE = 1.0  # seconds that `close` and the end of the interpreter wait for the step under way
PASSING = (ModelUnavailableError, StoreUnavailableError, TimeoutError)


class Worker:
    """Works on namespaces in a thread, in the order in which they came; the thread is there while there are any.

    Nothing is lost with the process: the notes are stored, and pending notes are found again. May be used by several
    threads at once.
    """

    def __init__(self, work: Callable[[Namespace | None], object]) -> None:
        """Start with nothing to do.

        Args:
            work: Evolves what is pending in a namespace, or (None) in all of them.
        """
        self._work = work
        self._changed = threading.Condition()
        self._waiting: dict[Namespace | None, None] = {}
        self._is_busy = self._is_closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        _workers.add(self)

    def submit(self, namespace: Namespace | None) -> None:
        """Take a namespace, without waiting; one that waits already is done once. A closed worker takes nothing."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting[namespace] = None
            # The thread ends when there is nothing to do, and a forked child has none.
            if self._thread is None or not self._thread.is_alive():
                self._is_busy = False
                self._thread = threading.Thread(target=self._run, name="amem-worker", daemon=True)
                self._thread.start()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to do; return False if that took longer than `timeout` seconds.

        Raises:
            AmemError: The first error since the last call that waiting does not mend, such as a refused key.
        """
        with self._changed:
            done = self._changed.wait_for(self._is_idle, timeout)
            error, self._error = self._error, None
        if error is not None:
            raise error
        return done

    def close(self, timeout: float | None = PATIENCE) -> bool:
        """Take nothing more, leave what waits, and wait for the step under way.

        Return whether the step has ended within `timeout` seconds. What is left is found in the store at the next start.
        """
        self.stop()
        if threading.current_thread() is self._thread:
            return False  # a step that closes its memory cannot wait for itself
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout)

    def stop(self) -> None:
        """Take nothing more, and leave what waits."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_busy

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = bool(self._waiting)
                if not self._is_busy:
                    self._thread = None
                    self._changed.notify_all()
                    return
                namespace = next(iter(self._waiting))
                del self._waiting[namespace]
            try:
                self._work(namespace)
            except BaseException as error:  # noqa: BLE001 - logged, and raised again by `flush`
                self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if self._is_closed:
            log.debug("the background worker was stopped: %r", error)
        elif isinstance(error, PASSING):
            log.warning("%s; what is pending evolves later", error)
        else:
            if isinstance(error, AmemError):
                log.error("the background worker failed: %s", error)
            else:
                log.error("the background worker failed", exc_info=error)
            self._error = self._error or error


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let no thread work on while the interpreter is taken apart."""
    workers = list(_workers)
    for worker in workers:
        worker.stop()  # all of them before the first is waited for
    end = time.monotonic() + PATIENCE
    for worker in workers:
        worker.close(max(0.0, end - time.monotonic()))
