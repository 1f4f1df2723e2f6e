"""Usage: what chat models have cost each namespace by day, as the records of their calls say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from ..budget import Budget, LedgerEntry
from ..decisions import Call
from ..filters import check_count
from ..ids import first_seq, now, time_of
from ..notes import Namespace, check_namespace
from ..ports import RecordQuery
from ..runtime import Runtime, resolve


async def usage(
    runtime: Runtime, *, namespace: Sequence[str] | None = None, days: int | None = None
) -> list[LedgerEntry]:
    """Return what chat models have cost, by day (UTC), namespace, task and model; the oldest day first.

    It is kept in the store, so it holds the calls of all processes, and what was spent on notes that were deleted
    since. A call counts for the day on which its operation began, and is written together with what the operation
    brought: the calls of a plan with its `commit`. What this memory asked since it was opened is in `stats`.

    Args:
        namespace: Whose memory; None takes all.
        days: How many days back, of which today is the first; None goes back to the start.

    Raises:
        InvalidInputError: `days` is no whole number of at least 1.
    """
    since = None
    if days is not None:
        check_count("days", days)
        since = now().date() - timedelta(days=min(days, now().toordinal()) - 1)
    given = None if namespace is None else check_namespace(namespace)
    spaces = [given] if given else await resolve(runtime.store.namespaces(recorded=True))
    entries = [entry for space in spaces for entry in await spent_by(runtime, space, since)]
    return sorted(entries, key=lambda entry: (entry.day, entry.namespace, entry.model, entry.task))


async def spent_by(
    runtime: Runtime, namespace: Namespace, since: date | None = None
) -> list[LedgerEntry]:
    """Return what one namespace has spent, from a day on."""
    after = 0
    if since is not None:
        after = first_seq(datetime.combine(since, time(), UTC))
    found = await resolve(
        runtime.store.find_records(namespace, RecordQuery(calls_only=True, since=after))
    )
    sums: defaultdict[tuple[date, str, str], Counter[str]] = defaultdict(Counter)
    for call in found.values():
        if isinstance(call, Call):
            for one in call.data.get("model_calls", ()):
                amounts = {name: one.get(name, 0) for name in ("input_tokens", "output_tokens")}
                sums[time_of(call.seq).date(), one["task"], call.by].update(calls=1, **amounts)
    return [
        LedgerEntry(day=day, namespace=namespace, task=task, model=model, **counts)
        for (day, task, model), counts in sums.items()
    ]


async def read_budget(runtime: Runtime, budget: Budget, namespace: Namespace) -> str | None:
    """Let the budget know what the ledger says of today, by one query; return why it allows no more, if so."""
    if budget.refuse(namespace) is None:
        budget.take_over(namespace, await spent_by(runtime, namespace, now().date()))
    return budget.refuse(namespace)
