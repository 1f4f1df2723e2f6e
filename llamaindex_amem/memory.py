"""`AMemMemory`: a `Memory` that remembers every message, for any chat engine or agent."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, cast
from uuid import UUID

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from amem_integrations import AgenticMemory, ConfigurationError, NamespaceError
from amem_integrations.adapting import check_flags

from .conversation import Whose, text_of
from .memory_block import AMemMemoryBlock, Uncopied

# Someone waits for an answer while the last message is one of these.
UNANSWERED = (MessageRole.USER, MessageRole.TOOL, MessageRole.FUNCTION)
# How long a task waits for the lock of a memory, in seconds.
PATIENCE = 2.0


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
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

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
        **options: Any,  # noqa: ANN401 - those of two classes
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
            options: The fields of `AMemMemoryBlock`, such as `k`, `also`, `where`, `remember` and `evolve`, and what else
                `Memory.from_defaults` takes, such as `session_id`, `token_limit` and `async_database_uri`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
            ConfigurationError: An option has a value that cannot be used.
            TypeError: An option is unknown.
        """
        check_flags(ingest_history=ingest_history)
        mine = {n: options.pop(n) for n in AMemMemoryBlock.model_fields if n in options}
        if "tokenizer_fn" in mine:
            options["tokenizer_fn"] = mine["tokenizer_fn"]
        # Each message is written through; overflow would only deliver it once more.
        mine["accept_short_term_memory"] = False
        block = AMemMemoryBlock(memory, _whose(user_id, namespace), **mine)
        made = cast(
            "Self",
            super().from_defaults(
                memory_blocks=[block, *memory_blocks],
                insert_method=insert_method or InsertMethod.USER,
                **options,
            ),
        )
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

    # What is said is remembered before the history has it: a call that is cancelled in between loses nothing.

    async def aput(self, message: ChatMessage) -> None:
        """Remember a message, and add it to the history."""
        await self.block.aremember([message], self.session_id)
        async with self._alone():
            await super().aput(message)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Remember messages, and add them to the history."""
        if messages:
            await self.block.aremember(messages, self.session_id)
            async with self._alone():
                await super().aput_messages(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the history; what has been remembered stays."""
        if self.ingest_history:
            await self.block.aremember(messages, self.session_id, new=False, just_said=False)
        async with self._alone():
            await super().aset(messages)

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Forget the history, or the part of it with this status; what has been remembered stays."""
        async with self._alone():
            await super().areset(status=status)

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
