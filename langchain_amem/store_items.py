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
from typing import Any, Literal
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
        PutOp,
        get_text_at_path,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

Origin = Literal["conversation", "item"]  # of the note of an item

FLAG = "langgraph_store"  # metadata: says that a note is an item of a store
KEY = "store:"  # begins the key of such a note

# Ends the namespace of items without text to search for. LangGraph allows no period in a label of its own.
APART = "langgraph.unindexed"

# An embedder reads less; the value itself is kept whole.
MAX_TEXT = 8_000

# A read prolongs by this much more than it has to, so that the next ones need not write.
SPARE = 0.1

LONGEST_TTL = 1e9  # minutes: some 1,900 years

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

    def item(
        self, before: Note | None, now: datetime, ttl: timedelta | None, origin: Origin
    ) -> NoteInput:
        """Return the note to be.

        Args:
            before: The item as it was.
            now: When it is put.
            ttl: How long an item is kept that has no time to live of its own; None: for good.
            origin: `"item"`, or `"conversation"` for a note that evolves.
        """
        kept = ttl if self.minutes is None else timedelta(minutes=self.minutes)
        metadata = {
            FLAG: True,
            "value": self.value,
            "created_at": before.metadata["created_at"] if before else now.isoformat(),
            "updated_at": now.isoformat(),
            **({} if self.minutes is None else {"ttl": self.minutes}),
        }
        return NoteInput(
            content=self.text or f"{KEY}{self.key}",
            key=f"{KEY}{self.key}",
            metadata=metadata,
            expires_at=None if kept is None else now + kept,
            origin=origin,
        )


def is_time_to_live(value: object) -> bool:
    """Return whether a value is a number of minutes; one below 0 is over already."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < LONGEST_TTL


def prepare(op: PutOp, fields: Sequence[str]) -> Put:
    """Return what an operation asks for.

    Raises:
        InvalidNamespaceError: The namespace is empty, or a label is not allowed.
        InvalidInputError: The value is no dict of JSON values, `index` neither False nor a list of paths, or `ttl`
            no number.
    """
    namespace = checked_labels(op.namespace)
    if not namespace:
        raise InvalidNamespaceError(f"the namespace of {op.key!r} is empty")
    if not (op.index is None or op.index is False or are_paths(op.index)):
        raise InvalidInputError(f"index={op.index!r} must be False or a list of paths: ['text']")
    if not isinstance(op.value, dict | None):
        raise InvalidInputError(f"value={op.value!r} of {op.key!r} must be a dict")
    if op.ttl is not None and not is_time_to_live(op.ttl):
        raise InvalidInputError(f"ttl={op.ttl!r} of {op.key!r} must be a number of minutes")
    try:
        value = None if op.value is None else json.dumps(op.value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"value={op.value!r} of {op.key!r} is not JSON: {error}") from error
    paths = fields if op.index is None else op.index or ()
    text = "" if op.value is None else indexed_text(op.value, paths)
    return Put(namespace=namespace, key=op.key, text=text, value=value, minutes=op.ttl)


def are_paths(paths: object) -> bool:
    """Return whether it is a list of texts, each a path in a value."""
    return isinstance(paths, list | tuple) and all(isinstance(path, str) for path in paths)


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


def item_fields(note: Note) -> dict[str, Any]:
    """Return what LangGraph's `Item` and `SearchItem` are made of."""
    return {
        "namespace": shown(note.namespace),
        "key": _key(note),
        "value": value_of(note),
        "created_at": datetime.fromisoformat(note.metadata["created_at"]),
        "updated_at": datetime.fromisoformat(note.metadata["updated_at"]),
    }


def _key(note: Note) -> str:
    return (note.key or "").removeprefix(KEY)


def value_of(note: Note) -> dict[str, Any]:
    """Return the value that was put, a new one each time."""
    value: dict[str, Any] = json.loads(note.metadata["value"])
    return value


def _prolonged(note: Note, now: datetime) -> datetime | None:
    """Return when an item that is read now expires, or None if it lives long enough as it is."""
    minutes = note.metadata.get("ttl")
    if minutes is None or note.expires_at is None:
        return None
    if note.expires_at >= now + timedelta(minutes=minutes):
        return None
    return now + timedelta(minutes=minutes * (1 + SPARE))


class Items:
    """The items in a memory.

    What is indexed is a note of its namespace, among all others there. What is not has a namespace of its
    own beside that, so that no search of notes finds it, and nothing is linked to it or evolves by it.
    """

    def __init__(self, memory: AgenticMemory, *, evolve: bool = False) -> None:
        """Take the memory; with `evolve`, items are notes of a conversation, which evolve."""
        self.memory = memory
        self._origin: Origin = "conversation" if evolve else "item"
        with _making:
            self._locks = _locks.setdefault(memory, [threading.Lock() for _ in range(LOCKS)])

    def find_all(self, namespace: Namespace, keys: Sequence[str]) -> dict[str, Note]:
        """Return the notes of those of these items that there are, by key."""
        return {key: notes[0] for key, notes in self._kept(namespace, keys).items()}

    def write(self, puts: Sequence[Put]) -> dict[Namespace, list[str]]:
        """Write items, or remove them; return by namespace the ids of the notes that may now be evolved.

        The new items of a namespace are stored all together.
        """
        keys: dict[Namespace, list[str]] = {}
        for put in puts:
            keys.setdefault(put.namespace, []).append(put.key)
        with self._holding([(put.namespace, put.key) for put in puts]):
            kept = {
                (namespace, key): notes
                for namespace, wanted in keys.items()
                for key, notes in self._kept(namespace, wanted).items()
            }
            written = self._write([put for put in puts if put.value is not None], kept)
            for put in puts:
                for note in kept.get((put.namespace, put.key), ()):
                    if put.value is None or note.namespace != put.place:
                        with suppress(NoteNotFoundError):  # somebody else was faster
                            self.memory.delete(note.id, namespace=note.namespace)
            return {place: ids for place, ids in written.items() if not is_apart(place)}

    def _write(
        self, puts: Sequence[Put], kept: Mapping[tuple[Namespace, str], Sequence[Note]]
    ) -> dict[Namespace, list[str]]:
        now, new = datetime.now(UTC), dict[Namespace, list[NoteInput]]()
        written: dict[Namespace, list[str]] = {}
        for put in puts:
            before = kept.get((put.namespace, put.key), ())
            ttl = self.memory.config.ttl_of(put.place)
            item = put.item(before[0] if before else None, now, ttl, self._origin)
            same = next((note for note in before if note.namespace == put.place), None)
            is_alike = same is not None and same.origin == item.origin
            if same is not None and is_alike and self._update(same, item):
                written.setdefault(put.place, []).append(same.id)
            else:
                new.setdefault(put.place, []).append(item)
        for place, items in new.items():
            # An expired item that was not swept yet has the id of its successor, which takes its place.
            added = self.memory.add_many(items, namespace=place, evolve=False)
            written.setdefault(place, []).extend(note.id for note in added)
        return written

    def _update(self, note: Note, item: NoteInput) -> bool:
        """Return whether a note took over what was put; it may have expired since it was read."""
        with suppress(NoteNotFoundError):
            self.memory.update(
                note.id,
                namespace=note.namespace,
                content=item.content,
                metadata=item.metadata,
                expires_at=item.expires_at,
            )
            return True
        return False

    def places(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces of the memory that may hold items under a prefix."""
        return [s for s in self.memory.namespaces() if shown(s)[: len(prefix)] == prefix]

    def by_name(self, places: Iterable[Namespace]) -> list[tuple[Namespace, list[Namespace]]]:
        """Return places by the namespaces that a user of the store knows, sorted."""
        named: dict[Namespace, list[Namespace]] = {}
        for place in places:
            named.setdefault(shown(place), []).append(place)
        return sorted(named.items())

    def holds_any(self, places: Iterable[Namespace]) -> bool:
        """Return whether one of these places holds an item."""
        return any(any(True for _ in self.scan(place, 1)) for place in places)

    def scan(self, place: Namespace, first: int = PAGES[0]) -> Iterator[Note]:
        """Return the items of a place, in the order in which they were first put."""
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
        for note in (note for note in notes if _prolonged(note, now)):
            namespace, key = shown(note.namespace), _key(note)
            with self._holding([(namespace, key)]), suppress(NoteNotFoundError):
                # Another thread may have put it again since it was read.
                for item in self._kept(namespace, [key]).get(key, ()):
                    if expires_at := _prolonged(item, now):
                        self.memory.update(item.id, namespace=item.namespace, expires_at=expires_at)

    def sweep(self) -> int:
        """Delete what has expired, and return how many notes that were."""
        swept = 0
        for place in self.places(()):
            with ExitStack() as held:  # all of them: what is put again meanwhile must stay
                for lock in self._locks:
                    held.enter_context(lock)
                swept += self.memory.sweep(namespace=place)
        return swept

    def _kept(self, namespace: Namespace, keys: Sequence[str]) -> dict[str, list[Note]]:
        """Return the notes of items, by key; the newer one first if a crash left two of one."""
        where = {"key": {"$in": [f"{KEY}{key}" for key in keys]}}
        found: dict[str, list[Note]] = {}
        for place in (namespace, apart(namespace)):
            for note in self.memory.get_all(namespace=place, where=where, limit=len(keys)):
                found.setdefault(_key(note), []).append(note)
        for notes in found.values():
            notes.sort(key=lambda note: str(note.metadata["updated_at"]), reverse=True)
        return found

    @contextmanager
    def _holding(self, items: Iterable[tuple[Namespace, str]]) -> Iterator[None]:
        """Hold the locks of items, taken in one order so that two batches cannot wait for each other."""
        with ExitStack() as held:
            for number in sorted({hash(item) % LOCKS for item in items}):
                held.enter_context(self._locks[number])
            yield
