"""`AMemStore`: the memory as LangGraph's long-term store.

The value of an item is kept as a JSON string in the note's metadata, so that the value comes back as it was put,
whatever evolution makes of the note. The note's content is the text of the indexed paths.
"""

from __future__ import annotations

import heapq
import json
import operator
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, cast

from langgraph.store import base
from langgraph.store.memory import InMemoryStore
from pydantic import TypeAdapter

from amem_integrations import AgenticMemory, Note, NoteInput, ScoredNote, adapting
from amem_integrations.errors import (
    ConfigurationError,
    InvalidInputError,
    NoteNotFoundError,
    StoreClosedError,
)

from .run import Failures, Namespace

KEY = "store:"  # begins the key of the note of an item
# Metadata: the namespace of an item and all that lead there, each as JSON.
UNDER = "langgraph_store"
IS_ITEM = {f"metadata.{UNDER}": {"$exists": True}}
# Ends the namespace of items without text to search for. LangGraph allows no period in a label of its own.
APART = "langgraph.unindexed"
MAX_TEXT = 8_000  # an embedder reads less; the value itself is kept whole
DEPTH = 100  # hits among which those are looked for that fit a filter, or that are the best of several namespaces
# A read prolongs by this much more than it has to, so that the next ones need not write.
SPARE = 0.1
SWEEP_MINUTES = 5.0  # as in LangGraph's own stores
PUT = TypeAdapter(base.PutOp)
RANGES = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
TESTS = {"$eq": operator.eq, "$ne": operator.ne, **RANGES}

# An item is read and then written: each namespace has one of these.
LOCKS = [threading.Lock() for _ in range(64)]

# Of a namespace, by key: the operation, and the text to search for.
Puts = dict[str, tuple[base.PutOp, str]]


class AMemStore(base.BaseStore):
    """A LangGraph store in which items are notes.

    What is put is returned exactly. Beside it each item has a note that is found by meaning and by words; `note` returns
    it. Notes of a namespace that are no items are left alone.

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
        ttl: base.TTLConfig | None = None,
    ) -> None:
        """Set up.

        Args:
            memory: The memory to keep items in.
            fields: Paths in the value that are indexed if `put` names none; "$" is all of it, and so is no path.
            evolve: Put items as notes of a conversation, which the memory constructs, links and evolves in the background.
            ttl: Default time to live, whether reading refreshes it (LangGraph's default: yes), and how
                often `start_ttl_sweeper` sweeps; in minutes.

        Raises:
            ConfigurationError: `fields` is no list of paths, or `evolve` neither True nor False.
        """
        adapting.check_flags(evolve=evolve)
        if isinstance(fields, str) or not all(isinstance(path, str) for path in fields or ()):
            raise ConfigurationError(f"fields={fields!r} must be a list of paths, such as ['text']")
        self.memory, self._fields, self._evolve = memory, tuple(fields or ("$",)), evolve
        self.ttl_config, self._failures = ttl, Failures()
        self._sweeper: threading.Thread | None = None
        self._stopped = threading.Event()

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Return the result of each operation; all reads come before all writes, and of one key the last put counts.

        Raises:
            ValueError: An operation is wrong; then nothing is written.
        """
        todo = list(ops)
        puts: dict[Namespace, Puts] = {}
        for op in todo:
            if isinstance(op, base.PutOp):
                space = adapting.check_namespace(op.namespace)
                puts.setdefault(space, {})[op.key] = op, self._text(op)
        results = [self._result(op) for op in todo]
        for space, items in puts.items():
            with _holding(space):
                if not adapting.GIVEN_UP.get().is_set():  # since then another may have been put
                    self._write(space, items)
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Return the result of each operation, worked out in a thread."""
        return await adapting.in_thread(partial(self.batch, list(ops)))

    def note(self, namespace: Namespace, key: str) -> Note | None:
        """Return the note of an item, with what evolution made of it."""
        return next(iter(self._find(adapting.check_namespace(namespace), [key]).get(key, ())), None)

    def _result(self, op: base.Op) -> base.Result:
        if isinstance(op, base.GetOp):
            note = self.note(op.namespace, op.key)
            self._refresh(op, [note] if note else [])
            return base.Item(**_fields(note)) if note else None
        if isinstance(op, base.SearchOp):
            found = self._search(op)
            self._refresh(op, [note for note, _ in found])
            return [base.SearchItem(**_fields(note), score=score) for note, score in found]
        if isinstance(op, base.ListNamespacesOp):
            return self._listed(op)
        if isinstance(op, base.PutOp):
            return None
        raise TypeError(f"unknown operation {op!r}")

    # Writing

    def _text(self, op: base.PutOp) -> str:
        """Return the text to search for; "" if there is none.

        Raises:
            InvalidInputError: The value is no dict of JSON values, `index` neither False nor a list of paths, `ttl` no
                number, or the key cannot be stored.
        """
        index = list(op.index) if isinstance(op.index, tuple) else op.index
        try:
            PUT.validate_python(
                op._replace(namespace=tuple(op.namespace), index=index), strict=True
            )
            json.dumps(op.value)
            datetime.now(UTC) + timedelta(minutes=(op.ttl or 0) * (1 + SPARE))
        except (TypeError, ValueError, OverflowError) as error:
            message = f"item {op.key!r} of {op.namespace!r} cannot be put: {error}"
            raise InvalidInputError(message) from error
        if any(adapting.storable(one) != one for one in (op.key, *op.namespace)):
            where = f"{op.key!r} of {op.namespace!r}"
            raise InvalidInputError(f"{where} holds NUL or half of a surrogate pair")
        lines: list[str] = []
        for path in (self._fields if op.index is None else op.index or ()) if op.value else ():
            lines += _leaves(op.value) if path == "$" else base.get_text_at_path(op.value, path)
        text = "\n".join(line for line in lines if line.strip())
        return adapting.storable(text)[:MAX_TEXT]

    def _write(self, space: Namespace, puts: Puts) -> None:
        """Write the items of a namespace, or remove them."""
        kept = self._find(space, list(puts))
        items: dict[Namespace, dict[str, NoteInput]] = {space: {}, (*space, APART): {}}
        for key, (op, text) in puts.items():
            if op.value is not None:
                place = space if text else (*space, APART)
                items[place][key] = self._item(op, text, place, kept.get(key, ()))
        for place, given in items.items():
            # The same key again is an update, which keeps an expiry where none is given.
            for note in self.memory.add_many(given.values(), namespace=place, evolve=False):
                if note.expires_at != (ends := given[_key(note)].expires_at):
                    self.memory.update(note.id, namespace=place, expires_at=ends)
        for note in (note for notes in kept.values() for note in notes):
            if _key(note) not in items[note.namespace]:
                with suppress(NoteNotFoundError):  # somebody else was faster
                    self.memory.delete(note.id, namespace=note.namespace)
        if self._evolve:
            self.memory.evolve_later(space)

    def _item(self, op: base.PutOp, text: str, place: Namespace, kept: Sequence[Note]) -> NoteInput:
        """Return the note to be."""
        now, space = datetime.now(UTC), tuple(op.namespace)
        ttl = self.memory.config.ttl_of(place) if op.ttl is None else timedelta(minutes=op.ttl)
        metadata = {
            UNDER: [json.dumps(space[:depth]) for depth in range(len(space) + 1)],
            "value": json.dumps(op.value),
            "created_at": kept[0].metadata["created_at"] if kept else now.isoformat(),
            "updated_at": now.isoformat(),
            **({} if op.ttl is None else {"ttl": op.ttl}),
        }
        return NoteInput(
            content=text or f"{KEY}{op.key}",
            key=f"{KEY}{op.key}",
            metadata=metadata,
            expires_at=None if ttl is None else now + ttl,
            origin="conversation" if self._evolve else "item",
        )

    # Reading

    def _find(self, namespace: Namespace, keys: Sequence[str]) -> dict[str, list[Note]]:
        """Return the notes of items, by key; the newer one first if a crash left two of one."""
        where = {"key": {"$in": [f"{KEY}{key}" for key in keys]}}
        found: dict[str, list[Note]] = {}
        for place in (namespace, (*namespace, APART)):
            for note in self.memory.get_all(namespace=place, where=where, limit=len(keys)):
                found.setdefault(_key(note), []).append(note)
        for notes in found.values():
            notes.sort(key=lambda note: str(note.metadata["updated_at"]), reverse=True)
        return found

    def _search(self, op: base.SearchOp) -> list[tuple[Note, float | None]]:
        """Return the notes of the items found, with their scores.

        First come those that the query finds, best first; then, without a score, what is not indexed, in
        the order of the first put. So it is in LangGraph's InMemoryStore.
        """
        wanted, places = op.offset + op.limit, self._places(op.namespace_prefix)
        found: list[tuple[Note, float | None]] = []
        indexed = [place for place in places if place[-1] != APART]
        if op.query and op.query.strip() and wanted and indexed:
            found += self._ranked(op, op.query, indexed)
        # At any limit an operator that is unknown is an error, once there is an item to compare.
        if len(found) < max(wanted, 1):
            seen = {note.id for note, _ in found}
            rest = heapq.merge(*map(self._scan, places), key=operator.attrgetter("seq", "id"))
            others = (note for note in rest if note.id not in seen and _fits(note, op.filter))
            found += [(note, None) for note in islice(others, max(wanted, 1) - len(found))]
        return found[op.offset : wanted]

    def _ranked(
        self, op: base.SearchOp, query: str, places: Sequence[Namespace]
    ) -> list[tuple[Note, float]]:
        """Return the items of some namespaces that the query finds, best first, with scores that never rise."""
        wanted, found = op.offset + op.limit, dict[str, ScoredNote]()
        also = {str(number): place for number, place in enumerate(places[1:])}
        # Of several namespaces the scores depend on what is below, and have to be the same on every page.
        k = DEPTH if op.filter or also else min(wanted, DEPTH)
        while True:
            hits = self.memory.search(query, namespace=places[0], also=also, k=k, where=IS_ITEM)
            # A deeper search ranks anew: what it finds more follows what earlier pages have shown.
            for hit in hits:
                found.setdefault(hit.note.id, hit)
            fitting = [hit for hit in found.values() if _fits(hit.note, op.filter)]
            if len(fitting) >= wanted or len(hits) < k:
                return [(hit.note, score) for hit, score in adapting.falling(fitting)]
            k *= 4

    def _places(self, prefix: Sequence[str]) -> list[Namespace]:
        """Return the namespaces of the memory that hold items under a prefix which have not expired."""
        lives = [{"expires_at": {"$exists": False}}, {"expires_at": {"$gt": datetime.now(UTC)}}]
        under = {f"metadata.{UNDER}": json.dumps(tuple(prefix))}
        return self.memory.namespaces(where={**under, "$or": lives})

    def _scan(self, place: Namespace) -> Iterator[Note]:
        return adapting.notes_of(self.memory, place, IS_ITEM)

    def _listed(self, op: base.ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces asked for, as LangGraph's own store finds and sorts them."""
        known = InMemoryStore()
        known.batch([base.PutOp(_shown(place), "", {}) for place in self._places(())])
        (found,) = known.batch([op])
        return cast("list[Namespace]", found)

    # Time to live

    def _refresh(self, op: base.GetOp | base.SearchOp, notes: Iterable[Note]) -> None:
        """Give items that were read their time to live again, with a write only if it is needed."""
        for note in notes if op.refresh_ttl else ():
            space, key = _shown(note.namespace), _key(note)
            if _prolonged(note):
                with _holding(space), suppress(NoteNotFoundError):
                    # Another thread may have put it again since it was read.
                    for item in self._find(space, [key]).get(key, ()):
                        if ends := _prolonged(item):
                            self.memory.update(item.id, namespace=item.namespace, expires_at=ends)

    def sweep_ttl(self) -> int:
        """Delete what has expired, items or other notes of the memory, and return how many that were."""
        return self.memory.sweep()

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Delete what has expired at intervals, in a thread that ends with the memory or the process.

        Args:
            sweep_interval_minutes: How often; by default as `ttl` says, else every 5 minutes.

        Returns:
            A future that is done when the thread has stopped; cancelling it stops the thread. Without a `ttl` there is
            nothing to sweep, and it is done at once.
        """
        self.stop_ttl_sweeper()
        future: Future[None] = Future()
        self._stopped = stopped = threading.Event()
        configured = self.ttl_config or {}
        minutes = sweep_interval_minutes or configured.get("sweep_interval_minutes")
        seconds = 60 * (minutes or SWEEP_MINUTES)

        def sweep_at_intervals() -> None:
            try:
                with suppress(StoreClosedError):  # then nothing is left to sweep
                    while configured and not stopped.wait(seconds):
                        with self._failures.tolerated("sweep", callback=True):
                            self.sweep_ttl()  # the next time again, if it fails
            finally:
                with suppress(InvalidStateError):  # it was cancelled
                    future.set_result(None)

        future.add_done_callback(lambda _: stopped.set())
        self.memory.on_close(self.stop_ttl_sweeper)
        name = "amem-ttl-sweeper"
        self._sweeper = threading.Thread(target=sweep_at_intervals, name=name, daemon=True)
        self._sweeper.start()
        return future

    def stop_ttl_sweeper(self, timeout: float | None = 1.0) -> bool:
        """Stop the thread, and return whether it has ended within `timeout` seconds."""
        self._stopped.set()
        if self._sweeper is None:
            return True
        self._sweeper.join(timeout)
        return not self._sweeper.is_alive()


def _holding(space: Namespace) -> threading.Lock:
    """Return the lock of a namespace."""
    return LOCKS[hash(space) % len(LOCKS)]


def _leaves(value: object) -> Iterator[str]:
    """Return the words and numbers in a value, in order, without its structure."""
    if isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _shown(namespace: Namespace) -> Namespace:
    """Return the namespace that a user of the store knows."""
    return namespace[:-1] if namespace[-1] == APART else namespace


def _fields(note: Note) -> dict[str, Any]:
    """Return the fields of LangGraph's `Item` and `SearchItem`."""
    return {
        "namespace": _shown(note.namespace),
        "key": _key(note),
        "value": json.loads(note.metadata["value"]),
        "created_at": datetime.fromisoformat(note.metadata["created_at"]),
        "updated_at": datetime.fromisoformat(note.metadata["updated_at"]),
    }


def _key(note: Note) -> str:
    return str(note.key).removeprefix(KEY)


def _prolonged(note: Note) -> datetime | None:
    """Return when an item that is read now expires, or None if it lives long enough as it is."""
    minutes, now = note.metadata.get("ttl"), datetime.now(UTC)
    if minutes is None or note.expires_at is None:
        return None
    is_due = note.expires_at < now + timedelta(minutes=minutes)
    return now + timedelta(minutes=minutes * (1 + SPARE)) if is_due else None


def _fits(note: Note, conditions: Mapping[str, Any] | None) -> bool:
    """Return whether the value of an item meets a filter; what is missing counts as None.

    Raises:
        ValueError: An unknown operator.
    """
    return not conditions or _meets(json.loads(note.metadata["value"]), conditions)


def _meets(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_holds(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and all(
            _meets(value.get(key), inner) for key, inner in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(map(_meets, value, wanted))
    return bool(value == wanted)


def _holds(value: Any, name: str, wanted: Any) -> bool:
    if name not in TESTS:
        raise ValueError(f"Unsupported operator: {name}; use {', '.join(TESTS)}")
    are_texts = isinstance(value, str) and isinstance(wanted, str)  # such as dates in ISO 8601
    with suppress(TypeError, ValueError):
        if name in RANGES and not are_texts:
            value, wanted = float(value), float(wanted)
        return bool(TESTS[name](value, wanted))
    return False
