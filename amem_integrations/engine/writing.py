"""The flows that write: add, evolve, and the three steps they are made of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from .._sync import resolve
from ..errors import ModelUnavailableError, NamespaceError
from ..filters import Condition, Conditions
from ..ids import check_namespace
from ..notes import Namespace, Note, NoteInput
from ..plans import EvolutionReport, Plan
from ..runtime import Runtime
from .claims import Claims
from .committing import commit_plan
from .decisions import Decisions
from .editing import Editing
from .evolution import Work, batches, construct_all, propose_all
from .intake import store_raw
from .progress import Meter, Progress
from .upgrading import RULES, upgrade_batch

log = logging.getLogger("amem_integrations")

UNFINISHED = Condition("state", "$in", ("pending", "constructed", "failed"))
MADE_BY_RULES = Condition("attributes_source", "$eq", RULES)
PAGE = 256
Wave = Callable[[Namespace, Work], Coroutine[Any, Any, EvolutionReport]]


class Writing:
    """Flows over the ports of `runtime`. `claims` is shared by all flows of one memory."""

    def __init__(self, runtime: Runtime, claims: Claims) -> None:
        self._runtime = runtime
        self._claims = claims

    async def add_many(
        self,
        items: Sequence[NoteInput],
        *,
        namespace: Sequence[str],
        evolve: bool,
        progress: Progress | None = None,
    ) -> list[Note]:
        """Store notes raw, then, with `evolve`, construct, link and evolve the new ones."""
        space = check_namespace(namespace)
        stored = await store_raw(self._runtime, space, items)
        for note_id in stored.surplus:
            await Editing(self._runtime).delete(note_id, namespace=space)
        if not (evolve and stored.needing):
            return stored.notes
        meter = Meter(progress, len(stored.needing))
        await self._evolve_notes(space, stored.needing, self._wave, meter)
        return await self._fresh(space, stored.notes)

    async def evolve(
        self,
        *,
        namespace: Sequence[str] | None,
        limit: int | None,
        upgrade: bool = False,
        retry: bool = False,
        progress: Progress | None = None,
    ) -> EvolutionReport:
        """Finish what is unfinished, oldest first, in one namespace or (None) in all.

        With `upgrade`, notes made without a language model are made again first. With `retry`, notes that
        failed as often as the settings allow are tried once more.
        """
        given = None if namespace is None else check_namespace(namespace)
        tried = () if retry else (Condition("attempts", "$lt", self._runtime.config.max_attempts),)
        jobs: list[tuple[Conditions, Wave]] = [((UNFINISHED, *tried), self._wave)]
        if upgrade and self._runtime.model_name != RULES:
            jobs.insert(0, ((MADE_BY_RULES,), self._upgrade_wave))
        work = [
            (space, where, wave)
            for where, wave in jobs
            for space in ([given] if given else await self._holding(where))
        ]
        total = sum(
            [await self._count(space, where) for space, where, _ in work if progress is not None]
        )
        meter = Meter(progress, total if limit is None else min(total, limit))
        report = EvolutionReport()
        for space, where, wave in work:
            left = None if limit is None else limit - _handled(report)
            if (left is None or left > 0) and not report.interrupted:
                report += await self._work_through(space, where, wave, left, meter)
        return report

    async def _holding(self, where: Conditions) -> list[Namespace]:
        return await resolve(self._runtime.store.namespaces(where))

    async def _count(self, namespace: Namespace, where: Conditions) -> int:
        return await resolve(self._runtime.store.count(namespace, where))

    async def construct(self, ids: Sequence[str], *, namespace: Sequence[str]) -> dict[str, Any]:
        """Give pending notes their attributes."""
        space = check_namespace(namespace)
        notes = await resolve(self._runtime.store.get(space, _unique_ids(ids)))
        waiting = [note for note in notes if note.own_entry is None]
        with self._claims.claiming(waiting) as mine:
            report = await construct_all(self._runtime, space, self._batches(mine))
        return {"constructed": list(report.constructed), "failed": dict(report.failed)}

    async def propose(self, ids: Sequence[str], *, namespace: Sequence[str]) -> Plan:
        """Return what is to be linked and updated for constructed notes; nothing is written."""
        space = check_namespace(namespace)
        notes = await resolve(self._runtime.store.get(space, _unique_ids(ids)))
        ready = [note for note in notes if note.own_entry is not None and note.state != "done"]
        return await propose_all(self._runtime, space, self._batches(ready))

    async def commit(
        self,
        plan: Plan | Mapping[str, Any],
        *,
        namespace: Sequence[str],
        decisions: Decisions | None,
    ) -> EvolutionReport:
        """Write a plan; doing it again changes nothing."""
        ready = plan if isinstance(plan, Plan) else Plan.from_dict(plan)
        if ready.namespace != (space := check_namespace(namespace)):
            raise NamespaceError(f"this plan is for namespace {ready.namespace!r}, not {space!r}")
        return await commit_plan(self._runtime, ready, decisions, again=True)

    async def _work_through(
        self,
        namespace: Namespace,
        where: Conditions,
        wave: Wave,
        limit: int | None,
        meter: Meter,
    ) -> EvolutionReport:
        """Take what meets the conditions in one namespace, a page at a time."""
        report, after = EvolutionReport(), -1
        while not report.interrupted and (limit is None or _handled(report) < limit):
            size = PAGE if limit is None else min(PAGE, limit - _handled(report))
            later = (*where, Condition("seq", "$gt", after))
            page = await resolve(self._runtime.store.scan(namespace, where=later, limit=size))
            if not page:
                break
            after = page[-1].seq
            report += await self._evolve_notes(namespace, page, wave, meter)
        return report

    async def _evolve_notes(
        self, namespace: Namespace, notes: Sequence[Note], step: Wave, meter: Meter
    ) -> EvolutionReport:
        """Take a step with notes, `max_concurrency` batches at a time.

        The batches of a wave are asked about together and committed in order of seq, so a run gives the
        same result however fast its model answers.
        """
        report = EvolutionReport()
        with self._claims.claiming(notes) as mine:
            work = self._batches(mine)
            width = self._runtime.config.max_concurrency
            for start in range(0, len(work), width):
                wave = work[start : start + width]
                try:
                    report += await step(namespace, wave)
                except ModelUnavailableError as error:
                    if self._runtime.config.on_model_error == "raise":
                        raise
                    log.warning(
                        "%s; the notes are stored, a later evolve() goes on with them", error
                    )
                    return report + EvolutionReport(interrupted=str(error))
                meter.add(sum(map(len, wave)))
        return report

    async def _upgrade_wave(self, namespace: Namespace, wave: Work) -> EvolutionReport:
        async def one(batch: Sequence[Note]) -> EvolutionReport:
            return await upgrade_batch(self._runtime, namespace, batch)

        width = self._runtime.config.max_concurrency
        report = sum(await self._runtime.map(one, wave, width), EvolutionReport())
        return report + await self._link(namespace, report.constructed)

    async def _wave(self, namespace: Namespace, wave: Work) -> EvolutionReport:
        ids = [note.id for batch in wave for note in batch]
        raw = [[note for note in batch if note.own_entry is None] for batch in wave]
        work = [batch for batch in raw if batch]
        report = await construct_all(self._runtime, namespace, work)
        return report + await self._link(namespace, ids)

    async def _link(self, namespace: Namespace, ids: Sequence[str]) -> EvolutionReport:
        """Propose and commit what there is for those of the notes that are constructed."""
        notes = await resolve(self._runtime.store.get(namespace, ids))
        ready = [note for note in notes if note.own_entry is not None and note.state != "done"]
        plan = await propose_all(self._runtime, namespace, self._batches(ready))
        return await commit_plan(self._runtime, plan)

    def _batches(self, notes: Sequence[Note]) -> list[list[Note]]:
        return batches(notes, self._runtime.config.batch_size)

    async def _fresh(self, namespace: Namespace, notes: Sequence[Note]) -> list[Note]:
        ids = _unique_ids([note.id for note in notes])
        stored = {n.id: n for n in await resolve(self._runtime.store.get(namespace, ids))}
        return [stored.get(note.id, note) for note in notes]


def _handled(report: EvolutionReport) -> int:
    return len(report.done) + len(report.failed)


def _unique_ids(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ids))
