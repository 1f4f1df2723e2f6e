"""Facade: `evolve`, and the three steps it is made of, each with its asynchronous twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._sync import run
from ..engine import Decisions, Progress
from ..plans import EvolutionReport, Plan
from .base import Base
from .opening import reporter


class EvolvingMethods(Base):
    """`evolve`, `construct`, `propose`, `commit`."""

    def evolve(
        self,
        *,
        namespace: Sequence[str] | None = None,
        limit: int | None = None,
        upgrade: bool = False,
        retry: bool = False,
        progress: bool | Progress = False,
    ) -> EvolutionReport:
        """Finish what is unfinished, oldest first, and return what was done.

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
        return run(
            self._engine.evolve(
                namespace=namespace,
                limit=limit,
                upgrade=upgrade,
                retry=retry,
                progress=reporter(progress),
            )
        )

    async def aevolve(
        self,
        *,
        namespace: Sequence[str] | None = None,
        limit: int | None = None,
        upgrade: bool = False,
        retry: bool = False,
        progress: bool | Progress = False,
    ) -> EvolutionReport:
        """Asynchronous twin of `evolve`."""
        return await self._async_engine.evolve(
            namespace=namespace,
            limit=limit,
            upgrade=upgrade,
            retry=retry,
            progress=reporter(progress),
        )

    def construct(self, ids: Sequence[str], *, namespace: Sequence[str]) -> dict[str, Any]:
        """Give pending notes their keywords, tags and context (Eq. 2); the first of three steps.

        Returns `{"constructed": [ids], "failed": {id: reason}}`. Notes that have their attributes already
        are left alone, so doing it again costs nothing.

        Raises:
            ModelUnavailableError: The model did not answer; what was finished stays.
        """
        return run(self._engine.construct(ids, namespace=namespace))

    async def aconstruct(self, ids: Sequence[str], *, namespace: Sequence[str]) -> dict[str, Any]:
        """Asynchronous twin of `construct`."""
        return await self._async_engine.construct(ids, namespace=namespace)

    def propose(self, ids: Sequence[str], *, namespace: Sequence[str]) -> Plan:
        """Return links and updates for constructed notes (Eq. 4-7); writes nothing. The second step.

        Raises:
            ModelUnavailableError: The model did not answer.
        """
        return run(self._engine.propose(ids, namespace=namespace))

    async def apropose(self, ids: Sequence[str], *, namespace: Sequence[str]) -> Plan:
        """Asynchronous twin of `propose`."""
        return await self._async_engine.propose(ids, namespace=namespace)

    def commit(
        self,
        plan: Plan | Mapping[str, Any],
        *,
        namespace: Sequence[str],
        decisions: Decisions | None = None,
    ) -> EvolutionReport:
        """Write a plan and return what changed; committing it again changes nothing. The third step.

        Args:
            plan: What `propose` gave, or its `to_dict()`.
            namespace: Whose memory; a plan for another one is refused.
            decisions: By update id: True (write it, whatever the gate says), False (do not), or a dict
                with other `context`, `keywords` or `tags`. The rest stays as the gate left it.

        Raises:
            InvalidInputError: A decision is about no update of this plan.
            NamespaceError: The plan is for another namespace.
        """
        return run(self._engine.commit(plan, namespace=namespace, decisions=decisions))

    async def acommit(
        self,
        plan: Plan | Mapping[str, Any],
        *,
        namespace: Sequence[str],
        decisions: Decisions | None = None,
    ) -> EvolutionReport:
        """Asynchronous twin of `commit`."""
        return await self._async_engine.commit(plan, namespace=namespace, decisions=decisions)
