"""`AMemMemoryBlock`: the memory as a block of a stock `Memory`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn, Self, SupportsIndex, Unpack, get_type_hints

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.utils import get_tokenizer

from amem_integrations import AgenticMemory, ConfigurationError
from amem_integrations.adapting import (
    RECALLED,
    WINDOW,
    Call,
    OnError,
    RecallKeywords,
    RecallOptions,
    awaited,
    check_counts,
    check_flags,
    check_namespace,
    directly,
    in_thread,
)
from amem_integrations.conversation import Message, count_spoken

from .events import Failures
from .messages import SPOKEN, ShouldStore, to_message
from .recall import Recall, check_options
from .remember import Batch, Evolve, Writer

# LlamaIndex runs a block on whatever loop is at hand: the caller's, or one made for a single synchronous call
# and closed after it. A client bound to a loop does not survive the latter, so an asynchronous method of a
# model or a store is awaited only where the loop is known to be the caller's.
_call: ContextVar[Call] = ContextVar("llamaindex_amem_call", default=in_thread)


@contextmanager
def synchronously() -> Iterator[None]:
    """Within this, the caller is synchronous: nothing else waits for the loop it runs on."""
    token = _call.set(directly)
    try:
        yield
    finally:
        _call.reset(token)


@contextmanager
def on_callers_loop() -> Iterator[None]:
    """Within this, the running loop is the caller's own, unless the caller is synchronous."""
    token = _call.set(directly if _call.get() is directly else awaited)
    try:
        yield
    finally:
        _call.reset(token)


class Uncopied:
    """An object that holds an open store: a deep copy is itself, and a pickle of it is refused."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the object itself: agents copy their state, and there is only one store."""
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse.

        Raises:
            TypeError: Always; the object stays as it is.
        """
        raise TypeError(
            f"{type(self).__name__} cannot be pickled, since it holds an open store; make it again with the "
            "same memory, user and session, and pass it to the next run"
        )


RECALL = get_type_hints(RecallKeywords)
FLAGS = {"accept_short_term_memory"}


class BlockOptions(RecallKeywords, total=False):
    """The optional fields of `AMemMemoryBlock`, as keyword arguments."""

    name: str
    description: str | None
    priority: int
    accept_short_term_memory: bool
    roles: tuple[MessageRole, ...]
    should_store: ShouldStore | None
    evolve: Evolve
    on_error: OnError
    tokenizer_fn: Callable[[str], Sequence[Any]]


class AMemMemoryBlock(Uncopied, BaseMemoryBlock[str]):
    """Remembers what falls out of short-term memory, and recalls notes for the last question.

    A stock `Memory` hands messages to its blocks only when its queue overflows, and has no way to end a
    session: call `flush_from(memory)` then. `AMemMemory` needs neither.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/

    A message is known by session, role and `additional_kwargs["id"]`, else by its position among the messages
    of the session. `flush_from` reads the position from the history of the `Memory`. An overflow does not tell
    it: a batch that is stored already, word for word, is a repeated delivery; any other follows what this
    block has been given of the session, or, after a restart, what is stored of it.

    Attributes:
        memory: Where notes are kept.
        namespace: Whose notes, such as `("user-42",)`.
        name: Tag around the notes in the prompt.
        priority: 0 is never shortened; of the others, `Memory` shortens the lowest number first.
        k: How many notes to consider; of these as many are shown as fit.
        max_tokens: About how long the recalled text may be.
        where: Conditions on the fields of notes that are recalled; see `AgenticMemory.search`.
        min_similarity: Least cosine of question and note.
        links: Whether links are followed.
        as_of: What was true then is recalled.
        window: How many messages before a question make clear what it is about; 0 looks at the question alone.
        roles: Whose messages are remembered.
        should_store: Called with each message; False leaves it out.
        evolve: `"inline"` links and evolves notes at the end of a turn, `"background"` does so in a
            thread, `"worker"` leaves it to `amem worker`, `"off"` to calls of `AgenticMemory.evolve`. The
            notes are found at once either way.
        on_error: `"log"` goes on without the memory while the store or a model does not answer;
            `"raise"` raises.

    Raises:
        NamespaceError: The namespace is not a non-empty tuple of strings.
        ConfigurationError: An option has a value that cannot be used.

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
    k: int = RECALLED
    max_tokens: int = 1000
    where: Mapping[str, Any] | None = None
    min_similarity: float | None = None
    links: bool = True
    as_of: datetime | None = None
    window: int = WINDOW
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
        **options: Unpack[BlockOptions],
    ) -> None:
        # Checked here, since pydantic would make errors of its own of ours, and ignore unknown options.
        check_options(options, type(self).model_fields)
        space = check_namespace(namespace)
        _check_hook(options.get("should_store"))
        given: dict[str, Any] = {**options}
        check_flags(**{name: given[name] for name in FLAGS & given.keys()})
        check_counts(least=0, priority=given.get("priority", 1))
        defaults = {name: type(self).model_fields[name].default for name in RECALL}
        recall = RecallOptions(**{name: given.get(name, defaults[name]) for name in RECALL})
        failures = Failures(options.get("on_error", "log"))
        super().__init__(**{**given, "memory": memory, "namespace": space})
        self._failures = failures
        self._recall = Recall(memory, space, failures, recall)
        roles = [role.value for role in self.roles]
        self._writer = Writer(memory, space, failures, roles=roles, evolve=self.evolve)

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
        return await self._recall.text(_call.get(), messages or [], session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        thread = next((m.additional_kwargs.get("session_id") for m in messages), None)
        # An overflow happens after an answer as well as before one.
        await self.store_messages(messages, thread=thread, answered=True)

    async def store_messages(
        self,
        messages: Sequence[ChatMessage],
        *,
        thread: str | None,
        offset: int | None = None,
        just_said: bool = True,
        turn_ended: bool = True,
        answered: bool = False,
    ) -> None:
        """Store what was said at once; link and evolve it when the turn has ended.

        Args:
            messages: In the order they were said.
            thread: The conversation.
            offset: How many messages user and assistant had said in it before; None finds out by what is
                stored of it.
            just_said: Whether the time is now of messages that carry none.
            turn_ended: Whether both sides have spoken.
            answered: Whether the chat model has answered, so that nothing may be raised.

        Raises:
            ConfigurationError: The key of the embedder is wrong, for instance; not if `answered`.
        """
        if not messages:
            return
        # All of it is read before anything is awaited: other blocks share, and change, the messages.
        batch = Batch(
            messages=tuple(map(self._read, messages)),
            thread=thread,
            offset=offset,
            now=datetime.now(UTC) if just_said else None,
        )
        call = _call.get()
        if any(message.role == MessageRole.USER for message in messages):
            self._recall.new_turn()
        stored = await self._writer.write(call, batch, answered=answered)
        if stored and turn_ended:
            await self._writer.end_turn(call)

    def _read(self, message: ChatMessage) -> Message:
        read, hook = to_message(message), self.should_store
        if hook is None or not read.spoken or read.party not in self.roles:
            return read
        return replace(read, stored=bool(hook(message)))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the text without its weakest notes, or None if no note fits."""
        count = lambda text: len(self.tokenizer_fn(text))  # noqa: E731 - it is passed on
        return self._recall.shorter(content, tokens_to_truncate, count) if content else None

    async def aflush_from(self, memory: Memory) -> None:
        """Remember what is still in short-term memory: call it at the end of a session.

        Doing it again, or going on with the session, makes no second notes.
        """
        active = await memory.aget_all(status=MessageStatus.ACTIVE)
        archived = await memory.aget_all(status=MessageStatus.ARCHIVED)
        offset = count_spoken(map(to_message, archived))
        await self.store_messages(active, thread=memory.session_id, offset=offset)
        await self.aflush()

    def flush_from(self, memory: Memory) -> None:
        """Synchronous twin of `aflush_from`."""
        with synchronously():
            asyncio_run(self.aflush_from(memory))

    def flush(self, timeout: float | None = None) -> None:
        """Return when the background has caught up.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
            AmemError: Evolution failed, with `on_error="raise"`.
        """
        background = self._writer.background
        if background is not None and not background.flush(timeout):
            raise TimeoutError(f"notes are still being evolved after {timeout} seconds")

    async def aflush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in `flush`
        """Asynchronous twin of `flush`."""
        await asyncio.to_thread(self.flush, timeout)

    def close(self) -> None:
        """Stop evolving, within a second; what the background leaves is picked up at the next start."""
        self._writer.close()


def _check_hook(should_store: object) -> None:
    call = getattr(should_store, "__call__", None)  # noqa: B004 - an object may have an async one
    if inspect.iscoroutinefunction(should_store) or inspect.iscoroutinefunction(call):
        raise ConfigurationError(
            f"should_store={should_store!r} is a coroutine function; give a plain one that returns a bool"
        )
