"""Work: evolve what is pending in many namespaces, beside other workers, or in a thread of this process.

`work` is the worker: on a server it takes a lease for each thread of notes on which it works. `Background` runs such work
in a thread of this process.

A lease saves calls of the model, and nothing more: without one, two workers would do the same work, and the decisions of
the first would stand. So a lease is read and written without a second look at who else might be writing.
"""

from __future__ import annotations

import asyncio
import atexit
import random
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from ..decisions import Lease, lease_id
from ..errors import (
    AmemError,
    BudgetExceededError,
    ConfigurationError,
    ModelUnavailableError,
    StoreError,
    StoreUnavailableError,
)
from ..evolution.ask import OpenCall, commit, failures
from ..fetch import living, note_pages
from ..filters import Condition, Conditions, check_count
from ..ids import new_operation, new_token, now
from ..journal.erasure import resume
from ..notes import Namespace, Note, check_namespace
from ..plans import EvolutionReport, WorkReport
from ..runtime import RULES, Awaiting, Runtime, log, resolve, to_the_end
from .evolve import PAGE, UNFINISHED, evolve_notes
from .writing import writing

SPACES = 64  # namespaces that are worked on at a time
EXCLUDED = 64  # threads that one query leaves out
SLICE = 0.2  # seconds from one look whether to stop to the next
LONGEST_REST = 300.0  # seconds, of a note that failed
LONGEST_WAIT = 30.0  # seconds from one try to the next while model or store do not answer
IN_A_ROW = 3  # calls without an answer after which the model is taken to be down
NEVER = float("inf")
RENEWALS = 3  # in the time that a lease lasts
PATIENCE = 1.0  # seconds that `close` and the end of the interpreter wait for the step under way
PASSING = (ModelUnavailableError, StoreUnavailableError, TimeoutError)

Thread = tuple[Namespace, str | None]
Job = Sequence[Note]  # notes of one thread that wait, oldest first


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
        once: Return when nothing is pending that can be finished now; a note is tried once.
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
    check_count("concurrency", concurrency, error=ConfigurationError)
    check_count("budget", 0 if budget is None else budget, 0, error=ConfigurationError)
    if not isinstance(poll, int | float) or not 0 < poll < NEVER:
        raise ConfigurationError(f"poll={poll!r} must be a number of seconds above 0")
    if stop is not None and not callable(stop):
        raise ConfigurationError(f"stop={stop!r} must be a function without arguments")
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


@dataclass(slots=True, kw_only=True)
class _Worker:
    """The state of one worker: the work it has done, and the threads and notes that it leaves alone for a while.

    Threads and notes, by their ids, rest until a time of the monotonic clock. Of a thread about which the model was silent
    the number of answers is known that the model had given by then.
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
    silences: dict[Thread, int] = field(default_factory=dict)
    _in_a_row: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stopped(self) -> bool:
        """Return whether the worker is to return: it was told so, the memory is closed, or its calls are spent."""
        return self.runtime.closing.is_set() or bool(self.stop and self.stop()) or self.left < 1

    @property
    def waits(self) -> bool:
        """Whether something was put off that is to be tried again in this run."""
        return any(until < NEVER for until in self.resting.values())

    async def jobs(self, given: Namespace | None) -> list[Job]:
        """Return the notes that wait, by thread, the oldest first; threads that rest are left out."""
        time_ = time.monotonic()
        self.resting = {key: until for key, until in self.resting.items() if until > time_}
        where = (UNFINISHED, Condition("attempts", "$lt", self.runtime.config.max_attempts))
        spaces = [given] if given else [*await resolve(self.runtime.store.namespaces(where))]
        random.shuffle(spaces)  # of very many, others come first the next time
        found, waiting = list[Job](), 0
        for space in spaces:
            jobs = await self._jobs_of(space, where)
            found, waiting = found + jobs, waiting + bool(jobs)
            if waiting == SPACES:
                break
        return sorted(found, key=lambda job: job[0].seq)

    async def _jobs_of(self, space: Namespace, where: Conditions) -> list[Job]:
        threads = [key[1] for key in self.resting if not isinstance(key, str) and key[0] == space]
        others = [Condition("thread", "$ne", thread) for thread in threads[:EXCLUDED]]
        pages = note_pages(self.runtime.store, space, (*where, *others), size=PAGE, expired=False)
        by_thread: defaultdict[str | None, list[Note]] = defaultdict(list)
        for note in await anext(pages, []):
            if note.id not in self.resting and note.thread not in threads:
                by_thread[note.thread].append(note)
        return [*by_thread.values()]

    async def round(self, jobs: Sequence[Job], concurrency: int) -> bool:
        """Do the jobs, and return whether anything came of it."""
        before, self._in_a_row = self.report, 0
        await self.runtime.map(self._do, jobs, concurrency)
        moved = (self.report.done, self.report.failed) != (before.done, before.failed)
        self.trouble = self.trouble + 1 if self._in_a_row and not moved else 0
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
        end = time.monotonic() + self._pause(self.trouble, LONGEST_WAIT)
        while not self.stopped() and (left := end - time.monotonic()) > 0:
            await resolve(self.runtime.pause(min(left, SLICE)))

    async def _do(self, job: Job) -> None:
        """Work on a thread, alone: others leave it alone until the lease is given back."""
        if self.stopped() or self._in_a_row >= IN_A_ROW:
            return
        runtime, lease, thread = self.runtime, None, (job[0].namespace, job[0].thread)
        if runtime.store.remote:
            lease = await take_lease(runtime, *thread, self.name)
            if lease is None:
                self._let_rest(thread, self.poll)
                return
        try:
            notes = job if lease is None else await self._left(job, lease)
            runtime = replace(runtime, calling=lambda: self._calling(lease))
            await self._evolve_thread(runtime, thread, notes)
        finally:
            if lease is not None:
                await lease.give_back()

    async def _left(self, job: Job, lease: HeldLease) -> list[Note]:
        """Return the notes that still wait, now that nobody else works on them; finish what a dead worker has begun."""
        if lease.was_left:
            async with writing(self.runtime, job[0].namespace) as writer:
                await resume(writer)
        attempts = {note.id: note.attempts for note in job}
        stand = await living(self.runtime.store, job[0].namespace, attempts)
        return [n for n in stand.values() if n.state != "done" and n.attempts == attempts[n.id]]

    async def _evolve_thread(self, runtime: Runtime, thread: Thread, notes: Job) -> None:
        known = self.silences.pop(thread, None)
        done = await self._evolve(runtime, thread, notes)
        if done.limited:
            self._let_rest(thread, NEVER if self.once else LONGEST_REST)
        elif done.interrupted:
            left = [n for n in notes if n.id not in {*done.done, *done.failed}]
            # Answers about notes of this thread say nothing of why the model is silent now.
            answers = self._answers() if known is None or done.done else known
            await self._look_closer(runtime, thread, left[: runtime.config.batch_size], answers)

    @asynccontextmanager
    async def _calling(self, lease: HeldLease | None) -> AsyncIterator[None]:
        """Go round a call of the model: count it, and keep the lease alive meanwhile."""
        with self._lock:
            if self.left < 1:
                raise BudgetExceededError("the calls of this run are spent")
            self.left -= 1
        async with nullcontext() if lease is None else lease.kept_alive():
            yield

    async def _look_closer(
        self, runtime: Runtime, thread: Thread, notes: Job, answers: int
    ) -> None:
        """Take notes alone about which the model did not answer together.

        One about which it is silent while it has answered about others has failed, as if its answer were unusable; so
        has one that is silent again by itself after it had failed.
        """
        silent = {note.id: self.report.interrupted or "" for note in notes if len(notes) == 1}
        for note in notes if len(notes) > 1 else ():
            if self.stopped():
                return
            done = await self._evolve(runtime, thread, [note])
            if done.interrupted and not done.limited:
                silent[note.id] = done.interrupted
        if self._answers() > answers or (len(notes) == 1 and notes[0].attempts):
            call = OpenCall(self.runtime, thread[0], failed=silent)
            async with writing(self.runtime, thread[0]) as writer:
                await commit(call, writer, failures(call, notes))
            self._count(EvolutionReport(failed=silent), notes)
        else:
            self.silences[thread] = answers
            self._let_rest(thread, self._pause(self.trouble, LONGEST_WAIT))

    async def _evolve(self, runtime: Runtime, thread: Thread, notes: Job) -> EvolutionReport:
        before = self._answers()
        _, done = await evolve_notes(runtime, thread[0], notes, stopped=self.stopped)
        with self._lock:
            if self._answers() > before:
                self._in_a_row = 0
            if done.interrupted and not done.limited:
                self._in_a_row += 1
        self._count(done, notes)
        return done

    def _count(self, done: EvolutionReport, notes: Job) -> None:
        with self._lock:
            self.report += done
            for note in notes:
                if note.id in done.failed:
                    seconds = NEVER if self.once else self._pause(note.attempts + 3, LONGEST_REST)
                    self._let_rest(note.id, seconds)

    def _answers(self) -> int:
        """Return how many calls the model has answered so far."""
        return int(self.runtime.usage.snapshot()["total"].get("calls", 0))

    def _pause(self, times: int, longest: float) -> float:
        """Return how long to wait after so many tries in vain, in seconds."""
        return min(longest, self.poll * 2.0**times) if times else self.poll

    def _let_rest(self, key: Thread | str, seconds: float) -> None:
        self.resting[key] = time.monotonic() + seconds


@dataclass(slots=True)
class HeldLease:
    """A lease that a worker holds; `was_left` says that its last holder did not give it back."""

    runtime: Runtime
    stands: Lease
    was_left: bool

    async def renew(self, holder: str | None = None) -> None:
        """Make the lease last for its time from now on, for its holder or for another one; an empty one ends it."""
        read, holder = self.stands, self.stands.holder if holder is None else holder
        seconds, store = self.runtime.config.lease_seconds if holder else 0, self.runtime.store
        until = now() + timedelta(seconds=seconds)
        self.stands = new = replace(read, token=new_token(), holder=holder, until=until)
        try:
            if read.token:
                await to_the_end(store.swap_records(read.namespace, [(read.token, new)]))
            else:
                await to_the_end(store.insert_records(read.namespace, [new]))
        except StoreError:
            self.stands = read
            raise

    async def give_back(self) -> None:
        """Let others have the thread; where the store does not answer, the lease runs out."""
        with suppress(StoreError):
            await self.renew("")

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Renew the lease again and again meanwhile, in a thread; what fails is tried again."""
        done, pause = threading.Event(), self.runtime.config.lease_seconds / RENEWALS

        def renew_until_done() -> None:
            while not done.wait(pause):
                with suppress(StoreError):
                    asyncio.run(self.renew())

        thread = threading.Thread(target=renew_until_done, name="amem-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            if isinstance(self.runtime.store, Awaiting):
                await asyncio.to_thread(thread.join)
            else:
                thread.join()


async def take_lease(
    runtime: Runtime, namespace: Namespace, thread: str | None, holder: str
) -> HeldLease | None:
    """Return the lease of a thread, if nobody else holds one that has not ended.

    Raises:
        StoreError: The store does not answer.
    """
    identity, store = lease_id(namespace, thread), runtime.store
    nobody = Lease(
        id=identity, token="", namespace=namespace, thread=thread, holder="", until=now()
    )
    before = (await resolve(store.records(namespace, [identity]))).get(identity, nobody)
    if not isinstance(before, Lease):
        return None
    if before.holder not in ("", holder) and before.until > now():
        return None
    held = HeldLease(runtime, before, was_left=bool(before.holder))
    try:
        await held.renew(holder)
        stands = (await resolve(store.records(namespace, [identity]))).get(identity)
    except asyncio.CancelledError:
        await held.give_back()
        raise
    return held if stands is not None and stands.token == held.stands.token else None


class Background:
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
        _backgrounds.add(self)

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


_backgrounds: weakref.WeakSet[Background] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let no thread work on while the interpreter is taken apart."""
    workers = list(_backgrounds)
    for worker in workers:
        worker.stop()  # all of them before the first is waited for
    end = time.monotonic() + PATIENCE
    for worker in workers:
        worker.close(max(0.0, end - time.monotonic()))
