"""When notes evolve: what this turn added, and a bounded number of what earlier turns left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from ..conversation import Remember
from ..errors import ConfigurationError, ModelUnavailableError
from ..memory import AgenticMemory
from ..plans import EvolutionReport
from ..runtime import RULES
from .calls import Call

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


def checked_remember(memory: AgenticMemory, remember: Remember) -> Remember:
    """Return what is to be kept of a conversation.

    Raises:
        ConfigurationError: It is none of the values that it can be, or facts are wanted of a memory without a
            language model.
    """
    if remember not in get_args(Remember):
        raise ConfigurationError(f"remember={remember!r} must be one of {get_args(Remember)}")
    if remember != "turns" and memory.model_name == RULES:
        raise ConfigurationError(
            f"remember={remember!r} needs a language model, which writes the facts, and this memory works by rules; "
            "give AgenticMemory.open(model=…) one, or leave it at 'turns'"
        )
    return remember


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
