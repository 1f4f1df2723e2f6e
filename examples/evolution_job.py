"""A job for a queue, such as Celery's: evolve one thread. It may run twice, late, or in two workers at once.

The chat stores what is said and submits a job; whoever takes it finishes the thread. Here the queue is a list.
"""

from __future__ import annotations

from collections.abc import Sequence

from amem_integrations import AgenticMemory, ModelUnavailableError
from amem_integrations.testing import HashEmbedder


def evolve_thread(memory: AgenticMemory, namespace: Sequence[str], thread: str) -> int:
    """Finish what is pending in a thread; return how many notes that were.

    Raises:
        ModelUnavailableError: The model did not answer; the queue should try again later.
    """
    report = memory.evolve(namespace=namespace, thread=thread)
    if report.interrupted and not report.limited:
        raise ModelUnavailableError(report.interrupted)
    return len(report.done)


def main() -> None:
    """Store a turn, and do its job twice."""
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        for text in ("My sister's wedding is on 14 June.", "The wedding is in Porto."):
            memory.add(text, namespace=("ann",), thread="monday", evolve=False)
        jobs = [(["ann"], "monday")] * 2
        for namespace, thread in jobs:
            print(f"{evolve_thread(memory, namespace, thread)} notes finished")


if __name__ == "__main__":
    main()
