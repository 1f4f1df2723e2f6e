"""Pure: LangChain messages as notes, the question in them, and which of them a run has to remember.

The middleware and the nodes keep an entry in the state: `cursor`, the id of the last message that was stored;
and of the run under way `namespace` and `asked`, the ids of the messages it was started with, among them those
of earlier runs that failed (`unanswered`). Messages are found by id, since others may remove or rewrite some of them. Several people may talk in one thread, so a
message is stored only for whom it was said to.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage

from amem_integrations import ConfigurationError, NoteInput
from amem_integrations.conversation import Message, note_inputs

from .runs import Namespace

ShouldStore = Callable[[BaseMessage], bool]
Entry = dict[str, Any]
Part = tuple[Namespace, slice]

# Metadata of a note: a fingerprint of its message, which tells an edited message from a corrected note, and
# the id of the message that it answers, by which an answer that was given again is known.
HASH = "message_hash"
ANSWERS = "answers"

TIMES = ("created_at", "timestamp")
MILLISECONDS = 1e11  # a time stamp above that many seconds would lie in the year 5138


def to_message(message: BaseMessage, *, stored: bool = True) -> Message:
    """Return a LangChain message as the core reads it.

    A summary that another middleware wrote counts as a system message: it is no turn of the conversation.
    """
    return Message(
        role=_role(message),
        text=str(message.text),
        id=message.id or None,
        speaker=message.name,
        at=_time(message),
        calls_tools=isinstance(message, AIMessage) and bool(message.tool_calls),
        stored=stored,
    )


def _role(message: BaseMessage) -> str:
    if message.additional_kwargs.get("lc_source"):
        return "system"
    if isinstance(message, ChatMessage):
        return message.role
    return "assistant" if isinstance(message, AIMessage) else message.type


def _time(message: BaseMessage) -> datetime | None:
    """Return the time that a message carries, if any."""
    carried = (message.additional_kwargs, message.response_metadata)
    found = (_as_time(data.get(name)) for data in carried for name in TIMES)
    return next((at for at in found if at is not None), None)


def _as_time(value: object) -> datetime | None:
    """Return a datetime, an ISO string or a time stamp as a time; None if it is none, or has no zone."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > MILLISECONDS else value
            value = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None


def is_spoken(message: BaseMessage) -> bool:
    """Return whether a person said it, or the agent answered it: the default of `should_store`.

    Tool calls, tool results, and summaries that another middleware wrote are left out.
    """
    return to_message(message).spoken


def checked_filter(should_store: ShouldStore) -> ShouldStore:
    """Return the function.

    Raises:
        ConfigurationError: It cannot be called, or is a coroutine function, whose result would always count
            as true.
    """
    called = getattr(should_store, "__call__", None)  # noqa: B004 - an object may have an async one
    if not callable(should_store) or any(map(inspect.iscoroutinefunction, (should_store, called))):
        raise ConfigurationError(
            f"should_store={should_store!r} must be a plain function of a message that returns a bool"
        )
    return should_store


def notes_of(
    messages: Sequence[BaseMessage],
    *,
    thread: str | None,
    should_store: ShouldStore = is_spoken,
    skip: int = 0,
    now: datetime | None = None,
    max_chars: int | None = None,
) -> list[NoteInput]:
    """Return a note for each message worth storing that holds text, from number `skip` on.

    The first `skip` messages only count for the positions of messages without an id.
    """
    read, question = [], None
    for number, message in enumerate(messages):
        new = number >= skip
        found = to_message(message, stored=new and should_store(message))
        question = found.id if found.party == "user" else question
        read.append(_with_metadata(found, question) if new else found)
    return note_inputs(
        read,
        thread=thread,
        roles=tuple({found.party for found in read}),  # `should_store` decides
        now=now,
        max_chars=max_chars,
    )


def _with_metadata(message: Message, question: str | None) -> Message:
    text = message.text.strip()
    metadata = {HASH: hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]}
    if message.party == "assistant" and question is not None:
        metadata[ANSWERS] = question
    return replace(message, metadata=metadata)


def keys_of(messages: Sequence[BaseMessage], thread: str | None, last: int) -> set[str]:
    """Return the keys of the notes that the last messages are, or would be."""
    skip = max(0, len(messages) - last)
    items = notes_of(messages, thread=thread, should_store=lambda _: True, skip=skip)
    return {item.key for item in items if item.key is not None}


def question_in(messages: Sequence[BaseMessage]) -> str:
    """Return what was last asked, or "" if nobody said anything in words."""
    for message in reversed(messages):
        if _is_human(message):
            return str(message.text).strip()
    return ""


def _is_human(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source")


# Which messages belong to a run


def begin(
    messages: Sequence[BaseMessage], entry: Mapping[str, Any], namespace: Namespace
) -> tuple[Entry, list[BaseMessage]]:
    """Return the entry for a run that starts with these messages, and what is somebody else's.

    What an unfinished run was asked is stored with this one, unless that run was for somebody else: then
    it has to be stored for them.
    """
    new = _since_begin(messages, entry)
    left: list[BaseMessage] = []
    earlier = entry.get("asked", ())
    if entry.get("namespace") not in (None, list(namespace)):
        theirs = set(entry.get("asked", ()))
        mine = [m for m in _since_last_answer(messages) if m.id not in theirs]
        left, new = new[: len(new) - len(mine)] if theirs else [], mine
    asked = [message.id for message in new if message.id and isinstance(message, HumanMessage)]
    unanswered = [message_id for message_id in asked if message_id in earlier]
    noted = {"namespace": list(namespace), "asked": asked, "unanswered": unanswered}
    return {**entry, **noted}, left


def parts(
    messages: Sequence[BaseMessage], entry: Mapping[str, Any], namespace: Namespace
) -> list[Part]:
    """Return which messages there are to remember at the end of a run, and for whom.

    A run may be resumed by somebody else, who approves something or adds to it. What it was asked is still
    for whom it began; what they add, and what follows, is for them.
    """
    begun_for, asked = tuple(entry.get("namespace", namespace)), set(entry.get("asked", ()))
    end = len(messages)
    if begun_for == namespace or not asked:
        return [(namespace, slice(end - len(_last_turn(messages, entry, namespace)), end))]
    start = end - len(_since_begin(messages, entry))
    for position in range(start, end):
        message = messages[position]
        if isinstance(message, HumanMessage) and message.id not in asked:
            return [(begun_for, slice(start, position)), (namespace, slice(position, end))]
    return [(begun_for, slice(start, end))]


def answered_parts(
    messages: Sequence[BaseMessage], entry: Mapping[str, Any], namespace: Namespace
) -> list[Part]:
    """Return the same without what earlier runs said that failed or were blocked.

    A run begins with the first message that it was asked. Where that was not noted (`entry` has no `asked`),
    it is the last one of a person.
    """
    asked, unanswered = entry.get("asked"), entry.get("unanswered", ())
    people = [i for i, m in enumerate(messages) if _is_human(m)]
    mine = people[-1:] if asked is None else [i for i in people if messages[i].id in asked]
    mine = [i for i in mine if messages[i].id not in unanswered]
    if not mine or mine[-1] + 1 in people:
        return []  # the last message is of a run that was blocked before it was noted here
    start = mine[0]
    found = parts(messages, entry, namespace)
    cut = [(whose, slice(max(start, part.start), part.stop)) for whose, part in found]
    return [(whose, part) for whose, part in cut if part.start < part.stop]


def merged(left: Mapping[str, Entry] | None, right: Mapping[str, Entry] | None) -> dict[str, Entry]:
    """Return the entries of two updates of a state; of one name the later."""
    return {**(left or {}), **(right or {})}


def finished(messages: Sequence[BaseMessage], namespace: Namespace) -> Entry:
    """Return the entry after everything has been stored."""
    return {"namespace": list(namespace), "cursor": messages[-1].id if messages else None}


def _last_turn(
    messages: Sequence[BaseMessage], entry: Mapping[str, Any], namespace: Namespace
) -> list[BaseMessage]:
    """Return what there is to remember at the end of a run, whether or not its beginning was noted."""
    if entry.get("namespace") == list(namespace):
        known = {message.id for message in messages if message.id}
        if entry.get("asked") or entry.get("cursor") in known:
            return _since_begin(messages, entry)
    for position in range(len(messages) - 1, -1, -1):
        if isinstance(messages[position], HumanMessage):
            before = _since_last_answer(messages[: position + 1])
            return before + list(messages[position + 1 :])
    return list(messages)


def _since_begin(messages: Sequence[BaseMessage], entry: Mapping[str, Any]) -> list[BaseMessage]:
    """Return what the run under way was asked and has answered."""
    asked = set(entry.get("asked", ()))
    if not asked:
        return _after(messages, entry.get("cursor"))
    for position, message in enumerate(messages):
        if message.id in asked:
            return list(messages[position:])
    # All of it was summarised away meanwhile, and so was everything before it.
    return list(messages)


def _after(messages: Sequence[BaseMessage], cursor: str | None) -> list[BaseMessage]:
    """Return the messages after the cursor.

    Without a known cursor (the first run, or no checkpointer and the history passed in each time) only
    what follows the last answer is new; ids would tell nothing then.
    """
    ids = [message.id for message in messages]
    if cursor and cursor in ids:
        return list(messages[ids.index(cursor) + 1 :])
    return _since_last_answer(messages)


def _since_last_answer(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what follows the last answer; a message that calls tools is none yet."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, AIMessage) and not message.tool_calls:
            return list(messages[position + 1 :])
    return list(messages)
