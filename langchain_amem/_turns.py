"""Pure: which messages of a conversation a run has to remember.

The middleware and the nodes keep in the state: `cursor`, the id of the last message that was stored; and of
the run under way `namespace` and `asked`, the ids of the messages it was started with. Messages are found
by id, since others may remove or rewrite some of them. Several people may talk in one thread, so a message
is stored only for whom it was said to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

Entry = dict[str, Any]
Namespace = tuple[str, ...]


def begin(
    messages: Sequence[BaseMessage], entry: Entry, namespace: Namespace
) -> tuple[Entry, list[BaseMessage]]:
    """Return the entry for a run that starts with these messages, and what is somebody else's.

    What an unfinished run was asked is stored with this one, unless that run was for somebody else: then
    it has to be stored for them.
    """
    new = spoken(messages, entry)
    left: list[BaseMessage] = []
    if entry.get("namespace") not in (None, list(namespace)):
        theirs = set(entry.get("asked", ()))
        mine = [m for m in since_last_answer(messages) if m.id not in theirs]
        left, new = new[: len(new) - len(mine)] if theirs else [], mine
    asked = [message.id for message in new if message.id and isinstance(message, HumanMessage)]
    return {**entry, "namespace": list(namespace), "asked": asked, "recalled": ""}, left


def spoken(messages: Sequence[BaseMessage], entry: Entry) -> list[BaseMessage]:
    """Return what the run under way was asked and has answered."""
    asked = set(entry.get("asked", ()))
    if not asked:
        return after(messages, entry.get("cursor"))
    for position, message in enumerate(messages):
        if message.id in asked:
            return list(messages[position:])
    # All of it was summarised away meanwhile, and so was everything before it.
    return list(messages)


def parts(
    messages: Sequence[BaseMessage], entry: Entry, namespace: Namespace
) -> list[tuple[Namespace, slice]]:
    """Return which messages there are to remember at the end of a run, and for whom.

    A run may be resumed by somebody else, who approves something or adds to it. What it was asked is still
    for whom it began; what they add, and what follows, is for them.
    """
    begun_for, asked = tuple(entry.get("namespace", namespace)), set(entry.get("asked", ()))
    end = len(messages)
    if begun_for == namespace or not asked:
        return [(namespace, slice(end - len(last_turn(messages, entry, namespace)), end))]
    start = end - len(spoken(messages, entry))
    for position in range(start, end):
        message = messages[position]
        if isinstance(message, HumanMessage) and message.id not in asked:
            return [(begun_for, slice(start, position)), (namespace, slice(position, end))]
    return [(begun_for, slice(start, end))]


def last_turn(
    messages: Sequence[BaseMessage], entry: Entry, namespace: Namespace
) -> list[BaseMessage]:
    """Return what there is to remember at the end of a run, whether or not its beginning was noted."""
    if entry.get("namespace") == list(namespace):
        known = {message.id for message in messages if message.id}
        if entry.get("asked") or entry.get("cursor") in known:
            return spoken(messages, entry)
    for position in range(len(messages) - 1, -1, -1):
        if isinstance(messages[position], HumanMessage):
            return since_last_answer(messages[: position + 1]) + list(messages[position + 1 :])
    return list(messages)


def stored(messages: Sequence[BaseMessage], namespace: Namespace) -> Entry:
    """Return the entry after everything has been stored."""
    cursor = messages[-1].id if messages else None
    return {"namespace": list(namespace), "cursor": cursor, "asked": []}


def after(messages: Sequence[BaseMessage], cursor: str | None) -> list[BaseMessage]:
    """Return the messages after the cursor.

    Without a known cursor (the first run, or no checkpointer and the history passed in each time) only
    what follows the last answer is new; ids would tell nothing then.
    """
    ids = [message.id for message in messages]
    if cursor and cursor in ids:
        return list(messages[ids.index(cursor) + 1 :])
    return since_last_answer(messages)


def since_last_answer(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what follows the last answer; a message that calls tools is none yet."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, AIMessage) and not message.tool_calls:
            return list(messages[position + 1 :])
    return list(messages)
