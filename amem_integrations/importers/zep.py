"""Zep and Graphiti: facts (edges), episodes, entities and messages, as their classes are written as JSON.

Neither has an export of its own. Read are lists of what these return, `model_dump(mode="json")` or `dict()` of each, bare or in
an object with the fields `edges`, `episodes`, `nodes`, `messages`:

- Graphiti: `EntityEdge`, `EpisodicNode` and `EntityNode.get_by_group_ids(driver, …)`
  (https://github.com/getzep/graphiti/blob/main/graphiti_core/edges.py, nodes.py).
- Zep: `graph.edge`, `graph.episode`, `graph.node.get_by_user_id` and `thread.get`
  (https://help.getzep.com/sdk-reference/graph/edge/get-edge, …/graph/episode/get-episode, …/thread/get).

A fact holds from `valid_at` until `invalid_at` (`NoteInput.until`). What Graphiti keeps in a `group_id` goes to a
namespace of that name; a message or episode is in the thread that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..notes import NoteInput
from ..notes import Source as Role
from .import_report import Found, Labels, Skipped
from .json_fields import first_text, first_time, label, mapping, metadata_of
from .source import Entry, Source

LISTS = (None, "edges", "facts", "episodes", "nodes", "messages", "items")
OWN = ("edges", "facts", "episodes", "nodes")  # fields that no other format has
OWNERS = ("group_id", "graph_id", "user_id")
THREADS = ("thread_id", "session_id", "thread_uuid")
_COMMON = {"uuid", "created_at", "metadata", *OWNERS, *THREADS}
_FACT = {
    *_COMMON, "fact", "fact_embedding", "valid_at", "invalid_at", "expired_at", "reference_time", "score", "relevance",
}  # fmt: skip
_EPISODE = {
    *_COMMON,
    "content",
    "valid_at",
    "entity_edges",
    "processed",
    "labels",
    "score",
    "relevance",
    "role_type",
}
_NODE = {*_COMMON, "summary", "name_embedding", "score", "relevance"}
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def recognises(entry: Entry) -> bool:
    """Return whether this is something of Zep's or Graphiti's."""
    value = entry.value
    if not isinstance(value, Mapping) or entry.field not in LISTS:
        return False
    return entry.field in OWN or "fact" in value or ("uuid" in value and "content" in value)


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield the facts, episodes, messages, and the entities that have a summary; one is in memory at a time."""
    for entry in source.entries():
        if entry.field in LISTS and entry.number:
            item = skipped.attempt(lambda one: _item(one, source, skipped), entry)
            if item is not None:
                yield _owner(entry.value), item


def _item(entry: Entry, source: Source, skipped: Skipped) -> NoteInput | None:
    where = entry.place("item")
    value = mapping(entry.value, where)
    for field, convert in _KINDS:
        if text := first_text(value, (field,)):
            return convert(value, text, where, source)
    kind = "entity without a summary" if "summary" in value else "no fact, content or summary"
    skipped.add("edge without a fact" if "source_node_uuid" in value else kind, where)
    return None


def _fact(value: Mapping[str, Any], text: str, where: str, _: Source) -> NoteInput:
    return NoteInput(
        content=text,
        key=label(value.get("uuid")),
        at=first_time(value, where, ("valid_at", "reference_time", "created_at")),
        until=first_time(value, where, ("invalid_at", "expired_at")),
        source="import",
        metadata=_metadata(value, _FACT, where),
    )


def _said(value: Mapping[str, Any], text: str, where: str, source: Source) -> NoteInput:
    """Return an episode, or a message of a thread, which is an episode too."""
    # Zep 2 says in `role` who it was and in `role_type` on which side; Zep 3 in `name` and `role`.
    sides = ("role", "role_type") if value.get("role_type") else ("name", "role")
    speaker, side = (label(value.get(name)) for name in sides)
    known = {*_EPISODE, *sides} if side else _EPISODE
    return NoteInput(
        content=text,
        key=label(value.get("uuid")),
        at=first_time(value, where, ("valid_at", "reference_time", "created_at")),
        thread=next(filter(None, (label(value.get(n)) for n in THREADS)), source.thread),
        speaker=(speaker or side) if side else None,
        source=_ROLES.get(side or "", "import"),
        metadata=_metadata(value, known, where),
    )


def _entity(value: Mapping[str, Any], text: str, where: str, _: Source) -> NoteInput:
    name = label(value.get("name"))
    return NoteInput(
        content=f"{name}: {text}" if name else text,
        key=label(value.get("uuid")),
        at=first_time(value, where, ("created_at",)),
        source="import",
        metadata=_metadata(value, _NODE, where),
    )


_Convert = Callable[[Mapping[str, Any], str, str, Source], NoteInput]
_KINDS: tuple[tuple[str, _Convert], ...] = (
    ("fact", _fact),
    ("content", _said),
    ("summary", _entity),
)


def _metadata(value: Mapping[str, Any], known: set[str], where: str) -> dict[str, Any]:
    return {
        name: field
        for name, field in metadata_of(value, known, where).items()
        if field not in (None, "", [], {})
    }


def _owner(value: Mapping[str, Any]) -> Labels:
    name = next(filter(None, (label(value.get(kind)) for kind in OWNERS)), None)
    return (name,) if name else ()
