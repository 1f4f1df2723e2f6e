"""Evolve: construct, link and update what is unfinished, or take the three steps one by one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..decisions import Call, Source
from ..errors import (
    BudgetExceededError,
    ConfigurationError,
    InvalidInputError,
    ModelUnavailableError,
    NamespaceError,
)
from ..evolution.ask import OpenCall, open_calls, write_costs
from ..evolution.construct import Batch, Part, in_parts
from ..evolution.gate import Answers, decide
from ..evolution.linking import link_decisions, with_sources
from ..evolution.linking import propose as propose_links
from ..evolution.waves import (
    Outcome,
    batch_of,
    evolve_wave,
    failures,
    ready_notes,
    upgrade_wave,
)
from ..evolution.waves import commit as write
from ..fetch import get, note_pages
from ..filters import Condition, Conditions, check_count, unique_ids
from ..ids import new_operation, now
from ..journal.writer import Writer
from ..notes import Namespace, Note, check_namespace
from ..plans import EvolutionReport, Plan, PlannedNote
from ..progress import Meter, Progress, reporter
from ..runtime import RULES, Runtime, resolve
from .forms import write_profile
from .overview import read_budget
from .writing import embed_all_missing, writing

log = logging.getLogger("amem_integrations")

UNFINISHED = Condition("state", "$in", ("pending", "constructed", "failed"))
MADE_BY_RULES = Condition("attributes_source", "$eq", RULES)
PAGE = 256

Notes = dict[str, Note]
Step = Callable[[Runtime, Writer, Sequence[Batch]], Coroutine[Any, Any, Outcome]]
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

    A namespace that has reached a limit of the day is left as it is, and `interrupted` says so; others go on.

    Args:
        namespace: Whose memory; None works through all of them.
        thread: Only notes of this conversation of the namespace.
        ids: Only these notes of the namespace.
        limit: Most notes to work on.
        upgrade: Also make anew the notes that were made without a language model: what rules wrote and linked for
            them is switched off (`history` shows it), all else stays; so does a note without an answer.
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
    return await _work_through(runtime, work, limit, meter)


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
    space = check_namespace(namespace)
    notes = [note for note in await _living(runtime, space, ids) if note.own_entry is None]
    made = Outcome()
    with runtime.claims.claiming(notes) as mine:
        parts = in_parts(mine, runtime.config.batch_size)
        await _limit_reached(runtime, space)  # the first call raises
        async with writing(runtime, space, runtime.model_name) as writer:
            work = [await batch_of(runtime, writer, part) for part in parts]
            if work:
                made = await evolve_wave(runtime, writer, work, link=False)
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
    notes = ready_notes(await _living(runtime, space, ids))
    await _limit_reached(runtime, space)
    plan = Plan(id=new_operation(), namespace=space, since=runtime.clock.tick())
    parts = in_parts(notes, runtime.config.batch_size)
    async with (
        writing(runtime, space, runtime.model_name) as writer,
        open_calls(runtime, space, len(parts)) as calls,
    ):
        work = [await batch_of(runtime, writer, part) for part in parts]

        async def one(job: tuple[OpenCall, Batch]) -> Sequence[PlannedNote]:
            return (await propose_links(job[0], writer, job[1], {}))[0]

        jobs = list(zip(calls, work, strict=True))
        made = await runtime.map(one, jobs, runtime.config.max_concurrency)
        for call, planned in zip(calls, made, strict=True):
            call.is_written = True  # its cost is written by the commit of the plan
            plan = replace(
                plan,
                notes=(*plan.notes, *planned),
                failed={**plan.failed, **call.failed},
                shown=tuple(sorted({*plan.shown, *call.shown})),
                cost=(*plan.cost, *call.model_calls),
            )
    return plan


async def _living(runtime: Runtime, namespace: Namespace, ids: Sequence[str]) -> list[Note]:
    """Return the notes with these ids that have not expired; unknown ones are left out."""
    stored, time = await get(runtime.store, namespace, unique_ids(ids)), now()
    return [note for note in stored if not note.is_expired(time)]


async def commit(
    runtime: Runtime,
    plan: Plan | Mapping[str, Any],
    *,
    namespace: Sequence[str],
    answers: Answers | None = None,
) -> EvolutionReport:
    """Write a plan and return what changed; committing it again changes nothing. The third step.

    What was corrected or deleted since the plan was made is left out of it. With `MemoryConfig(profile=True)` the
    profile is brought up to date, by a call of the model.

    Args:
        plan: What `propose` gave, or its `to_dict()`.
        namespace: Whose memory; a plan for another one is refused.
        answers: By the id of an update, link or supersession: True (write it, whatever the gate says), False (do
            not), or, of an update, a dict with other `context`, `keywords` or `tags`. The rest stays as the
            gate left it.

    Raises:
        InvalidInputError: An answer is about nothing in this plan, or the plan has the id of something else.
        NamespaceError: The plan is for another namespace.
    """
    given = plan if isinstance(plan, Plan) else Plan.from_dict(plan)
    if given.namespace != (space := check_namespace(namespace)):
        raise NamespaceError(f"this plan is for namespace {given.namespace!r}, not {space!r}")
    plans = decide(given.notes, answers or {})
    shown = {*given.shown, *(Source(one.id, one.rev) for one in plans)}
    items = [item for one in plans for item in one.items.values()]
    ids = {*(source.id for source in shown), *given.failed}
    ids |= {end for item in items for end in (item.to, item.other) if end}
    notes = {note.id: note for note in await _living(runtime, space, sorted(ids))}
    # A plan for a wording that is gone, or for a note that is finished by now, is left out.
    current = [one for one in plans if one.id in notes and _waits_for(one, notes[one.id])]
    call = OpenCall(runtime, space, id=given.id, seq=min(given.since, runtime.clock.tick()))
    call.shown, call.model_calls, call.failed = shown, list(given.cost), dict(given.failed)
    call.seen.show(notes.values())
    async with writing(runtime, space, runtime.model_name) as writer:
        await _check_id(writer, call)
        found = [with_sources(call, one, notes) for one in current]
        decisions = [*link_decisions(call, found, notes), *failures(call, list(notes.values()))]
        done = await write(call, writer, decisions)
        await write_costs([call])
    if done.report.done:
        await write_profile(runtime, space)
    return replace(done.report, dropped=sum(one.dropped for one in current))


async def _check_id(writer: Writer, call: OpenCall) -> None:
    """Do nothing if the id of a plan is free, or the plan was committed before.

    Raises:
        InvalidInputError: Something else has the id.
    """
    found = (await writer.records([call.id])).get(call.id)
    if found is not None and not (isinstance(found, Call) and found.seq == call.seq):
        raise InvalidInputError(f"this plan was made under another id than {call.id!r}")


def _waits_for(plan: PlannedNote, note: Note) -> bool:
    """Return whether a note still waits for what was planned for it."""
    is_next = (plan.rev, plan.attempt) == (note.rev, note.next_attempts.link)
    return is_next and note.own_entry is not None and note.state != "done"


async def evolve_notes(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    meter: Meter | None = None,
    step: Step = evolve_wave,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[Notes, EvolutionReport]:
    """Take a step with notes, `max_concurrency` batches at a time; return them as they are now, and what was done.

    The batches of a wave are asked about together and committed in order of seq, so a run gives the
    same result however fast its model answers.
    """
    if refusal := await _limit_reached(runtime, namespace):
        return {}, EvolutionReport(interrupted=refusal, limited=True)
    made = Outcome()
    with runtime.claims.claiming(notes) as mine:
        parts = in_parts(mine, runtime.config.batch_size)
        width = runtime.config.max_concurrency
        for start in range(0, len(parts), width):
            if stopped() or made.error is not None:
                break
            wave = parts[start : start + width]
            done = await _take(runtime, namespace, wave, step, is_first=not start)
            made += done
            if meter is not None and made.error is None:
                meter.add(sum(map(len, wave)))
    if made.error is not None:
        return dict(made.notes), made.report + _interrupted(runtime, made.error)
    if made.report.done:
        await write_profile(runtime, namespace)
    return dict(made.notes), made.report


async def _take(
    runtime: Runtime, namespace: Namespace, parts: Sequence[Part], step: Step, *, is_first: bool
) -> Outcome:
    """Take a step with a wave of parts.

    The earlier waves took their time: what was deleted meanwhile is shown to no model.
    """
    async with writing(runtime, namespace, runtime.model_name) as writer:
        if not is_first:
            ids = [note.id for part in parts for note in part]
            now_there = {note.id: note for note in await _living(runtime, namespace, ids)}
            found = ([now_there[n.id] for n in part if n.id in now_there] for part in parts)
            parts = [part for part in found if part]
        wave = [await batch_of(runtime, writer, part) for part in parts]
        return await step(runtime, writer, wave) if wave else Outcome()


async def _limit_reached(runtime: Runtime, namespace: Namespace) -> str | None:
    """Return which limit of the day a namespace has reached by the ledger, in words; None: it may go on."""
    return None if runtime.budget is None else await read_budget(runtime, runtime.budget, namespace)


def _interrupted(
    runtime: Runtime, error: ModelUnavailableError | ConfigurationError
) -> EvolutionReport:
    """Return the report that evolution was stopped; a limit of the day is no error, and logged once."""
    limited = isinstance(error, BudgetExceededError)
    if not limited:
        if runtime.config.on_model_error == "raise" or isinstance(error, ConfigurationError):
            raise error
        log.warning("%s; the notes are stored, a later evolve() goes on with them", error)
    return EvolutionReport(interrupted=str(error), limited=limited)


async def _work_through(
    runtime: Runtime, work: Sequence[Work], limit: int | None, meter: Meter | None
) -> EvolutionReport:
    """Take what meets the conditions in each namespace, a page at a time, until the model does not answer."""
    report, most = EvolutionReport(), sys.maxsize if limit is None else limit
    for space, where, step in work:
        size = min(PAGE, most)
        async for page in note_pages(runtime.store, space, where, size=size, expired=False):
            left = most - len(report.done) - len(report.failed)
            _, done = await evolve_notes(runtime, space, page[:left], meter, step)
            report += done
            if done.interrupted and not done.limited:
                return report
            if len(report.done) + len(report.failed) >= most:
                return report
            if done.limited:
                break
    return report
