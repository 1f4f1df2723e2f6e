"""Evolve: construct, link and update what is unfinished, or take the three steps one by one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from ..claims import ClaimLost
from ..errors import (
    BudgetExceededError,
    InvalidInputError,
    ModelUnavailableError,
    NamespaceError,
)
from ..evolution.claiming import Held, deadline, holding
from ..evolution.commit import commit_plan, write_cost
from ..evolution.construct import Batch, Outcome, Part, construct_all, in_parts
from ..evolution.deleted_meanwhile import as_they_are, remove_what_is_gone
from ..evolution.gate import Decisions, decide
from ..evolution.propose import propose_all
from ..evolution.stale_plans import without_quotes
from ..evolution.waves import batch_of, evolve_wave, ready_notes, shown_notes, upgrade_wave
from ..fetch import note_pages
from ..filters import Condition, Conditions, check_count, unique_ids
from ..ids import clock, now
from ..notes import Namespace, Note, check_namespace
from ..plans import EvolutionReport, Plan
from ..progress import Meter, Progress, reporter
from ..runtime import RULES, Runtime, resolve
from .content import recover_interrupted
from .embed import embed_all_missing
from .fill import write_profile
from .usage import read_budget

log = logging.getLogger("amem_integrations")

UNFINISHED = Condition("state", "$in", ("pending", "constructed", "failed"))
MADE_BY_RULES = Condition("attributes_source", "$eq", RULES)
PAGE = 256

Notes = dict[str, Note]
Step = Callable[[Runtime, Namespace, Sequence[Batch]], Coroutine[Any, Any, Outcome]]
Work = tuple[Namespace, Conditions, Step]


async def evolve(
    runtime: Runtime,
    *,
    namespace: Sequence[str] | None = None,
    thread: str | None = None,
    ids: Sequence[str] | None = None,
    limit: int | None = None,
    upgrade: bool = False,
    retry: bool = False,
    progress: bool | Progress = False,
) -> EvolutionReport:
    """Finish what is unfinished, oldest first, and return what was done.

    A namespace that has reached a limit of the day is left as it is, and `interrupted` says so; others go on. On a
    server, a thread on which another process is at work is left to that one.

    Args:
        namespace: Whose memory; None works through all of them.
        thread: Only notes of this conversation of the namespace.
        ids: Only these notes of the namespace.
        limit: Most notes to work on.
        upgrade: Also make anew the notes that were made without a language model: what rules wrote and linked for
            them goes (the history keeps it), all else stays; so does a note without an answer.
        retry: Also try notes again that failed `MemoryConfig.max_attempts` times: after a change of the model.
        progress: True logs how far it is; a function is called with (notes worked on, notes in all).

    Raises:
        InvalidInputError: A thread or ids are given without a namespace; ids are no list; a bad `limit`.
        ModelUnavailableError: Only with `on_model_error="raise"`.
    """
    given = None if namespace is None else check_namespace(namespace)
    check_count("limit", 1 if limit is None else limit)
    within = _within(given, thread, ids)
    tried = () if retry else (Condition("attempts", "$lt", runtime.config.max_attempts),)
    jobs: list[tuple[Conditions, Step]] = [((UNFINISHED, *tried, *within), evolve_wave)]
    if upgrade and runtime.model_name != RULES:
        jobs.insert(0, ((MADE_BY_RULES, *within), upgrade_wave))
    if runtime.vectors.lacking:
        await embed_all_missing(runtime, given)
    work = [
        (space, where, step)
        for where, step in jobs
        for space in ([given] if given else await resolve(runtime.store.namespaces(where)))
    ]
    meter = None
    if progress is not False:
        total = sum([await resolve(runtime.store.count(space, where)) for space, where, _ in work])
        meter = Meter(reporter(progress), total if limit is None else min(total, limit))
    report, busy = await _work_through(runtime, work, limit, meter, until=0.0)
    if limit is None and busy and (report.limited or not report.interrupted):
        report += (await _work_through(runtime, busy, None, meter, deadline(runtime)))[0]
    return report


def _within(
    namespace: Namespace | None, thread: str | None, ids: Sequence[str] | None
) -> list[Condition]:
    if namespace is None and (thread is not None or ids is not None):
        raise InvalidInputError(f"{thread=} and {ids=} are of one namespace: give it too")
    in_thread = [] if thread is None else [Condition("thread", "$eq", thread)]
    return (
        in_thread if ids is None else [*in_thread, Condition("id", "$in", tuple(unique_ids(ids)))]
    )


async def construct(
    runtime: Runtime, ids: Sequence[str], *, namespace: Sequence[str]
) -> dict[str, Any]:
    """Give pending notes their keywords, tags and context (Eq. 2); the first of three steps.

    Returns `{"constructed": [ids], "failed": {id: reason}}`. Notes that have their attributes already
    are left alone, so doing it again costs nothing.

    Raises:
        ModelUnavailableError: The model did not answer; what was finished stays.
        BudgetExceededError: A limit of the day is reached; what was finished stays.
    """
    space, made = check_namespace(namespace), Outcome()
    notes = await _living(runtime, space, ids)
    with runtime.claims.claiming([note for note in notes if note.own_entry is None]) as mine:
        async with _holding(
            runtime, space, in_parts(mine, runtime.config.batch_size), deadline(runtime)
        ) as held:
            raw = [[n for n in part if n.own_entry is None] for part in held.parts]
            work = [await batch_of(runtime, space, part) for part in raw if part]
            await _limit_reached(runtime, space)  # the first call raises
            since = clock.tick()
            with suppress(ClaimLost):
                made = await construct_all(held.runtime, space, work)
            await remove_what_is_gone(runtime, space, shown_notes(work), since, ops=made.ops)
    if made.error is not None:
        raise made.error
    return {"constructed": list(made.report.constructed), "failed": dict(made.report.failed)}


async def propose(runtime: Runtime, ids: Sequence[str], *, namespace: Sequence[str]) -> Plan:
    """Return links and updates for constructed notes (Eq. 4-7); writes nothing. The second step.

    Raises:
        ModelUnavailableError: The model did not answer.
        BudgetExceededError: A limit of the day is reached.
    """
    space = check_namespace(namespace)
    notes = await _living(runtime, space, ids)
    async with _holding(
        runtime, space, in_parts(ready_notes(notes), runtime.config.batch_size), deadline(runtime)
    ) as held:
        work = [await batch_of(runtime, space, part) for part in held.parts]
        await _limit_reached(runtime, space)
        proposal = await propose_all(runtime, space, work)
    if proposal.error is not None:
        await write_cost(runtime, proposal.plan)
        raise proposal.error
    return proposal.plan


async def _living(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
    """Return the notes with these ids that have not expired; unknown ones are left out."""
    stored, time = await resolve(runtime.store.get(namespace, unique_ids(ids))), now()
    return [note for note in stored if not note.is_expired(time)]


async def commit(
    runtime: Runtime,
    plan: Plan | Mapping[str, Any],
    *,
    namespace: Sequence[str],
    decisions: Decisions | None = None,
) -> EvolutionReport:
    """Write a plan and return what changed; committing it again changes nothing. The third step.

    What was corrected or deleted since the plan was made is left out of it. With `MemoryConfig(profile=True)` the
    profile is brought up to date, by a call of the model.

    Args:
        plan: What `propose` gave, or its `to_dict()`.
        namespace: Whose memory; a plan for another one is refused.
        decisions: By the id of an update, link or supersession: True (write it, whatever the gate says), False (do
            not), or, of an update, a dict with other `context`, `keywords` or `tags`. The rest stays as the
            gate left it.

    Raises:
        InvalidInputError: A decision is about nothing in this plan.
        NamespaceError: The plan is for another namespace.
    """
    given = plan if isinstance(plan, Plan) else Plan.from_dict(plan)
    if given.namespace != (space := check_namespace(namespace)):
        raise NamespaceError(f"this plan is for namespace {given.namespace!r}, not {space!r}")
    ids = {i for note in given.notes for i in (note.id, *(c.id for c in note.candidates))}
    since, sources = clock.tick(), ids.union(given.sources)
    stored = {note.id: note for note in await resolve(runtime.store.get(space, sorted(sources)))}
    known = {note_id: note for note_id, note in stored.items() if note_id in ids}
    decided = replace(given, notes=tuple(decide(given.notes, decisions or {})))
    ready = await without_quotes(runtime, decided, known)
    # It quotes nothing any more that was gone by then.
    ready = replace(ready, sources=tuple(i for i in given.sources if i in stored), stale=False)
    done = await commit_plan(runtime, ready, known=known, again=True, since=since)
    await remove_what_is_gone(runtime, space, stored, since, ops=(ready.id,))
    if done.done:
        await write_profile(runtime, space)
    return done


async def evolve_notes(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    meter: Meter | None = None,
    step: Step | None = None,
    *,
    until: float = 0.0,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[Notes, EvolutionReport, bool]:
    """Take a step with notes, `max_concurrency` batches at a time.

    The batches of a wave are asked about together and committed in order of seq, so a run gives the
    same result however fast its model answers. What other processes work on is waited for `until` a time of the
    monotonic clock, and then left to them.

    Returns the notes as they are now, what was done, and whether something was left to other processes.
    """
    if getattr(runtime.store, "interrupted", ()):
        await recover_interrupted(runtime)
    if refusal := await _limit_reached(runtime, namespace):
        return {}, EvolutionReport(interrupted=refusal, limited=True), False
    with runtime.claims.claiming(notes) as mine:
        done, busy = await _in_waves(
            runtime,
            namespace,
            in_parts(mine, runtime.config.batch_size),
            step or evolve_wave,
            meter,
            until,
            stopped,
        )
    if done.error is not None:
        return done.notes, done.report + _interrupted(runtime, done.error), bool(busy)
    if done.report.done:
        await write_profile(runtime, namespace)
    return done.notes, done.report, bool(busy)


async def _in_waves(
    runtime: Runtime,
    namespace: Namespace,
    parts: Sequence[Part],
    step: Step,
    meter: Meter | None,
    until: float,
    stopped: Callable[[], bool],
) -> tuple[Outcome, list[Part]]:
    """Take a step with the parts of threads; return what was done, and the parts that others hold."""
    made, busy, width = Outcome(), list[Part](), runtime.config.max_concurrency
    for start in range(0, len(parts), width):
        if stopped():
            break
        # The parts of a thread stay in order: those after one that others hold wait too.
        later = {part[0].thread for part in busy}
        wave = [part for part in parts[start : start + width] if part[0].thread not in later]
        busy += [part for part in parts[start : start + width] if part[0].thread in later]
        async with _holding(runtime, namespace, wave, until) as held:
            ready = held.parts
            if start and held.runtime.hold is None:
                # The earlier waves took their time; what was deleted meanwhile is shown to no model.
                ready = await as_they_are(runtime, namespace, ready)
            done = await _take(held.runtime, namespace, ready, step)
        busy += held.busy
        notes = {**made.notes, **held.finished, **done.notes}
        made = Outcome(notes=notes, report=made.report + done.report, error=done.error)
        if done.error is not None:
            break
        if meter is not None:
            meter.add(sum(map(len, ready)))
    return made, busy


async def _take(
    runtime: Runtime, namespace: Namespace, parts: Sequence[Part], step: Step
) -> Outcome:
    """Take a step with a wave of parts."""
    wave = [await batch_of(runtime, namespace, part) for part in parts]
    since, error = clock.tick(), None
    try:
        return await step(runtime, namespace, wave) if wave else Outcome()
    except ClaimLost as lost:
        log.info("%s; what was made for them is not written", lost)
    except ModelUnavailableError as unavailable:
        error = unavailable
    left = await remove_what_is_gone(runtime, namespace, shown_notes(wave), since)
    return Outcome(notes=left, error=error)


@asynccontextmanager
async def _holding(
    runtime: Runtime, namespace: Namespace, parts: Sequence[Part], until: float
) -> AsyncIterator[Held]:
    """Hold the threads of some parts meanwhile; in a folder there is nobody else."""
    if (claims := runtime.shared_claims) is None:
        yield Held(runtime=runtime, parts=parts)
        return
    async with holding(runtime, claims, namespace, parts, until) as held:
        yield held


async def _limit_reached(runtime: Runtime, namespace: Namespace) -> str | None:
    """Return which limit of the day a namespace has reached by the ledger, in words; None: it may go on."""
    return None if runtime.budget is None else await read_budget(runtime, runtime.budget, namespace)


def _interrupted(runtime: Runtime, error: ModelUnavailableError) -> EvolutionReport:
    """Return the report that evolution was stopped; a limit of the day is no error, and logged once."""
    limited = isinstance(error, BudgetExceededError)
    if not limited:
        if runtime.config.on_model_error == "raise":
            raise error
        log.warning("%s; the notes are stored, a later evolve() goes on with them", error)
    return EvolutionReport(interrupted=str(error), limited=limited)


async def _work_through(
    runtime: Runtime, work: Sequence[Work], limit: int | None, meter: Meter | None, until: float
) -> tuple[EvolutionReport, list[Work]]:
    """Do work until the model does not answer; return what was done, and of what others hold a part."""
    report, busy = EvolutionReport(), list[Work]()
    for one in work:
        left = None if limit is None else limit - _handled(report)
        if left is not None and left <= 0:
            break
        done, is_busy = await _work_through_one(runtime, one, left, meter, until)
        report += done
        busy += [one] if is_busy else []
        if done.interrupted and not done.limited:
            break
    return report, busy


async def _work_through_one(
    runtime: Runtime, work: Work, limit: int | None, meter: Meter | None, until: float
) -> tuple[EvolutionReport, bool]:
    """Take what meets the conditions in one namespace, a page at a time; see `evolve_notes`."""
    (space, where, step), report, is_busy = work, EvolutionReport(), False
    size = PAGE if limit is None else min(PAGE, limit)
    async for page in note_pages(runtime.store, space, where, size=size, expired=False):
        left = len(page) if limit is None else limit - _handled(report)
        _, done, held = await evolve_notes(runtime, space, page[:left], meter, step, until=until)
        report, is_busy = report + done, is_busy or held
        if report.interrupted or (limit is not None and _handled(report) >= limit):
            break
    return report, is_busy


def _handled(report: EvolutionReport) -> int:
    return len(report.done) + len(report.failed)
