"""Memories: what mem0 keeps, and the items of LangGraph stores, to which langmem writes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..errors import InvalidInputError
from ..notes import NoteInput, storable
from .source import LINE, Format, Found, Record, Skipped, Source, having

MEM0_LISTS = ("", LINE, "results", "memories")
MEM0_TEXTS = ("memory", "data", "text")
# Fields that the note has a place for, or that can be made again; all others become metadata.
MEM0_KNOWN = {
    *MEM0_TEXTS, "id", "run_id", "actor_id", "created_at", "user_id", "hash", "score", "text_lemmatized", "expiration_date",
}  # fmt: skip
OWNERS = ("user_id", "agent_id", "app_id")
STORE_LISTS = ("", LINE, "items")
STORE_TEXTS = ("content", "text", "memory", "data")


def mem0(source: Source) -> Iterator[Found | Skipped]:
    """Yield each memory of mem0, as `get_all()` returns them; one is in memory at a time.

    - Of the open-source package, `{"results": [{"id", "memory", "hash", "created_at", "updated_at", "user_id",
      "metadata", …}]}`: https://docs.mem0.ai/open-source/python-quickstart. `data` in place of `memory`, as in the
      payloads of its vector store, is read too.
    - Of the platform, the same as a page with `count` and `next`, or a bare list:
      https://docs.mem0.ai/cookbooks/essentials/exporting-memories. (`create_memory_export` answers in a schema of your
      own, so there is no form of it to read.)

    A memory goes to `<user_id>`, that of an agent to `agent/<agent_id>`, of an app to `app/<app_id>`, so that an agent
    is kept apart from a user with the same id; `run_id` is the thread.
    """
    for entry in source.entries():
        if entry.field in MEM0_LISTS and entry.number:
            yield from entry.attempt(_memory)
        elif entry.field == "relations":
            yield Skipped("relation of the graph", entry.where)


def _memory(item: Record) -> Iterator[Found | Skipped]:
    content, owner = item.text(*MEM0_TEXTS), next(filter(item.label, OWNERS), "user_id")
    if content is None:
        yield Skipped("no text", item.where)
    else:
        name = item.label(owner)
        kind = () if owner == "user_id" else (owner.removesuffix("_id"),)
        note = NoteInput(
            content=content,
            at=item.time("created_at"),
            key=item.label("id"),
            thread=item.label("run_id"),
            speaker=item.label("actor_id"),
            source="import",
            expires_at=item.time("expiration_date"),
            metadata=item.rest({*MEM0_KNOWN, owner}),
        )
        yield (*kind, name) if name else (), note


def langgraph(source: Source) -> Iterator[Found | Skipped]:
    """Yield each item of a LangGraph store, as `Item.dict()` gives it; one is in memory at a time.

    `{"namespace": […], "key", "value", "created_at", "updated_at"}`, a list of them, bare or under `items`, which is also
    what the server's `/store/items/search` answers:
    https://reference.langchain.com/python/langgraph/store/#langgraph.store.base.Item. langmem's values are
    `{"kind": "Memory", "content": {"content": text}}` by its store manager, with a schema of your own
    `{"kind": "Profile", "content": {…}}`, and `{"content": text}` by its tools:
    https://langchain-ai.github.io/langmem/reference/memory/.

    An item goes to its own namespace and keeps its key. Of a value that is more than its text, all is kept in
    `metadata.value`; one without a text is stored as JSON.
    """
    for entry in source.entries():
        if entry.field in STORE_LISTS and entry.number:
            yield from entry.attempt(_item)


def _item(item: Record) -> Iterator[Found]:
    given, key, value = item.get("namespace"), item.label("key"), item.inner("value")
    labels = [storable(str(one or "")) for one in given] if isinstance(given, list | tuple) else []
    if not (labels and all(labels) and key and value):
        raise InvalidInputError(f"{item.where} lacks a namespace, a key or a value")
    text = (value.inner("content") or value).text(*STORE_TEXTS)
    note = NoteInput(
        content=text or json.dumps(value, ensure_ascii=False, sort_keys=True),
        at=item.time("created_at"),
        key=key,
        source="import",
        metadata={} if [*value.values()] == [text] else {"value": dict(value)},
    )
    yield tuple(labels), note


FORMATS = {
    "mem0": Format(mem0, having("memory")),
    "langgraph": Format(langgraph, having("namespace", "value")),
}
