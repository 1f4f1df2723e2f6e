"""Pure: between the items of a LangGraph store and notes.

The value of an item is kept as a JSON string in the note's metadata, so it comes back as it was put, whatever
evolution makes of the note. The note's content is the text of the indexed paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from amem_integrations import InvalidInputError, MissingExtraError, Note

try:
    from langgraph.store.base import Item, PutOp, SearchItem, get_text_at_path
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

Namespace = tuple[str, ...]
Metadata = dict[str, Any]

FLAG = "langgraph_store"  # metadata: says that a note is an item of a store
KEY = "store:"  # begins the key of such a note

# Ends the namespace of items without text to search for. LangGraph allows no period in a label of its own.
APART = "langgraph.unindexed"

# An embedder reads less; the value itself is kept whole.
MAX_TEXT = 8_000

# A read prolongs by this much more than it has to, so that the next ones need not write.
SPARE = 0.1


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


def indexed_text(op: PutOp, fields: Sequence[str]) -> str:
    """Return the text at the paths to index, a line each, or "" if nothing is; "$" is the whole value."""
    if op.index is False or op.value is None:
        return ""
    lines: list[str] = []
    for path in op.index or fields:
        found = list(_leaves(op.value)) if path == "$" else get_text_at_path(op.value, path)
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


def metadata_of(op: PutOp, *, before: Note | None, now: datetime) -> Metadata:
    """Return the metadata of the note for an item.

    Raises:
        InvalidInputError: The value is not JSON.
    """
    try:
        value = json.dumps(op.value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"value={op.value!r} of {op.key!r} is not JSON: {error}") from error
    # What has expired is gone, whether it was swept or not: its successor is a new item.
    created = before.metadata["created_at"] if before and alive(before) else now.isoformat()
    found = {FLAG: True, "value": value, "created_at": created, "updated_at": now.isoformat()}
    return found if op.ttl is None else {**found, **_expiry(op.ttl, now)}


def _expiry(minutes: float, now: datetime, spare: float = 0.0) -> Metadata:
    end = now + timedelta(minutes=minutes * (1 + spare))
    return {"ttl": minutes, "expires_at": end.isoformat()}


def alive(note: Note) -> bool:
    """Return whether an item has not expired."""
    return _end(note) > datetime.now(UTC)


def prolonged(note: Note, now: datetime) -> Metadata | None:
    """Return the metadata of an item that is read now, or None if it lives long enough as it is."""
    minutes = note.metadata.get("ttl")
    if minutes is None or _end(note) >= now + timedelta(minutes=minutes):
        return None
    return {**note.metadata, **_expiry(minutes, now, SPARE)}


def _end(note: Note) -> datetime:
    end = note.metadata.get("expires_at")
    return datetime.max.replace(tzinfo=UTC) if end is None else datetime.fromisoformat(end)
