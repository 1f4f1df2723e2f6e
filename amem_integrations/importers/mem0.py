"""mem0: what `get_all()` returns, or the points of its Qdrant collection.

- Of the open-source package, `{"results": [{"id", "memory", "hash", "created_at", "updated_at", "user_id", "metadata", …}]}`:
  https://docs.mem0.ai/open-source/python-quickstart.
- Of the platform, the same as a page with `count` and `next`, or a bare list:
  https://docs.mem0.ai/cookbooks/essentials/exporting-memories. (`create_memory_export` answers in a schema of your own,
  so there is no form of it to read.)
- A point of the collection has the payload `{"data": text, "hash", "created_at", "user_id", …}`, with all other metadata
  beside it (`_create_memory` in https://github.com/mem0ai/mem0/blob/main/mem0/memory/main.py); the TypeScript package
  writes `userId`, `agentId`, `runId`, `createdAt`, `updatedAt`.

A memory goes to `<user_id>`, that of an agent to `agent/<agent_id>`, of an app to `app/<app_id>`; `run_id` is the thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..notes import NoteInput
from .import_report import Found, Labels, Skipped
from .json_fields import first_text, label, mapping, metadata_of, time_of
from .source import Entry, Source

LISTS = (None, "results", "memories", "points")
TEXTS = ("memory", "data", "text")
# What the note has a place for, or can be made again; all else becomes metadata.
KNOWN = {
    *TEXTS, "id", "run_id", "actor_id", "created_at", "metadata", "user_id", "hash", "score", "text_lemmatized", "expiration_date",
}  # fmt: skip
OWNERS = ("user_id", "agent_id", "app_id")
CAMEL = {
    "userId": "user_id",
    "agentId": "agent_id",
    "runId": "run_id",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
}


def recognises(entry: Entry) -> bool:
    """Return whether this is a memory of mem0."""
    value = entry.value
    if entry.field not in LISTS or not isinstance(value, Mapping):
        return False
    payload = value.get("payload")
    return "memory" in value or (
        isinstance(payload, Mapping) and {"data", "hash"} <= payload.keys()
    )


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield each memory; one is in memory at a time."""
    for entry in source.entries():
        if entry.field in LISTS and entry.number:
            if (found := skipped.attempt(lambda one: _memory(one, skipped), entry)) is not None:
                yield found
        elif entry.field == "relations":
            skipped.add("relation of the graph", entry.place())


def _memory(entry: Entry, skipped: Skipped) -> Found | None:
    where = entry.place("memory")
    row = mapping(entry.value, where)
    if isinstance(row.get("payload"), Mapping):
        row = {**row["payload"], "id": row.get("id")}
    item = {CAMEL.get(name, name): value for name, value in row.items() if value is not None}
    if "linked_memory_ids" in item:
        skipped.add("entity of the graph", where)
        return None
    content = first_text(item, TEXTS)
    if content is None:
        skipped.add("no text", where)
        return None
    kind, labels = _owner(item)
    return labels, NoteInput(
        content=content,
        at=time_of(item.get("created_at"), where),
        key=label(item.get("id")),
        thread=label(item.get("run_id")),
        speaker=label(item.get("actor_id")),
        source="import",
        expires_at=time_of(item.get("expiration_date"), where),
        metadata=metadata_of(item, {*KNOWN, kind}, where),
    )


def _owner(item: Mapping[str, Any]) -> tuple[str, Labels]:
    """Return whose memory it is, and the field that says so.

    An agent is kept apart from a user, even if both have the same id.
    """
    for kind in OWNERS:
        if name := label(item.get(kind)):
            return kind, (name,) if kind == "user_id" else (kind.removesuffix("_id"), name)
    return "", ()
