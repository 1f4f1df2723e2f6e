"""The items of a LangGraph store, a note each.

The value of an item is kept as a JSON string in the note's metadata, so it comes back as it was put, whatever
evolution makes of the note. The note's content is the text of the indexed paths.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    MissingExtraError,
    Note,
    NoteInput,
    NoteNotFoundError,
)

from .runs import Namespace

try:
    from langgraph.store.base import (
        InvalidNamespaceError,
        Item,
        PutOp,
        SearchItem,
        get_text_at_path,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

Metadata = dict[str, Any]

FLAG = "langgraph_store"  # metadata: says that a note is an item of a store
KEY = "store:"  # begins the key of such a note

# Ends the namespace of items without text to search for. LangGraph allows no period in a label of its own.
APART = "langgraph.unindexed"

# An embedder reads less; the value itself is kept whole.
MAX_TEXT = 8_000

# A read prolongs by this much more than it has to, so that the next ones need not write.
SPARE = 0.1

PAGES = (32, 256)  # the first pages of a listing are small: most callers want a few items

# An item is read and then written. All stores over one memory share these, each key has its own of them.
LOCKS = 64
_locks: WeakKeyDictionary[AgenticMemory, list[threading.Lock]] = WeakKeyDictionary()
_making = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """What a `PutOp` asks for, checked: a text to search for ("" for none), and the value as JSON.

    A value of None removes the item.
    """

    namespace: Namespace
    key: str
    text: str
    value: str | None
    minutes: float | None

    @property
    def place(self) -> Namespace:
        """The namespace of the memory where the item is kept."""
        return self.namespace if self.text else apart(self.namespace)


def prepare(op: PutOp, fields: Sequence[str]) -> Put:
    """Return what an operation asks for.

    Raises:
        InvalidNamespaceError: The namespace is empty, or a label is not allowed.
        InvalidInputError: The value is not JSON, or `index` is neither False nor a list of paths.
    """
    namespace = checked_labels(op.namespace)
    if not namespace:
        raise InvalidNamespaceError(f"the namespace of {op.key!r} is empty")
    if not (op.index is None or op.index is False or isinstance(op.index, list | tuple)):
        raise InvalidInputError(f"index={op.index!r} must be False or a list of paths: ['text']")
    try:
        value = None if op.value is None else json.dumps(op.value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"value={op.value!r} of {op.key!r} is not JSON: {error}") from error
    paths = fields if op.index is None else op.index or ()
    text = "" if op.value is None else indexed_text(op.value, paths)
    return Put(namespace=namespace, key=op.key, text=text, value=value, minutes=op.ttl)


def checked_labels(namespace: Sequence[str]) -> Namespace:
    """Return the namespace as a tuple.

    `batch` may be called with operations that LangGraph has not checked, and older versions of it export
    no check.

    Raises:
        InvalidNamespaceError: A label is no string, empty, or holds a period.
    """
    for label in namespace:
        if not isinstance(label, str) or not label or "." in label:
            raise InvalidNamespaceError(
                f"label {label!r} in {namespace!r} must be a non-empty string without a period"
            )
    return tuple(namespace)


def indexed_text(value: Mapping[str, Any], paths: Sequence[str]) -> str:
    """Return the text at the paths, a line each, or "" if there is none; "$" is the whole value."""
    lines: list[str] = []
    for path in paths:
        found = list(_leaves(value)) if path == "$" else get_text_at_path(value, path)
        lines += [str(text) for text in found]
    text = "\n".join(line for line in lines if line.strip())
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:MAX_TEXT]


def _leaves(value: object) -> Iterator[str]:
    """Return the words and numbers in a value, in order, without its structure."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


# Notes that are items


def apart(namespace: Namespace) -> Namespace:
    """Return where the items of a namespace are kept that are not indexed."""
    return (*namespace, APART)


def is_apart(namespace: Namespace) -> bool:
    """Return whether it is such a place."""
    return namespace[-1] == APART


def shown(namespace: Namespace) -> Namespace:
    """Return the namespace that a user of the store knows."""
    return namespace[:-1] if is_apart(namespace) else namespace


def is_item(note: Note) -> bool:
    """Return whether a note is an item of a store."""
    return FLAG in note.metadata


def item_of(note: Note) -> Item:
    """Return the item that a note is."""
    return Item(**_fields(note))


def found_item(note: Note, score: float | None) -> SearchItem:
    """Return the item that a note is, as the result of a search."""
    return SearchItem(**_fields(note), score=score)


def _fields(note: Note) -> dict[str, Any]:
    return {
        "namespace": shown(note.namespace),
        "key": (note.key or "").removeprefix(KEY),
        "value": value_of(note),
        "created_at": datetime.fromisoformat(note.metadata["created_at"]),
        "updated_at": datetime.fromisoformat(note.metadata["updated_at"]),
    }


def value_of(note: Note) -> dict[str, Any]:
    """Return the value that was put, a new one each time."""
    value: dict[str, Any] = json.loads(note.metadata["value"])
    return value


def alive(note: Note) -> bool:
    """Return whether an item has not expired."""
    return _end(note) > datetime.now(UTC)


def _end(note: Note) -> datetime:
    end = note.metadata.get("expires_at")
    return datetime.max.replace(tzinfo=UTC) if end is None else datetime.fromisoformat(end)


def _expiry(minutes: float | None, now: datetime, spare: float = 0.0) -> Metadata:
    """Return the metadata by which an item expires: the only place that says where that is kept."""
    if minutes is None:
        return {}
    end = now + timedelta(minutes=minutes * (1 + spare))
    return {"ttl": minutes, "expires_at": end.isoformat()}


def _metadata(put: Put, before: Note | None, now: datetime) -> Metadata:
    # What has expired is gone, whether it was swept or not: its successor is a new item.
    created = before.metadata["created_at"] if before and alive(before) else now.isoformat()
    times = {"created_at": created, "updated_at": now.isoformat(), **_expiry(put.minutes, now)}
    return {FLAG: True, "value": put.value, **times}


def _prolonged(note: Note, now: datetime) -> Metadata | None:
    """Return the metadata of an item that is read now, or None if it lives long enough as it is."""
    minutes = note.metadata.get("ttl")
    if minutes is None or _end(note) >= now + timedelta(minutes=minutes):
        return None
    return {**note.metadata, **_expiry(minutes, now, SPARE)}


class Items:
    """The items in a memory.

    What is indexed is a note of its namespace, among all others there. What is not has a namespace of its
    own beside that, so that no search of notes finds it, and nothing is linked to it or evolves by it.
    """

    def __init__(self, memory: AgenticMemory) -> None:
        """Take the memory."""
        self.memory = memory
        with _making:
            self._locks = _locks.setdefault(memory, [threading.Lock() for _ in range(LOCKS)])

    def find(self, namespace: Namespace, key: str) -> Note | None:
        """Return the note of an item, if there is one that has not expired."""
        kept = self._kept(namespace, [key]).get(key, ())
        return next((note for note in kept if alive(note)), None)

    def write(self, puts: Sequence[Put]) -> dict[Namespace, list[str]]:
        """Write items, or remove them; return by namespace the ids of the notes that may now be evolved.

        The new items of a namespace are stored all together.
        """
        with self._holding([(put.namespace, put.key) for put in puts]):
            namespaces = dict.fromkeys(put.namespace for put in puts)
            kept = {
                (namespace, key): notes
                for namespace in namespaces
                for key, notes in self._kept(
                    namespace, [put.key for put in puts if put.namespace == namespace]
                ).items()
            }
            return self._write(puts, kept)

    def _write(
        self, puts: Sequence[Put], kept: Mapping[tuple[Namespace, str], Sequence[Note]]
    ) -> dict[Namespace, list[str]]:
        now, new = datetime.now(UTC), dict[Namespace, list[NoteInput]]()
        written: dict[Namespace, list[str]] = {}
        for put in puts:
            if put.value is None:
                continue
            before = kept.get((put.namespace, put.key), ())
            content = put.text or f"{KEY}{put.key}"
            metadata = _metadata(put, before[0] if before else None, now)
            same = next((note for note in before if note.namespace == put.place), None)
            if same is not None:
                self.memory.update(same.id, namespace=put.place, content=content, metadata=metadata)
                written.setdefault(put.place, []).append(same.id)
                continue
            item = NoteInput(content=content, key=f"{KEY}{put.key}", metadata=metadata, split=False)
            new.setdefault(put.place, []).append(item)
        for place, items in new.items():
            notes = self.memory.add_many(items, namespace=place, evolve=False)
            written.setdefault(place, []).extend(note.id for note in notes)
        for put in puts:
            for note in kept.get((put.namespace, put.key), ()):
                if put.value is None or note.namespace != put.place:
                    self._remove(note)
        return {place: ids for place, ids in written.items() if not is_apart(place)}

    def places(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces of the memory that may hold items under a prefix."""
        return [s for s in self.memory.namespaces() if shown(s)[: len(prefix)] == prefix]

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that may hold items, as a user of the store knows them, sorted."""
        return sorted({shown(place) for place in self.memory.namespaces()})

    def holds_any(self, namespace: Namespace) -> bool:
        """Return whether a namespace holds an item that has not expired."""
        return any(any(map(alive, self.scan(s, 1))) for s in (namespace, apart(namespace)))

    def scan(self, place: Namespace, first: int = PAGES[0]) -> Iterator[Note]:
        """Return the items of a place, expired or not, in the order in which they were first put."""
        after, limit = -1, first
        while True:
            where = {"seq": {"$gt": after}, f"metadata.{FLAG}": True}
            page = self.memory.get_all(namespace=place, where=where, limit=limit)
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1].seq, PAGES[1]

    def refresh(self, notes: Iterable[Note]) -> None:
        """Give items that were read their time to live again, with a write only if it is needed."""
        now = datetime.now(UTC)
        for note in notes:
            if _prolonged(note, now) is None:
                continue
            with self._held(note) as current:
                for item in current:
                    if metadata := _prolonged(item, now):
                        self.memory.update(item.id, namespace=item.namespace, metadata=metadata)

    def sweep(self) -> int:
        """Delete what has expired, and return how much that was."""
        swept = 0
        for note in [n for place in self.places(()) for n in self.scan(place) if not alive(n)]:
            with self._held(note) as current:
                gone = [item for item in current if item.id == note.id and not alive(item)]
                for item in gone:
                    self._remove(item)
                swept += len(gone)
        return swept

    @contextmanager
    def _held(self, note: Note) -> Iterator[Sequence[Note]]:
        """Yield an item as it is now; another thread may have put it again since it was read."""
        namespace, key = shown(note.namespace), (note.key or "").removeprefix(KEY)
        with self._holding([(namespace, key)]):
            yield self._kept(namespace, [key]).get(key, ())

    def _kept(self, namespace: Namespace, keys: Sequence[str]) -> dict[str, list[Note]]:
        """Return the notes of items, by key; the newer one first if a crash left two of one."""
        where = {"key": {"$in": [f"{KEY}{key}" for key in keys]}}
        found: dict[str, list[Note]] = {}
        for place in (namespace, apart(namespace)):
            for note in self.memory.get_all(namespace=place, where=where, limit=len(keys)):
                found.setdefault((note.key or "").removeprefix(KEY), []).append(note)
        for notes in found.values():
            notes.sort(key=lambda note: str(note.metadata["updated_at"]), reverse=True)
        return found

    def _remove(self, note: Note) -> None:
        with suppress(NoteNotFoundError):  # somebody else was faster
            self.memory.delete(note.id, namespace=note.namespace)

    @contextmanager
    def _holding(self, items: Iterable[tuple[Namespace, str]]) -> Iterator[None]:
        """Hold the locks of items, taken in one order so that two batches cannot wait for each other."""
        with ExitStack() as held:
            for number in sorted({hash(item) % LOCKS for item in items}):
                held.enter_context(self._locks[number])
            yield
