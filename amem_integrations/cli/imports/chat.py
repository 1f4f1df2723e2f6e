"""Chat histories: messages of OpenAI, LangChain, LangGraph or LlamaIndex, in each of their spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...conversation import from_dict, note_inputs
from ...errors import InvalidInputError
from ...notes import NoteInput

_ROLES = {"human": "user", "ai": "assistant", "HumanMessage": "user", "AIMessage": "assistant"}
_LISTS = ("messages", "chat_history", "history")


def messages(data: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    """Return the messages as dicts with `role` and `content`; none if this is no chat history."""
    if isinstance(data, Mapping):
        inner = data.get("values", data.get("store", data))  # the state of a LangGraph thread
        held = (inner.get(name) for name in _LISTS) if isinstance(inner, Mapping) else ()
        data = next((value for value in held if isinstance(value, list)), None)
    if not isinstance(data, list):
        return []
    found = [_message(item) for item in data]
    known = [message for message in found if message is not None]
    return known if len(known) == len(found) else []


def read(data: Any, thread: str, where: str) -> list[NoteInput]:  # noqa: ANN401 - JSON
    """Return a note for each message of a user or an assistant that holds text.

    Raises:
        InvalidInputError: This is no chat history, or nobody says anything in it.
    """
    found = messages(data)
    items = note_inputs(map(from_dict, found), thread=thread)
    if not items:
        raise InvalidInputError(f"{where} holds no messages with a role and content")
    return items


def _message(item: object) -> dict[str, Any] | None:
    if not isinstance(item, Mapping):
        return None
    # LangChain: {"type", "data": {…}} of messages_to_dict, {"lc", "id": […, kind], "kwargs": {…}} of dumpd.
    fields: Mapping[str, Any] = item
    kind: Any = item.get("role", item.get("type"))
    for inner in ("data", "kwargs"):
        if isinstance(item.get(inner), Mapping):
            fields = item[inner]
    if "lc" in item and isinstance(item.get("id"), list) and item["id"]:
        kind = item["id"][-1]
    content = fields.get("content", fields.get("blocks"))
    if not isinstance(kind, str) or not isinstance(content, str | list | None):
        return None
    role = _ROLES.get(kind, kind)
    if "content" not in fields and "blocks" not in fields:
        return None
    return {"role": role, "content": content, "name": fields.get("name"), "id": fields.get("id")}
