"""What mem0's `get_all` returns, or its export: a list of memories, bare or under `results`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidInputError
from ...notes import NoteInput
from . import values

OWNERS = ("user_id", "agent_id", "app_id")
_KNOWN = {"id", "memory", "run_id", "created_at", "metadata", "user_id"}
_USELESS = {"hash", "score"}  # of mem0's own storage, and of a search


def read(data: Any, where: str) -> list[tuple[tuple[str, ...], NoteInput]]:  # noqa: ANN401 - JSON
    """Return each memory with whose it is: a user, or an agent or app of its own.

    Raises:
        InvalidInputError: A memory has no text.
    """
    if isinstance(data, Mapping):
        data = data.get("results", data.get("memories"))
    if not isinstance(data, list):
        raise InvalidInputError(f"{where} holds no list of memories under 'results'")
    return [_item(item, f"{where}, memory {n}") for n, item in enumerate(data, start=1)]


def _item(given: object, where: str) -> tuple[tuple[str, ...], NoteInput]:
    item = values.mapping(given, where)
    content = values.first_text(item, ("memory", "text"))
    if content is None:
        raise InvalidInputError(f"{where} has no text in 'memory'")
    extra = {
        name: value
        for name, value in item.items()
        if name not in _KNOWN | _USELESS and value is not None
    }
    own = values.mapping(item.get("metadata") or {}, f"{where}: metadata")
    return _owner(item), NoteInput(
        content=content,
        at=values.time(item.get("created_at"), where),
        key=values.label(item.get("id")),
        thread=values.label(item.get("run_id")),
        speaker=values.label(item.get("actor_id")),
        source="import",
        metadata={**extra, **own},
    )


def _owner(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Return whose it is. An agent's memories are no user's, even if the two have one id."""
    for kind in OWNERS:
        if found := values.label(item.get(kind)):
            return (found,) if kind == "user_id" else (kind.removesuffix("_id"), found)
    return ()
