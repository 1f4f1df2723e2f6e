"""`AMemMemory`: a `Memory` that remembers every message, for any chat engine or agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, InsertMethod

from amem_integrations import AgenticMemory, ConfigurationError

from ._calls import on_callers_loop
from ._messages import ASSISTANTS, Occurrences, occurrences, spoken, text_of
from ._namespaces import namespace_of
from ._placement import PlacingMemory
from .memory_block import AMemMemoryBlock

# What `from_defaults` passes on to the block; the rest is for `Memory`.
BLOCK_OPTIONS = set(AMemMemoryBlock.model_fields) - {"accept_short_term_memory", "tokenizer_fn"}


class AMemMemory(PlacingMemory):
    """Chat history, and everything this user has said before.

    Pass it as `memory=` to a chat engine, or to each `run` of an agent. Short-term history works as in
    `Memory`; besides, each message is remembered as it is put, so the last turns of a session are never
    lost, and what belongs to the question is recalled.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/

    To resume: long-term notes live in the `AgenticMemory`, under the namespace; chat history lives in the
    SQL store, under `session_id`. Make the object again with both (and a durable
    `async_database_uri`), and pass it to `run` again, also when `ctx` is passed: a workflow's context
    does not carry a `Memory`.

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

    ingest_history: bool = False
    _occurrences: Occurrences | None = PrivateAttr(default=None)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the component."""
        return "AMemMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]
        cls,
        *,
        memory: AgenticMemory,
        user_id: str | None = None,
        namespace: Sequence[str] | None = None,
        chat_history: list[ChatMessage] | None = None,
        memory_blocks: Sequence[BaseMemoryBlock[Any]] = (),
        insert_method: InsertMethod | None = None,
        ingest_history: bool = False,
        **options: Any,  # noqa: ANN401 - see below
    ) -> Self:
        """Return a memory for one user and one session.

        Args:
            memory: Where notes are kept; many users can share it.
            user_id: Whose memory it is; stands for `namespace=(user_id,)`.
            namespace: Whose memory it is, in more than one level.
            chat_history: What was said in this session before.
            memory_blocks: Further blocks.
            insert_method: Where recalled text goes; None puts it with the question where the history
                ends in one (agents, `SimpleChatEngine`), else into a system message.
            ingest_history: Whether `chat_history`, and what is given to `set`, is remembered too.
            options: What else `Memory.from_defaults` takes, such as `session_id`, `token_limit` and
                `async_database_uri`, and fields of `AMemMemoryBlock`, such as `k` and `evolve`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
        """
        space = namespace_of(user_id, namespace)
        own = {name: options.pop(name) for name in set(options) & BLOCK_OPTIONS}
        if "tokenizer_fn" in options:
            own["tokenizer_fn"] = options["tokenizer_fn"]
        # Each message is written through; overflow would only deliver it once more.
        block = AMemMemoryBlock(memory, space, accept_short_term_memory=False, **own)
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

    @classmethod
    def bound(
        cls,
        *,
        memory: AgenticMemory,
        user_id: str | None = None,
        namespace: Sequence[str] | None = None,
        **options: Any,  # noqa: ANN401 - as in `from_defaults`
    ) -> type[Self]:
        """Return this class for one user, for what makes a memory by itself (`memory_cls=`).

        `SimpleChatEngine`, `CondenseQuestionChatEngine` and the chat modes of these names take it; the
        other engines ignore it and want `memory=`. The arguments are those of `from_defaults`, and
        stand against what an engine gives, such as `token_limit`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
        """
        own = {**options, "memory": memory, "namespace": namespace_of(user_id, namespace)}

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

    async def aget(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework passes it by name
        **block_kwargs: Any,  # noqa: ANN401 - passed on to the blocks
    ) -> list[ChatMessage]:
        """Return the history, with what is recalled for the question in it (or in `input`)."""
        # The framework hands a text on to the blocks, and forgets a message.
        asked = text_of(input) if isinstance(input, ChatMessage) else input
        with on_callers_loop():
            return await super().aget(input=asked, **block_kwargs)

    async def aput(self, message: ChatMessage) -> None:
        """Add a message to the history, and remember it."""
        await self._count()
        await super().aput(message)
        await self._remember([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the history, and remember them."""
        if messages:
            await self._count()
            await super().aput_messages(messages)
            await self._remember(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the history; what has been remembered stays."""
        await super().aset(messages)
        if self.ingest_history:
            self._occurrences = Occurrences()
            await self._remember(messages)
        else:
            self._occurrences = occurrences(messages)

    async def _count(self) -> None:
        """Count what was said in this session before; it may have been in another process."""
        if self._occurrences is None:
            said = occurrences(await self.aget_all())
            if self._occurrences is None:  # no other task was faster
                self._occurrences = said

    async def _remember(self, messages: Sequence[ChatMessage]) -> None:
        answered = any(m.role in ASSISTANTS and spoken(m) for m in messages)
        with on_callers_loop():
            await self.block.remember(
                messages, thread=self.session_id, seen=self._occurrences, turn_ended=answered
            )
