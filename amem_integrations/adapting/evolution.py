"""When notes evolve: what this turn added, and a bounded number of what earlier turns left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..errors import ConfigurationError, ModelUnavailableError
from ..memory import AgenticMemory
from ..plans import EvolutionReport
from .twins import Call

# Whether what a turn adds evolves in it; "worker" leaves that to `AgenticMemory.work`, run elsewhere.
Evolving = bool | Literal["worker"]

# Unfinished notes of earlier turns that a turn also finishes: after an outage the backlog shrinks with every
# turn, and none of them waits for all of it.
LEFT_OVERS = 8


def evolves_now(evolve: Evolving) -> bool:
    """Return whether notes evolve in the turn itself.

    Raises:
        ConfigurationError: It is none of the values that it can be.
    """
    if not isinstance(evolve, bool) and evolve != "worker":
        raise ConfigurationError(f"evolve={evolve!r} must be True, False or 'worker'")
    return evolve is True


async def evolve_turn(
    call: Call,
    memory: AgenticMemory,
    namespace: tuple[str, ...],
    ids: Sequence[str] = (),
    *,
    left_overs: int = LEFT_OVERS,
) -> EvolutionReport:
    """Construct, link and evolve these notes, then up to `left_overs` others that are unfinished.

    Where a limit of the day is reached, the report says so; the notes stay as they are until the next day.

    Raises:
        ModelUnavailableError: The model did not answer for `ids`; the notes stay as they are, and a later
            turn goes on with them.
    """
    report = EvolutionReport()
    if ids:
        report = await call(memory.evolve, namespace=namespace, ids=ids)
        if report.interrupted and not report.limited:
            raise ModelUnavailableError(report.interrupted)
    if left_overs and not report.limited:
        report += await call(memory.evolve, namespace=namespace, limit=left_overs)
    return report
