"""Work: evolve what is pending in many namespaces, for as long as it is wanted, beside other workers."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace

from ..errors import BudgetExceededError, ConfigurationError, StoreUnavailableError
from ..evolution.ask import OpenCall
from ..evolution.leases import HeldLease, take_lease
from ..evolution.waves import commit, failures
from ..fetch import get, note_pages
from ..filters import Condition, Conditions, check_count
from ..ids import new_operation
from ..journal.erasure import resume
from ..notes import Namespace, Note, check_namespace
from ..plans import EvolutionReport, WorkReport
from ..runtime import RULES, Runtime, resolve
from .evolve import PAGE, UNFINISHED, evolve_notes
from .writing import writing

log = logging.getLogger("amem_integrations")

SPACES = 64  # namespaces looked through at a time
EXCLUDED = 64  # threads that one query leaves out
SLICE = 0.2  # seconds from one look whether to stop to the next
LONGEST_REST = 300.0  # seconds, of a note or a thread
LONGEST_WAIT = 30.0  # seconds from one try to the next while model or store do not answer
IN_A_ROW = 3  # calls without an answer after which the model is taken to be down
TRIES = 2  # of a note in one run with `once`
REMEMBERED = 10_000  # notes that gave trouble
NEVER = float("inf")

Thread = tuple[Namespace, str | None]


async def work(
    runtime: Runtime,
    *,
    namespace: Sequence[str] | None = None,
    once: bool = False,
    concurrency: int = 4,
    budget: int | None = None,
    poll: float = 2.0,
    stop: Callable[[], bool] | None = None,
) -> WorkReport:
    """Evolve what is pending, the oldest first, until told to stop; return what was done.

    On a server any number of workers may do so at once: a thread is worked on by one of them at a time, and goes to
    another if that one dies, which finishes what the dead one has begun. A note without a usable answer is tried
    again later, alone, up to `MemoryConfig.max_attempts` times. While model or store do not answer, it waits.

    Args:
        namespace: Whose memory; None works for all of them.
        once: Return when nothing is pending that can be finished now.
        concurrency: Most calls of the model at once.
        budget: Most calls of the model; then it returns. None sets no limit. Rules are free.
        poll: Seconds from one look for new work to the next, where there was none.
        stop: Asked now and then; when it says True, what is under way is finished, and then the worker returns. So
            it does when the memory is closed.
            The asynchronous form can be cancelled too: what is under way is given back.

    Raises:
        ConfigurationError: An argument is out of its range, or a key is refused.
        StoreUnavailableError: Only with `once`: the store does not answer.
    """
    _check(concurrency, budget, poll, stop)
    # A batch at a time of each thread, so that `concurrency` alone says how many calls there are at once.
    config = replace(runtime.config, max_concurrency=1, on_model_error="log")
    left = NEVER if budget is None or runtime.model_name == RULES else budget
    worker = _Worker(
        runtime=replace(runtime, config=config), once=once, poll=poll, stop=stop, left=left
    )
    given = None if namespace is None else check_namespace(namespace)
    while not worker.stopped():
        try:
            jobs = await worker.jobs(given)
            if once and not jobs and not worker.waits:
                break
            moved = await worker.round(jobs, concurrency)
        except Exception as error:  # noqa: BLE001 - raised again, but for two
            moved = worker.troubled(error)
        if once and worker.trouble:
            break
        if not moved:
            await worker.rest()
    return worker.report


@dataclass(frozen=True, slots=True)
class _Job:
    """Notes of one thread that wait, oldest first."""

    namespace: Namespace
    notes: list[Note]

    @property
    def thread(self) -> Thread:
        return self.namespace, self.notes[0].thread


@dataclass(slots=True, kw_only=True)
class _Worker:
    """The state of one worker: the work it has done, and the threads that it leaves alone for a while.

    Threads and notes, by their ids, rest until a time of the monotonic clock.
    """

    runtime: Runtime
    once: bool
    poll: float
    stop: Callable[[], bool] | None
    left: float  # calls of the model that this run may still make
    name: str = field(default_factory=new_operation)
    report: WorkReport = field(default_factory=WorkReport)
    trouble: int = 0  # rounds in a row in which model or store did not answer
    resting: dict[Thread | str, float] = field(default_factory=dict)
    strikes: Counter[str] = field(default_factory=Counter)
    suspects: dict[str, int] = field(default_factory=dict)
    _silent: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stopped(self) -> bool:
        """Return whether the worker is to return: it was told so, the memory is closed, or its calls are spent."""
        return self.runtime.closing.is_set() or bool(self.stop and self.stop()) or self.left < 1

    @property
    def waits(self) -> bool:
        """Whether something was put off that is to be tried again in this run."""
        return any(until < NEVER for until in self.resting.values())

    async def jobs(self, given: Namespace | None) -> list[_Job]:
        """Return what waits, by thread, the oldest first; what rests is left out."""
        time_ = time.monotonic()
        self.resting = {key: until for key, until in self.resting.items() if until > time_}
        if len(self.strikes) + len(self.suspects) > REMEMBERED:
            self.strikes.clear()
            self.suspects.clear()
        where = (UNFINISHED, Condition("attempts", "$lt", self.runtime.config.max_attempts))
        spaces = [given] if given else await resolve(self.runtime.store.namespaces(where))
        if len(spaces) > SPACES:
            spaces = random.sample(spaces, SPACES)
        found = [job for space in spaces for job in await self._jobs_of(space, where)]
        return sorted(found, key=lambda job: job.notes[0].seq)

    async def _jobs_of(self, space: Namespace, where: Conditions) -> list[_Job]:
        threads = [key[1] for key in self.resting if not isinstance(key, str) and key[0] == space]
        others = [Condition("thread", "$ne", thread) for thread in threads[:EXCLUDED]]
        pages = note_pages(self.runtime.store, space, (*where, *others), size=PAGE, expired=False)
        by_thread: defaultdict[str | None, list[Note]] = defaultdict(list)
        for note in await anext(pages, []):
            if note.id not in self.resting and note.thread not in threads:
                by_thread[note.thread].append(note)
        return [_Job(space, notes) for notes in by_thread.values()]

    async def round(self, jobs: Sequence[_Job], concurrency: int) -> bool:
        """Do the jobs, and return whether anything came of it."""
        before, self._silent = self.report, 0
        await self.runtime.map(self._do, jobs, concurrency)
        moved = (self.report.done, self.report.failed) != (before.done, before.failed)
        self.trouble = self.trouble + 1 if self._silent and not moved else 0
        return moved

    def troubled(self, error: Exception) -> bool:
        """Count a round in which the store did not answer; nothing came of it.

        Raises:
            Exception: The error, if it is another one; but not once the memory is closed.
        """
        if self.runtime.closing.is_set():  # what was under way is found by the next worker
            log.debug("the memory was closed: %r", error)
            return False
        if self.once or not isinstance(error, StoreUnavailableError):
            raise error
        log.warning("%s; the worker waits for it", error)
        self.trouble += 1
        return False

    async def rest(self) -> None:
        """Wait until it is time to look again, longer each time while something does not answer."""
        seconds = self.poll if not self.trouble else min(LONGEST_WAIT, self._pause(self.trouble))
        end = time.monotonic() + seconds
        while not self.stopped() and (left := end - time.monotonic()) > 0:
            await resolve(self.runtime.pause(min(left, SLICE)))

    async def _do(self, job: _Job) -> None:
        if self.stopped() or self._silent >= IN_A_ROW:
            return
        async with self._holding(job) as (runtime, notes):
            if runtime is None:
                self.resting[job.thread] = self._until(self.poll)
                return
            done = await self._evolve(runtime, job.namespace, notes)
            if done.limited:
                self.resting[job.thread] = NEVER if self.once else self._until(LONGEST_REST)
            elif done.interrupted:
                handled = {*done.done, *done.failed}
                left = [note for note in notes if note.id not in handled]
                await self._look_closer(runtime, job, left[: runtime.config.batch_size])

    @asynccontextmanager
    async def _holding(self, job: _Job) -> AsyncIterator[tuple[Runtime | None, Sequence[Note]]]:
        """Hold a thread that other processes may work on too; yield a runtime to work by, and what is left to do.

        Where another worker holds the thread, there is no runtime. What a dead one has begun is finished first.
        """
        calling, lease = self.runtime, None
        if calling.store.remote:
            lease = await take_lease(calling, job.namespace, job.notes[0].thread, self.name)
            if lease is None:
                yield None, ()
                return
        try:
            notes = job.notes if lease is None else await self._left(job, lease)
            yield replace(calling, calling=lambda: self._calling(lease)), notes
        finally:
            if lease is not None:
                await lease.give_back()

    async def _left(self, job: _Job, lease: HeldLease) -> list[Note]:
        """Return the notes of a job that still wait, now that nobody else works on them."""
        if lease.was_left:
            async with writing(self.runtime, job.namespace) as writer:
                await resume(writer)
        stand = await get(self.runtime.store, job.namespace, [note.id for note in job.notes])
        attempts = {note.id: note.attempts for note in job.notes}
        return [n for n in stand if n.state != "done" and n.attempts == attempts[n.id]]

    @asynccontextmanager
    async def _calling(self, lease: HeldLease | None) -> AsyncIterator[None]:
        """Go round a call of the model: count it, and keep the lease alive meanwhile."""
        with self._lock:
            if self.left < 1:
                raise BudgetExceededError("the calls of this run are spent")
            self.left -= 1
        async with nullcontext() if lease is None else lease.kept_alive():
            yield

    async def _look_closer(self, runtime: Runtime, job: _Job, notes: Sequence[Note]) -> None:
        """Take notes alone about which the model did not answer together.

        One about which it is silent while it answers about others has failed, as if its answer were unusable; so has
        one that is silent again by itself after it had failed.
        """
        before, silent = self._answers(), dict[str, str]()
        for note in notes if len(notes) > 1 else ():
            if self.stopped():
                return
            done = await self._evolve(runtime, job.namespace, [note])
            if done.interrupted and not done.limited:
                silent[note.id] = done.interrupted
        if len(notes) == 1:
            before = self.suspects.pop(notes[0].id, before)
            silent[notes[0].id] = self.report.interrupted or ""
        if self._answers() > before or (len(notes) == 1 and notes[0].attempts):
            await self._mark_failed(job.namespace, notes, silent)
        else:
            self.suspects |= dict.fromkeys(silent, before)
            self.resting[job.thread] = self._until(min(LONGEST_WAIT, self._pause(self.trouble)))

    async def _mark_failed(
        self, namespace: Namespace, notes: Sequence[Note], reasons: Mapping[str, str]
    ) -> None:
        call = OpenCall(self.runtime, namespace, failed=dict(reasons))
        async with writing(self.runtime, namespace) as writer:
            await commit(call, writer, failures(call, notes))
        self._count(EvolutionReport(failed=reasons))

    async def _evolve(
        self, runtime: Runtime, namespace: Namespace, notes: Sequence[Note]
    ) -> EvolutionReport:
        before = self._answers()
        _, done = await evolve_notes(runtime, namespace, notes, stopped=self.stopped)
        with self._lock:
            if self._answers() > before:
                self._silent = 0
            if done.interrupted and not done.limited:
                self._silent += 1
        self._count(done)
        return done

    def _count(self, done: EvolutionReport) -> None:
        with self._lock:
            self.report += done
            for note_id in done.failed:
                self.strikes[note_id] += 1
                tries = self.strikes[note_id]
                if self.once:
                    self.resting[note_id] = NEVER if tries >= TRIES else 0.0
                else:
                    self.resting[note_id] = self._until(self._pause(tries + 2))

    def _answers(self) -> int:
        """Return how many calls the model has answered so far."""
        return int(self.runtime.usage.snapshot()["total"].get("calls", 0))

    def _pause(self, times: int) -> float:
        return min(LONGEST_REST, max(self.poll, SLICE) * 2.0**times)

    def _until(self, seconds: float) -> float:
        return time.monotonic() + seconds


def _check(
    concurrency: int, budget: int | None, poll: float, stop: Callable[[], bool] | None
) -> None:
    check_count("concurrency", concurrency, error=ConfigurationError)
    check_count("budget", 0 if budget is None else budget, 0, error=ConfigurationError)
    if not isinstance(poll, int | float) or not 0 < poll < NEVER:
        raise ConfigurationError(f"poll={poll!r} must be a number of seconds above 0")
    if stop is not None and not callable(stop):
        raise ConfigurationError(f"stop={stop!r} must be a function without arguments")
