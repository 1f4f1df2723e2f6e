"""Chat histories: lists of messages of OpenAI, LangChain, LangGraph or LlamaIndex.

- OpenAI: `{"role", "content"}`, https://platform.openai.com/docs/api-reference/chat/create.
- LangChain: `messages_to_dict` (`{"type", "data": {…}}`, also what `FileChatMessageHistory` keeps), `dumpd` (`{"lc", "id", "kwargs"}`)
  and `model_dump()`, of messages or of a buffer memory (`{"chat_memory": {"messages": […]}}`):
  https://reference.langchain.com/python/langchain_core/messages/.
- LangGraph: the state of a thread, `{"values": {"messages": […]}}`.
- LlamaIndex: `ChatMessage.model_dump()`, and `SimpleChatStore.persist` (`{"store": {key: […]}}`):
  https://developers.llamaindex.ai/python/framework/module_guides/storing/chat_stores/.

The messages of user and assistant are taken. A message is the same note as the one that
`AgenticMemory.add_messages` stores for it, so those without an id are numbered: a history is read as a whole, and one that
is wrong in the middle is not taken at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..conversation import SPEAKING, Message, from_dict, note_inputs
from ..errors import InvalidInputError
from .import_report import Found, Skipped
from .json_fields import first_time, mapping_in, objects
from .source import Entry, Source

HISTORIES = ("messages", "chat_history", "history")
WRAPPERS = ("values", "store", "chat_memory")
SUMMARIES = ("buffer", "moving_summary_buffer")  # of LangChain's summary memories
_TOLD = {"system": "system message", "developer": "system message", "tool": "output of a tool"}
_NO_FILES = {"tool_use", "tool_call", "thinking", "reasoning", "redacted_thinking", "tool_result"}

Threads = dict[str | None, list[Message]]


def recognises(entry: Entry) -> bool:
    """Return whether this is a message of a chat, or holds a list of them."""
    if entry.number:
        return (
            entry.field in (None, *HISTORIES)
            and message(entry.value, entry.place("message")) is not None
        )
    return entry.field in WRAPPERS and bool(_lists(entry.value))


def read(source: Source, skipped: Skipped) -> Iterator[Found]:
    """Yield the notes of all histories.

    Raises:
        InvalidInputError: Something in a list of messages is no message.
    """
    threads: Threads = {}
    for entry in source.entries():
        where = entry.place("message")
        if entry.number:
            known = entry.field in (None, *HISTORIES)
            thread = None if known else entry.field
            threads.setdefault(thread, []).append(_checked(entry.value, where, skipped))
        elif entry.field in WRAPPERS:
            for name, values in _lists(entry.value).items():
                place = f"{where}, {name}"
                said = [_checked(v, f"{place} {n}", skipped) for n, v in enumerate(values, start=1)]
                threads.setdefault(None if name in HISTORIES else name, []).extend(said)
        elif entry.field in SUMMARIES and entry.value:
            skipped.add("summary that a memory wrote", entry.place())
    yield from notes_of(threads, source)


def notes_of(threads: Threads, source: Source) -> Iterator[Found]:
    """Yield the notes of messages by thread; None stands for the thread of the source."""
    for thread, messages in threads.items():
        for item in note_inputs(messages, thread=thread or source.chat_thread):
            yield (), item


def message(item: object, where: str) -> Message | None:
    """Return a message in any of its spellings, or None if this is not a message.

    Raises:
        InvalidInputError: Its time cannot be read.
    """
    if not isinstance(item, Mapping):
        return None
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


def message_in_row(entry: Entry, field: str, skipped: Skipped) -> Message:
    """Return the message that a field of a row holds, maybe as a text with JSON.

    Raises:
        InvalidInputError: It holds none.
    """
    where = entry.place("row")
    value = mapping_in(entry.value[field], f"{where}: {field}")
    said = message(value, where)
    if said is None:
        raise InvalidInputError(f"{where} holds no message")
    tell(said, value, where, skipped)
    return said


def tell(said: Message, value: Mapping[str, Any], where: str, skipped: Skipped) -> None:
    """Count what of a message is not taken."""
    if said.party not in SPEAKING:
        skipped.add(_TOLD.get(said.party, f"role {said.party!r}"), where)
        return
    inner = (value[name] for name in ("data", "kwargs") if isinstance(value.get(name), Mapping))
    fields = next(inner, value)
    blocks = objects(fields.get("content")) or objects(fields.get("blocks"))
    kinds = [str(b.get("type", b.get("block_type"))) for b in blocks if not b.get("text")]
    skipped.add("image or other file", where, sum(kind not in _NO_FILES for kind in kinds))


def _checked(value: object, where: str, skipped: Skipped) -> Message:
    said = message(value, where)
    if said is None or not isinstance(value, Mapping):
        raise InvalidInputError(f"{where} is no message with a role and content")
    tell(said, value, where, skipped)
    return said


def _lists(value: object) -> dict[str, list[Any]]:
    """Return the lists of messages in a wrapper, by name."""
    if not isinstance(value, Mapping):
        return {}
    lists = {name: one for name, one in value.items() if isinstance(one, list) and one}
    known = {name: lists[name] for name in HISTORIES if name in lists}
    return known or {name: one for name, one in lists.items() if all(map(_is_message, one))}


def _is_message(value: object) -> bool:
    try:
        return message(value, "") is not None
    except InvalidInputError:
        return True  # with a time that cannot be read


def _calls_tools(content: object) -> bool:
    """Return whether one of LlamaIndex's blocks is a call of a tool."""
    blocks: Iterable[object] = content if isinstance(content, list) else ()
    return any(isinstance(b, Mapping) and b.get("block_type") == "tool_call" for b in blocks)
