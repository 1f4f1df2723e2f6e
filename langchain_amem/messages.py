"""LangChain's messages as the core reads them, and which of them a run has to remember."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage

from amem_integrations import ConfigurationError
from amem_integrations.adapting import ANSWERS
from amem_integrations.conversation import SPEAKING, Message

ShouldStore = Callable[[BaseMessage], bool]
Entry = dict[str, Any]

TIMES = ("created_at", "timestamp")
MILLISECONDS = 1e11  # a time stamp above that many seconds would lie in the year 5138


def to_message(message: BaseMessage) -> Message:
    """Return a LangChain message as the core reads it.

    A summary that another middleware wrote counts as a system message: it is no turn of the conversation.
    """
    role = message.role if isinstance(message, ChatMessage) else message.type
    return Message(
        role="system"
        if message.additional_kwargs.get("lc_source")
        else role.removesuffix("MessageChunk"),
        text=str(message.text),
        id=message.id or None,
        speaker=message.name,
        at=_time(message),
        calls_tools=isinstance(message, AIMessage) and bool(message.tool_calls),
    )


def _time(message: BaseMessage) -> datetime | None:
    """Return the time that a message carries, if any: a datetime, an ISO text or a time stamp, with its zone."""
    for data in (message.additional_kwargs, message.response_metadata):
        for value in map(data.get, TIMES):
            try:
                if isinstance(value, str):
                    value = datetime.fromisoformat(value)  # noqa: PLW2901
                elif isinstance(value, int | float) and not isinstance(value, bool):
                    seconds = value / 1000 if abs(value) > MILLISECONDS else value
                    value = datetime.fromtimestamp(seconds, UTC)  # noqa: PLW2901
                if isinstance(value, datetime) and value.tzinfo is not None:
                    return value.astimezone(UTC) and value  # a time outside the calendar raises
            except (ValueError, OverflowError, OSError):
                continue
    return None


def is_spoken(message: BaseMessage) -> bool:
    """Return whether a person said it, or the agent answered it: the default of `should_store`.

    What the agent says beside a call of a tool is said too. Results of tools, and summaries that another middleware
    wrote, are left out.
    """
    return to_message(message).party in SPEAKING and bool(str(message.text).strip())


def is_human(message: BaseMessage) -> bool:
    """Return whether a person said it; a summary that another middleware wrote is no message of a person."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source")


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


def conversation(
    messages: Sequence[BaseMessage],
    is_stored: Callable[[int, BaseMessage], bool | None] = lambda _number, _message: False,
) -> list[Message]:
    """Return a conversation as the core reads it, and which of the messages, by place, are to be stored; see `Message.stored`.

    An answer names the message that it answers, by which an answer that is given again is known.
    """
    said, question = [], None
    for number, message in enumerate(messages):
        found = to_message(message)
        question = found.id if found.party == "user" else question
        if found.party == "assistant" and question is not None:
            found = replace(found, metadata={ANSWERS: question})
        said.append(replace(found, stored=is_stored(number, message)))
    return said


def with_final_answer(messages: Sequence[BaseMessage], structured: object) -> list[BaseMessage]:
    """Return the messages of a run that has ended; where a tool had the last word, it is the agent's answer.

    So it is with `return_direct`, and with `response_format` by a tool, whose answer is JSON.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ToolMessage):
        return list(messages)
    text = str(last.text)
    if structured is not None:
        dump = getattr(structured, "model_dump", None)
        text = json.dumps(dump() if dump else structured, default=str, ensure_ascii=False)
    return [*messages, AIMessage(text, id=f"{last.id}:answer" if last.id else None)]


# What a graph keeps in its state of a run: `namespace`, whose run it is; `cursor`, the last message before those that
# are to be remembered; and, until the run has ended, `since`, the last message before those of this run alone, and
# `seen`, the last message when it began. Of a message its id, or a digest of its text.


def began(
    messages: Sequence[BaseMessage],
    entries: Mapping[str, Entry],
    key: str,
    namespace: tuple[str, ...],
    *,
    unanswered: bool = True,
) -> Entry:
    """Return the entry of a run that begins with these messages.

    What an earlier run of the same namespace could not have answered belongs to this run too, if `unanswered`. What
    was said in a run of another namespace does not.
    """
    marks = marks_of(messages)
    own = entries.get(key) or {}
    if own.get("namespace") == list(namespace):
        start = place_after(messages, own)
    else:
        start = place_after(messages, {})
    people = [number for number, message in enumerate(messages) if is_human(message)]
    earlier = _after(marks, own.get("seen")) or 0
    for entry in entries.values():
        if entry.get("namespace") != list(namespace):
            place = _after(marks, entry.get("seen", entry.get("cursor"))) or 0
            # Another memory may remember the same run: it has seen the last thing that was said.
            start = max(start, place) if people and place <= people[-1] else start
    fresh = start
    if earlier > start:  # an earlier run failed: its answer, if there was one, belongs to it too
        fresh = next((number for number in people if number >= earlier), len(messages))
    start = start if unanswered else fresh
    return {
        "namespace": list(namespace),
        "cursor": marks[start - 1] if start else None,
        "since": marks[fresh - 1] if fresh else None,
        "seen": marks[-1] if marks else None,
    }


def ended(messages: Sequence[BaseMessage], namespace: Sequence[str]) -> Entry:
    """Return the entry after a run of which everything was dealt with."""
    return {"namespace": list(namespace), "cursor": marks_of(messages)[-1] if messages else None}


def place_after(messages: Sequence[BaseMessage], entry: Mapping[str, Any]) -> int:
    """Return the place of the first message that an entry has not dealt with.

    Without a known cursor (the first run; no checkpointer, and the history passed in each time; a history that was cut)
    that is what follows the last answer before the last thing that a person said.
    """
    marks = marks_of(messages)
    if entry and entry.get("cursor") is None:
        return 0
    if (place := _after(marks, entry.get("cursor"))) is not None:
        return place
    people = [number for number, message in enumerate(messages) if is_human(message)]
    if not people:
        return max(0, len(messages) - 1)
    for number in range(people[-1] - 1, -1, -1):
        message = messages[number]
        if isinstance(message, AIMessage) and not message.tool_calls:
            return number + 1
    return 0


def seen_by(messages: Sequence[BaseMessage], entry: Mapping[str, Any]) -> int:
    """Return how many of the messages were there when the run of an entry began."""
    place = _after(marks_of(messages), entry.get("seen"))
    return len(messages) if place is None else place


def is_added_to(messages: Sequence[BaseMessage], entry: Mapping[str, Any]) -> bool:
    """Return whether a person said something after the run of an entry had begun, such as who resumed the run."""
    return any(map(is_human, messages[seen_by(messages, entry) :]))


def marks_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what messages are known by in a state: their ids; without one a digest of the text, and its occurrence."""
    marks, seen = [], Counter[str]()
    for message in messages:
        said = f"{message.type} {message.text}".encode(errors="replace")
        digest = "" if message.id else sha256(said).hexdigest()[:24]
        seen[digest] += 1
        marks.append(message.id or f"{digest} {seen[digest]}")
    return marks


def _after(marks: Sequence[str], mark: str | None) -> int | None:
    """Return the place after the last message of a mark; None if there is none."""
    places = [number for number, one in enumerate(marks) if one == mark]
    return places[-1] + 1 if places else None
