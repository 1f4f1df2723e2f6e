"""Claude: `conversations.json` of a data export of claude.ai, or the zip file it comes in.

Anthropic publishes no schema; this follows the exports as described at
https://whychose.com/seo/claude-conversation-export-format: conversations with `chat_messages` by `human` and `assistant`,
whose `content` is a list of blocks. Where messages name a parent, `current_leaf_message_uuid` (else the last message) is the end of
the branch that was shown last. How to get it: https://support.claude.com/en/articles/9450526.

Taken are the text blocks of both sides on that branch, a thread for each conversation, and the text of what was
attached (`extracted_content`), each as a note of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..conversation import Message, note_inputs
from .import_report import Found, Skipped
from .json_fields import first_time, label, objects
from .source import Entry, Source

REASONS = {
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "call of a tool",
    "tool_result": "output of a tool",
}


def recognises(entry: Entry) -> bool:
    """Return whether this is one of Claude's conversations."""
    return isinstance(entry.value, Mapping) and isinstance(entry.value.get("chat_messages"), list)


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
    messages: list[Message] = []
    shown = _branch(talk)
    skipped.add("message on another branch", where, len(talk["chat_messages"]) - len(shown))
    for message in shown:
        messages += _messages(message, talk, skipped, where)
    return note_inputs(messages, thread=label(talk.get("uuid")) or where)


def _branch(talk: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of the branch that was shown last; all of them if they name no parents."""
    messages = objects(talk["chat_messages"])
    ids = [label(message.get("uuid")) for message in messages]
    parents = [label(message.get("parent_message_uuid")) for message in messages]
    parent_of = {known: parent for known, parent in zip(ids, parents, strict=True) if known}
    if not any(parent in parent_of for parent in parents):
        return messages
    last = label(talk.get("current_leaf_message_uuid"))
    name: str | None = last if last in parent_of else [*parent_of][-1]
    found: set[str | None] = {None}  # what has no id is on every branch
    while name in parent_of and name not in found:
        found.add(name)
        name = parent_of[name]
    return [message for message, known in zip(messages, ids, strict=True) if known in found]


def _messages(
    message: Mapping[str, Any], talk: Mapping[str, Any], skipped: Skipped, where: str
) -> Iterator[Message]:
    """Yield what was said, then what was attached to it."""
    for block in objects(message.get("content")):
        if (kind := block.get("type")) != "text":
            skipped.add(REASONS.get(str(kind), f"block of type {kind!r}"), where)
    files = objects(message.get("files"))
    skipped.add("image or other file", where, len(files))
    role, name = str(message.get("sender")), label(message.get("uuid"))
    if role not in {"human", "assistant"}:
        skipped.add(f"sender {role!r}", where)
        return
    at = first_time(message, where, ("created_at", "updated_at"))
    about = {"title": talk["name"]} if talk.get("name") else {}
    text = _text(message)
    if not text and not files and not message.get("attachments"):
        skipped.add("message without text", where)
    yield Message(role=role, text=text, id=name, at=at, metadata=about)
    for number, file in enumerate(objects(message.get("attachments")), start=1):
        if not str(file.get("extracted_content") or "").strip():
            skipped.add("image or other file", where)
            continue
        yield Message(
            role=role,
            text=str(file["extracted_content"]),
            id=f"{name}/{number}" if name else None,
            at=at,
            metadata={**about, "file": file.get("file_name")},
        )


def _text(message: Mapping[str, Any]) -> str:
    """Return the text blocks; `text` is all of a message in older exports, with a remark for each tool in newer ones."""
    blocks = objects(message.get("content"))
    if blocks:
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str) and text)
    return str(message.get("text") or "")
