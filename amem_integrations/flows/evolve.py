"""Evolve: construct, link and update what is unfinished, or take the three steps one by one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ..changes.recovery import recover_interrupted
from ..errors import BudgetExceededError, ModelUnavailableError, NamespaceError
from ..evolution.candidates import turns_before
from ..evolution.commit import commit_plan, write_cost
from ..evolution.construct import TURNS_BEFORE, Batch, Outcome, construct_all
from ..evolution.gate import Decisions, decide
from ..evolution.meanwhile import remove_what_is_gone
from ..evolution.propose import propose_all
from ..evolution.stale_plans import without_quotes
from ..evolution.upgrade import upgrade_batch
from ..fetch import note_pages
from ..filters import Condition, Conditions
from ..ids import clock
from ..notes import Namespace, Note, check_namespace
from ..plans import EvolutionReport, Plan
from ..ports import Look
from ..progress import Meter, Progress, reporter
from ..runtime import RULES, Runtime, resolve
from .ledger import read_budget

log = logging.getLogger("amem_integrations")

UNFINISHED = Condition("state", "$in", ("pending", "constructed", "failed"))
MADE_BY_RULES = Condition("attributes_source", "$eq", RULES)
PAGE = 256

Notes = dict[str, Note]
Step = Callable[[Runtime, Namespace, Sequence[Batch]], Coroutine[Any, Any, Outcome]]


async def evolve(
    runtime: Runtime,
    *,
    namespace: Sequence[str] | None = None,
    limit: int | None = None,
    upgrade: bool = False,
    retry: bool = False,
    progress: bool | Progress = False,
) -> EvolutionReport:
    """Finish what is unfinished, oldest first, and return what was done.

    A namespace that has reached a limit of the day is left as it is, and `interrupted` says so; others go on.

    Args:
        namespace: Whose memory; None works through all of them.
        limit: Most notes to work on.
        upgrade: Also make anew the notes that were made without a language model: what rules wrote and
            linked for them goes (the history keeps it), the user's content and all else stays. A note
            for which the model has no answer stays as it is.
        retry: Also try notes again that failed `MemoryConfig.max_attempts` times, which are otherwise left
            alone: after a change of the model, or of what it is asked by.
        progress: True logs how far it is; a function is called with (notes worked on, notes in all).

    Raises:
        ModelUnavailableError: Only with `on_model_error="raise"`.
    """
    given = None if namespace is None else check_namespace(namespace)
    tried = () if retry else (Condition("attempts", "$lt", runtime.config.max_attempts),)
    jobs: list[tuple[Conditions, Step]] = [((UNFINISHED, *tried), _evolve_wave)]
    if upgrade and runtime.model_name != RULES:
        jobs.insert(0, ((MADE_BY_RULES,), _upgrade_wave))
    store = runtime.store
    work = [
        (space, where, step)
        for where, step in jobs
        for space in ([given] if given else await resolve(store.namespaces(where)))
    ]
    meter = None
    if progress is not False:
        total = sum([await resolve(store.count(space, where)) for space, where, _ in work])
        meter = Meter(reporter(progress), total if limit is None else min(total, limit))
    report, is_down = EvolutionReport(), False
    for space, where, step in work:
        left = None if limit is None else limit - _handled(report)
        if (left is None or left > 0) and not is_down:
            done = await _work_through(runtime, space, where, step, left, meter)
            report, is_down = report + done, bool(done.interrupted) and not done.limited
    return report


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
    notes = await resolve(runtime.store.get(space, list(dict.fromkeys(ids))))
    with runtime.claims.claiming([note for note in notes if note.own_entry is None]) as mine:
        work = await _batches(runtime, space, mine)
        await _limit_reached(runtime, space)  # the first call raises
        since = clock.tick()
        made = await construct_all(runtime, space, work)
        await remove_what_is_gone(runtime, space, _shown(work), since)
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
    notes = await resolve(runtime.store.get(space, list(dict.fromkeys(ids))))
    work = await _batches(runtime, space, _ready(notes))
    await _limit_reached(runtime, space)
    proposal = await propose_all(runtime, space, work)
    if proposal.error is not None:
        await write_cost(runtime, proposal.plan)
        raise proposal.error
    return proposal.plan


async def commit(
    runtime: Runtime,
    plan: Plan | Mapping[str, Any],
    *,
    namespace: Sequence[str],
    decisions: Decisions | None = None,
) -> EvolutionReport:
    """Write a plan and return what changed; committing it again changes nothing. The third step.

    What was corrected or deleted since the plan was made is left out of it.

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
    await remove_what_is_gone(runtime, space, stored, since)
    return done


async def evolve_notes(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    meter: Meter | None,
    step: Step | None = None,
) -> tuple[Notes, EvolutionReport]:
    """Take a step with notes, `max_concurrency` batches at a time; return them as they are now.

    The batches of a wave are asked about together and committed in order of seq, so a run gives the
    same result however fast its model answers.
    """
    if getattr(runtime.store, "interrupted", ()):
        await recover_interrupted(runtime)
    report, take = EvolutionReport(), step or _evolve_wave
    current: Notes = {}
    if refusal := await _limit_reached(runtime, namespace):
        return current, EvolutionReport(interrupted=refusal, limited=True)
    with runtime.claims.claiming(notes) as mine:
        parts = _by_thread(mine, runtime.config.batch_size)
        width = runtime.config.max_concurrency
        for start in range(0, len(parts), width):
            waiting = parts[start : start + width]
            if (
                start
            ):  # the earlier waves took their time; what was deleted meanwhile is shown to no model
                waiting = await _as_they_are(runtime, namespace, waiting)
            wave = [await _batch(runtime, namespace, part) for part in waiting]
            since = clock.tick()
            try:
                done = await take(runtime, namespace, wave)
            except ModelUnavailableError as error:
                left = await remove_what_is_gone(runtime, namespace, _shown(wave), since)
                done = Outcome(notes=left, error=error)
            current |= done.notes
            report += done.report
            if done.error is not None:
                return current, report + _interrupted(runtime, done.error)
            if meter is not None:
                meter.add(sum(len(batch.notes) for batch in wave))
    return current, report


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
    runtime: Runtime,
    namespace: Namespace,
    where: Conditions,
    step: Step,
    limit: int | None,
    meter: Meter | None,
) -> EvolutionReport:
    """Take what meets the conditions in one namespace, a page at a time."""
    report = EvolutionReport()
    size = PAGE if limit is None else min(PAGE, limit)
    async for page in note_pages(runtime.store, namespace, where, size=size):
        left = len(page) if limit is None else limit - _handled(report)
        _, done = await evolve_notes(runtime, namespace, page[:left], meter, step)
        report += done
        if report.interrupted or (limit is not None and _handled(report) >= limit):
            break
    return report


async def _evolve_wave(runtime: Runtime, namespace: Namespace, wave: Sequence[Batch]) -> Outcome:
    raw = [
        Batch(notes=waiting, before=batch.before)
        for batch in wave
        if (waiting := [note for note in batch.notes if note.own_entry is None])
    ]
    notes, since = {note.id: note for batch in wave for note in batch.notes}, clock.tick()
    made = await construct_all(runtime, namespace, raw) if raw else Outcome()
    if made.error is not None:
        left = await remove_what_is_gone(runtime, namespace, _shown(wave), since)
        return replace(made, notes=left)
    current = made.notes
    if runtime.model_name != RULES:
        # The next call may take long: what is gone by now is not shown to it, and a kill then leaves nothing to look for.
        current = await remove_what_is_gone(runtime, namespace, _shown(raw), since)
    notes |= {note_id: current[note_id] for note_id in made.notes if note_id in current}
    linked = await _link(runtime, namespace, wave, notes, _shown(wave), since)
    return replace(linked, report=made.report + linked.report)


async def _upgrade_wave(runtime: Runtime, namespace: Namespace, wave: Sequence[Batch]) -> Outcome:
    async def one(batch: Batch) -> Outcome:
        try:
            notes, made = await upgrade_batch(runtime, namespace, batch)
            return Outcome(notes=notes, report=made)
        except ModelUnavailableError as error:
            return Outcome(error=error)

    since = clock.tick()
    done = await runtime.map(one, wave, runtime.config.max_concurrency)
    upgraded = {note_id: note for made in done for note_id, note in made.notes.items()}
    report = sum((made.report for made in done), EvolutionReport())
    if error := next((made.error for made in done if made.error is not None), None):
        left = await remove_what_is_gone(runtime, namespace, _shown(wave), since)
        return Outcome(notes=left, report=report, error=error)
    current = await remove_what_is_gone(runtime, namespace, _shown(wave), since)
    upgraded = {note_id: current[note_id] for note_id in upgraded if note_id in current}
    linked = await _link(runtime, namespace, wave, upgraded, _shown(wave), since)
    return replace(linked, report=report + linked.report)


async def _link(
    runtime: Runtime,
    namespace: Namespace,
    wave: Sequence[Batch],
    notes: Mapping[str, Note],
    shown: Mapping[str, Note],
    since: int,
) -> Outcome:
    """Propose and commit for those of the notes that are constructed; return all that were shown, as they are."""
    ready = [
        Batch(notes=found, before=batch.before)
        for batch in wave
        if (found := _ready([notes[note.id] for note in batch.notes if note.id in notes]))
    ]
    report, error, current = EvolutionReport(), None, None
    if ready:
        proposal = await propose_all(runtime, namespace, ready)
        known = {**proposal.notes, **{n.id: n for batch in ready for n in batch.notes}}
        shown, error = {**shown, **proposal.notes}, proposal.error
        look = Look(ids=list(shown))
        report = await commit_plan(runtime, proposal.plan, known=known, look=look)
        if not report.failed:  # else notes were written after that look
            current = look.notes
    left = await remove_what_is_gone(runtime, namespace, shown, since, current)
    return Outcome(notes=left, report=report, error=error)


def _ready(notes: Sequence[Note]) -> list[Note]:
    return [note for note in notes if note.own_entry is not None and note.state != "done"]


def _shown(batches: Sequence[Batch]) -> Notes:
    """Return the notes that a model is shown, as it is shown them."""
    return {note.id: note for batch in batches for note in (*batch.before, *batch.notes)}


async def _as_they_are(
    runtime: Runtime, namespace: Namespace, parts: Sequence[Sequence[Note]]
) -> list[list[Note]]:
    ids = [note.id for part in parts for note in part]
    stored = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    current = [[stored[note.id] for note in part if note.id in stored] for part in parts]
    return [part for part in current if part]


async def _batches(runtime: Runtime, namespace: Namespace, notes: Sequence[Note]) -> list[Batch]:
    parts = _by_thread(notes, runtime.config.batch_size)
    return [await _batch(runtime, namespace, part) for part in parts]


async def _batch(runtime: Runtime, namespace: Namespace, notes: Sequence[Note]) -> Batch:
    count = max(TURNS_BEFORE, runtime.config.recent)
    return Batch(notes=notes, before=await turns_before(runtime, namespace, notes[0], count))


def _by_thread(notes: Sequence[Note], size: int) -> list[list[Note]]:
    """Return the notes in batches of one thread, in order of seq: as few as possible, and of about the same size.

    A note that failed before goes alone, so that it cannot fail others again.
    """
    ordered = sorted(notes, key=lambda note: (note.thread or "", note.attempts > 0, note.seq))
    made: list[list[Note]] = []
    for (_, retried), group in groupby(ordered, key=lambda n: (n.thread or "", n.attempts > 0)):
        alike = list(group)
        step = 1 if retried else _even(len(alike), size)
        made += [alike[i : i + step] for i in range(0, len(alike), step)]
    return sorted(made, key=lambda batch: batch[0].seq)


def _even(count: int, size: int) -> int:
    """Return how many go into a batch, so that the last one is not much smaller than the others."""
    parts = -(-count // size)
    return -(-count // parts)


def _handled(report: EvolutionReport) -> int:
    return len(report.done) + len(report.failed)
