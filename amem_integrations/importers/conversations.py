"""Conversations: lists of messages, histories of LangChain and LlamaIndex, JSON lines, exports of ChatGPT and Claude.

The messages of user and assistant are taken. A message is the same note as the one that
`AgenticMemory.add_messages` stores for it, so those without an id are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..conversation import SPEAKING, Message, from_dict, note_inputs
from ..errors import InvalidInputError
from ..notes import NoteInput
from .source import LINE, Format, Found, Record, Skipped, Source, having, parsed

_REASONS = {
    "system message": "system developer",
    "output of a tool": "tool tool_result execution_output computer_output system_error tether_quote tether_browsing_display",
    "call of a tool": "code tool_call tool_use",
    "reasoning": "thinking redacted_thinking reasoning thoughts reasoning_recap",
    "custom instructions": "user_editable_context",
    "memory of ChatGPT itself": "model_editable_context",
}
# Entries that are no message of one party to the other, by role, type of content or type of block.
NOT_SAID = {kind: reason for reason, kinds in _REASONS.items() for kind in kinds.split()}
FILE = "image or other file"
HISTORIES = ("", LINE, "messages", "chat_history", "history")
WRAPPERS = ("values", "store", "chat_memory")
SUMMARIES = ("buffer", "moving_summary_buffer")  # of LangChain's summary memories

# Names that programs give to the same field of a line.
TEXTS = ("content", "text", "memory")
CONTENTS = ("content", "blocks", "text")
TIMES = ("at", "timestamp", "created_at", "date")
THREADS = ("thread", "session", "conversation", "thread_id", "session_id")
SPEAKERS = ("speaker", "name", "role")
_LINE = {*TEXTS, *THREADS, *SPEAKERS, *TIMES, "key", "id", "source"}
_MESSAGE = {*_LINE, "type", "data", "blocks", "tool_calls", "additional_kwargs"}


def is_chat(entry: Record) -> bool:
    """Return whether a value is a message of a chat, or holds a list of messages."""
    known = entry.field in {*HISTORIES, *WRAPPERS}
    return known and any(_message(item) for _, item in _said(entry))


is_langchain = having("session_id", "message")  # a row of `SQLChatMessageHistory`
is_llamaindex = having("key", "role", "data")  # a row of `SQLAlchemyChatStore`


def histories(source: Source) -> Iterator[Found | Skipped]:
    """Yield the notes of chat histories, which are read as a whole.

    - OpenAI: `{"role", "content"}`, https://platform.openai.com/docs/api-reference/chat/create.
    - LangChain: `messages_to_dict` (`{"type", "data": {…}}`, also what `FileChatMessageHistory` keeps), `dumpd`
      (`{"lc", "id", "kwargs"}`) and `model_dump()`, of messages or of a buffer memory
      (`{"chat_memory": {"messages": […]}}`): https://reference.langchain.com/python/langchain_core/messages/. Rows of
      `SQLChatMessageHistory` (`session_id`, `message`: a text with JSON) and those of other databases, of which
      `message` may be JSON already, and `created_at` a time; a session is a thread.
    - LangGraph: the state of a thread, `{"values": {"messages": […]}}`.
    - LlamaIndex: `ChatMessage.model_dump()`, `SimpleChatStore.persist` (`{"store": {key: […]}}`) and rows of
      `SQLAlchemyChatStore` (`key`, `role`, `data`); a key is a thread:
      https://developers.llamaindex.ai/python/framework/module_guides/storing/chat_stores/.

    Raises:
        InvalidInputError: Something in a list of messages is no message; then none of the list is taken.
    """
    threads: dict[str | None, list[Message]] = {}
    for entry in source.entries():
        if entry.field in SUMMARIES and entry.value:
            yield Skipped("summary that a memory wrote", entry.where)
        for thread, item in _said(entry):
            message = _message(item)
            if message is None:
                raise InvalidInputError(f"{item.where} is no message with a role and content")
            yield from _not_taken(message, item)
            threads.setdefault(thread, []).append(message)
    yield from _notes(threads, source)


def json_lines(source: Source) -> Iterator[Found | Skipped]:
    """Yield a note for each line, then those of the messages, which are numbered in their threads.

    A line is a text, a chat message, or an object with the fields of `NoteInput`: the format to write where no other
    fits. A line with a `role` such as `user` and no `key` or `source` is a chat message. A line that is none of these is
    skipped.
    """
    threads: dict[str | None, list[Message]] = {}

    def read(row: Record) -> Iterator[Found | Skipped]:
        if isinstance(row.value, InvalidInputError):
            raise row.value
        message, own = _message(row), {"key", "source"} & row.keys()
        if message and message.party in {*SPEAKING, *NOT_SAID} and not own:
            yield from _not_taken(message, row)
            message = replace(message, metadata=row.rest(_MESSAGE))
            threads.setdefault(row.label(*THREADS), []).append(message)
        elif row.text(*TEXTS):
            yield (), _line(row, source.thread)
        else:
            raise InvalidInputError(f"{row.where} has no text; give it as 'content'")

    for row in source.entries(lines=True):
        yield from row.attempt(read)
    yield from _notes(threads, source)


def is_line(entry: Record) -> bool:
    """Return whether a value is a line with a text, or a text of an only line."""
    return entry.field in TEXTS or (entry.field == LINE and any(name in entry for name in TEXTS))


def _line(row: Record, thread: str | None) -> NoteInput:
    return NoteInput(
        content=row.text(*TEXTS) or "",
        at=row.time(*TIMES),
        key=row.label("key", "id"),
        thread=row.label(*THREADS) or thread,
        speaker=row.text(*SPEAKERS),
        source=row.get("source", "user"),
        metadata=row.rest(_LINE),
    )


def _notes(threads: dict[str | None, list[Message]], source: Source) -> Iterator[Found]:
    """Yield the notes of messages by thread; None stands for the thread of the source."""
    for thread, messages in threads.items():
        for item in note_inputs(messages, thread=thread or source.chat_thread):
            yield (), item


def _said(entry: Record) -> Iterator[tuple[str | None, Record]]:
    """Yield the messages in a value of a history, each with its thread."""
    if is_langchain(entry) or is_llamaindex(entry):
        session, field = ("session_id", "message") if is_langchain(entry) else ("key", "data")
        said = Record(parsed(entry[field], f"{entry.where}: {field}"), entry.where)
        said.setdefault("created_at", entry.get("created_at"))
        yield entry.label(session), said
    elif entry.number:
        yield None if entry.field in HISTORIES else entry.field, entry
    elif entry.field in WRAPPERS:
        lists = {name: one for name, one in entry.items() if isinstance(one, list)}
        for name, values in lists.items():
            items = [Record(one, entry.where, name, n) for n, one in enumerate(values, start=1)]
            if all(map(_message, items)):
                yield from ((None if name in HISTORIES else name, item) for item in items)


def _message(item: Record) -> Message | None:
    """Return the message that an object holds in any of the known spellings; None if the object holds none.

    Raises:
        InvalidInputError: The time of the message cannot be read.
    """
    inner, role, kind = _inner(item), item.get("role", item.get("type")), item.get("id")
    content = next((inner[name] for name in CONTENTS if name in inner), 0)
    if not (isinstance(role, str) and isinstance(content, str | list | None)):
        return None
    if "lc" in item and isinstance(kind, list) and kind:
        role = str(kind[-1]).removesuffix("Message").lower()
    said = Record({**inner.inner("additional_kwargs"), **inner, "role": role}, item.where)
    calls = [one for one in inner.objects("blocks") if one.get("block_type") == "tool_call"]
    said["name"] = said.get("name") or said.get("speaker")
    said["at"] = said.time(*TIMES) or item.time("created_at")
    said["tool_calls"] = said.get("tool_calls") or calls
    return from_dict({**said, "content": content})


def _inner(item: Record) -> Record:
    """Return the fields of a message, which LangChain writes below `data` or `kwargs`."""
    return item.inner("data") or item.inner("kwargs") or item


def _not_taken(message: Message, item: Record) -> Iterator[Skipped]:
    """Yield the parts of a message that are not taken."""
    if message.party not in SPEAKING:
        yield Skipped(NOT_SAID.get(message.party, f"role {message.party!r}"), item.where)
        return
    for block in _inner(item).objects("content") or _inner(item).objects("blocks"):
        if not block.get("text") and block.label("type", "block_type") not in NOT_SAID:
            yield Skipped(FILE, item.where)


def chatgpt(source: Source) -> Iterator[Found | Skipped]:
    """Yield the notes of ChatGPT's conversations: `conversations.json` of a data export, or the zip file it comes in.

    OpenAI publishes no schema; this follows the exports as described at
    https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md. A conversation is a
    tree (`mapping`) of messages; edits and regenerated answers are branches of it, and `current_node` is the end of the
    one that was shown last. How to get it: https://help.openai.com/en/articles/7260999.

    Taken are the messages of user and assistant on that branch, a thread for each conversation; of a message with files
    the text and the transcript of what was spoken. Conversations that were not to be remembered
    (`is_do_not_remember`) are left out.
    """
    yield from _conversations(source, "mapping", _chatgpt)


def claude(source: Source) -> Iterator[Found | Skipped]:
    """Yield the notes of Claude's conversations: `conversations.json` of an export of claude.ai, or its zip file.

    Anthropic publishes no schema; this follows the exports as described at
    https://whychose.com/seo/claude-conversation-export-format: conversations with `chat_messages` by `human` and
    `assistant`, whose `content` is a list of blocks. Where messages name a parent, `current_leaf_message_uuid` (else the
    last message) is the end of the branch that was shown last. How to get it:
    https://support.claude.com/en/articles/9450526.

    Taken are the text blocks of both sides on that branch, a thread for each conversation, and the text of what was
    attached (`extracted_content`), each as a note of its own.
    """
    yield from _conversations(source, "chat_messages", _claude)


def _conversations(
    source: Source, field: str, read: Callable[[Record], Iterator[Message | Skipped]]
) -> Iterator[Found | Skipped]:
    """Yield the notes of each conversation, whose id is the thread; one conversation is in memory at a time."""
    for talk in source.entries():
        if field not in talk:
            yield Skipped("not a conversation", talk.where)
            continue
        found = talk.attempt(read)
        yield from (one for one in found if isinstance(one, Skipped))
        messages = [one for one in found if isinstance(one, Message)]
        thread = talk.label("conversation_id", "id", "uuid") or talk.where
        yield from (((), item) for item in note_inputs(messages, thread=thread))


def _branch(parents: Mapping[str, str | None], last: str | None) -> list[str]:
    """Return the ids from the root down to the last one; if there is no such, to that end which is listed last."""
    ends = parents.keys() - set(parents.values())
    if last not in parents:
        last = max(reversed([*parents]), key=ends.__contains__, default=None)
    found: dict[str, None] = {}
    while last is not None and last in parents and last not in found:
        found[last] = None
        last = parents[last]
    return [*reversed(found)]


def _chatgpt(talk: Record) -> Iterator[Message | Skipped]:
    if talk.get("is_do_not_remember"):
        yield Skipped("conversation that was not to be remembered", talk.where)
        return
    mapping = talk.inner("mapping")
    nodes = {name: mapping.inner(name) for name in mapping}
    parents = {name: node.label("parent") for name, node in nodes.items()}
    shown = _branch(parents, talk.label("current_node"))
    yield from [Skipped("message on another branch", talk.where)] * (len(nodes) - len(shown))
    about = {"title": talk["title"]} if talk.text("title") else {}
    at = talk.time("create_time", "update_time")
    for name, message in ((name, nodes[name].inner("message")) for name in shown):
        at = message.time("create_time") or at
        content, role = message.inner("content"), str(message.inner("author").get("role"))
        parts = content["parts"] if isinstance(content.get("parts"), list) else [content]
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
        text = "\n".join(text for text in texts if isinstance(text, str) and text)
        if reason := _chatgpt_reason(message, str(content.get("content_type")), role):
            if text or (message and reason != NOT_SAID["system"]):
                yield Skipped(reason, talk.where)
        else:
            files = [part for part in parts if isinstance(part, Mapping) and not part.get("text")]
            yield from [Skipped(FILE, talk.where)] * len(files)
            known = message.label("id") or name
            yield Message(role=role, text=text, id=known, at=at, metadata=about)


def _chatgpt_reason(message: Record, kind: str, role: str) -> str | None:
    """Return why a message is not taken, or None."""
    if kind in NOT_SAID or role not in SPEAKING:
        return NOT_SAID.get(kind) or NOT_SAID.get(role, f"role {role!r}")
    if message.get("recipient") not in ("all", None):
        return "call of a tool"
    hidden = message.inner("metadata").get("is_visually_hidden_from_conversation")
    return "hidden message" if hidden or message.get("weight") == 0 else None


def _claude(talk: Record) -> Iterator[Message | Skipped]:
    messages = shown = talk.objects("chat_messages")
    parents = {one.label("uuid"): one.label("parent_message_uuid") for one in messages}
    known = {name: parent for name, parent in parents.items() if name}
    if any(parent in known for parent in known.values()):
        branch = {None, *_branch(known, talk.label("current_leaf_message_uuid"))}
        shown = [one for one in messages if one.label("uuid") in branch]
    yield from [Skipped("message on another branch", talk.where)] * (len(messages) - len(shown))
    about = {"title": talk["name"]} if talk.text("name") else {}
    for message in shown:
        yield from _claude_message(message, about)


def _claude_message(message: Record, about: Mapping[str, Any]) -> Iterator[Message | Skipped]:
    """Yield the message, then the text of each attachment."""
    blocks, where = message.objects("content"), message.where
    for kind in (str(block.get("type")) for block in blocks):
        if kind != "text":
            yield Skipped(NOT_SAID.get(kind, f"block of type {kind!r}"), where)
    # `text` is all of a message in older exports, and has a remark for each tool in newer ones.
    texts = [block for block in blocks if block.get("type") == "text"] if blocks else [message]
    text = "\n".join(block["text"] for block in texts if block.text("text"))
    yield from [Skipped(FILE, where)] * len(message.objects("files"))
    role, name = str(message.get("sender")), message.label("uuid")
    if role not in {"human", "assistant"}:
        yield Skipped(f"sender {role!r}", where)
        return
    said = Message(role=role, text=text, id=name, at=message.time("created_at"), metadata=about)
    yield said
    for number, file in enumerate(message.objects("attachments"), start=1):
        if content := file.text("extracted_content"):
            more = {**about, "file": file.get("file_name")}
            known = name and f"{name}/{number}"
            yield replace(said, text=content, id=known, metadata=more)
        else:
            yield Skipped(FILE, where)


FORMATS = {
    "jsonl": Format(json_lines, is_line),
    "chatgpt": Format(chatgpt, having("mapping")),
    "claude": Format(claude, having("chat_messages")),
    "langchain": Format(histories, is_langchain),
    "llamaindex": Format(histories, is_llamaindex),
    "chat": Format(histories, is_chat),
}
