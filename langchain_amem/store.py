"""`AMemStore`: the memory as LangGraph's long-term store."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from amem_integrations import AgenticMemory, AmemError, ConfigurationError, MissingExtraError, Note
from amem_integrations.adapting import Call, both, check_flags, evolve_turn

from .runs import Failures, Namespace
from .store_batch import Batch, Gathering, Group
from .store_items import Items, are_paths, checked_labels, is_time_to_live

try:
    from langgraph.store.base import (
        BaseStore,
        Op,
        Result,
        TTLConfig,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

log = logging.getLogger("langchain_amem")

SWEEP_MINUTES = 5.0  # as in LangGraph's own stores


class AMemStore(BaseStore):
    """A LangGraph store in which items are notes.

    What is put is returned exactly. Beside it each item has a note that is found by meaning, by words and
    over links, and evolves (`evolve=True`, or `memory.evolve()`); `note` returns it. Notes of a namespace
    that are no items are left alone.

    - **Search.** Best first, as the memory ranks. `score` is the cosine of query and note, or that of a
      result further down if that is higher. A prefix asks each namespace under it.
    - **Several indexed paths** make one text and one vector.
    - **What is not indexed** (`index=False`, or no text at the paths) comes last in a search, without a
      score, and only if there is room. It is kept apart, in the namespace `(*namespace,
      "langgraph.unindexed")` of the memory, where no search of the memory finds it.
    - **Time to live.** What has expired is found by no search and no other door of the memory, and deleted by
      `sweep_ttl`, which `start_ttl_sweeper` calls at intervals. A read that refreshes prolongs by a tenth more
      than the time to live, and then need not write again for so long. An item that is put without one is kept
      as long as `MemoryConfig.ttl` of the memory says.

    https://reference.langchain.com/python/langgraph/store/
    """

    supports_ttl = True

    def __init__(
        self,
        memory: AgenticMemory,
        *,
        fields: Sequence[str] | None = None,
        evolve: bool = False,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Set up.

        Args:
            memory: The memory to keep items in.
            fields: Paths in the value that are indexed if `put` names none; "$" is all of it, and so is no path.
            evolve: Put items as notes of a conversation, which are constructed, linked and evolve when they are put.
            ttl: Default time to live, whether reading refreshes it (LangGraph's default: yes), and how
                often `start_ttl_sweeper` sweeps; in minutes.

        Raises:
            ConfigurationError: `fields` is no list of paths, `ttl` not as LangGraph has it, or `evolve` neither
                True nor False.
        """
        check_flags(evolve=evolve)
        _check_ttl(ttl)
        if fields and not are_paths(fields):
            raise ConfigurationError(f"fields={fields!r} must be a list of paths, such as ['text']")
        self._items = Items(memory, evolve=evolve)
        self._fields = tuple(fields or ("$",))
        self._evolve = evolve
        self._failures = Failures()
        self.ttl_config = ttl
        self._sweeper: threading.Thread | None = None
        self._stopped = threading.Event()
        self._gathering = Gathering(self._work)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation; all reads come before all writes.

        Raises:
            ValueError: An operation is wrong; then nothing is written.
        """
        group = Group(list(ops))
        self._work([group])
        written = group.outcome().written
        if self._evolve:
            self._evolve_written(written)
        return group.results

    async def _evolve_notes(self, call: Call, written: Mapping[Namespace, Sequence[str]]) -> None:
        for namespace, ids in written.items():
            with self._failures.tolerated("evolve", answered=True):
                await evolve_turn(call, self._items.memory, namespace, ids)

    _evolve_written = both(_evolve_notes)[0]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation, worked out off the event loop.

        What several tasks ask for at the same time is worked out together; a wrong operation of one of them is
        no matter of the others.
        """
        group = await self._gathering.run(Group(list(ops)))
        if self._evolve:
            await asyncio.to_thread(self._evolve_written, group.written)
        return group.results

    def _work(self, groups: Sequence[Group]) -> None:
        # What is evolved when it is put is written by itself, so that each call works on its own notes first.
        Batch(self._items, self._fields, groups).run(together=not self._evolve)

    def note(self, namespace: Namespace, key: str) -> Note | None:
        """Return the note of an item, with what evolution made of it."""
        return self._items.find_all(checked_labels(namespace), [key]).get(key)

    def sweep_ttl(self) -> int:
        """Delete what has expired, items or other notes of the memory, and return how many that were."""
        return self._items.sweep()

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Delete what has expired at intervals, in a thread that ends with the memory or the process.

        Args:
            sweep_interval_minutes: How often; by default as `ttl` says, else every 5 minutes.

        Returns:
            A future that is done when the thread has stopped; cancelling it stops the thread. Without a `ttl`
            there is nothing to sweep, and it is done at once.
        """
        future: Future[None] = Future()
        if not self.ttl_config:
            future.set_result(None)
            return future
        future.add_done_callback(lambda done: self._stopped.set() if done.cancelled() else None)
        if self._sweeper is None or not self._sweeper.is_alive():
            minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes")
            self._stopped.clear()
            self._sweeper = threading.Thread(
                target=self._sweep_at_intervals,
                args=(60 * (minutes or SWEEP_MINUTES), future),
                name="amem-ttl-sweeper",
                daemon=True,
            )
            self._items.memory.on_close(self.stop_ttl_sweeper)
            self._sweeper.start()
        return future

    def stop_ttl_sweeper(self, timeout: float | None = 1.0) -> bool:
        """Stop the thread, and return whether it has ended within `timeout` seconds."""
        self._stopped.set()
        if self._sweeper is None:
            return True
        self._sweeper.join(timeout)
        return not self._sweeper.is_alive()

    def _sweep_at_intervals(self, seconds: float, future: Future[None]) -> None:
        while not self._stopped.wait(seconds):
            try:
                if swept := self.sweep_ttl():
                    log.info("%d expired items were deleted", swept)
            except AmemError:
                log.exception("expired items could not be deleted; the next sweep tries again")
        if not future.cancelled():
            future.set_result(None)


def _check_ttl(ttl: object) -> None:
    if ttl is None:
        return
    known = TTLConfig.__annotations__
    if not isinstance(ttl, Mapping) or not set(ttl) <= set(known):
        raise ConfigurationError(f"ttl={ttl!r} must be a dict of {', '.join(known)}")
    for name, value in ttl.items():
        if name in ("refresh_on_read", "omit_expired"):
            check_flags(**{name: value})
        elif value is not None and not is_time_to_live(value):
            raise ConfigurationError(f"{name}={value!r} of ttl must be a number of minutes")
