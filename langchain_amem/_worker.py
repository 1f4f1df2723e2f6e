"""Evolution in the background: one thread, and a set of namespaces that have something pending."""

from __future__ import annotations

import logging
import threading

from amem_integrations import AgenticMemory, AmemError

from ._failures import Failures

log = logging.getLogger("langchain_amem")

Namespace = tuple[str, ...]


class Worker:
    """Evolves what is pending in the namespaces it is told of, one after the other.

    Nothing is lost when the process dies: the notes are stored before the worker hears of them, and a
    worker that starts looks for what an earlier one left (`everything`).
    """

    def __init__(self, memory: AgenticMemory, failures: Failures) -> None:
        """Start with nothing to do; the thread starts with the first task."""
        self._memory = memory
        self._failures = failures
        self._wanted: dict[Namespace | None, None] = {}
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._error: AmemError | TypeError | None = None
        self._thread: threading.Thread | None = None

    def everything(self) -> None:
        """Ask for all namespaces."""
        self._want(None)

    def submit(self, namespace: Namespace) -> None:
        """Ask for one namespace; asking again before it is done costs nothing."""
        self._want(namespace)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to do; return False if that took longer than `timeout`.

        Raises:
            AmemError: What made an evolution fail since the last call, if waiting would not mend it.
            TypeError: A port of the memory is asynchronous; evolve with `write="inline"`.
        """
        with self._changed:
            done = self._changed.wait_for(self._idle, timeout)
            error, self._error = self._error, None
        if error is not None:
            raise error
        return done

    def close(self, timeout: float | None = None) -> bool:
        """Finish what is under way and stop; return False if that took longer than `timeout`."""
        with self._changed:
            self._closed = True
        return self.flush(timeout)

    def _idle(self) -> bool:
        return not self._wanted and not self._busy

    def _want(self, namespace: Namespace | None) -> None:
        with self._changed:
            if self._closed:
                return
            self._wanted[namespace] = None
            self._changed.notify_all()
            # It ends when there is nothing to do, and a forked child has none.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="amem", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._wanted:
                    self._thread = None
                    self._changed.notify_all()
                    return
                namespace = next(iter(self._wanted))
                del self._wanted[namespace]
                self._busy = True
            try:
                self._evolve(namespace)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _evolve(self, namespace: Namespace | None) -> None:
        try:
            with self._failures.tolerated("evolve"):
                self._memory.evolve(namespace=namespace)
        except (AmemError, TypeError) as error:
            # A TypeError says that a port has only an asynchronous form, which is bound to the user's loop.
            log.error("evolution in the background stopped, the notes wait: %s", error)  # noqa: TRY400 - said in full
            self._error = error
