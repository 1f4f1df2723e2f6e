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
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

from ..decisions import Lease, lease_id
from ..errors import (
    AmemError,
    BudgetExceededError,
    ConfigurationError,
    ModelUnavailableError,
    StoreError,
    StoreUnavailableError,
)
from ..evolution.call import OpenCall, decide_failures, write_call
from ..evolution.construct import in_parts
from ..fetch import living, note_pages
from ..filters import Condition, Conditions, check_count
from ..ids import new_operation, new_token, now
from ..journal.erasure import resume
from ..notes import Namespace, Note, check_namespace
from ..plans import EvolutionReport, WorkReport
from ..runtime import RULES, Runtime, log, resolve
from .evolve import PAGE, UNFINISHED, evolve_notes
from .writing import finish, writing

JOBS = 64  # threads that are worked on in a round, about
SLICE = 0.2  # seconds from one look whether to stop to the next
REST = 60.0  # seconds, of a note that failed and of a namespace that has reached a limit of the day
LONGEST_WAIT = 30.0  # seconds from one try to the next while model or store do not answer
IN_A_ROW = 5  # calls without an answer after which the model is taken to be down
OF_A_THREAD = 4  # of them about one thread, after which other threads have their turn
NEVER = float("inf")
RENEWALS = 3  # in the time that a lease lasts
PATIENCE = 1.0  # seconds that `close` and the end of the interpreter wait for the step under way
PASSING = (ModelUnavailableError, StoreUnavailableError, TimeoutError)

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
    worker.runtime = replace(worker.runtime, calling=worker.calling)
    given = None if namespace is None else check_namespace(namespace)
    while not worker.stopped():
        try:
            jobs = await worker.jobs(given)
            # What is held by others for now is looked at again; the rest was tried in this run.
            if once and not jobs and all(until == NEVER for until in worker.resting.values()):
                break
            moved = await worker.round(jobs, concurrency)
        except Exception as error:
            if runtime.closing.is_set():  # what was under way is found by the next worker
                break
            if once or not isinstance(error, StoreUnavailableError):
                raise
            log.warning("%s; the worker waits for it", error)
            moved, worker.trouble = False, worker.trouble + 1
        if once and worker.trouble:
            break
        if not moved:
            await worker.wait()
    return worker.report


@dataclass(slots=True)
class _Silences:
    """The calls that a model does not answer, and the notes that are to blame for it.

    A note about which the model was silent has failed, as if its answer were unusable, if the model has answered
    about others since, or if the note had failed before. Otherwise the model is down, and no note is to blame.

    Attributes:
        answers: How many calls the model has answered.
        in_a_row: Calls of this round in a row that the model did not answer.
        noted: The notes about which the model was silent in this round, alone, and why.
        answers_before: By note id, how many answers there were when the model was first silent about a note; the note about
            which it was silent last comes last.
    """

    answers: int = 0
    in_a_row: int = 0
    noted: list[tuple[Note, str]] = field(default_factory=list)
    answers_before: dict[str, int] = field(default_factory=dict)

    def note(self, note: Note, why: str, answers: int) -> None:
        """Note that the model was silent about a note alone; `answers` is how many there were when that began."""
        self.answers_before[note.id] = self.answers_before.pop(note.id, answers)
        self.noted.append((note, why))

    def to_blame(self) -> list[tuple[Note, str]]:
        """Return the notes of this round that have failed, and why."""
        return [
            (note, why)
            for note, why in self.noted
            if note.attempts or self.answers > self.answers_before[note.id]
        ]

    def in_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Return jobs with the oldest first; those about which the model was silent come after the others, the last one last.

        So no notes that silence the model hide others for ever.
        """
        silent = list(self.answers_before)  # at once: other threads change it meanwhile
        place = {note_id: n for n, note_id in enumerate(silent, start=1)}
        return sorted(jobs, key=lambda job: (place.get(job[0].id, 0), job[0].seq))


@dataclass(slots=True, kw_only=True)
class _Worker:
    """The state of one worker.

    Attributes:
        left: How many calls of the model this run may still make.
        trouble: Rounds in a row in which model or store did not answer.
        resting: Until when, by the monotonic clock, a note (by its id) or a namespace is left alone.
    """

    runtime: Runtime
    once: bool
    poll: float
    stop: Callable[[], bool] | None
    left: float
    name: str = field(default_factory=new_operation)
    report: WorkReport = field(default_factory=WorkReport)
    trouble: int = 0
    resting: dict[str | Namespace, float] = field(default_factory=dict)
    silences: _Silences = field(default_factory=_Silences)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stopped(self) -> bool:
        """Return whether the worker is to return: it was told so, the memory is closed, or its calls are spent."""
        return self.runtime.closing.is_set() or bool(self.stop and self.stop()) or self.left < 1

    async def jobs(self, given: Namespace | None) -> list[Job]:
        """Return the notes that wait, by thread, the oldest first; what rests is left out."""
        await finish(self.runtime, given)  # what was decided is asked of no model
        time_ = time.monotonic()
        self.resting = {key: until for key, until in self.resting.items() if until > time_}
        where = (UNFINISHED, Condition("attempts", "$lt", self.runtime.config.max_attempts))
        spaces = [given] if given else [*await resolve(self.runtime.store.namespaces(where))]
        random.shuffle(spaces)  # of very many, others come first the next time
        found = list[Job]()
        for space in spaces:
            found += await self._jobs_of(space, where)
            if len(found) >= JOBS:
                break
        return self.silences.in_order(found)

    async def _jobs_of(self, space: Namespace, where: Conditions) -> list[Job]:
        """Return the jobs of the first notes of a namespace that do not rest."""
        pages = note_pages(self.runtime.store, space, where, size=PAGE, expired=False)
        by_thread: defaultdict[str | None, list[Note]] = defaultdict(list)
        while space not in self.resting and not by_thread and (page := await anext(pages, None)):
            for note in page:
                if note.id not in self.resting:
                    by_thread[note.thread].append(note)
        return [*by_thread.values()]

    async def round(self, jobs: Sequence[Job], concurrency: int) -> bool:
        """Do the jobs, and return whether anything came of it."""
        before, silences = self.report, self.silences
        silences.noted, silences.in_a_row = [], 0
        await self.runtime.map(self._do, jobs, concurrency)
        for note, why in silences.to_blame():
            call = OpenCall(self.runtime, note.namespace, failed={note.id: why})
            decide_failures(call, [note])
            async with writing(self.runtime, note.namespace) as writer:
                await write_call(call, writer)
            self._count(note.namespace, EvolutionReport(failed=call.failed))
        moved = (self.report.done, self.report.failed) != (before.done, before.failed)
        self.trouble = self.trouble + 1 if silences.noted and not moved else 0
        return moved

    async def wait(self) -> None:
        """Wait until it is time to look again, longer each time while something does not answer."""
        longer = min(self.poll * 2.0 ** min(self.trouble, 9), LONGEST_WAIT)
        end = time.monotonic() + max(self.poll, longer)
        while not self.stopped() and (left := end - time.monotonic()) > 0:
            await resolve(self.runtime.pause(min(left, SLICE)))

    async def _do(self, job: Job) -> None:
        """Work on a thread, on a server alone: others leave it alone until the lease is given back."""
        if self._is_to_leave():
            return
        space = job[0].namespace
        lease = ThreadLease(self.runtime, space, job[0].thread, self.name)
        async with lease.held() if self.runtime.store.remote else nullcontext("") as before:
            if before is None:
                self.resting |= dict.fromkeys((n.id for n in job), time.monotonic() + self.poll)
                return
            if before:  # a dead worker may have begun something
                async with writing(self.runtime, space) as writer:
                    await resume(writer)
            await self._evolve(job)

    async def _evolve(self, notes: Job) -> None:
        """Evolve notes batch by batch; those that failed before come last, each alone, so that they hold up no others.

        Where the model is silent about a batch, it is asked about each note alone.
        """
        silent, silences = 0, self.silences
        parts = silences.in_order(in_parts(notes, self.runtime.config.batch_size))
        for part in sorted(parts, key=lambda part: part[0].attempts > 0):
            why, answers = await self._ask(part), silences.answers
            silent = silent + 1 if why else 0
            for (note,) in silences.in_order([note] for note in part) if why else ():
                if len(part) > 1:
                    why = await self._ask([note])
                    silent = silent + 1 if why else 0
                if why:
                    silences.note(note, why, answers)
                if silent == OF_A_THREAD:
                    return

    async def _ask(self, notes: Job) -> str | None:
        """Evolve notes, unless it is time to leave; return why the model was silent about them, if it was.

        What was deleted meanwhile is shown to no model, and what others have finished or tried meanwhile is left to them.
        """
        if self._is_to_leave():
            return None
        space, tried = notes[0].namespace, {note.id: note.attempts for note in notes}
        there = (await living(self.runtime.store, space, tried)).values()
        waits = [n for n in there if n.state != "done" and n.attempts == tried[n.id]]
        _, done = await evolve_notes(self.runtime, space, waits)
        self._count(space, done)
        return None if done.limited else done.interrupted

    def _is_to_leave(self) -> bool:
        return self.silences.in_a_row >= IN_A_ROW or self.stopped()

    def _count(self, space: Namespace, done: EvolutionReport) -> None:
        """Count a report of a namespace, and let rest the notes that failed, or the namespace if a limit is reached."""
        rest = [*done.failed, *([space] if done.limited else ())]
        until = NEVER if self.once else time.monotonic() + REST
        with self._lock:
            self.report += done
            self.resting |= dict.fromkeys(rest, until)
            for note_id in done.done:
                self.silences.answers_before.pop(note_id, None)

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Go round a call of the model, and count the call, and whether it was answered.

        Raises:
            BudgetExceededError: The calls of this run are spent.
        """
        with self._lock:
            if self.left < 1:
                raise BudgetExceededError("the calls of this run are spent")
            self.left -= 1
        try:
            yield
        except ModelUnavailableError:
            with self._lock:
                self.silences.in_a_row += 1
            raise
        with self._lock:
            self.silences.answers += 1
            self.silences.in_a_row = 0


@dataclass(frozen=True, slots=True)
class ThreadLease:
    """The lease of a thread, as one worker sees it."""

    runtime: Runtime
    namespace: Namespace
    thread: str | None
    holder: str

    @asynccontextmanager
    async def held(self) -> AsyncIterator[str | None]:
        """Hold the lease meanwhile, if `take` can have it, and prolong it again and again in a thread; then give it back.

        Where the store does not answer, that is tried again, and in the end the lease runs out.
        """
        done, pause = threading.Event(), self.runtime.config.lease_seconds / RENEWALS

        def prolong() -> None:
            while not done.wait(pause):
                with suppress(AmemError):
                    asyncio.run(self.hand_over(self.holder))

        try:
            before = await self.take()
            if before is not None:
                threading.Thread(target=prolong, name="amem-lease", daemon=True).start()
            yield before
        finally:
            done.set()
            with suppress(StoreError):
                await self.hand_over("")

    async def take(self) -> str | None:
        """Take the lease, and return the last holder that did not give it back, or ""; None: another one has it still."""
        before = await self._read()
        holder = before.holder if before else ""
        if before and holder not in ("", self.holder) and before.until > now():
            return None
        await self._write(before, self.holder)
        stands = await self._read()
        return holder if stands is not None and stands.holder == self.holder else None

    async def hand_over(self, holder: str) -> None:
        """Let a holder have the thread from now on: this worker again, or nobody. What another worker holds stays."""
        stands = await self._read()
        if stands is not None and stands.holder == self.holder:
            await self._write(stands, holder)
            if not holder:  # it may have been prolonged between the two
                await self.hand_over(holder)

    async def _read(self) -> Lease | None:
        identity = lease_id(self.namespace, self.thread)
        found = await resolve(self.runtime.store.records(self.namespace, [identity]))
        return cast("Lease | None", found.get(identity))

    async def _write(self, stands: Lease | None, holder: str) -> None:
        """Write the holder of the lease from now on, unless somebody has written since."""
        store, space, thread = self.runtime.store, self.namespace, self.thread
        until = now() + timedelta(seconds=self.runtime.config.lease_seconds)
        new = Lease(
            id=lease_id(space, thread), token=new_token(), namespace=space,
            thread=thread, holder=holder, until=until,
        )  # fmt: skip
        if stands is None:
            written = store.insert_records(space, [new])
        else:
            written = store.swap_records(space, [(stands.token, new)])
        await resolve(written)


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
        self._is_closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        _backgrounds.add(self)
        # The function that is registered last is called first: before the store of this worker is closed.
        atexit.unregister(_close_all)
        atexit.register(_close_all)

    def submit(self, namespace: Namespace | None) -> None:
        """Take a namespace, without waiting; one that waits already is done once. A closed worker takes nothing."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting[namespace] = None
            # The thread ends when there is nothing to do, and a forked child has none.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="amem-worker", daemon=True)
                self._thread.start()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to do; return False if that took longer than `timeout` seconds.

        Raises:
            AmemError: The first error since the last call that waiting does not mend, such as a refused key.
        """
        with self._changed:
            done = self._changed.wait_for(self.is_idle, timeout)
            error, self._error = self._error, None
        if error is not None:
            raise error
        return done

    def close(self, timeout: float | None = PATIENCE) -> bool:
        """Take nothing more, leave what waits, and wait for the step under way.

        Return whether the step has ended within `timeout` seconds. What is left is found in the store at the next start.
        """
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
            # A step that closes its memory cannot wait for itself.
            is_own = threading.current_thread() is self._thread
            return not is_own and self._changed.wait_for(self.is_idle, timeout)

    def is_idle(self) -> bool:
        """Return whether nothing is left to do."""
        # While anything waits there is a thread, but for a forked child, which has nothing of it to wait for.
        with self._changed:
            return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
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
            trace = None if isinstance(error, AmemError) else error
            log.error("the background worker failed: %s", error, exc_info=trace)
            self._error = self._error or error


_backgrounds: weakref.WeakSet[Background] = weakref.WeakSet()


def _close_all() -> None:
    """Let no thread work on while the interpreter is taken apart."""
    end = time.monotonic() + PATIENCE
    for worker in list(_backgrounds):
        worker.close(max(0.0, end - time.monotonic()))
