"""`AMemMemory`: the memory of LangChain's classic chains (`langchain-classic`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import ConfigDict, PrivateAttr, StrictBool

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MissingExtraError,
    Note,
    NoteInput,
    ScoredNote,
)
from amem_integrations.adapting import (
    RECALLED,
    Call,
    Waiting,
    both,
    evolve_turn,
    evolves_now,
    in_thread,
)
from amem_integrations.conversation import SPEAKING, Message, note_inputs

from .messages import to_message
from .remember import add_each
from .retriever import RecallFields, to_document, traced

try:
    from langchain_classic.base_memory import BaseMemory
except ImportError as error:
    raise MissingExtraError("langchain-classic", "classic") from error

Values = Mapping[str, Any]

PAGE = 512  # notes counted at once
DOCUMENTS = 10  # that are returned where text is not what is wanted
# Up to which seq the notes of a thread have been counted, and how many messages they were.
_counted: WeakKeyDictionary[AgenticMemory, dict[Any, tuple[int, int]]] = WeakKeyDictionary()


class AMemMemory(RecallFields, BaseMemory):
    """Long-term memory for any classic chain.

    Before a chain runs, notes about its input are put into the variable `memory_key`: as text, with
    `return_messages` as one message, with `return_docs` as documents. When it has run, input and output are
    stored and evolved; what was recalled is never stored again.
    https://reference.langchain.com/python/langchain_classic/base_memory/

    Attributes:
        memory: The memory to use.
        namespace: Whose memory. A chain has no run-time context: make one of these for each user.
        thread: The conversation, if there are several.
        memory_key: The variable that the notes are put into.
        input_key: What a person says; needed if a chain has several inputs, as under `CombinedMemory`.
        output_key: What the chain answers; needed if it has several outputs and none is `output`.
        exclude_input_keys: Inputs that are neither.
        return_messages: Give a list of messages instead of text, as `MessagesPlaceholder` and
            `ConversationalRetrievalChain` want it.
        return_docs: Give a list of documents instead.
        also: Further namespaces to read, each by the name that marks its notes in the prompt.
        k: How many notes to consider, of which as many are shown as fit (60 by default); with `return_docs`, how
            many to return (10 by default).
        where: Conditions on fields; see `AgenticMemory.search`.
        min_similarity: Least cosine of question and note.
        links: Whether links are followed.
        as_of: What was true then.
        max_tokens: Most tokens of notes, about.
        evolve: Whether notes evolve when a turn is saved; False leaves it to `memory.evolve()`, and
            `"worker"` to `amem worker`, on a server.
        on_error: `"log"` lets the chain run without memory when that does not answer; `"raise"` raises.
    """

    model_config = ConfigDict(extra="forbid")  # the framework's base class allows more

    namespace: tuple[str, ...]
    thread: str | None = None
    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    exclude_input_keys: frozenset[str] = frozenset()
    return_messages: StrictBool = False
    return_docs: StrictBool = False
    k: int = RECALLED
    max_tokens: int = 1000
    evolve: StrictBool | Literal["worker"] = True
    _waiting: Waiting[tuple[list[Message], datetime]] = PrivateAttr(default_factory=Waiting)

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's signature
        """Choose how many documents to return."""
        if self.return_docs and "k" not in self.model_fields_set:
            self.k = DOCUMENTS
        super().model_post_init(context)

    @property
    def memory_variables(self) -> list[str]:
        """The variable that a prompt may use."""
        return [self.memory_key]

    async def _load_memory_variables(self, call: Call, inputs: Values) -> dict[str, Any]:
        """Return the notes about the input."""
        question, hits, about = self._question(inputs), list[ScoredNote](), ""
        if question and not self._failures.resting("recall"):
            with self._failures.tolerated("recall"):
                spaces = [self.namespace, *self.also.values()]
                options = self._options()
                search = options.search(call, self.memory, question, spaces, recall=True)
                hits = await traced(call, self.memory, question, search)
                about = await options.about(call, self.memory, self.namespace)
        return {self.memory_key: self._shown(hits, about)}

    load_memory_variables, aload_memory_variables = both(_load_memory_variables)

    async def _save_context(self, call: Call, inputs: Values, outputs: Mapping[str, str]) -> None:
        """Store the input and the output of the chain as two messages, and what waits since an outage.

        Raises:
            ConfigurationError: It is not clear which input or output that is.
        """
        turn, now, notes = self._turn(inputs, outputs), datetime.now(UTC), list[Note]()
        todo = {**self._waiting.take(), (now, id(turn)): (turn, now)}
        try:
            with self._failures.tolerated("remember", answered=True):
                for key, what in list(todo.items()):
                    items = await self._items(call, *what)
                    notes += await add_each(
                        call, self.memory, items, self.namespace, self._failures
                    )
                    del todo[key]
        finally:
            self._waiting.keep(todo)
        if evolves_now(self.evolve) and notes:
            with self._failures.tolerated("evolve", answered=True):
                await evolve_turn(call, self.memory, self.namespace, [note.id for note in notes])

    save_context, asave_context = both(_save_context)

    def clear(self) -> None:
        """Delete every note of this namespace, and nothing else. It cannot be undone."""
        self.memory.clear(namespace=self.namespace)

    async def aclear(self) -> None:
        """Delete every note of this namespace, in a worker thread."""
        await in_thread(self.clear)

    def _question(self, inputs: Values) -> str:
        """Return what to recall for; a chain with several inputs and no `input_key` gives them all."""
        given = self._given(inputs) if self.input_key is None else {"": inputs.get(self.input_key)}
        texts = [_message(value, "user").text.strip() for value in given.values()]
        return "\n".join(text for text in texts if text)

    def _given(self, inputs: Values) -> dict[str, Any]:
        """Return the inputs without what this memory put there itself."""
        ours = {self.memory_key, "stop", *self.exclude_input_keys}
        return {key: value for key, value in inputs.items() if key not in ours}

    def _turn(self, inputs: Values, outputs: Values) -> list[Message]:
        """Return the two messages of a turn."""
        asked = _only(self._given(inputs), self.input_key, "input_key")
        key = self.output_key or ("output" if "output" in outputs else None)
        answered = _only(outputs, key, "output_key")
        return [_message(asked, "user"), _message(answered, "assistant")]

    def _shown(
        self, hits: list[ScoredNote], about: str
    ) -> str | list[BaseMessage] | list[Document]:
        if self.return_docs:
            return [to_document(hit) for hit in hits]
        options = replace(self._options(), max_tokens=self.max_tokens)
        text = options.render(hits, self.also, about=about)
        messages: list[BaseMessage] = [HumanMessage(text)] if text else []
        return messages if self.return_messages else text

    async def _items(self, call: Call, turn: list[Message], now: datetime) -> list[NoteInput]:
        """Return the notes to store; a message without an id is known by its position in the thread."""
        position = await self._spoken_so_far(call)
        while True:
            items = note_inputs(
                turn,
                thread=self.thread,
                offset=position,
                now=now,
                max_chars=self.memory.config.max_content_chars,
            )
            with_id = any(message.id for message in turn)
            if with_id or not items or not await self._taken(call, items):
                return items
            position += 1

    async def _taken(self, call: Call, items: list[NoteInput]) -> bool:
        where = {"key": {"$in": [item.key for item in items]}}
        return bool(await call(self.memory.get_all, namespace=self.namespace, where=where, limit=1))

    async def _spoken_so_far(self, call: Call) -> int:
        """Return how many messages of the thread are stored; only those since the last call are read."""
        counted, here = _counted.setdefault(self.memory, {}), (self.namespace, self.thread)
        last, number = counted.get(here, (-1, 0))
        if last >= 0 and not await self._notes(call, {"$eq": last}, limit=1):
            last, number = -1, 0  # it was deleted, so others may be
        while page := await self._notes(call, {"$gt": last}, limit=PAGE):
            number, last = number + sum(map(_is_message, page)), page[-1].seq
            counted[here] = last, number
            if len(page) < PAGE:
                break
        return number

    async def _notes(self, call: Call, seq: Mapping[str, int], limit: int) -> list[Note]:
        where = {"thread": self.thread, "seq": seq}
        return await call(self.memory.get_all, namespace=self.namespace, where=where, limit=limit)


def _is_message(note: Note) -> bool:
    """Return whether a note was a spoken message, rather than an item of a store or a fact of a tool."""
    return note.key is not None and note.speaker is not None and note.source in SPEAKING


def _message(value: object, role: str) -> Message:
    """Return a value of a chain as a message: text, a message, the last of several; else an empty one."""
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, BaseMessage):
        return replace(to_message(value), role=role, calls_tools=False)
    return Message(role=role, text=value if isinstance(value, str) else "")


def _only(values: Values, key: str | None, option: str) -> Any:  # noqa: ANN401 - any input
    """Return the value of `key`, or the only one there is.

    Raises:
        ConfigurationError: There is no such key, or several values and no key.
    """
    if key is None and len(values) == 1:
        return next(iter(values.values()))
    if key is None or key not in values:
        raise ConfigurationError(
            f"{option}={key!r}: the chain has {sorted(values)}; set {option} to the one to remember"
        )
    return values[key]
