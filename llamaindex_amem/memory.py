"""`AMemMemory`: a `Memory` that remembers every message, for any chat engine or agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack, cast
from uuid import UUID

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory
from llama_index.core.memory.memory import DEFAULT_MEMORY_BLOCKS_TEMPLATE
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from amem_integrations import AgenticMemory, ConfigurationError, NamespaceError
from amem_integrations.adapting import check_flags

from .conversation import Whose, text_of
from .memory_block import AMemMemoryBlock, BlockOptions, Uncopied

if TYPE_CHECKING:
    from llama_index.core.base.llms.base import BaseLLM
    from sqlalchemy.ext.asyncio import AsyncEngine

# Someone waits for an answer while the last message is one of these.
UNANSWERED = (MessageRole.USER, MessageRole.TOOL, MessageRole.FUNCTION)
# The arguments of `Memory.from_defaults` that say where the history is kept.
KEPT_BY = {"chat_store", "async_database_uri", "async_engine"}


class MemoryOptions(BlockOptions, total=False):
    """The arguments of `AMemMemory.from_defaults` that come from `AMemMemoryBlock` and `Memory.from_defaults`."""

    session_id: str | None
    token_limit: int
    token_flush_size: int
    chat_history_token_ratio: float
    tokenizer_fn: Callable[[str], list[Any]] | None
    memory_blocks_template: RichPromptTemplate
    image_token_size_estimate: int
    audio_token_size_estimate: int
    video_token_size_estimate: int
    chat_store: AsyncDBChatStore | None
    async_database_uri: str | None
    async_engine: AsyncEngine | None
    table_name: str
    db_schema: str | None


class AMemMemory(Uncopied, Memory):
    """Chat history, and everything this user has said before.

    Pass it as `memory=` to a chat engine, or to each `run` of an agent. Short-term history works as in
    `Memory`; besides, each message is remembered as it is put, so the last turns of a session are never
    lost, and what belongs to the question is recalled. Tasks, threads and event loops may share one.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/

    To resume: long-term notes live in the `AgenticMemory`, under the namespace; chat history lives in this object, or,
    with `async_database_uri`, in a SQL store, under `session_id`. Make the object again with both, and pass it to `run`
    again, also when `ctx` is passed: a workflow's context does not carry a `Memory`.

    A message is known by session, role and `additional_kwargs["id"]`, else by its text and the number of its
    occurrence. Its time is `timestamp` or `created_at` in `additional_kwargs`, else the time at which it is put.

    Attributes:
        insert_method: Where recalled text goes, if `adaptive` is off.
        adaptive: Whether that is fitted to the engine or agent (see `from_defaults`).
        ingest_history: Whether messages given to `set`, or as `chat_history`, are remembered too.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> monday = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id="monday")
        >>> monday.put(ChatMessage(role="user", content="I moved to Oslo."))
        >>> friday = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id="friday")
        >>> "I moved to Oslo." in friday.get(input="Where did I move to?")[0].content
        True
    """

    adaptive: bool = True
    ingest_history: bool = False

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the component."""
        return "AMemMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]
        cls,
        *,
        memory: AgenticMemory,
        user_id: str | int | UUID | None = None,
        namespace: Whose | None = None,
        chat_history: list[ChatMessage] | None = None,
        memory_blocks: Sequence[BaseMemoryBlock[Any]] = (),
        insert_method: InsertMethod | None = None,
        ingest_history: bool = False,
        **options: Unpack[MemoryOptions],
    ) -> Self:
        """Return a memory for one user and one session.

        Args:
            memory: Where notes are kept; many users can share it.
            user_id: Whose memory it is, by its text: 42 and "42" are one; stands for `namespace=(user_id,)`.
            namespace: Whose memory it is, in more than one level, or a function that returns that.
            chat_history: What was said in this session before.
            memory_blocks: Further blocks.
            insert_method: Where recalled text goes; None puts it with the question where the history
                ends in one (agents, `SimpleChatEngine`), else into a system message.
            ingest_history: Whether `chat_history`, and what is given to `set`, is remembered too.
            options: What is recalled (`also`, `k`, `max_tokens`, `where`, `min_similarity`, `links`, `as_of`, `window`,
                `node_postprocessors`) and stored (`remember`, `evolve`, `roles`, `should_store`, `metadata`), what happens when
                something fails (`on_error`), and the tag around the notes (`name`): see `AMemMemoryBlock`. And what
                `Memory.from_defaults` takes: `session_id`, `token_limit`, `token_flush_size`, `chat_history_token_ratio`,
                `tokenizer_fn`, `memory_blocks_template`; for a history that outlives the object `async_database_uri`,
                `async_engine`, `table_name`, `db_schema` or `chat_store`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
            ConfigurationError: An option has a value that cannot be used.
            TypeError: An option is unknown.
        """
        check_flags(ingest_history=ingest_history)
        given: dict[str, Any] = {"memory_blocks_template": TextTemplate(), **options}
        mine = {name: given.pop(name) for name in BlockOptions.__annotations__ if name in given}
        if "tokenizer_fn" in given:
            mine["tokenizer_fn"] = given["tokenizer_fn"]
        # Each message is written through; overflow would only deliver it once more.
        mine["accept_short_term_memory"] = False
        block = AMemMemoryBlock(memory, _whose(user_id, namespace), **mine)
        given |= {"memory_blocks": [block, *memory_blocks]}
        given |= {"insert_method": insert_method or InsertMethod.USER}
        made = cast("Self", super().from_defaults(**given))
        if not KEPT_BY & given.keys():
            made.sql_store = Session()
        made.adaptive, made.ingest_history = insert_method is None, ingest_history
        if chat_history:
            made.set(chat_history)
        return made

    @property
    def block(self) -> AMemMemoryBlock:
        """The block that holds this user's notes.

        Raises:
            ConfigurationError: There is none.
        """
        for block in self.memory_blocks:
            if isinstance(block, AMemMemoryBlock):
                return block
        raise ConfigurationError(
            "AMemMemory has no AMemMemoryBlock; make it with AMemMemory.from_defaults(memory=…, user_id=…)"
        )

    @property
    def failures(self) -> dict[str, int]:
        """How often `recall` and `write` failed so far."""
        return self.block.failures

    async def aget(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework passes it by name
        **block_kwargs: Any,  # noqa: ANN401 - passed on to the blocks
    ) -> list[ChatMessage]:
        """Return the history, with what the blocks give for the question in it (or in `input`)."""
        # The framework hands a text on to the blocks, and forgets a message.
        asked = text_of(input) if isinstance(input, ChatMessage) else input
        return await super().aget(input=asked, **block_kwargs)

    def _insert_memory_content(
        self,
        chat_history: list[ChatMessage],
        memory_content: list[ContentBlock],
        chat_message_data: list[ChatMessage],
    ) -> list[ChatMessage]:
        # `ReActAgent` and `CodeActAgent` replace a leading system message, so there it goes with the question.
        # The engines that ask outside of the history would see it in the question before, so there it is a
        # system message.
        asked = bool(chat_history) and chat_history[-1].role in UNANSWERED
        method = InsertMethod.USER if asked else InsertMethod.SYSTEM
        memory = self.model_copy(update={"insert_method": method}) if self.adaptive else self
        return super(AMemMemory, memory)._insert_memory_content(
            chat_history, memory_content, chat_message_data
        )

    # A message is remembered before the history has it: a call that is cancelled in between loses nothing.

    async def aput(self, message: ChatMessage) -> None:
        """Remember a message, and add it to the history."""
        await self.aput_messages([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Remember messages, and add them to the history."""
        if messages:
            await self.block.aremember(messages, self.session_id)
            await super().aput_messages(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the history; what has been remembered stays."""
        if self.ingest_history:
            await self.block.aremember(messages, self.session_id, new=False, just_said=False)
        await super().aset(messages)


class TextTemplate(RichPromptTemplate):
    """The framework's template for blocks, which compiles itself at each use, written out where the blocks are texts."""

    def __init__(self) -> None:
        super().__init__(DEFAULT_MEMORY_BLOCKS_TEMPLATE.template_str)

    def format_messages(self, llm: BaseLLM | None = None, **values: Any) -> list[ChatMessage]:  # noqa: ANN401 - LlamaIndex's signature
        """Return one message with all blocks."""
        lines = ["<memory>"]
        for name, parts in values["memory_blocks"]:
            if not all(isinstance(part, TextBlock) for part in parts):
                return super().format_messages(llm, **values)
            lines += [f"<{name}>", *(part.text for part in parts), f"</{name}>"]
        return [ChatMessage(role=MessageRole.USER, content="\n".join([*lines, "</memory>"]))]


class Session(AsyncDBChatStore):
    """The history of a session in the process, whole after a call that was cancelled; tasks, threads and loops may share it.

    The framework's own store in memory is a SQL database, which is asked three times a turn.
    """

    _said: dict[str, list[Said]] = PrivateAttr(default_factory=dict)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return copies of the messages of a session, all of them or those of a status."""
        found = [row.message for row in self._said.get(key, ()) if status in (None, row.status)]
        return [_copy(message) for message in found[offset:][:limit]]

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """Return how many messages of a status there are."""
        return len(await self.get_messages(key, status))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages."""
        said = self._said.setdefault(key, [])
        said.extend(Said(_copy(message), status) for message in messages)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace all messages."""
        self._said[key] = [Said(_copy(message), status) for message in messages]

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove and return the message at a place."""
        said = self._said.get(key, [])
        return said.pop(idx).message if 0 <= idx < len(said) else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Remove all messages, or those of a status."""
        self._said[key] = [
            row for row in self._said.get(key, ()) if status not in (None, row.status)
        ]

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove and return the oldest messages of the queue."""
        oldest = self._oldest(key, n)
        self._said[key] = [row for row in self._said.get(key, ()) if row not in oldest]
        return [row.message for row in oldest]

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Take the oldest messages out of the queue, and return them."""
        oldest = self._oldest(key, n)
        for row in oldest:
            row.status = MessageStatus.ARCHIVED
        return [_copy(row.message) for row in oldest]

    async def get_keys(self) -> list[str]:
        """Return the sessions."""
        return list(self._said)

    def _oldest(self, key: str, n: int) -> list[Said]:
        return [row for row in self._said.get(key, ()) if row.status == MessageStatus.ACTIVE][:n]


@dataclass(slots=True, eq=False)
class Said:
    """A message in a history."""

    message: ChatMessage
    status: MessageStatus


def _copy(message: ChatMessage) -> ChatMessage:
    """Return a message that may be changed: the framework puts what is recalled into messages, and blocks mark them."""
    parts = {"blocks": [*message.blocks], "additional_kwargs": {**message.additional_kwargs}}
    return message.model_copy(update=parts)


def _whose(user_id: object, namespace: Whose | None) -> Whose:
    """Return the namespace that one of the two stands for.

    Raises:
        NamespaceError: Neither is given, or both, or one that cannot be used.
    """
    if (user_id is None) == (namespace is None):
        raise NamespaceError(
            f"user_id={user_id!r} and namespace={namespace!r}: give one of them, to say whose memory "
            "this is; there is no shared default"
        )
    if namespace is not None:
        return namespace
    if isinstance(user_id, bool) or not isinstance(user_id, str | int | UUID):
        raise NamespaceError(f"user_id={user_id!r} must be a string, a whole number or a UUID")
    return (str(user_id),)
