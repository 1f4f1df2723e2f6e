"""Evolution in the background: a thread for the namespaces that have something pending."""

from __future__ import annotations

from amem_integrations import AgenticMemory, AmemError
from amem_integrations.adapting import Background

from ._failures import Failures, log

Namespace = tuple[str, ...]


def worker(memory: AgenticMemory, failures: Failures) -> Background[Namespace | None]:
    """Return what evolves all that is pending in the namespaces it is told of; None is all of them.

    Nothing is lost when the process dies: the notes are stored before the worker hears of them, and with
    None one looks for what an earlier process left. What waiting would not mend comes out of `flush`. A
    `ConfigurationError` may say that a port has only an asynchronous form, which is bound to the user's
    loop: evolve with `write="inline"` then.
    """

    def evolve(namespace: Namespace | None) -> None:
        try:
            with failures.tolerated("evolve"):
                memory.evolve(namespace=namespace)
        except Exception as error:
            message = "evolution in the background stopped, the notes wait: %s"
            log.error(message, error, exc_info=not isinstance(error, AmemError))
            raise

    return Background(evolve)
