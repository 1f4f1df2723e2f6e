"""Linking and evolving what was written: in the caller's time, or in a thread of its own."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from amem_integrations import AgenticMemory, EvolutionReport, adapting

from ._events import AMemEvolutionEvent, dispatcher
from ._failures import Failures, log

# Notes of one user that wait for a thread. Where there are more, the store is asked for what is unfinished.
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
            report = _reported(made) + memory.commit(
                memory.propose(ids, namespace=space), namespace=space
            )
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
            report = _reported(made) + await memory.acommit(plan, namespace=space)
        else:
            report = await memory.aevolve(namespace=space)
    return _announced(report)


def _reported(made: dict[str, Any]) -> EvolutionReport:
    return EvolutionReport(constructed=tuple(made["constructed"]), failed=dict(made["failed"]))


def _announced(report: EvolutionReport) -> EvolutionReport:
    dispatcher.event(AMemEvolutionEvent(report=report.to_dict()))
    return report


class Background(adapting.Background[Job]):
    """A thread that finishes notes, those of a namespace together.

    Notes are stored before they come here, so nothing is lost when the process ends: the job under way
    is finished, and what is left is picked up at the next start.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(self._finish)
        self._capacity = capacity
        self._lock = threading.Lock()
        self._ids: dict[Job, tuple[str, ...]] = {}

    def submit(self, task: Job) -> None:
        """Take a job, without waiting; it is done with those of its kind that wait already."""
        kind = replace(task, ids=())
        with self._lock:
            # No ids stand for all that is unfinished, whatever is added to them.
            before = self._ids.get(kind, task.ids)
            ids = tuple(dict.fromkeys((*before, *task.ids))) if before and task.ids else ()
            self._ids[kind] = ids if len(ids) <= self._capacity else ()
        super().submit(kind)

    def forget(self, namespace: tuple[str, ...]) -> None:
        """Drop the jobs of a namespace, and return when none of them is under way."""
        self.drop(lambda kind: kind.namespace == namespace)
        with self._lock:
            self._ids = {k: ids for k, ids in self._ids.items() if k.namespace != namespace}

    def _finish(self, kind: Job) -> None:
        with self._lock:
            ids = self._ids.pop(kind, ())
        try:
            finish(replace(kind, ids=ids))
        except Exception as error:
            if not isinstance(error, adapting.PASSING):
                log.exception("evolution failed: %s", error)
            raise


_lock = threading.Lock()
_backgrounds: WeakKeyDictionary[AgenticMemory, Background] = WeakKeyDictionary()


def background_of(memory: AgenticMemory) -> Background:
    """Return the thread that evolves this memory; there is one, however many users it has."""
    with _lock:
        return _backgrounds.setdefault(memory, Background())
