"""Usage: what chat models have cost each namespace by day, as the history of the store has it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from ..budget import Budget, LedgerEntry
from ..fetch import all_changes
from ..filters import check_count
from ..ids import now
from ..notes import Namespace, check_namespace
from ..runtime import Runtime, resolve

NANOSECONDS = 10**9


async def usage(
    runtime: Runtime, *, namespace: Sequence[str] | None = None, days: int | None = None
) -> list[LedgerEntry]:
    """Return what chat models have cost, by day (UTC), namespace, task and model; the oldest day first.

    It is kept in the store, so it holds the calls of all processes, and what was spent on notes that were deleted
    since. A call counts for the day on which its operation began, and is written together with what the operation
    brought: the calls of a plan with its `commit`. What this memory asked since it was opened is in `stats`.

    Args:
        namespace: Whose memory; None takes all that hold notes.
        days: How many days back, of which today is the first; None goes back to the start.

    Raises:
        InvalidInputError: `days` is no whole number of at least 1.
    """
    since = None
    if days is not None:
        check_count("days", days)
        since = now().date() - timedelta(days=min(days, now().toordinal()) - 1)
    given = None if namespace is None else check_namespace(namespace)
    spaces = [given] if given else await resolve(runtime.store.namespaces())
    entries = [entry for space in spaces for entry in await spent_by(runtime, space, since)]
    return sorted(entries, key=lambda entry: (entry.day, entry.namespace, entry.model, entry.task))


async def spent_by(
    runtime: Runtime, namespace: Namespace, since: date | None = None
) -> list[LedgerEntry]:
    """Return what one namespace has spent, from a day on."""
    after = -1
    if since is not None:  # nothing is written before its day
        after = int(datetime.combine(since, time(), UTC).timestamp()) * NANOSECONDS - 1
    sums: defaultdict[tuple[date, str, str], Counter[str]] = defaultdict(Counter)
    for made in await all_changes(runtime.store, namespace, kinds=("usage",), after=after):
        day = date.fromisoformat(made.data["day"])
        if since is None or day >= since:
            for task, counts in made.data["tasks"].items():
                sums[day, task, made.model or ""].update(counts)
    return [
        LedgerEntry(day=day, namespace=namespace, task=task, model=model, **counts)
        for (day, task, model), counts in sums.items()
    ]


async def read_budget(runtime: Runtime, budget: Budget, namespace: Namespace) -> str | None:
    """Let the budget know what the ledger says of today, by one query; return why it allows no more, if so."""
    if budget.refuse(namespace) is None:
        budget.take_over(namespace, await spent_by(runtime, namespace, now().date()))
    return budget.refuse(namespace)
