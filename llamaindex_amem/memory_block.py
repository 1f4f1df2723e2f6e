"""`AMemMemoryBlock`: the memory as a block of a stock `Memory`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn, Self, SupportsIndex, TypeVar, Unpack

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import QueryBundle
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.utils import get_tokenizer
from pydantic import ConfigDict, Field, PrivateAttr, StrictBool, ValidationError

from amem_integrations import AgenticMemory, ConfigurationError
from amem_integrations.adapting import (
    RECALLED,
    WINDOW,
    OnError,
    Recalled,
    RecallOptions,
    Remembered,
)
from amem_integrations.conversation import Message

from .conversation import (
    SEARCH,
    SPOKEN,
    Space,
    Where,
    Whose,
    check_plain,
    checked,
    searched,
    settled,
    to_message,
    to_messages,
    whose,
)
from .events import AMemEvolutionEvent, AMemRecallEvent, AMemWriteEvent, Failures, dispatcher
from .retriever import to_node

K = TypeVar("K")
V = TypeVar("V")

RECALL = (*SEARCH, "max_tokens", "window")
KEPT = 32  # texts that were recalled, and may be shortened: more than there are sessions that share a block at one time


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


class BlockOptions(RecallOptions, total=False):
    """The options of `AMemMemoryBlock` besides the memory and the namespace; see its attributes."""

    also: Mapping[str, Whose] | None
    name: str
    description: str | None
    priority: int
    node_postprocessors: Sequence[BaseNodePostprocessor]
    accept_short_term_memory: bool
    remember: bool
    evolve: bool
    roles: Sequence[MessageRole | str]
    should_store: Callable[[ChatMessage], bool] | None
    metadata: Where
    on_error: OnError


class AMemMemoryBlock(Uncopied, BaseMemoryBlock[str]):
    """Remembers what falls out of short-term memory, and recalls notes for the last question.

    A stock `Memory` hands messages to its blocks only when its queue overflows, and has no way to end a
    session: call `flush_from(memory)` then. `AMemMemory` needs neither.
    https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/

    A message is known by session, role and `additional_kwargs["id"]`, else by its text and the number of its
    occurrence: what overflows is the next one after those that are stored.

    `namespace`, the namespaces of `also`, `where` and `metadata` may be functions without arguments, which are called
    at each recall and each write, on the thread and in the context of the caller.

    Attributes:
        memory: Where notes are kept.
        namespace: Whose notes, such as `("user-42",)`.
        also: Further namespaces that are read, by the names that mark their notes: `{"team": ("acme",)}`.
        name: Tag around the notes in the prompt.
        priority: 0 is never shortened; of the others, `Memory` shortens the lowest number first.
        k: How many notes to consider; of these as many are shown as fit.
        max_tokens: About how long the recalled text may be.
        where: Conditions on the fields of notes that are recalled; see `AgenticMemory.search`.
        min_similarity: Least cosine of question and note.
        links: Whether links are followed.
        as_of: What was true then is recalled.
        window: How many messages before a question make clear what it is about; 0 looks at the question alone.
        node_postprocessors: What the framework has to filter and reorder nodes; what they leave is shown.
        remember: Whether what is said is stored; False only recalls.
        evolve: Whether the memory's background worker links and evolves notes at the end of a turn; False leaves that to
            `AgenticMemory.evolve` and `amem worker`. The notes are found at once either way.
        roles: Whose messages are remembered.
        should_store: Called with each message; False leaves it out.
        metadata: Your own, for each note, to filter on.
        on_error: `"log"` goes on without the memory whatever fails; `"raise"` raises.

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

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgenticMemory = Field(exclude=True, repr=False)
    namespace: Whose
    also: Mapping[str, Whose] | None = None
    name: str = "long_term_memory"
    description: str | None = "Notes from earlier conversations."
    priority: int = Field(default=1, ge=0, strict=True)
    k: int = RECALLED
    max_tokens: int = 1000
    where: Where = None
    min_similarity: float | None = None
    links: bool = True
    as_of: datetime | None = None
    window: int = WINDOW
    node_postprocessors: list[BaseNodePostprocessor] = Field(default_factory=list, exclude=True)
    accept_short_term_memory: StrictBool = True
    remember: StrictBool = True
    evolve: StrictBool = True
    roles: tuple[MessageRole, ...] = SPOKEN
    should_store: Callable[[ChatMessage], bool] | None = Field(default=None, exclude=True)
    metadata: Where = None
    on_error: OnError = "log"
    tokenizer_fn: Callable[[str], Sequence[Any]] = Field(
        default_factory=get_tokenizer, exclude=True
    )
    _failures: Failures = PrivateAttr()
    _shown: dict[str, Recalled] = PrivateAttr(default_factory=dict)  # by the text
    _spaces: dict[str | None, set[Space]] = PrivateAttr(default_factory=dict)  # by session
    _known: dict[str | None, list[Message]] = PrivateAttr(default_factory=dict)  # by session

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Whose,
        **options: Unpack[BlockOptions],
    ) -> None:
        # Checked here, since pydantic would make errors of its own of ours.
        given: dict[str, Any] = dict(options)
        recall = {name: given[name] for name in RECALL if name in given}
        checked(memory, namespace, recall, RECALL)
        check_plain(**options)
        failures = Failures(options.get("on_error", "log"))
        try:
            super().__init__(memory=memory, namespace=namespace, **given)
        except ValidationError as error:
            raise ConfigurationError(str(error)) from error
        self._failures = failures

    @property
    def failures(self) -> dict[str, int]:
        """How often `recall` and `write` failed so far."""
        return self._failures.snapshot()

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        **block_kwargs: Any,  # noqa: ANN401, ARG002 - whatever the caller of `Memory.get` passes on
    ) -> str:
        # A thread serves every loop, also one that the framework makes for a single synchronous call.
        return await asyncio.to_thread(self._recall, to_messages(messages or []), session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        thread = next((m.additional_kwargs.get("session_id") for m in messages), None)
        await self.aremember(messages, thread)

    @dispatcher.span
    def _recall(self, messages: Sequence[Message], thread: str | None) -> str:
        asked = next(
            (one.text for one in reversed(messages) if one.party == "user" and one.text), ""
        )
        found = Recalled()
        if not asked or self._failures.resting("recall"):
            return ""
        with self._failures.tolerated("recall", callback=True) as reasons:
            recall = {name: getattr(self, name) for name in RECALL}
            options = searched(lambda: self._space(thread), recall)
        if reasons:
            return ""
        with self._failures.tolerated("recall"):
            found = self.memory.recall_turn(messages, **options)
        with self._failures.tolerated("recall", callback=True):
            found = self._postprocessed(found, asked)
        self._failures.failed("recall", found.error)
        _keep(self._shown, found.text, found)
        ids = [hit.note.id for hit in found.hits]
        dispatcher.event(AMemRecallEvent(question=asked, note_ids=ids))
        return found.text

    def _postprocessed(self, found: Recalled, asked: str) -> Recalled:
        if not self.node_postprocessors:
            return found
        nodes = [to_node(hit) for hit in found.hits]
        hits = {node.node_id: hit for node, hit in zip(nodes, found.hits, strict=True)}
        for processor in self.node_postprocessors:
            nodes = processor.postprocess_nodes(nodes, query_bundle=QueryBundle(asked))
        kept = [hits[node.node_id] for node in nodes]
        return replace(found, hits=kept, text=found.render(kept, self.max_tokens))

    async def aremember(
        self,
        messages: Sequence[ChatMessage],
        thread: str | None,
        *,
        new: bool = True,
        just_said: bool = True,
    ) -> None:
        """Store what was said, and have it evolve once the assistant has answered; nothing, with `remember=False`.

        Args:
            messages: In the order they were said.
            thread: The conversation.
            new: Whether they follow what is stored of the conversation; False: they are the conversation from its
                start, of which what is stored is not stored again.
            just_said: Whether the time is now of messages that carry none; False: it is not known.
        """
        if self.remember and messages:
            # All of it is read before anything is awaited: other blocks share, and change, the messages.
            said = [self._read(message) for message in messages]
            if new and thread in self._known:  # since `flush_from`
                gone = self._known[thread]
                self._known[thread] = [*gone, *(replace(one, stored=False) for one in said)]
                said, new = [*gone, *said], False
            await asyncio.to_thread(self._remember, said, thread, new, just_said)

    @dispatcher.span
    def _remember(
        self,
        said: Sequence[Message],
        thread: str | None,
        new: bool,
        just_said: bool,
    ) -> None:
        answered, done = any(one.party == "assistant" and one.spoken for one in said), Remembered()
        with self._failures.tolerated("write", callback=True) as reasons:
            space = self._space(thread, asked=any(one.party == "user" for one in said))
            metadata = settled(self.metadata)
        if reasons:
            return
        with self._failures.tolerated("write"):
            if not new:  # what waits since an outage is among these
                self.memory.remember_turn([], namespace=space, complete=False)
            done = self.memory.remember_turn(
                said,
                namespace=space,
                thread=thread,
                roles=[role.value for role in self.roles],
                metadata=metadata,
                new=new,
                just_said=just_said,
                complete=answered,
            )
            dispatcher.event(AMemWriteEvent(note_ids=[note.id for note in done.notes]))
            if answered and self.evolve:
                self.memory.evolve_later(space)
                dispatcher.event(AMemEvolutionEvent(namespace=list(space)))
        self._failures.failed("write", done.error)

    def _space(self, thread: str | None, *, asked: bool = True) -> Space:
        """Return whose memory it is now.

        Engines write a streamed answer in a thread that has no context of the caller, so a function may not know there
        whose turn it is: the answer is for whoever asked in this session, if that was one and the same all along.
        """
        seen = self._spaces.setdefault(thread, set())
        try:
            space = whose(self.namespace)
        except Exception:
            if asked or len(seen) != 1:
                raise
            return next(iter(seen))
        _keep(self._spaces, thread, seen | {space})
        return space

    def _read(self, message: ChatMessage) -> Message:
        """Return a message; one that is not to be stored only counts."""
        stored = False
        with self._failures.tolerated("should_store", callback=True):
            stored = self.should_store is None or bool(self.should_store(message))
        return to_message(message, stored=stored)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the text without its weakest notes, or None if no note fits."""
        found = self._shown.get(content or "", Recalled())
        limit = len(self.tokenizer_fn(content or "")) - tokens_to_truncate
        for kept in range(len(found.hits) - 1, 0, -1):
            less = found.render(found.hits[:kept], self.max_tokens)
            if len(self.tokenizer_fn(less)) <= limit:
                return less
        return None

    async def aflush_from(self, memory: Memory) -> None:
        """Remember what is still in short-term memory: call it at the end of a session.

        Doing it again, or going on with the session, makes no second notes.
        """
        archived = await memory.aget_all(status=MessageStatus.ARCHIVED)
        active = await memory.aget_all(status=MessageStatus.ACTIVE)
        await self.aremember([*archived, *active], memory.session_id, new=False)
        _keep(self._known, memory.session_id, [to_message(one, stored=False) for one in archived])

    def flush_from(self, memory: Memory) -> None:
        """Synchronous twin of `aflush_from`."""
        asyncio_run(self.aflush_from(memory))


def _keep(values: dict[K, V], key: K, value: V) -> None:
    """Put a value in, and of more than `KEPT` the oldest out."""
    values.pop(key, None)
    values[key] = value
    while len(values) > KEPT:
        values.pop(next(iter(values)), None)
