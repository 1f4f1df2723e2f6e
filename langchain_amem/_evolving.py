"""The steps of the evolution graph: each a thin face of one public step of the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from amem_integrations import AgenticMemory, EvolutionReport, NamespaceError, Plan
from amem_integrations.adapting import check_namespace

from . import _applied as applied
from ._failures import Failures
from ._graphs import as_json, run_of, tell
from ._run import NamespaceOf, namespace_of

NEW = {"state": {"$in": ["pending", "constructed"]}}

State = Mapping[str, Any]
Update = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolving:
    """Construct, propose, commit, as nodes.

    The first step puts the namespace into the state; the others read it only from there, so a run that
    is resumed with someone else's context still writes where it began.
    """

    memory: AgenticMemory
    namespace: NamespaceOf | None
    limit: int
    failures: Failures

    def construct(self, state: State, config: RunnableConfig) -> Update:
        """Give unfinished notes their attributes; idempotent, so it may write."""
        space = self._space(state, config)
        begun = self._begin(space)
        with self.failures.tolerated("construct") as reasons:
            notes = self.memory.get_all(namespace=space, where=NEW, limit=self.limit)
            # What failed before is tried again, after what is new.
            if left := self.limit - len(notes):
                notes += self.memory.get_all(namespace=space, where=self._failed, limit=left)
            begun["ids"] = [note.id for note in notes]
            outcome = self.memory.construct(begun["ids"], namespace=space)
            return self._constructed(begun, outcome)
        return _interrupted(begun, "construct", reasons)

    async def aconstruct(self, state: State, config: RunnableConfig) -> Update:
        """Asynchronous twin of `construct`."""
        space = self._space(state, config)
        begun = self._begin(space)
        with self.failures.tolerated("construct") as reasons:
            notes = await self.memory.aget_all(namespace=space, where=NEW, limit=self.limit)
            # What failed before is tried again, after what is new.
            if left := self.limit - len(notes):
                notes += await self.memory.aget_all(namespace=space, where=self._failed, limit=left)
            begun["ids"] = [note.id for note in notes]
            outcome = await self.memory.aconstruct(begun["ids"], namespace=space)
            return self._constructed(begun, outcome)
        return _interrupted(begun, "construct", reasons)

    def propose(self, state: State) -> Update:
        """Ask for links and updates; writes nothing."""
        with self.failures.tolerated("propose") as reasons:
            return self._proposed(self.memory.propose(state["ids"], namespace=_kept(state)))
        return _interrupted(state, "propose", reasons)

    async def apropose(self, state: State) -> Update:
        """Asynchronous twin of `propose`."""
        with self.failures.tolerated("propose") as reasons:
            return self._proposed(await self.memory.apropose(state["ids"], namespace=_kept(state)))
        return _interrupted(state, "propose", reasons)

    def commit(self, state: State) -> Update:
        """Write the plan; committing it again changes nothing."""
        if not state["plan"]:
            return self._committed(state, EvolutionReport())
        with self.failures.tolerated("commit") as reasons:
            report = self.memory.commit(
                state["plan"], namespace=state["plan"]["namespace"], decisions=state["decisions"]
            )
            if applied.was_before(state["plan"], report):
                report = applied.report(report, state["plan"], self.memory.get_all(**_seen(state)))
            return self._committed(state, report)
        return _interrupted(state, "commit", reasons)

    async def acommit(self, state: State) -> Update:
        """Asynchronous twin of `commit`."""
        if not state["plan"]:
            return self._committed(state, EvolutionReport())
        with self.failures.tolerated("commit") as reasons:
            report = await self.memory.acommit(
                state["plan"], namespace=state["plan"]["namespace"], decisions=state["decisions"]
            )
            if applied.was_before(state["plan"], report):
                notes = await self.memory.aget_all(**_seen(state))
                report = applied.report(report, state["plan"], notes)
            return self._committed(state, report)
        return _interrupted(state, "commit", reasons)

    @property
    def _failed(self) -> dict[str, Any]:
        """What failed, but not too often."""
        return {"state": "failed", "attempts": {"$lt": self.memory.config.max_attempts}}

    def _space(self, state: State, config: RunnableConfig) -> tuple[str, ...]:
        if self.namespace is not None:
            return namespace_of(self.namespace, run_of(state, config))
        if state.get("namespace"):
            return check_namespace(state["namespace"])
        raise NamespaceError(
            "nothing says whose memory to evolve; give build_evolution_graph a `namespace`, or put "
            "`namespace` into the state"
        )

    def _begin(self, space: tuple[str, ...]) -> Update:
        # A thread may run this graph many times: nothing of an earlier run may show through.
        empty: Update = {"ids": [], "plan": {}, "decisions": {}, "evolution": {}}
        return {"namespace": list(space), **empty}

    def _constructed(self, begun: Update, outcome: Mapping[str, Any]) -> Update:
        tell("construct", **outcome)
        return {**begun, "evolution": as_json(outcome)}

    def _proposed(self, plan: Plan) -> Update:
        updates = [update for note in plan.notes for update in note.updates]
        tell(
            "propose",
            notes=[note.id for note in plan.notes],
            links=sum(len(note.links) for note in plan.notes),
            updates=len(updates),
            stopped=sum(update.rejected is not None for update in updates),
        )
        return {"plan": as_json(plan.to_dict())}

    def _committed(self, state: State, report: EvolutionReport) -> Update:
        before = state["evolution"]
        whole = EvolutionReport(
            constructed=tuple(before.get("constructed", ())),
            failed=before.get("failed", {}),
            interrupted=before.get("interrupted"),
        )
        plain = as_json((whole + report).to_dict())
        tell("commit", **plain)
        return {"evolution": plain}


def _seen(state: State) -> dict[str, Any]:
    """Return how to read the notes that a plan touches."""
    ids = applied.touched(state["plan"])
    return {"namespace": _kept(state), "where": {"id": {"$in": ids}}, "limit": len(ids)}


def _kept(state: State) -> tuple[str, ...]:
    return check_namespace(state["namespace"])


def _interrupted(state: State, step: str, reasons: list[str]) -> Update:
    """Return a report that says where it stopped and why; what is unfinished stays so."""
    reason = "; ".join(reasons)
    found = {**state.get("evolution", {}), "interrupted": reason}
    tell(step, interrupted=reason)
    begun = dict(state) if step == "construct" else {}
    return {**begun, "plan": {}, "evolution": found}
