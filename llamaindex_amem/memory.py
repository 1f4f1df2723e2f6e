"""`AMemMemory`, a `Memory` that remembers every message, and `AMemMemoryBlock`, the memory as a block of a stock `Memory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex
from uuid import UUID

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory
from llama_index.core.memory.memory import DEFAULT_MEMORY_BLOCKS_TEMPLATE
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.schema import QueryBundle
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.utils import get_tokenizer
from pydantic import ConfigDict, Field, PrivateAttr, StrictBool, ValidationError

from amem_integrations import AgenticMemory, ConfigurationError, NamespaceError, adapting
from amem_integrations.conversation import Message

from . import conversation
from .conversation import Door, Space, Where, Whose
from .events import AMemEvolutionEvent, AMemWriteEvent, Failures, dispatcher, log
from .retriever import to_nodes

Status = MessageStatus | None

RECALL = tuple(adapting.RecallOptions.__annotations__)
KEPT = 32  # texts that may be shortened, and sessions: more than share a block at one time
# Someone waits for an answer while the last message is one of these.
UNANSWERED = (MessageRole.USER, MessageRole.TOOL, MessageRole.FUNCTION)
ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
MAKING = Lock()  # of tables
# The arguments of `Memory.from_defaults` that say where the history is kept.
KEPT_BY = {"chat_store", "async_database_uri", "async_engine"}


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
            "same memory, user and session, and pass it to the next run; run a pipeline without num_workers"
        )


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
        known_at: What the memory believed then is recalled.
        window: How many messages before a question, at most three, make clear what it is about; 0: the question alone.
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
    priority: int = Field(default=1, ge=0, strict=True)
    k: int = adapting.RECALLED
    max_tokens: int = 1000
    where: Where = None
    min_similarity: float | None = None
    links: bool = True
    as_of: datetime | None = None
    known_at: datetime | None = None
    window: int = adapting.WINDOW
    node_postprocessors: list[BaseNodePostprocessor] = Field(default_factory=list, exclude=True)
    remember: StrictBool = True
    evolve: StrictBool = True
    roles: tuple[MessageRole, ...] = (MessageRole.USER, MessageRole.ASSISTANT)
    should_store: Callable[[ChatMessage], bool] | None = Field(default=None, exclude=True)
    metadata: Where = None
    on_error: adapting.OnError = "log"
    tokenizer_fn: Callable[[str], list[Any]] = Field(default_factory=get_tokenizer, exclude=True)
    _door: Door = PrivateAttr()
    _shown: dict[str, adapting.Recalled] = PrivateAttr(default_factory=dict)  # by the text
    _spaces: dict[str | None, set[Space]] = PrivateAttr(default_factory=dict)  # by session
    _archived: dict[str | None, list[Message]] = PrivateAttr(default_factory=dict)  # by session

    if not TYPE_CHECKING:  # editors show the attributes

        def __init__(self, memory: AgenticMemory, namespace: Whose, **options: Any) -> None:  # noqa: ANN401
            # Checked here, since pydantic would make errors of its own of ours.
            recall = {name: options[name] for name in RECALL if name in options}
            failures, also = Failures(options.get("on_error", "log")), options.get("also")
            door = Door(memory, namespace, failures=failures, also=also, recall=recall)
            adapting.check_plain(**options)
            try:
                super().__init__(memory=memory, namespace=namespace, **options)
            except ValidationError as error:
                raise ConfigurationError(str(error)) from error
            self._door = door

    @property
    def failures(self) -> dict[str, int]:
        """How often `recall`, `write` and functions of yours failed so far, by what failed."""
        return self._door.failures.snapshot()

    async def _aget(self, messages: list[ChatMessage] | None = None, **about: Any) -> str:  # noqa: ANN401 - of `Memory`
        # A thread serves every loop, also one that the framework makes for a single synchronous call.
        said = [conversation.to_message(message) for message in messages or ()]
        return await adapting.in_thread(partial(self._recall, said, about.get("session_id")))

    @dispatcher.span
    def _recall(self, messages: Sequence[Message], thread: str | None) -> str:
        questions = [one.text for one in messages if one.party == "user" and one.text]
        asked = questions[-1] if questions else ""

        def find(**options: Any) -> adapting.Recalled:  # noqa: ANN401 - of `recall_turn`
            found = self.memory.recall_turn(messages, **options)
            if not self.node_postprocessors:
                return found
            nodes = to_nodes(found.hits)
            hits = {node.node_id: hit for node, hit in zip(nodes, found.hits, strict=True)}
            for processor in self.node_postprocessors:
                nodes = processor.postprocess_nodes(nodes, query_bundle=QueryBundle(asked))
            kept = [hits[node.node_id] for node in nodes if node.node_id in hits]
            return replace(found, hits=kept, text=found.render(kept, self.max_tokens))

        # Each of the options may have been set meanwhile.
        recall = {name: getattr(self, name) for name in RECALL}
        door = replace(self._door, also=self.also, recall=recall)
        found = door.recalled(asked, find, partial(self._space, thread))
        _keep(self._shown, found.text, found)
        return found.text

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the text without its weakest notes, or None if no note fits."""
        found = self._shown.get(content or "", adapting.Recalled())
        limit = len(self.tokenizer_fn(content or "")) - tokens_to_truncate
        for kept in range(len(found.hits) - 1, 0, -1):
            less = found.render(found.hits[:kept], self.max_tokens)
            if len(self.tokenizer_fn(less)) <= limit:
                return less
        return None

    async def _aput(self, messages: list[ChatMessage]) -> None:
        thread = next((m.additional_kwargs.get("session_id") for m in messages), None)
        await self.aremember(messages, thread, self._archived.get(thread))

    async def aremember(
        self, messages: list[ChatMessage], thread: str | None, before: list[Message] | None = None
    ) -> None:
        """Store messages, and have them evolve once the assistant has answered; nothing, with `remember=False`.

        Args:
            messages: In the order they were said.
            thread: The conversation.
            before: The messages before these from the start of the conversation, which only count; to it the messages are
                added. It is not known when messages were said that carry no time. None: the messages have just been
                said, and follow what is stored of the conversation.
        """
        if self.remember and messages:
            # All of it is read before anything is awaited: other blocks share, and change, the messages.
            said = [self._read(message) for message in messages]
            all_of_it = [*(before or ()), *said]
            if before is not None:
                before += [replace(one, stored=False) for one in said]
            await adapting.in_thread(partial(self._remember, all_of_it, thread, before is None))

    @dispatcher.span
    def _remember(self, said: Sequence[Message], thread: str | None, just_said: bool) -> None:
        answered = any(one.party == "assistant" and one.spoken for one in said)
        done, metadata = adapting.Remembered(), self._door.metadata_of(self.metadata)
        with self._door.failures.tolerated("write", callback=True):
            space = self._space(thread, asked=any(one.party == "user" for one in said))
            options: dict[str, Any] = {"thread": thread, "roles": self.roles, "metadata": metadata}
            options |= {"new": just_said, "just_said": just_said, "complete": answered}
            done = self.memory.remember_turn(said, namespace=space, **options)
            dispatcher.event(AMemWriteEvent(note_ids=[note.id for note in done.notes]))
            if answered and self.evolve:
                self.memory.evolve_later(space)
                dispatcher.event(AMemEvolutionEvent(namespace=list(space)))
        self._door.failures.failed("write", done.error)

    def _space(self, thread: str | None, *, asked: bool = True) -> Space:
        """Return the namespace of this moment.

        Engines write a streamed answer in a thread that has no context of the caller, so a function may not know there
        whose turn it is: the answer is for whoever asked in this session, if that was one and the same all along.
        """
        seen = self._spaces.setdefault(thread, set())
        try:
            space = self._door.settled(self.namespace)
        except Exception as error:  # the function is the user's own
            if asked or len(seen) != 1:
                raise
            log.debug("the namespace is that of the session so far: %r", error)
            return next(iter(seen))
        _keep(self._spaces, thread, seen | {space})
        return space

    def _read(self, message: ChatMessage) -> Message:
        """Return a message; one that is not to be stored only counts."""
        stored = False
        with self._door.failures.tolerated("should_store", callback=True):
            stored = self.should_store is None or bool(self.should_store(message))
        return conversation.to_message(message, stored=stored)

    async def aflush_from(self, memory: Memory) -> None:
        """Remember what is still in short-term memory: call it at the end of a session.

        Doing it again, or going on with the session, makes no second notes. Another process, in which the session goes on,
        does it first: it does not know what is remembered of the messages that are yet to fall out.
        """
        archived = await memory.aget_all(status=ARCHIVED)
        active = await memory.aget_all(status=ACTIVE)
        await self.aremember([*archived, *active], memory.session_id, before=[])
        gone = [conversation.to_message(message, stored=False) for message in archived]
        _keep(self._archived, memory.session_id, gone)

    def flush_from(self, memory: Memory) -> None:
        """Synchronous twin of `aflush_from`."""
        asyncio_run(self.aflush_from(memory))


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
    occurrence. Its time is `timestamp`, `created_at` or `at` in `additional_kwargs`, else that at which it is put.

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
        **options: Any,  # noqa: ANN401 - of two classes, see below
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
            options: What is recalled (`also`, `k`, `max_tokens`, `where`, `min_similarity`, `links`, `as_of`, `known_at`,
                `window`, `node_postprocessors`) and stored (`remember`, `evolve`, `roles`, `should_store`, `metadata`), what
                happens when something fails (`on_error`), and the tag around the notes (`name`): see `AMemMemoryBlock`. And what
                `Memory.from_defaults` takes: `session_id`, `token_limit`, `token_flush_size`, `chat_history_token_ratio`,
                `tokenizer_fn`, `memory_blocks_template`; for a history that outlives the object `async_database_uri`
                (of SQLite the table is made at once), `async_engine`, `table_name`, `db_schema` or `chat_store`.

        Raises:
            NamespaceError: Neither `user_id` nor `namespace` is given.
            ConfigurationError: An option has a value that cannot be used.
            TypeError: An option is unknown.
        """
        adapting.check_flags(ingest_history=ingest_history)
        given: dict[str, Any] = {"memory_blocks_template": TEXT_TEMPLATE, **options}
        # The framework counts the tokens of all messages of a session three times a turn.
        count = lru_cache(1024)(given.get("tokenizer_fn") or get_tokenizer())
        mine = {name: given.pop(name) for name in AMemMemoryBlock.model_fields if name in given}
        # Each message is written through; overflow would only deliver it once more.
        mine |= {"namespace": _whose(user_id, namespace), "accept_short_term_memory": False}
        mine["tokenizer_fn"] = given["tokenizer_fn"] = count
        given["memory_blocks"] = [AMemMemoryBlock(memory=memory, **mine), *memory_blocks]
        given["insert_method"] = insert_method or InsertMethod.USER
        made: Self = super().from_defaults(**given)  # type: ignore[assignment]
        if not KEPT_BY & given.keys():
            made.sql_store = Session()
        elif str(given.get("async_database_uri")).startswith("sqlite"):
            # Of several that make the table of a file at the same time all but one would fail.
            with MAKING:
                asyncio_run(made.sql_store.get_keys())
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
        raise ConfigurationError("make it with AMemMemory.from_defaults(memory=…, user_id=…)")

    @property
    def failures(self) -> dict[str, int]:
        """How often `recall`, `write` and functions of yours failed so far, by what failed."""
        return self.block.failures

    def _insert_memory_content(
        self, chat_history: list[ChatMessage], *content: list[Any]
    ) -> list[ChatMessage]:
        # `ReActAgent` and `CodeActAgent` replace a leading system message, so there it goes with the question.
        # The engines that ask outside of the history would see it in the question before, so there it is a
        # system message.
        asked = bool(chat_history) and chat_history[-1].role in UNANSWERED
        method = InsertMethod.USER if asked else InsertMethod.SYSTEM
        memory = self.model_copy(update={"insert_method": method}) if self.adaptive else self
        # The framework puts what is recalled into the messages of the history.
        history = [_copy(message) for message in chat_history]
        return super(AMemMemory, memory)._insert_memory_content(history, *content)

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
            await self.block.aremember(messages, self.session_id, before=[])
        await super().aset(messages)


class TextTemplate(RichPromptTemplate):
    """The framework's template for blocks, which compiles itself at each use, written out where the blocks are texts."""

    def format_messages(self, llm: Any = None, **values: Any) -> list[ChatMessage]:  # noqa: ANN401 - LlamaIndex's signature
        """Return one message with all blocks."""
        lines = ["<memory>"]
        for name, parts in values["memory_blocks"]:
            if not all(isinstance(part, TextBlock) for part in parts):
                return super().format_messages(llm, **values)
            lines += [f"<{name}>", *(part.text for part in parts), f"</{name}>"]
        return [ChatMessage(role=MessageRole.USER, content="\n".join([*lines, "</memory>"]))]


# To make one takes 25 ms: all memories have the same. Of the fields of the framework's class mypy makes another signature.
TEXT_TEMPLATE = TextTemplate(DEFAULT_MEMORY_BLOCKS_TEMPLATE.template_str)  # type: ignore[call-arg, arg-type]


class Session(AsyncDBChatStore):
    """The history of a session in the process, whole after a call that was cancelled; tasks, threads and loops may share it.

    The framework's own store in memory is a SQL database, which is asked three times a turn.
    """

    _said: dict[tuple[str, MessageStatus], list[ChatMessage]] = PrivateAttr(default_factory=dict)

    async def get_messages(
        self, key: str, status: Status = ACTIVE, limit: int | None = None, offset: int | None = None
    ) -> list[ChatMessage]:
        """Return copies of the messages of a session, or the messages of a status, which the framework counts each turn."""
        wanted = (ARCHIVED, ACTIVE) if status is None else (status,)
        said = [message for one in wanted for message in self._said.get((key, one), ())]
        page = said[offset:][:limit]
        return [*map(_copy, page)] if status is None else page

    async def count_messages(self, key: str, status: Status = ACTIVE) -> int:
        """Return how many messages of a status there are."""
        return len(await self.get_messages(key, status))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = ACTIVE
    ) -> None:
        """Add a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE
    ) -> None:
        """Add messages."""
        self._said.setdefault((key, status), []).extend(map(_copy, messages))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE
    ) -> None:
        """Replace all messages."""
        await self.delete_messages(key)
        await self.add_messages(key, messages, status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove and return the message at a place in the queue."""
        queue = self._said.get((key, ACTIVE), [])
        return queue.pop(idx) if 0 <= idx < len(queue) else None

    async def delete_messages(self, key: str, status: Status = None) -> None:
        """Remove all messages, or those of a status."""
        for one in MessageStatus if status is None else (status,):
            self._said.pop((key, one), None)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove and return the oldest messages of the queue."""
        queue = self._said.get((key, ACTIVE), [])
        oldest, queue[:n] = queue[:n], []
        return oldest

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Take the oldest messages out of the queue, and return them."""
        oldest = await self.delete_oldest_messages(key, n)
        await self.add_messages(key, oldest, ARCHIVED)
        return oldest

    async def get_keys(self) -> list[str]:
        """Return the sessions."""
        return list({key for key, _ in self._said})


def _copy(message: ChatMessage) -> ChatMessage:
    """Return a message that may be changed: recalled notes, marks, and the state of a workflow are put into messages."""
    blocks = [block.model_copy() for block in message.blocks]
    extra = {**message.additional_kwargs}
    return message.model_copy(update={"blocks": blocks, "additional_kwargs": extra})


def _keep(values: dict[Any, Any], key: object, value: object) -> None:
    """Put a value in, and of more than `KEPT` the oldest out."""
    values.pop(key, None)
    values[key] = value
    while len(values) > KEPT:
        values.pop(next(iter(values)), None)


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
    if isinstance(user_id, bool) or not isinstance(user_id, str | int | UUID | None):
        raise NamespaceError(f"user_id={user_id!r} must be a string, a whole number or a UUID")
    return (str(user_id),) if namespace is None else namespace
