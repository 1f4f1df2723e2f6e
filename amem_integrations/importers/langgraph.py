"""LangGraph's store, which langmem writes to: items as `Item.dict()` gives them.

`{"namespace": […], "key", "value", "created_at", "updated_at"}`, a list of them, bare or under `items`, which is also what the
server's `/store/items/search` answers: https://reference.langchain.com/python/langgraph/store/#langgraph.store.base.Item.
langmem's values are `{"kind": "Memory", "content": {"content": text}}` by its store manager, with a schema of your own
`{"kind": "Profile", "content": {…}}`, and `{"content": text}` by its tools:
https://langchain-ai.github.io/langmem/reference/memory/.

An item goes to its own namespace and keeps its key. Of a value that is more than its text, all is kept in
`metadata.value`; one without a text is stored as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ..errors import InvalidInputError
from ..notes import NoteInput
from .import_report import Found, Skipped
from .json_fields import first_text, label, mapping, time_of
from .source import Entry, Source

LISTS = (None, "items")
TEXTS = ("content", "text", "memory", "data")


def recognises(entry: Entry) -> bool:
    """Return whether this is an item of a store."""
    value = entry.value
    return (
        entry.field in LISTS
        and isinstance(value, Mapping)
        and {"namespace", "value"} <= value.keys()
    )


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield each item; one is in memory at a time."""
    for entry in source.entries():
        found = skipped.attempt(_item, entry) if entry.field in LISTS and entry.number else None
        if found is not None:
            yield found


def _item(entry: Entry) -> Found:
    where = entry.place("item")
    item = mapping(entry.value, where)
    labels, key = item.get("namespace"), label(item.get("key"))
    if not (
        isinstance(labels, list | tuple)
        and labels
        and all(isinstance(s, str) and s for s in labels)
    ):
        raise InvalidInputError(f"{where}: namespace {labels!r} is not a list of labels")
    if key is None:
        raise InvalidInputError(f"{where} has no key")
    value = mapping(item.get("value"), f"{where}: value")
    inner = value.get("content")
    text = first_text(inner if isinstance(inner, Mapping) else value, TEXTS)
    return tuple(labels), NoteInput(
        content=text or json.dumps(value, ensure_ascii=False, sort_keys=True),
        at=time_of(item.get("created_at"), where),
        key=key,
        source="import",
        # A value that is more than its text is kept whole, so that nothing is lost.
        metadata={} if [*value.values()] == [text] else {"value": dict(value)},
    )
