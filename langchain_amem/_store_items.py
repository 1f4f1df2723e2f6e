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

# Metadata: says that a note is an item of a store, and whether it may be searched by meaning.
FLAG = "langgraph_store"
INDEXED, UNINDEXED = "indexed", "unindexed"
OURS: dict[str, Any] = {f"metadata.{FLAG}": {"$in": [INDEXED, UNINDEXED]}}
SEARCHED: dict[str, Any] = {f"metadata.{FLAG}": INDEXED}
KEY = "store:"

# An encoder reads less; the value itself is kept whole.
MAX_TEXT = 8_000

Metadata = dict[str, Any]


def key_of(note: Note) -> str:
    """Return the key of the item that a note is."""
    return (note.key or "").removeprefix(KEY)


def item_of(note: Note) -> Item:
    """Return the item that a note is."""
    return Item(**_fields(note))


def found_item(note: Note, score: float | None) -> SearchItem:
    """Return the item that a note is, as the result of a search."""
    return SearchItem(**_fields(note), score=score)


def _fields(note: Note) -> dict[str, Any]:
    return {
        "namespace": note.namespace,
        "key": key_of(note),
        "value": value_of(note),
        "created_at": datetime.fromisoformat(note.metadata["created_at"]),
        "updated_at": datetime.fromisoformat(note.metadata["updated_at"]),
    }


def value_of(note: Note) -> dict[str, Any]:
    """Return the value that was put, a new one each time."""
    value: dict[str, Any] = json.loads(note.metadata["value"])
    return value


def content_of(op: PutOp, fields: Sequence[str]) -> tuple[str, bool]:
    """Return the content of the note for an item, and whether it is there to be searched."""
    text = "" if op.index is False else indexed_text(op.value or {}, op.index or fields)
    # A note needs some content; the key of an item without text is never searched for.
    return (text, True) if text else (op.key, False)


def indexed_text(value: Mapping[str, Any], paths: Sequence[str]) -> str:
    """Return the text at these paths, a line each; "$" is the whole value."""
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


def metadata_of(op: PutOp, *, indexed: bool, before: Note | None, now: datetime) -> Metadata:
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
    found = {"value": value, "created_at": created, "updated_at": now.isoformat()}
    found[FLAG] = INDEXED if indexed else UNINDEXED
    return {**found, **expiry(op.ttl, now)}


def searched(note: Note) -> bool:
    """Return whether a note is an item that may be searched by meaning."""
    return note.metadata.get(FLAG) == INDEXED


def expiry(minutes: float | None, now: datetime) -> Metadata:
    """Return the metadata by which an item expires."""
    if minutes is None:
        return {}
    return {"ttl": minutes, "expires_at": (now + timedelta(minutes=minutes)).isoformat()}


def alive(note: Note) -> bool:
    """Return whether an item has not expired."""
    expires = note.metadata.get("expires_at")
    return expires is None or datetime.fromisoformat(expires) > datetime.now(UTC)
