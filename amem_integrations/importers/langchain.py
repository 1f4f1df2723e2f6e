"""LangChain's chat histories in a database: rows of a session and a message.

`SQLChatMessageHistory` keeps a table `message_store` (`id`, `session_id`, `message`: a text with `{"type", "data": {…}}`;
https://reference.langchain.com/python/langchain-community/chat_message_histories/sql/SQLChatMessageHistory), and the
histories of other databases rows of the same fields, of which `message` may be JSON already, and `created_at` a time. Read are a
SQLite file, or the rows as JSON or JSON lines. A session is a thread.

Histories in files (`FileChatMessageHistory`, and whatever a `RunnableWithMessageHistory` was given that keeps them so), and those of
buffer memories, are lists of messages: see `chat`, to which all that has no `session_id` is handed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from . import chat
from .import_report import Found, Skipped
from .json_fields import first_time, label
from .source import Entry, Source


def recognises(entry: Entry) -> bool:
    """Return whether this is a row of a chat history."""
    return isinstance(entry.value, Mapping) and {"session_id", "message"} <= entry.value.keys()


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield the notes of all sessions; the messages of all of them are in memory.

    Raises:
        InvalidInputError: A row holds no message.
    """
    if not any(map(recognises, source.sample())):
        yield from chat.read(source, skipped)
        return
    threads: chat.Threads = {}
    for entry in source.entries():
        if not recognises(entry):
            skipped.add("not a row of a chat history", entry.place())
            continue
        said = chat.message_in_row(entry, "message", skipped)
        at = said.at or first_time(entry.value, entry.place("row"), ("created_at",))
        session = label(entry.value["session_id"])
        threads.setdefault(session, []).append(replace(said, at=at))
    yield from chat.notes_of(threads, source)
