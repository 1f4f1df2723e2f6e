"""JSON lines: each a text, a chat message, or an object with the fields of `NoteInput`.

It is the format to write where no other fits. A line with a `role` such as `user` and no `key` or `source` is a chat
message. A line that says something wrong stops the import, before anything is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..conversation import ROLES, SPEAKING
from ..errors import InvalidInputError
from ..notes import SOURCES, NoteInput
from . import chat
from .import_report import Found, Skipped
from .json_fields import TIMES, first_text, first_time, label, mapping, metadata_of
from .source import Source

# Names that programs give to the same field.
TEXTS = ("content", "text", "memory")
THREADS = ("thread", "session", "conversation", "thread_id", "session_id")
SPEAKERS = ("speaker", "name", "role")

_PARTIES = {*SPEAKING, *ROLES.values(), "system", "developer"}
_ROW_FIELDS = {*TEXTS, *THREADS, *SPEAKERS, *TIMES, "key", "id", "source", "metadata"}
_MESSAGE_FIELDS = {*_ROW_FIELDS, "type", "data", "blocks", "tool_calls", "additional_kwargs"}


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield a note for each line, then those of the messages, which are numbered in their threads.

    Raises:
        InvalidInputError: A line is not of the format.
    """
    threads: chat.Threads = {}
    for entry in source.lines():
        where, row = entry.place(), entry.value
        row = {"content": row} if isinstance(row, str) else mapping(row, where)
        said = chat.message(row, where)
        if said and said.party in _PARTIES and not {"key", "source"} & row.keys():
            chat.tell(said, row, where, skipped)
            said = replace(said, metadata=metadata_of(row, _MESSAGE_FIELDS, where))
            threads.setdefault(_thread(row), []).append(said)
        else:
            yield (), _note(row, source.thread, where)
    yield from chat.notes_of(threads, source)


def _note(row: Mapping[str, Any], thread: str | None, where: str) -> NoteInput:
    content = first_text(row, TEXTS)
    if content is None:
        raise InvalidInputError(f"{where} has no text; give it as 'content'")
    source = row.get("source", "user")
    if source not in SOURCES:
        raise InvalidInputError(f"{where}: source {source!r} must be one of {', '.join(SOURCES)}")
    return NoteInput(
        content=content,
        at=first_time(row, where),
        key=label(row.get("key", row.get("id"))),
        thread=_thread(row) or thread,
        speaker=first_text(row, SPEAKERS),
        source=source,
        metadata=metadata_of(row, _ROW_FIELDS, where),
    )


def _thread(row: Mapping[str, Any]) -> str | None:
    return next(filter(None, (label(row.get(name)) for name in THREADS)), None)
