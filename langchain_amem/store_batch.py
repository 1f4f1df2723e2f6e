"""The operations of a LangGraph store, many at a time, and its searches: by meaning, by filters, by namespace.

What several tasks of an event loop ask for at the same time is worked out together: one look-up for the items of a
namespace, one call of the embedder and one write for what is put into it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice, starmap
from operator import attrgetter, itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from amem_integrations import MissingExtraError, Note, ScoredNote, StoreError
from amem_integrations.adapting import falling

from .runs import Namespace
from .store_items import (
    Items,
    Put,
    checked_labels,
    is_apart,
    is_item,
    item_fields,
    prepare,
    value_of,
)

try:
    from langgraph.store.base import (
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

DEPTH = 100  # as far down as a search of the memory goes

Scored = tuple[Note, float | None]


@dataclass(slots=True)
class Group:
    """Operations that were asked for together, and what came of them: either all of them, or an error."""

    ops: Sequence[Op]
    puts: dict[tuple[Namespace, str], Put] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    written: Mapping[Namespace, Sequence[str]] = field(default_factory=dict)
    error: Exception | None = None

    def outcome(self) -> Group:
        """Return the group itself.

        Raises:
            Exception: What went wrong.
        """
        if self.error is not None:
            raise self.error
        return self


Waiting = tuple[Group, "asyncio.Future[None]"]  # and what its task waits for


@dataclass
class Batch:
    """Groups of operations over the same items: all of them read before any of them writes."""

    items: Items
    fields: Sequence[str]
    groups: Sequence[Group]

    def run(self, *, together: bool) -> None:
        """Work all groups out; an error in one is no matter of the others.

        Args:
            together: Whether what they put is written at once.
        """
        self._each(self._prepare, self.groups)
        self._each(self._read, self._sound())
        writing = [group for group in self._sound() if group.puts]
        if together and len(writing) > 1:
            error = _error_of(partial(self._write, *writing))
            if error is None or isinstance(error, StoreError):
                for group in writing:
                    group.error = error
                return
            # One of them cannot be written, which is no matter of the others.
        self._each(self._write, writing)

    def _each(self, step: Callable[[Group], None], groups: Sequence[Group]) -> None:
        """Do a step of each group; if the store does not answer one of them, the rest need not wait for it too."""
        down: Exception | None = None
        for group in groups:
            group.error = down or _error_of(partial(step, group))
            down = group.error if isinstance(group.error, StoreError) else None

    def _sound(self) -> list[Group]:
        return [group for group in self.groups if group.error is None]

    def _prepare(self, group: Group) -> None:
        """Check the operations, so that a wrong one is found before anything is read or written."""
        for op in group.ops:
            if isinstance(op, PutOp):
                put = prepare(op, self.fields)
                group.puts[put.namespace, put.key] = put
            elif isinstance(op, GetOp):
                checked_labels(op.namespace)
            elif isinstance(op, SearchOp):
                checked_labels(op.namespace_prefix)
            elif not isinstance(op, ListNamespacesOp):
                raise TypeError(f"unknown operation {op!r}")

    def _read(self, group: Group) -> None:
        group.results = [self._result(op) for op in group.ops]

    def _write(self, *groups: Group) -> None:
        """Write what these groups put, of one key the last."""
        puts = {place: put for group in groups for place, put in group.puts.items()}
        groups[0].written = self.items.write(list(puts.values()))

    def _result(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            note = self._kept[tuple(op.namespace)].get(op.key)
            self._refresh(op, [note] if note else [])
            return Item(**item_fields(note)) if note else None
        if isinstance(op, SearchOp):
            found = Search(self.items, op).run(self._places(tuple(op.namespace_prefix)))
            self._refresh(op, [note for note, _ in found])
            return [SearchItem(**item_fields(note), score=score) for note, score in found]
        return self._listed(op) if isinstance(op, ListNamespacesOp) else None

    @cached_property
    def _kept(self) -> dict[Namespace, dict[str, Note]]:
        """All items that are to be got, by namespace and key: of each namespace by one look-up."""
        wanted: dict[Namespace, dict[str, None]] = {}
        for group in self._sound():
            for op in group.ops:
                if isinstance(op, GetOp):
                    wanted.setdefault(tuple(op.namespace), {})[op.key] = None
        return {space: self.items.find_all(space, list(keys)) for space, keys in wanted.items()}

    @cached_property
    def _all_places(self) -> list[Namespace]:
        return self.items.places(())

    def _places(self, prefix: Namespace) -> list[Namespace]:
        return [place for place in self._all_places if place[: len(prefix)] == prefix]

    def _refresh(self, op: GetOp | SearchOp, notes: Iterable[Note]) -> None:
        if op.refresh_ttl:
            self.items.refresh(notes)

    def _listed(self, op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces asked for, sorted; only as many are looked into as have to be."""
        listed: dict[Namespace, None] = {}
        for namespace, places in self.items.by_name(self._all_places):
            name = namespace[: op.max_depth]
            if name in listed or not all(fits(c, namespace) for c in op.match_conditions or ()):
                continue
            if len(listed) == op.offset + op.limit:
                break
            if self.items.holds_any(places):
                listed[name] = None
        return list(listed)[op.offset :]


def _error_of(step: Callable[[], None]) -> Exception | None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - raised again by `outcome`
        return error
    return None


class Gathering:
    """Runs what the tasks of an event loop ask for at the same time as one batch, in a thread.

    While a batch is under way the next one gathers. A loop has one batch at a time.
    """

    def __init__(self, work: Callable[[Sequence[Group]], None]) -> None:
        """Take what works a batch out."""
        self._work = work
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Waiting]] = (
            WeakKeyDictionary()
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, group: Group) -> Group:
        """Return the group when it has been worked out.

        Raises:
            Exception: What went wrong with it.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if loop in self._waiting:
            self._waiting[loop].append((group, done))
        else:
            self._waiting[loop] = [(group, done)]
            task = loop.create_task(self._drain(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await done
        return group.outcome()

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, batch = self._waiting[loop], list[Waiting]()
        try:
            while waiting:
                batch, waiting[:] = waiting[:], []
                await asyncio.to_thread(self._work, [group for group, _ in batch])
                _release(batch)
        except BaseException as error:  # the loop or the interpreter ends
            for group, _ in (*batch, *waiting):
                group.error = RuntimeError(f"the operations were not run to their end: {error!r}")
            if not isinstance(error, Exception):
                raise
        finally:
            del self._waiting[loop]
            _release((*batch, *waiting))


def _release(batch: Iterable[Waiting]) -> None:
    """Let the tasks go on that wait; some may have been cancelled."""
    for _, done in batch:
        if not done.done():
            done.set_result(None)


@dataclass(frozen=True, slots=True)
class Search:
    """One search of items."""

    items: Items
    op: SearchOp

    def run(self, places: Sequence[Namespace]) -> list[Scored]:
        """Return the notes of the items found in these places, with their scores.

        First come those that the query finds, best first; then, without a score, what is not indexed, in
        the order of the first put. So it is in LangGraph's InMemoryStore.
        """
        wanted = self.op.offset + self.op.limit
        found = self._ranked(places, wanted)
        if len(found) < wanted:
            seen = {note.id for note, _ in found}
            rest = heapq.merge(*map(self.items.scan, places), key=attrgetter("seq", "id"))
            others = (note for note in rest if note.id not in seen and self._fits(note))
            found += [(note, None) for note in islice(others, wanted - len(found))]
        return found[self.op.offset : wanted]

    def _ranked(self, places: Sequence[Namespace], wanted: int) -> list[Scored]:
        if not self.op.query or not self.op.query.strip() or not wanted:
            return []
        places = [place for place in places if not is_apart(place)]
        # Scores depend on what is below; those of several lists have to be the same on every page.
        depth = wanted if len(places) == 1 else max(wanted, DEPTH)
        lists = [falling(self._found(place, depth, wanted)) for place in places]
        scored = [(hit.note, score) for hits in lists for hit, score in hits]
        return sorted(scored, key=itemgetter(1), reverse=True)

    def _found(self, place: Namespace, depth: int, wanted: int) -> list[ScoredNote]:
        """Return the items of a namespace that the query finds, best first; no fewer than `wanted`."""
        query, memory = self.op.query or "", self.items.memory
        hits = memory.search(query, namespace=place, k=depth)
        found = [hit for hit in hits if self._fits(hit.note)]
        if len(found) >= wanted or len(hits) < min(depth, DEPTH):
            return found
        if depth < DEPTH:
            return self._found(place, DEPTH, wanted)
        # Too few of the best fit, so those that do are ranked among themselves.
        seen = {hit.note.id for hit in found}
        rest = [n.id for n in self.items.scan(place) if n.id not in seen and self._fits(n)]
        for start in range(0, len(rest), DEPTH):
            ids = rest[start : start + DEPTH]
            found += memory.search(query, namespace=place, k=len(ids), where={"id": {"$in": ids}})
        return found

    def _fits(self, note: Note) -> bool:
        return is_item(note) and matches(value_of(note), self.op.filter)


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Return whether a value meets a filter; what is missing counts as None.

    Raises:
        ValueError: An unknown operator.
    """
    return all(_compare(value.get(key), wanted) for key, wanted in (conditions or {}).items())


def _compare(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(starmap(_compare, zip(value, wanted, strict=True)))
    return bool(value == wanted)


def _holds(value: Any, operator: str, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if operator == "$eq":
        return bool(value == wanted)
    if operator == "$ne":
        return bool(value != wanted)
    tests = {"$gt": "__gt__", "$gte": "__ge__", "$lt": "__lt__", "$lte": "__le__"}
    if operator not in tests:
        raise ValueError(f"Unsupported operator: {operator}; use $eq $ne $gt $gte $lt $lte")
    try:
        return bool(getattr(float(value), tests[operator])(float(wanted)))
    except (TypeError, ValueError):
        return False


def fits(condition: MatchCondition, namespace: Namespace) -> bool:
    """Return whether a namespace begins or ends as a condition wants it."""
    path = condition.path
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    if len(namespace) < len(path):
        return False
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=False))
