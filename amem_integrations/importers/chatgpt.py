"""ChatGPT: `conversations.json` of a data export, or the zip file it comes in.

OpenAI publishes no schema; this follows the exports as described at
https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md. A conversation is a tree
(`mapping`) of messages; edits and regenerated answers are branches of it, and `current_node` is the end of the one that
was shown last. How to get it: https://help.openai.com/en/articles/7260999.

Taken are the messages of user and assistant on that branch, a thread for each conversation; of a message with files the
text and the transcript of what was spoken. Conversations that were not to be remembered
(`is_do_not_remember`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..conversation import Message, note_inputs
from .import_report import Found, Skipped
from .json_fields import first_time, label, mapping, time_of
from .source import Entry, Source

# Of content types: what of it is not a message to the other.
REASONS = {
    "thoughts": "reasoning",
    "reasoning_recap": "reasoning",
    "code": "call of a tool",
    "execution_output": "output of a tool",
    "computer_output": "output of a tool",
    "tether_browsing_display": "output of a tool",
    "tether_quote": "output of a tool",
    "system_error": "output of a tool",
    "user_editable_context": "custom instructions",
    "model_editable_context": "memory of ChatGPT itself",
}


def recognises(entry: Entry) -> bool:
    """Return whether this is one of ChatGPT's conversations."""
    return isinstance(entry.value, Mapping) and isinstance(entry.value.get("mapping"), Mapping)


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield the notes of all conversations; one conversation is in memory at a time."""
    for entry in source.entries():
        if recognises(entry):
            for item in skipped.attempt(lambda one: _conversation(one, skipped), entry) or ():
                yield (), item
        else:
            skipped.add("not a conversation", entry.place("conversation"))


def _conversation(entry: Entry, skipped: Skipped) -> Sequence[Any]:
    talk, where = entry.value, entry.place("conversation")
    if talk.get("is_do_not_remember"):
        skipped.add("conversation that was not to be remembered", where)
        return ()
    nodes = talk["mapping"]
    branch = _branch(talk, nodes)
    others = [nodes[one] for one in nodes if one not in set(branch)]
    skipped.add("message on another branch", where, sum(map(_is_said, others)))
    at = first_time(talk, where, ("create_time", "update_time"))
    messages = []
    for name in branch:
        node = mapping(nodes[name], where)
        if isinstance(node.get("message"), Mapping):
            at = time_of(node["message"].get("create_time"), where) or at
            if message := _message(node["message"], label(name), at, talk, skipped, where):
                messages.append(message)
    thread = label(talk.get("conversation_id")) or label(talk.get("id")) or where
    return note_inputs(messages, thread=thread)


def _branch(talk: Mapping[str, Any], nodes: Mapping[str, Any]) -> list[str]:
    """Return the ids of the nodes from the root to the current one, or else to the last that nothing follows."""
    current = talk.get("current_node")
    if not isinstance(current, str) or current not in nodes:
        current = next((n for n in reversed([*nodes]) if not _field(nodes[n], "children")), None)
    found: dict[str, None] = {}
    while isinstance(current, str) and current in nodes and current not in found:
        found[current] = None
        current = _field(nodes[current], "parent")
    return list(reversed(found))


def _message(
    message: Mapping[str, Any],
    node: str | None,
    at: datetime | None,
    talk: Mapping[str, Any],
    skipped: Skipped,
    where: str,
) -> Message | None:
    """Return what was said, or count why it is not taken."""
    content = message.get("content")
    content = content if isinstance(content, Mapping) else {}
    text, files = _text(content)
    if reason := _reason(message, content):
        skipped.add(reason, where, 1 if text or reason != "system message" else 0)
        return None
    skipped.add("image or other file", where, files)
    title = talk.get("title")
    return Message(
        role=_role(message),
        text=text,
        id=label(message.get("id")) or node,
        at=at,
        metadata={"title": title} if isinstance(title, str) and title else {},
    )


def _reason(message: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
    """Return why a message is not taken."""
    kind, role = str(content.get("content_type")), _role(message)
    data = message.get("metadata")
    hidden = isinstance(data, Mapping) and data.get("is_visually_hidden_from_conversation")
    if kind in REASONS:
        return REASONS[kind]
    if role not in {"user", "assistant"}:
        return {"system": "system message", "tool": "output of a tool"}.get(role, f"role {role!r}")
    if message.get("recipient") not in {"all", None}:
        return "call of a tool"
    if hidden or message.get("weight") == 0:
        return "hidden message"
    return None


def _text(content: Mapping[str, Any]) -> tuple[str, int]:
    """Return the text of the parts, with what was spoken, and how many files there are beside it."""
    parts = content.get("parts")
    parts = parts if isinstance(parts, list) else [content.get("text")]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    files = sum(isinstance(part, Mapping) and not part.get("text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text), files


def _is_said(node: object) -> bool:
    message = _field(node, "message")
    content = _field(message, "content")
    if not isinstance(message, Mapping) or not isinstance(content, Mapping):
        return False
    return _reason(message, content) is None and bool(_text(content)[0])


def _role(message: Mapping[str, Any]) -> str:
    return str(_field(message.get("author"), "role"))


def _field(value: object, name: str) -> Any:  # noqa: ANN401 - JSON
    return value.get(name) if isinstance(value, Mapping) else None
