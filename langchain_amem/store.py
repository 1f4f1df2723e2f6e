"""`AMemStore`: the memory as LangGraph's long-term store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from amem_integrations import AgenticMemory, MissingExtraError, Note

from ._store_items import Namespace, alive, found_item, item_of, shown
from ._store_match import checked_labels, listed
from ._store_notes import Items
from ._store_search import Search

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchOp,
        TTLConfig,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error


class AMemStore(BaseStore):
    """A LangGraph store in which items are notes.

    What is put is returned exactly. Beside it each item has a note that is found by meaning, by words and
    over links, and evolves (`evolve_on_put`, or `memory.evolve()`); `note` returns it. Notes of a namespace
    that are no items are left alone.

    - **Search.** Best first, as the memory ranks. `score` is the cosine of query and note, or that of a
      result further down if that is higher. A prefix asks each namespace under it.
    - **Several indexed paths** make one text and one vector.
    - **What is not indexed** (`index=False`, or no text at the paths) comes last in a search, without a
      score, and only if there is room. It is kept apart, in the namespace `(*namespace,
      "langgraph.unindexed")` of the memory, where no search of the memory finds it.
    - **Time to live.** What has expired is not shown, and removed by `sweep_ttl`. A read that refreshes
      prolongs by a tenth more than the time to live, and then need not write again for so long.

    https://reference.langchain.com/python/langgraph/store/
    """

    supports_ttl = True

    def __init__(
        self,
        memory: AgenticMemory,
        *,
        fields: Sequence[str] = ("$",),
        evolve_on_put: bool = False,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Set up.

        Args:
            memory: The memory to keep items in.
            fields: Paths in the value that are indexed if `put` names none; "$" is all of it.
            evolve_on_put: Construct, link and evolve the note of an item when it is put.
            ttl: Default time to live, and whether reading refreshes it (LangGraph's default: yes).
        """
        self._items = Items(memory, list(fields))
        self._evolve = evolve_on_put
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation; all reads come before all writes."""
        results: list[Result] = []
        puts: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            results.append(None)
            if isinstance(op, PutOp):
                puts[checked_labels(op.namespace), op.key] = op
            elif isinstance(op, GetOp):
                results[-1] = self._get(op)
            elif isinstance(op, SearchOp):
                results[-1] = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[-1] = self._list(op)
            else:
                raise TypeError(f"unknown operation {op!r}")
        for op in puts.values():
            if self._items.put(op) and self._evolve:
                self._items.memory.evolve(namespace=op.namespace)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation, worked out off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def note(self, namespace: Namespace, key: str) -> Note | None:
        """Return the note of an item, with what evolution made of it."""
        return self._items.find(checked_labels(namespace), key)

    def sweep_ttl(self) -> int:
        """Delete what has expired, and return how much that was."""
        return self._items.sweep()

    def _get(self, op: GetOp) -> Result:
        note = self.note(op.namespace, op.key)
        if note is None:
            return None
        if op.refresh_ttl:
            self._items.refresh([note])
        return item_of(note)

    def _search(self, op: SearchOp) -> Result:
        found = Search(self._items, op).run(checked_labels(op.namespace_prefix))
        if op.refresh_ttl:
            self._items.refresh([note for note, _ in found])
        return [found_item(note, score) for note, score in found]

    def _list(self, op: ListNamespacesOp) -> Result:
        places = self._items.places(())
        return listed({shown(p) for p in places if any(map(alive, self._items.scan(p)))}, op)
