"""LlamaIndex: the collection of a `VectorMemoryBlock`, the nodes of one, and chat stores.

The block stores a node for each batch of messages (`_aput` in llama_index/core/memory/memory_blocks/vector.py): its text is
`<message role='user'>…</message>` for each message, its metadata `{"session_id"}`. A vector store keeps it as `_node_content`, a text
with JSON, beside the metadata (`node_to_metadata_dict` in llama_index/core/vector_stores/utils.py); in Qdrant that is the payload
of a point. https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/.

Each message becomes a note again, in the thread of its session; nodes carry no times. Rows of a SQLite chat store
(`key`, `role`, `data`) are read too; histories in files are lists of messages: see `chat`, to which all else is handed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..conversation import Message
from ..notes import NoteInput
from . import chat
from .import_report import Found, Skipped
from .json_fields import label, mapping, mapping_in
from .source import Entry, Source

LISTS = (None, "nodes", "points")
_STORED = re.compile(r"<message role='(\w+)'>(.*?)</message>(?=\n<message role='|\Z)", re.DOTALL)


def recognises(entry: Entry) -> bool:
    """Return whether this is a node, or a row of a chat store."""
    return isinstance(entry.value, Mapping) and (_is_row(entry.value) or _is_node(entry.value))


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield the messages of nodes, one node at a time, and those of a chat store together.

    Raises:
        InvalidInputError: A row of a chat store holds no message.
    """
    if not any(map(recognises, source.sample())):
        yield from chat.read(source, skipped)
        return
    threads: chat.Threads = {}
    for entry in source.entries():
        if entry.field in LISTS and recognises(entry) and not _is_row(entry.value):
            for item in skipped.attempt(lambda one: _node(one, source, skipped), entry) or ():
                yield (), item
        elif recognises(entry):
            said = chat.message_in_row(entry, "data", skipped)
            threads.setdefault(label(entry.value["key"]), []).append(said)
        else:
            skipped.add("not a node", entry.place("node"))
    yield from chat.notes_of(threads, source)


def _is_row(value: Mapping[str, Any]) -> bool:
    return {"key", "role", "data"} <= value.keys()


def _is_node(value: Mapping[str, Any]) -> bool:
    payload = value.get("payload")
    held = payload if isinstance(payload, Mapping) else value
    return "_node_content" in held or held.get("class_name") == "TextNode"


def _node(entry: Entry, source: Source, skipped: Skipped) -> list[NoteInput]:
    where = entry.place("node")
    node = _content(entry.value, where)
    known = label(node.get("id_")) or label(entry.value.get("id"))
    metadata = {**mapping(node.get("metadata") or {}, where)}
    thread = label(metadata.pop("session_id", None)) or source.thread
    resource = node.get("text_resource")
    held = resource.get("text") if isinstance(resource, Mapping) else None
    text = str(node.get("text") or held or entry.value.get("document") or "")
    said = _STORED.findall(text) or ([("", text)] if text.strip() else [])
    if not said:
        skipped.add("no text", where)
    items = []
    for number, (role, words) in enumerate(said, start=1):
        one = Message(role=role or "user", text=words, metadata=metadata)
        if role and one.party not in {"user", "assistant"}:
            chat.tell(one, {}, where, skipped)
        elif words.strip():
            items.append(_note(one, known and f"{known}/{number}", thread, stored=bool(role)))
    return items


def _note(said: Message, key: str | None, thread: str | None, *, stored: bool) -> NoteInput:
    """Return the note of a message, or (not `stored` as one) of a text that someone put there."""
    assistant = said.party == "assistant"
    return NoteInput(
        content=said.text.strip(),
        key=key,
        thread=thread,
        speaker=said.party if stored else None,
        source="import" if not stored else "assistant" if assistant else "user",
        metadata=said.metadata,
    )


def _content(value: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the node in a value: as it is, in a payload, or in a text with JSON."""
    payload = value.get("payload")
    held = payload if isinstance(payload, Mapping) else value
    content = held.get("_node_content")
    if content is None:
        return held
    node = mapping_in(content, f"{where}: _node_content")
    return (
        node
        if node.get("text") or node.get("text_resource")
        else {**node, "text": held.get("text")}
    )
