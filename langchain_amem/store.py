"""`AMemStore`: the memory as LangGraph's long-term store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from amem_integrations import AgenticMemory, MissingExtraError, Note, NoteInput, ScoredNote

from ._store_items import (
    KEY,
    OURS,
    SEARCHED,
    alive,
    content_of,
    expiry,
    found_item,
    item_of,
    metadata_of,
    searched,
    value_of,
)
from ._store_match import Namespace, checked_labels, listed, matches

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

PAGE = 256
DEPTH = 100  # how far down a search looks, before it goes through everything


class AMemStore(BaseStore):
    """A LangGraph store in which items are notes.

    What is put is returned exactly. Beside it each item has a note that can be searched by meaning and by
    words, is linked and evolves (`evolve_on_put`, or `memory.evolve()`); `note` returns it. Notes of a
    namespace that are no items are left alone. `score` is the cosine of query and note.

    Searching a prefix asks each namespace under it. Several indexed paths make one vector. What has expired
    is not shown, and removed by `sweep_ttl`.
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
            ttl: Default time to live, and whether reading refreshes it.
        """
        self._memory = memory
        self._fields = list(fields)
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
            self._put(op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation, worked out off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def note(self, namespace: Namespace, key: str) -> Note | None:
        """Return the note of an item, with what evolution made of it."""
        stored = self._stored(checked_labels(namespace), key)
        return stored if stored is not None and alive(stored) else None

    def sweep_ttl(self) -> int:
        """Delete what has expired, and return how much that was."""
        gone = [n for space in self._spaces(()) for n in self._scan(space) if not alive(n)]
        for note in gone:
            self._memory.delete(note.id, namespace=note.namespace)
        return len(gone)

    def _get(self, op: GetOp) -> Result:
        note = self.note(op.namespace, op.key)
        if note is None:
            return None
        if op.refresh_ttl:
            self._refresh([note])
        return item_of(note)

    def _stored(self, namespace: Namespace, key: str) -> Note | None:
        where = {"key": f"{KEY}{key}"}
        return next(iter(self._memory.get_all(namespace=namespace, where=where, limit=1)), None)

    def _put(self, op: PutOp) -> None:
        space, before = op.namespace, self._stored(op.namespace, op.key)
        if op.value is None and before is not None:
            self._memory.delete(before.id, namespace=space)
        if op.value is None:
            return
        content, indexed = content_of(op, self._fields)
        metadata = metadata_of(op, indexed=indexed, before=before, now=datetime.now(UTC))
        if before is not None:
            self._memory.update(before.id, namespace=space, content=content, metadata=metadata)
        else:
            key = f"{KEY}{op.key}"
            item = NoteInput(content=content, key=key, metadata=metadata, split=False)
            self._memory.add_many([item], namespace=space, evolve=False)
        if self._evolve and indexed:
            self._memory.evolve(namespace=space)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        spaces = self._spaces(checked_labels(op.namespace_prefix))
        wanted = op.offset + op.limit
        hits = [hit for space in spaces for hit in self._meant(op, space)]
        hits.sort(key=lambda hit: (-(hit.similarity or 0.0), hit.note.id))
        notes = [(hit.note, hit.similarity) for hit in hits]
        if len(notes) < wanted:
            # What has no vector, or was too far down, comes last, in order of its first put.
            seen = {note.id for note, _ in notes}
            rest = [n for space in spaces for n in self._scan(space) if n.id not in seen]
            rest.sort(key=lambda note: note.seq)
            notes += [(n, None) for n in rest if self._fits(n, op)]
        shown = notes[op.offset : wanted]
        if op.refresh_ttl:
            self._refresh([note for note, _ in shown])
        return [found_item(note, score) for note, score in shown]

    def _meant(self, op: SearchOp, namespace: Namespace) -> list[ScoredNote]:
        """Return the items of a namespace that the query means."""
        if not op.query or not op.query.strip():
            return []
        wanted = max(1, op.offset + op.limit)
        # Usually everything there is an item: to find that out afterwards costs less than a condition.
        for k, where in ((wanted, None), (max(wanted, DEPTH), SEARCHED)):
            hits = self._memory.search(op.query, namespace=namespace, k=k, where=where)
            found = [hit for hit in hits if searched(hit.note) and self._fits(hit.note, op)]
            if len(found) >= wanted or len(hits) < k:
                break
        return found

    def _fits(self, note: Note, op: SearchOp) -> bool:
        return alive(note) and matches(value_of(note), op.filter)

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        return listed([s for s in self._spaces(()) if any(map(alive, self._scan(s)))], op)

    def _spaces(self, prefix: Namespace) -> list[Namespace]:
        return [s for s in self._memory.namespaces() if s[: len(prefix)] == prefix]

    def _scan(self, namespace: Namespace) -> Iterator[Note]:
        after = -1
        while True:
            where = {**OURS, "seq": {"$gt": after}}
            page = self._memory.get_all(namespace=namespace, where=where, limit=PAGE)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].seq

    def _refresh(self, notes: Iterable[Note]) -> None:
        now = datetime.now(UTC)
        for note in notes:
            if (minutes := note.metadata.get("ttl")) is not None:
                metadata = {**note.metadata, **expiry(minutes, now)}
                self._memory.update(note.id, namespace=note.namespace, metadata=metadata)
