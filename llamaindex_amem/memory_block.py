"""`AMemMemoryBlock`: the memory as a block of a stock `Memory`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.utils import get_tokenizer

from amem_integrations import AgenticMemory
from amem_integrations.adapting import check_namespace

from ._calls import synchronously
from ._failures import Failures, OnError
from ._messages import SPOKEN, Occurrences, ShouldStore, to_notes
from ._recall import Recall
from ._writing import Evolve, Writer


class AMemMemoryBlock(BaseMemoryBlock[str]):
    """Remembers what falls out of short-term memory, and recalls notes for the last question.

    A stock `Memory` hands messages to its blocks only when its queue overflows, and has no way to end a
    session: call `flush_from(memory)` then. `AMemMemory` needs neither.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/

    Attributes:
        memory: Where notes are kept.
        namespace: Whose notes, such as `("user-42",)`.
        name: Tag around the notes in the prompt.
        priority: 0 is never shortened; of the others, `Memory` shortens the lowest number first.
        k: Most notes to recall.
        max_tokens: About how long the recalled text may be.
        roles: Whose messages are remembered.
        should_store: Called with each message; False leaves it out.
        evolve: `"inline"` links and evolves notes at the end of a turn, `"background"` does so in a
            thread, `"off"` leaves it to `AgenticMemory.evolve`. The notes are found at once either way.
        on_error: `"log"` goes on without the memory while the store or a model does not answer;
            `"raise"` raises.

    Raises:
        NamespaceError: The namespace is not a non-empty tuple of strings.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> block = AMemMemoryBlock(memory=memory, namespace=("ann",))
        >>> chat_memory = Memory.from_defaults(memory_blocks=[block])
        >>> chat_memory.put(ChatMessage(role="user", content="I moved to Oslo."))
        >>> block.flush_from(chat_memory)
        >>> memory.get_all(namespace=("ann",))[0].content
        'I moved to Oslo.'
    """

    memory: AgenticMemory = Field(exclude=True, repr=False)
    namespace: tuple[str, ...]
    name: str = "long_term_memory"
    description: str | None = "Notes from earlier conversations."
    priority: int = 1
    k: int = 10
    max_tokens: int = 1000
    roles: tuple[MessageRole, ...] = SPOKEN
    should_store: ShouldStore | None = Field(default=None, exclude=True)
    evolve: Evolve = "inline"
    on_error: OnError = "log"
    tokenizer_fn: Callable[[str], Sequence[Any]] = Field(
        default_factory=get_tokenizer, exclude=True
    )
    _failures: Failures = PrivateAttr()
    _recall: Recall = PrivateAttr()
    _writer: Writer = PrivateAttr()

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Sequence[str],
        **options: Any,  # noqa: ANN401 - the other fields
    ) -> None:
        # Checked here, since pydantic would make an error of its own of ours.
        space = check_namespace(namespace)
        fields = {"memory": memory, "namespace": space, **options}
        super().__init__(**fields)
        self._failures = Failures(self.on_error)
        self._recall = Recall(memory, space, self._failures, k=self.k, max_tokens=self.max_tokens)
        self._writer = Writer(memory, space, self._failures, self.evolve)

    @property
    def failures(self) -> dict[str, int]:
        """How often `recall`, `write` and `evolve` failed so far."""
        return self._failures.snapshot()

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        **block_kwargs: Any,  # noqa: ANN401, ARG002 - whatever the caller of `Memory.get` passes on
    ) -> str:
        return await self._recall.text(messages or [], session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        thread = next((m.additional_kwargs.get("session_id") for m in messages), None)
        await self.remember(messages, thread=thread)

    async def remember(
        self,
        messages: Sequence[ChatMessage],
        *,
        thread: str | None,
        seen: Occurrences | None = None,
        turn_ended: bool = True,
    ) -> None:
        """Store what was said at once; link and evolve it when the turn has ended.

        Args:
            messages: In the order they were said.
            thread: The conversation.
            seen: How often each role has said each text in it before; counted up.
            turn_ended: Whether both sides have spoken.
        """
        # All of it is read before anything is awaited: other blocks share, and change, the messages.
        items = to_notes(
            messages,
            thread=thread,
            roles=self.roles,
            should_store=self.should_store,
            seen=seen,
        )
        if items:
            await self._writer.write(items)
        if turn_ended:
            await self._writer.end_turn()

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the text without its weakest notes, or None if no note fits."""
        return self._recall.shorter(content, tokens_to_truncate, self._count) if content else None

    def _count(self, text: str) -> int:
        return len(self.tokenizer_fn(text))

    async def aflush_from(self, memory: Memory) -> None:
        """Remember what is still in short-term memory: call it at the end of a session.

        Doing it again, or going on with the session, makes no second notes.
        """
        messages = await memory.aget_all(status=MessageStatus.ACTIVE)
        await self.aput(messages, session_id=memory.session_id)
        await self.aflush()

    def flush_from(self, memory: Memory) -> None:
        """Synchronous twin of `aflush_from`."""
        with synchronously():
            asyncio_run(self.aflush_from(memory))

    def flush(self, timeout: float | None = None) -> None:
        """Return when the background has caught up.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
            AmemError: Evolution failed for a reason that does not pass by itself.
        """
        background = self._writer.background
        if background is not None and not background.flush(timeout):
            raise TimeoutError(f"notes are still being evolved after {timeout} seconds")

    async def aflush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in `flush`
        """Asynchronous twin of `flush`."""
        await asyncio.to_thread(self.flush, timeout)

    def close(self) -> None:
        """Stop evolving; what the background has not come to is picked up at the next start."""
        self._writer.close()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the block itself: agents copy their state, and there is only one store."""
        return self
