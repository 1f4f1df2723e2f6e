"""`AMemMemory`: a `Memory` that remembers every message, for any chat engine or agent."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast
from uuid import UUID

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from sqlalchemy.ext.asyncio import AsyncEngine

from amem_integrations import AgenticMemory, ConfigurationError, NamespaceError
from amem_integrations.adapting import check_flags, check_namespace
from amem_integrations.conversation import count_spoken

from .memory_block import AMemMemoryBlock, BlockOptions, Uncopied, on_callers_loop, synchronously
from .messages import answers, question, text_of, to_message
from .recall import check_options

# What `from_defaults` passes on to the block; the rest is for `Memory`.
OWN = {"memory", "namespace", "accept_short_term_memory", "tokenizer_fn"}
BLOCK_OPTIONS = {*AMemMemoryBlock.model_fields} - OWN
OPTIONS = BLOCK_OPTIONS | {*inspect.signature(Memory.from_defaults).parameters} | {"ingest_history"}
# Someone waits for an answer while the last message is one of these.
UNANSWERED = (MessageRole.USER, MessageRole.TOOL, MessageRole.FUNCTION)
# How long a task waits for the lock of a memory, in seconds.
PATIENCE = 2.0

P = ParamSpec("P")
R = TypeVar("R")
UserId = str | int | UUID


class MemoryOptions(BlockOptions, total=False):
    """What `Memory.from_defaults` takes besides, and the fields of the block, as keyword arguments."""

    session_id: str | None
    token_limit: int
    chat_history_token_ratio: float
    token_flush_size: int
    memory_blocks_template: RichPromptTemplate
    image_token_size_estimate: int
    audio_token_size_estimate: int
    video_token_size_estimate: int
    chat_store: AsyncDBChatStore
    table_name: str
    async_database_uri: str | None
    async_engine: AsyncEngine | None
    db_schema: str | None


class BoundOptions(MemoryOptions, total=False):
    """What `AMemMemory.from_defaults` takes but for whose memory it is, as keyword arguments."""

    chat_history: list[ChatMessage] | None
    memory_blocks: Sequence[BaseMemoryBlock[Any]]
    insert_method: InsertMethod | None
    ingest_history: bool


def _synchronous(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method of the framework, within which the memory knows that the caller is synchronous."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with synchronously():
            return method(*args, **kwargs)

    return called


class AMemMemory(Uncopied, Memory):
    """Chat history, and everything this user has said before.

    Pass it as `memory=` to a chat engine, or to each `run` of an agent. Short-term history works as in
    `Memory`; besides, each message is remembered as it is put, so the last turns of a session are never
    lost, and what belongs to the question is recalled. Tasks, threads and event loops may share one.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/

    To resume: long-term notes live in the `AgenticMemory`, under the namespace; chat history lives in the
    SQL store, under `session_id`. Make the object again with both (and a durable
    `async_database_uri`), and pass it to `run` again, also when `ctx` is passed: a workflow's context
    does not carry a `Memory`.

    A message is known by session, role and `additional_kwargs["id"]`, else by its position in the chat history.
    Its time is `timestamp` or `created_at` in `additional_kwargs`, else the time at which it is put.

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
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _counted: tuple[int, int] | None = PrivateAttr(default=None)  # messages stored, messages spoken
    _asked: str = PrivateAttr(default="")  # the question that was last asked outside of the history

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the component."""
        return "AMemMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]
        cls,
        *,
        memory: AgenticMemory,
        user_id: UserId | None = None,
        namespace: Sequence[str] | None = None,
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
            namespace: Whose memory it is, in more than one level.
            chat_history: What was said in this session before.
            memory_blocks: Further blocks.
            insert_method: Where recalled text goes; None puts it with the question where the history
                ends in one (agents, `SimpleChatEngine`), else into a system message.
            ingest_history: Whether `chat_history`, and what is given to `set`, is remembered too.
            options: What else `Memory.from_defaults` takes, such as `session_id`, `token_limit` and
                `async_database_uri`, and fields of `AMemMemoryBlock`, such as `k`, `where` and `evolve`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
            TypeError: An option is unknown.
        """
        space = _namespace(user_id, namespace)
        check_options(options, OPTIONS)
        check_flags(ingest_history=ingest_history)
        own: Any = {n: v for n, v in options.items() if n in BLOCK_OPTIONS | {"tokenizer_fn"}}
        given: Any = {n: v for n, v in options.items() if n not in BLOCK_OPTIONS}
        # Each message is written through; overflow would only deliver it once more.
        block = AMemMemoryBlock(memory, space, accept_short_term_memory=False, **own)
        made = cast(
            "Self",
            super().from_defaults(
                memory_blocks=[block, *memory_blocks],
                insert_method=insert_method or InsertMethod.USER,
                **given,
            ),
        )
        made.adaptive, made.ingest_history = insert_method is None, ingest_history
        if chat_history:
            made.set(chat_history)
        return made

    @classmethod
    def bound(
        cls,
        *,
        memory: AgenticMemory,
        user_id: UserId | None = None,
        namespace: Sequence[str] | None = None,
        **options: Unpack[BoundOptions],
    ) -> type[Self]:
        """Return this class for one user, for what makes a memory by itself (`memory_cls=`).

        `SimpleChatEngine`, `CondenseQuestionChatEngine` and the chat modes of these names take it; the
        other engines ignore it and want `memory=`. The arguments are those of `from_defaults`, and
        win over what an engine gives, such as `token_limit`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
            TypeError: An option is unknown.
        """
        check_options(options, OPTIONS)
        own = {**options, "memory": memory, "namespace": _namespace(user_id, namespace)}

        class Bound(cls):  # type: ignore[valid-type, misc]
            @classmethod
            def from_defaults(cls, **given: Any) -> Any:  # noqa: ANN401
                return super().from_defaults(**{**given, **own})

        return Bound

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's signature
        """Check that there is somewhere to remember.

        Raises:
            ConfigurationError: There is no `AMemMemoryBlock` among the blocks.
        """
        super().model_post_init(context)
        if not any(isinstance(block, AMemMemoryBlock) for block in self.memory_blocks):
            raise ConfigurationError(
                "AMemMemory has no AMemMemoryBlock; make it with AMemMemory.from_defaults(memory=…, user_id=…)"
            )

    @property
    def block(self) -> AMemMemoryBlock:
        """The block that holds this user's notes."""
        return next(block for block in self.memory_blocks if isinstance(block, AMemMemoryBlock))

    @property
    def failures(self) -> dict[str, int]:
        """How often `recall`, `write` and `evolve` failed so far."""
        return self.block.failures

    def flush(self, timeout: float | None = None) -> None:
        """Return when the background has caught up; see `AMemMemoryBlock.flush`."""
        self.block.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in `flush`
        """Asynchronous twin of `flush`."""
        await self.block.aflush(timeout)

    def close(self) -> None:
        """Stop evolving, within a second; the notes, the `AgenticMemory` and the chat history stay."""
        self.block.close()

    async def aget(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework passes it by name
        **block_kwargs: Any,  # noqa: ANN401 - passed on to the blocks
    ) -> list[ChatMessage]:
        """Return the history, with what the blocks give for the question in it (or in `input`)."""
        # The framework hands a text on to the blocks, and forgets a message.
        asked = text_of(input) if isinstance(input, ChatMessage) else input
        self._asked = (asked or "").strip()
        with on_callers_loop():
            async with self._alone():
                return await super().aget(input=asked, **block_kwargs)

    async def aget_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Return the history as it is; by default all of it."""
        async with self._alone():
            return await super().aget_all(status=status)

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

    async def aput(self, message: ChatMessage) -> None:
        """Add a message to the history, and remember it."""
        await self._put([message], partial(super().aput, message))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the history, and remember them."""
        if messages:
            await self._put(messages, partial(super().aput_messages, messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the history; what has been remembered stays."""
        async with self._alone():
            await super().aset(messages)
            self._counted = None
        if self.ingest_history:
            await self._remember(messages, offset=0, just_said=False)

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Forget the history, or the part of it with this status; what has been remembered stays."""
        async with self._alone():
            _, spoken = await self._count()
            await super().areset(status=status)
            # What is said from now on was not said before.
            left = await self.sql_store.count_messages(self.session_id, status=None)
            self._counted = (left, spoken)

    async def _put(
        self, messages: Sequence[ChatMessage], put: Callable[[], Awaitable[None]]
    ) -> None:
        async with self._alone():
            stored, offset = await self._count()
            await put()
            said = count_spoken(map(to_message, messages))
            self._counted = (stored + len(messages), offset + said)
        await self._remember(messages, offset=offset)

    async def _remember(
        self, messages: Sequence[ChatMessage], *, offset: int, just_said: bool = True
    ) -> None:
        ended = answers(messages)
        # Some engines put the question when it has been answered.
        answered = ended or question(messages) == self._asked != ""
        with on_callers_loop():
            await self.block.store_messages(
                messages,
                thread=self.session_id,
                offset=offset,
                just_said=just_said,
                turn_ended=ended,
                answered=answered,
            )

    async def _count(self) -> tuple[int, int]:
        """Return how many messages are stored, and how many were spoken in this session so far.

        Another object, be it in another process, may have added to the same session.
        """
        stored = await self.sql_store.count_messages(self.session_id, status=None)
        if self._counted is None or self._counted[0] != stored:
            history = await self.sql_store.get_messages(self.session_id, status=None)
            self._counted = (len(history), count_spoken(map(to_message, history)))
        return self._counted

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Use the SQL store alone, or in the end with others.

        Setting it up, and moving what overflows, is not safe otherwise, and several threads on one SQLite
        connection can wait for each other for ever. The lock is shared by tasks on several loops; its owner may
        be a task on a loop that a synchronous call, waiting here, has stopped.
        """
        deadline = time.monotonic() + PATIENCE
        while not (mine := self._lock.acquire(blocking=False)) and time.monotonic() < deadline:  # noqa: ASYNC110 - an event belongs to one loop
            await asyncio.sleep(0.001)
        try:
            yield
        finally:
            if mine:
                self._lock.release()

    # They run the asynchronous methods, on a loop that is closed after the call. (mypy compares with `BaseMemory`.)
    get = _synchronous(Memory.get)
    put = _synchronous(Memory.put)  # type: ignore[arg-type]
    put_messages = _synchronous(Memory.put_messages)  # type: ignore[arg-type]
    set = _synchronous(Memory.set)  # type: ignore[arg-type]


def _namespace(user_id: UserId | None, namespace: Sequence[str] | None) -> tuple[str, ...]:
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
        return check_namespace(namespace)
    if isinstance(user_id, bool) or not isinstance(user_id, str | int | UUID):
        raise NamespaceError(f"user_id={user_id!r} must be a string, a whole number or a UUID")
    return check_namespace((str(user_id),))
