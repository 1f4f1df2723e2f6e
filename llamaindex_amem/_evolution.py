"""Linking and evolving what was written: in the caller's time, or in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from amem_integrations import AgenticMemory, EvolutionReport

from ._events import AMemEvolutionEvent, dispatcher
from ._failures import PASSING, Failures, log

# Turns that wait for a thread. What comes on top is found again in the store, once these are done.
CAPACITY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Notes to finish; without ids, all that is unfinished in the namespace."""

    memory: AgenticMemory
    namespace: tuple[str, ...]
    failures: Failures
    ids: tuple[str, ...] = ()


@dispatcher.span
def finish(job: Job) -> EvolutionReport:
    """Construct, link and evolve the notes of a job, and return what was done."""
    memory, space, ids = job.memory, job.namespace, job.ids
    report = EvolutionReport()
    with job.failures.tolerated("evolve"):
        if ids:
            made = memory.construct(ids, namespace=space)
            report = _reported(made) + memory.commit(memory.propose(ids, namespace=space))
        else:
            report = memory.evolve(namespace=space)
    return _announced(report)


@dispatcher.span
async def afinish(job: Job) -> EvolutionReport:
    """Asynchronous twin of `finish`."""
    memory, space, ids = job.memory, job.namespace, job.ids
    report = EvolutionReport()
    with job.failures.tolerated("evolve"):
        if ids:
            made = await memory.aconstruct(ids, namespace=space)
            plan = await memory.apropose(ids, namespace=space)
            report = _reported(made) + await memory.acommit(plan)
        else:
            report = await memory.aevolve(namespace=space)
    return _announced(report)


def _reported(made: dict[str, Any]) -> EvolutionReport:
    return EvolutionReport(constructed=tuple(made["constructed"]), failed=dict(made["failed"]))


def _announced(report: EvolutionReport) -> EvolutionReport:
    dispatcher.event(AMemEvolutionEvent(report=report.to_dict()))
    return report


class Background:
    """A thread that finishes notes, a namespace at a time, while there are any.

    Notes are stored before they come here, so nothing is lost when the process ends: the job under way
    is finished, and what is left is picked up at the next start.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="amem-evolution")
        self._idle = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._left: dict[tuple[str, ...], Job] = {}
        self._current: tuple[str, ...] | None = None
        self._error: BaseException | None = None

    def submit(self, job: Job) -> None:
        """Take a job; never blocks."""
        with self._idle:
            if len(self._jobs) < self._capacity:
                self._jobs.append(job)
            else:
                everything = replace(job, ids=())
                self._left[job.namespace] = everything
            if self._current is None:
                self._next()

    def flush(self, timeout: float | None = None) -> None:
        """Return when every job is done.

        Raises:
            TimeoutError: That took longer than `timeout` seconds.
            AmemError: A job failed for a reason that does not pass by itself.
        """
        with self._idle:
            if not self._idle.wait_for(lambda: self._current is None, timeout):
                raise TimeoutError(f"notes are still being evolved after {timeout} seconds")
            error, self._error = self._error, None
        if error is not None:
            raise error

    def drop(self, namespace: tuple[str, ...]) -> None:
        """Forget the jobs of a namespace, and return when none of them is under way."""
        with self._idle:
            self._jobs = deque(job for job in self._jobs if job.namespace != namespace)
            self._left.pop(namespace, None)
            self._idle.wait_for(lambda: self._current != namespace)

    def _next(self) -> None:
        """Start on the oldest job, together with the later ones of its namespace; the lock is held."""
        if not self._jobs and self._left:
            self._jobs.append(self._left.pop(next(iter(self._left))))
        self._current = None
        if not self._jobs:
            return
        job = self._merged()
        self._current = job.namespace
        try:
            self._pool.submit(finish, job).add_done_callback(self._done)
        except RuntimeError:
            # The interpreter is ending: the notes are stored, the next start picks them up.
            self._jobs.clear()
            self._current = None

    def _merged(self) -> Job:
        first = self._jobs.popleft()
        if not first.ids:
            return first
        same = [job for job in self._jobs if job.ids and _group(job) == _group(first)]
        self._jobs = deque(job for job in self._jobs if job not in same)
        return replace(first, ids=tuple(i for job in (first, *same) for i in job.ids))

    def _done(self, future: Future[EvolutionReport]) -> None:
        error = future.exception()
        if error is not None and not isinstance(error, PASSING):
            log.error("evolution failed: %s", error, exc_info=error)
        with self._idle:
            self._error = self._error or error
            self._next()
            self._idle.notify_all()


def _group(job: Job) -> tuple[object, ...]:
    return job.namespace, job.failures


_lock = threading.Lock()
_backgrounds: WeakKeyDictionary[AgenticMemory, Background] = WeakKeyDictionary()


def background_of(memory: AgenticMemory) -> Background:
    """Return the thread that evolves this memory; there is one, however many users it has."""
    with _lock:
        return _backgrounds.setdefault(memory, Background())
