"""Evolve: construct, link and update what is unfinished, or take the three steps one by one."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import errors
from ..decisions import Call, Switch
from ..evolution import construct as construction
from ..evolution import linking
from ..evolution.call import OpenCall, charged, decide_failures, write_call
from ..evolution.candidates import first_vectors, turns_before
from ..evolution.gate import Answers, decide
from ..fetch import living, note_pages
from ..filters import WITHOUT_VECTOR, AnyOf, Condition, Conditions, check_count, unique_ids
from ..ids import new_operation
from ..journal.history import toggle
from ..journal.writer import Writer, as_it_is
from ..notes import Attempts, Namespace, Note, Wording, check_namespace
from ..plans import EvolutionReport, Plan, PlannedNote
from ..ports import RecordQuery
from ..runtime import RULES, Meter, Progress, Runtime, log, resolve
from .forms import write_profile
from .overview import read_budget
from .writing import embed_missing, finish, writing

UNFINISHED = Condition("state", "$in", ("pending", "constructed", "failed"))
MADE_BY_RULES = Condition("attributes_source", "$eq", RULES)
PAGE = 256


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
    if given is None and (thread is not None or ids is not None):
        raise errors.InvalidInputError(f"{thread=} and {ids=} are of one namespace: give it too")
    within = [] if thread is None else [Condition("thread", "$eq", thread)]
    within += [] if ids is None else [Condition("id", "$in", tuple(unique_ids(ids)))]
    tried = () if retry else (Condition("attempts", "$lt", runtime.config.max_attempts),)
    jobs: list[tuple[Conditions, bool]] = [((UNFINISHED, *tried, *within), False)]
    if upgrade and runtime.model_name != RULES:
        jobs.insert(0, ((MADE_BY_RULES, *within), True))
    wanted = AnyOf(((WITHOUT_VECTOR,), *(where for where, _ in jobs)))
    await finish(runtime, given)  # what was decided is asked of no model
    spaces = [given] if given else await resolve(runtime.store.namespaces((wanted,)))
    await embed_missing(replace(runtime, degraded=raise_mistake), spaces)
    work = [(space, where, anew) for where, anew in jobs for space in spaces]
    meter, most = Meter(progress), sys.maxsize if limit is None else limit
    if progress is not False:
        total = sum([await resolve(runtime.store.count(space, where)) for space, where, _ in work])
        meter.total = min(total, most)
    report = EvolutionReport()
    for space, where, anew in work:
        size = min(PAGE, most)
        async for page in note_pages(runtime.store, space, where, size=size, expired=False):
            left = most - len(report.done) - len(report.failed)
            _, done = await evolve_notes(runtime, space, page[:left], meter, upgrade=anew)
            report += done
            is_stopped = done.interrupted and not done.limited
            if is_stopped or len(report.done) + len(report.failed) >= most:
                return report
            if done.limited:
                break
    return report


def raise_mistake(error: errors.AmemError) -> None:
    """Raise an error that waiting does not mend, such as that of a refused key."""
    if not isinstance(error, errors.ModelUnavailableError):
        raise error


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
    await finish(runtime, space)
    there = await living(runtime.store, space, unique_ids(ids))
    with runtime.claims.claiming(there.values()) as mine:
        parts = construction.in_parts(mine, runtime.config.batch_size)
        await read_budget(runtime, space)  # the first call raises
        async with writing(runtime, space, runtime.model_name) as writer:
            calls = await evolve_wave(runtime, writer, parts, link=False)
    report = EvolutionReport()
    for call in calls:
        if call.error is not None:
            raise call.error
        report += call.report
    return {"constructed": [*report.constructed], "failed": {**report.failed}}


async def propose(runtime: Runtime, ids: Sequence[str], *, namespace: Sequence[str]) -> Plan:
    """Return links and updates for constructed notes (Eq. 4-7); writes nothing. The second step.

    Raises:
        ModelUnavailableError: The model did not answer.
        BudgetExceededError: A limit of the day is reached.
    """
    space = check_namespace(namespace)
    await finish(runtime, space)
    there = await living(runtime.store, space, unique_ids(ids))
    notes = linking.ready_notes(there.values())
    await read_budget(runtime, space)
    parts, since = construction.in_parts(notes, runtime.config.batch_size), runtime.clock.tick()
    calls = await _open_calls(runtime, space, parts)
    async with writing(runtime, space, runtime.model_name) as writer, charged(calls):
        width = runtime.config.max_concurrency
        await runtime.map(lambda call: linking.propose(call, writer, {}), calls, width)
    return Plan(
        id=new_operation(),
        namespace=space,
        since=since,
        notes=tuple(one for call in calls for one in call.plans),
        failed={note: why for call in calls for note, why in call.failed.items()},
        shown=tuple(sorted({source for call in calls for source in call.shown})),
        cost=tuple(one for call in calls for one in call.cost),
    )


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
        raise errors.NamespaceError(f"the plan is for namespace {given.namespace!r}, not {space!r}")
    plans = decide(given.notes, answers or {})
    shown = {*given.shown, *(Wording(one.id, one.rev) for one in plans)}
    items = [item for one in plans for item in one.items.values()]
    ids = {*(source.id for source in shown), *given.failed}
    ids |= {end for item in items for end in (item.to, item.other) if end}
    call = OpenCall(runtime, space, id=given.id, seq=min(given.since, runtime.clock.tick()))
    call.shown, call.cost, call.failed = shown, list(given.cost), dict(given.failed)
    async with charged([call]), writing(runtime, space, runtime.model_name) as writer:
        notes = await living(runtime.store, space, sorted(ids))
        # A plan for a wording that is gone, or for a note that is finished by now, is left out.
        current = [one for one in plans if one.id in notes and _waits_for(one, notes[one.id])]
        call.about = notes
        call.seen.show(notes.values())
        await _check_id(writer, call)
        call.plans = [linking.with_sources(call, one) for one in current]
        linking.decide_links(call)
        decide_failures(call, notes.values())
        await write_call(call, writer)
    if call.report.done:
        await write_profile(runtime, space)
    return call.report


async def _check_id(writer: Writer, call: OpenCall) -> None:
    """Do nothing if the id of a plan is free, or the plan was committed before.

    Raises:
        InvalidInputError: Something else has the id.
    """
    found = (await writer.records([call.id])).get(call.id)
    if found is not None and not (isinstance(found, Call) and found.seq == call.seq):
        raise errors.InvalidInputError(f"this plan was made under another id than {call.id!r}")


def _waits_for(plan: PlannedNote, note: Note) -> bool:
    """Return whether a note still waits for what was planned for it."""
    is_next = (plan.rev, plan.attempt) == (note.rev, note.next_attempts.link)
    return is_next and note.own_entry is not None and note.state != "done"


async def evolve_notes(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    meter: Meter | None = None,
    *,
    upgrade: bool = False,
) -> tuple[dict[str, Note], EvolutionReport]:
    """Evolve notes, `max_concurrency` batches at a time; return them as they are now, and what was done.

    The batches of a wave are asked about together and committed in order of seq, so a run gives the
    same result however fast its model answers.
    """
    if refusal := await read_budget(runtime, namespace):
        return {}, EvolutionReport(interrupted=refusal, limited=True)
    made, report, error = dict[str, Note](), EvolutionReport(), None
    with runtime.claims.claiming(notes) as mine:
        parts = construction.in_parts(mine, runtime.config.batch_size)
        width = runtime.config.max_concurrency
        for start in range(0, len(parts), width):
            wave = parts[start : start + width]
            if start:  # what was deleted meanwhile is shown to no model
                ids = [note.id for part in wave for note in part]
                there = await living(runtime.store, namespace, ids)
                wave = [[there[n.id] for n in part if n.id in there] for part in wave]
            async with writing(runtime, namespace, runtime.model_name) as writer:
                calls = await evolve_wave(runtime, writer, wave, upgrade=upgrade)
            for call in calls:
                made |= call.written
                report += call.report
                error = error or call.error
            if error is not None:
                return made, report + _interrupted(runtime, error)
            if meter is not None:
                meter.add(sum(map(len, parts[start : start + width])))
    if report.done:
        await write_profile(runtime, namespace)
    return made, report


def _interrupted(
    runtime: Runtime, error: errors.ModelUnavailableError | errors.ConfigurationError
) -> EvolutionReport:
    """Return the report that evolution was stopped; a limit of the day is no error, and logged once."""
    limited = isinstance(error, errors.BudgetExceededError)
    if not limited:
        if runtime.config.on_model_error == "raise" or isinstance(error, errors.ConfigurationError):
            raise error
        log.warning("%s; the notes are stored, a later evolve() goes on with them", error)
    return EvolutionReport(interrupted=str(error), limited=limited)


async def evolve_wave(
    runtime: Runtime,
    writer: Writer,
    wave: Sequence[Sequence[Note]],
    *,
    link: bool = True,
    upgrade: bool = False,
) -> list[OpenCall]:
    """Construct what is raw, then link, and write both in one commit a batch, in order; return the calls.

    Where the model does not answer about the links, the entries are written alone. The batches of a wave are asked about
    together, so they do not see what each other evolved.

    Args:
        runtime: The ports.
        writer: Writes the decisions.
        wave: The notes of each batch.
        link: Whether the notes are linked too.
        upgrade: Whether the answers take the place of what rules decided. A note without a usable answer then stays as it
            is, where it else counts as failed.
    """
    width = runtime.config.max_concurrency
    if upgrade:
        wave = [[_bared(note) for note in notes] for notes in wave]
    calls = await _open_calls(runtime, writer.namespace, wave)
    async with charged(calls):
        await runtime.map(lambda call: call.take(construction.construct), calls, width)
        fresh = {n.id: n for call in calls for n in linking.ready_notes(call.notes)}
        # All are embedded at once, or the batches would each embed the notes of all.
        if link and calls:
            await calls[0].take(lambda _: first_vectors(runtime, fresh.values()))
            await runtime.map(lambda one: one.take(linking.propose, writer, fresh), calls, width)
        for call in calls:
            linking.decide_links(call)
            if upgrade:  # before: whoever is killed between the two leaves notes that are pending
                entered = {one.note for one in call.decisions if one.stage == "construct"}
                await _switch_rules_off(writer, entered)
                call.report += EvolutionReport(failed=dict(call.failed))
            else:
                decide_failures(call, call.notes)
            await write_call(call, writer)
    return calls


def _bared(note: Note) -> Note:
    """Return a note without what rules made of it, as the next attempt is to see it."""
    construct, link, failure = note.next_attempts
    return note.revised(
        contexts=tuple(entry for entry in note.contexts if entry.cause != note.id),
        links={},
        state="pending",
        next_attempts=Attempts(construct + 1, link + 1, failure),
    )


async def _open_calls(
    runtime: Runtime, namespace: Namespace, parts: Iterable[Sequence[Note]]
) -> list[OpenCall]:
    """Return a call for each part, whose notes are all of one thread, with the turns before them."""
    count = max(construction.TURNS_BEFORE, runtime.config.recent)
    return [
        OpenCall(runtime, namespace, notes, await turns_before(runtime, namespace, notes[0], count))
        for notes in parts
        if notes
    ]


async def _switch_rules_off(writer: Writer, ids: Collection[str]) -> None:
    """Switch off all that rules decided for these notes, what waited for a person too."""
    query = RecordQuery(about=frozenset(ids), newest=1)  # and the notes' own decisions
    own = {key: one for key, one in (await writer.decisions(query)).items() if one.note in ids}
    places: dict[tuple[str, int], Switch] = {
        (key, item.number): "off"
        for key, one in own.items()
        for item in one.items
        if item.by == RULES and item.switch in ("on", "waiting")
    }
    # The answers that are written next give the notes other texts: only these are embedded.
    unembedded = replace(writer, embed=as_it_is)
    await toggle(unembedded, places, {key: own[key] for key, _ in places})
