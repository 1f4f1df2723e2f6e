"""Reads the files that `amem import` takes, and returns their notes by namespace.

A chat message gets its key from `conversation`, so an imported conversation and the same one given to
`AgenticMemory.add_messages` are the same notes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..conversation import ROLES, SPEAKING, Message, from_dict, note_inputs
from ..errors import InvalidInputError
from ..export_format import FORMAT
from ..notes import SOURCES, Namespace, NoteInput, check_namespace
from .json_fields import TIMES, first_text, first_time, label, mapping, metadata_of, time_of

MAX_HEADER = 100_000  # characters of the first line of an export

# Names that programs give to the same field.
TEXTS = ("content", "text", "memory")
STORE_TEXTS = (*TEXTS, "data")
THREADS = ("thread", "session", "conversation", "thread_id", "session_id")
SPEAKERS = ("speaker", "name", "role")
HISTORIES = ("messages", "chat_history", "history")

_PARTIES = {*SPEAKING, *ROLES.values(), "system", "developer"}
_ROW_FIELDS = {*TEXTS, *THREADS, *SPEAKERS, *TIMES, "key", "id", "source", "metadata"}
_MESSAGE_FIELDS = {*_ROW_FIELDS, "type", "data", "blocks", "tool_calls", "additional_kwargs"}
_MEM0_FIELDS = {"id", "memory", "run_id", "created_at", "metadata", "user_id", "hash", "score"}
_MEM0_OWNERS = ("user_id", "agent_id", "app_id")


Labels = tuple[str, ...]  # a namespace, or () where the file does not say whose the notes are


class Format(StrEnum):
    """The format of a file."""

    AUTO = "auto"
    EXPORT = "export"
    JSONL = "jsonl"
    LOCOMO = "locomo"
    MEM0 = "mem0"
    LANGGRAPH = "langgraph"
    CHAT = "chat"


@dataclass(frozen=True, slots=True)
class Part:
    """Notes of one namespace."""

    namespace: Labels
    items: list[NoteInput]


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    text: str
    data: Any  # the JSON value; None if the text is not one JSON value
    thread: str | None

    @property
    def chat_thread(self) -> str:
        """The thread of messages that name none."""
        return self.thread or self.path.stem


_Items = Iterable[tuple[Labels, NoteInput]]


def read(path: Path, format_: Format = Format.AUTO, *, thread: str | None = None) -> list[Part]:
    """Return the notes of a file.

    Args:
        path: The file.
        format_: Its format; AUTO recognises it.
        thread: The thread of items that name none; for chat messages the default is the name of the file.

    Raises:
        InvalidInputError: The file is not of the format; the message names the place.
        OSError: It cannot be read.
    """
    text = _text(path)
    file = _File(path, text, _json(text), thread)
    format_ = _recognised(file) if format_ is Format.AUTO else format_
    if format_ is not Format.JSONL and file.data is None:
        raise InvalidInputError(
            f"{path} is not one JSON document; --format jsonl reads JSON line by line"
        )
    parts: dict[Labels, list[NoteInput]] = {}
    for namespace, item in _READERS[format_](file):
        parts.setdefault(namespace, []).append(item)
    return [Part(namespace, items) for namespace, items in parts.items()]


def is_export(path: Path, format_: Format = Format.AUTO) -> bool:
    """Return whether a file is to be read as one that `amem export` wrote."""
    if format_ is Format.AUTO:
        return _header(path).get("format") == FORMAT
    return format_ is Format.EXPORT


def export_namespace(path: Path) -> Namespace:
    """Return the namespace that was exported to a file."""
    labels = _header(path).get("namespace")
    return check_namespace(labels if isinstance(labels, list) else ())


def _header(path: Path) -> Mapping[str, Any]:
    with path.open(encoding="utf-8", errors="replace") as file:
        first = _json(file.readline(MAX_HEADER))
    return first if isinstance(first, Mapping) else {}


def _recognised(file: _File) -> Format:
    if file.data is None or file.path.suffix in {".jsonl", ".ndjson"}:
        return Format.JSONL
    if _messages(file):
        return Format.CHAT
    first = _first(file.data)
    if "sample_id" in first and "conversation" in first:
        return Format.LOCOMO
    if "memory" in first:
        return Format.MEM0
    if "namespace" in first and "value" in first:
        return Format.LANGGRAPH
    if isinstance(file.data, Mapping) and first_text(file.data, TEXTS) is not None:
        return Format.JSONL  # of one line
    formats = ", ".join(each.value for each in Format if each is not Format.AUTO)
    raise InvalidInputError(
        f"{file.path} holds none of the known formats ({formats}); name one by --format"
    )


def _first(data: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """Return the first item of a list, or of the list in a wrapper."""
    if isinstance(data, Mapping):
        data = next((data[name] for name in ("results", "memories", "items") if name in data), [])
    first = data[0] if isinstance(data, list) and data else {}
    return first if isinstance(first, Mapping) else {}


# Chat histories of OpenAI, LangChain, LangGraph or LlamaIndex


def _read_chat(file: _File) -> _Items:
    items = note_inputs(_messages(file), thread=file.chat_thread)
    if not items:
        raise InvalidInputError(f"{file.path} holds no messages with a role and content")
    return [((), item) for item in items]


def _messages(file: _File) -> list[Message]:
    """Return the messages of a chat history; none if the file is something else."""
    data = file.data
    if isinstance(data, Mapping):
        inner = data.get("values", data.get("store", data))  # the state of a LangGraph thread
        held = (inner.get(name) for name in HISTORIES) if isinstance(inner, Mapping) else ()
        data = next((value for value in held if isinstance(value, list)), None)
    if not isinstance(data, list):
        return []
    found = [_message(item, f"{file.path}, message {n}") for n, item in enumerate(data, start=1)]
    messages = [message for message in found if message is not None]
    return messages if len(messages) == len(found) else []


def _message(item: object, where: str) -> Message | None:
    """Return a message in any of its spellings, or None if this is not a message."""
    if not isinstance(item, Mapping):
        return None
    # LangChain: {"type", "data": {…}} by messages_to_dict, {"lc", "id": […, class], "kwargs": {…}} by dumpd.
    inner = (item[name] for name in ("data", "kwargs") if isinstance(item.get(name), Mapping))
    fields: Mapping[str, Any] = next(inner, item)
    role = item.get("role", item.get("type"))
    if "lc" in item and isinstance(item.get("id"), list) and item["id"]:
        role = str(item["id"][-1]).removesuffix("Message").lower()
    contents = [fields[name] for name in ("content", "blocks", "text") if name in fields]
    if not (isinstance(role, str) and contents and isinstance(contents[0], str | list | None)):
        return None
    more = fields.get("additional_kwargs")
    fields = {**(more if isinstance(more, Mapping) else {}), **fields}
    return from_dict(
        {
            "role": role,
            "content": contents[0],
            "name": fields.get("name") or fields.get("speaker"),
            "id": fields.get("id"),
            "at": first_time(fields, where),
            "tool_calls": fields.get("tool_calls") or _calls_tools(contents[0]),
        }
    )


def _calls_tools(content: object) -> bool:
    """Return whether one of LlamaIndex's blocks is a call of a tool."""
    blocks = content if isinstance(content, list) else ()
    return any(isinstance(b, Mapping) and b.get("block_type") == "tool_call" for b in blocks)


# JSONL: each line a text, a chat message, or an object with the fields of `NoteInput`


def _read_jsonl(file: _File) -> _Items:
    items: list[NoteInput] = []
    threads: dict[str, list[Message]] = {}
    for where, row in _rows(file):
        message = _message(row, where)
        if message and message.party in _PARTIES and not {"key", "source"} & row.keys():
            message = replace(message, metadata=metadata_of(row, _MESSAGE_FIELDS, where))
            threads.setdefault(_thread(row) or file.chat_thread, []).append(message)
        else:
            items.append(_row_note(row, file.thread, where))
    for thread, messages in threads.items():
        items += note_inputs(messages, thread=thread)
    if not items:
        raise InvalidInputError(f"{file.path} is empty, or holds no text of a user or an assistant")
    return [((), item) for item in items]


def _rows(file: _File) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Not splitlines(): a text may hold another kind of line separator.
    for number, line in enumerate(file.text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{file.path}, line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidInputError(f"{where} is not JSON: {error}") from error
        yield where, {"content": value} if isinstance(value, str) else mapping(value, where)


def _row_note(row: Mapping[str, Any], thread: str | None, where: str) -> NoteInput:
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


# LoCoMo, mem0, LangGraph


def _read_locomo(file: _File) -> _Items:
    from ..evaluation import locomo  # noqa: PLC0415 - nothing else here needs the evaluation

    for conversation in locomo.load(file.path):
        for turn in conversation.turns:
            yield conversation.namespace, turn.as_input()


def _read_mem0(file: _File) -> _Items:
    """Yield what mem0's `get_all` returns: a list of memories, bare or under `results`."""
    data = file.data
    if isinstance(data, Mapping):
        data = data.get("results", data.get("memories"))
    for where, item in _list(data, file, "memory", "memories under 'results'"):
        content = first_text(item, ("memory", "text"))
        if content is None:
            raise InvalidInputError(f"{where} has no text in 'memory'")
        fields = {name: value for name, value in item.items() if value is not None}
        yield (
            _mem0_owner(item),
            NoteInput(
                content=content,
                at=time_of(item.get("created_at"), where),
                key=label(item.get("id")),
                thread=label(item.get("run_id")),
                speaker=label(item.get("actor_id")),
                source="import",
                metadata=metadata_of(fields, _MEM0_FIELDS, where),
            ),
        )


def _mem0_owner(item: Mapping[str, Any]) -> Labels:
    """Return whose memory it is. An agent is kept apart from a user, even if both have the same id."""
    for kind in _MEM0_OWNERS:
        if owner := label(item.get(kind)):
            return (owner,) if kind == "user_id" else (kind.removesuffix("_id"), owner)
    return ()


def _read_langgraph(file: _File) -> _Items:
    """Yield the items of a LangGraph store, as `Item.dict()` gives them: a list, bare or under `items`."""
    data = file.data.get("items") if isinstance(file.data, Mapping) else file.data
    for where, item in _list(data, file, "item", "store items"):
        labels, key = item.get("namespace"), label(item.get("key"))
        if not (
            isinstance(labels, list) and labels and all(isinstance(s, str) and s for s in labels)
        ):
            raise InvalidInputError(f"{where}: namespace {labels!r} is not a list of labels")
        if key is None:
            raise InvalidInputError(f"{where} has no key")
        value = mapping(item.get("value"), f"{where}: value")
        inner = value.get("content")  # langmem keeps the text one level deeper, beside a `kind`
        text = first_text(inner if isinstance(inner, Mapping) else value, STORE_TEXTS)
        yield (
            tuple(labels),
            NoteInput(
                content=text or json.dumps(value, ensure_ascii=False, sort_keys=True),
                at=time_of(item.get("created_at"), where),
                key=key,
                source="import",
                # A value that is more than its text is kept whole, so that nothing is lost.
                metadata={} if [*value.values()] == [text] else {"value": dict(value)},
            ),
        )


_READERS: Mapping[Format, Callable[[_File], _Items]] = {
    Format.CHAT: _read_chat,
    Format.JSONL: _read_jsonl,
    Format.LOCOMO: _read_locomo,
    Format.MEM0: _read_mem0,
    Format.LANGGRAPH: _read_langgraph,
}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not a text file in UTF-8: {error}") from error


def _json(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except ValueError:
        return None


def _list(
    data: object, file: _File, noun: str, what: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a list, each with its place in the file."""
    if not isinstance(data, list):
        raise InvalidInputError(f"{file.path} holds no list of {what}")
    for number, item in enumerate(data, start=1):
        where = f"{file.path}, {noun} {number}"
        yield where, mapping(item, where)
