"""The operations of a LangGraph store, many at a time.

What several tasks of an event loop ask for at the same time is worked out together: one look-up for the items of a
namespace, one call of the embedder and one write for what is put into it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from weakref import WeakKeyDictionary

from amem_integrations import MissingExtraError, Note, StoreError

from .runs import Namespace
from .store_items import Items, Put, checked_labels, item_fields, prepare
from .store_search import Search, fits

try:
    from langgraph.store.base import (
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error


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
