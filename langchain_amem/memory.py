"""`AMemMemory`: the memory of LangChain's classic chains (`langchain-classic`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import ConfigDict, Field, PrivateAttr

from amem_integrations import (
    AgenticMemory,
    MissingExtraError,
    NoteInput,
    ScoredNote,
    render_notes,
)

from ._chain_values import Role, only, text_of
from ._documents import to_document
from ._failures import Failures, OnError
from ._messages import occurrence_key

try:
    from langchain_classic.base_memory import BaseMemory
except ImportError as error:
    raise MissingExtraError("langchain-classic", "classic") from error

Values: TypeAlias = Mapping[str, Any]
Namespace: TypeAlias = tuple[str, ...]

# A chain has no message ids: what was said is known by how often it has been said, looked up in this many.
CHUNK = 64


class AMemMemory(BaseMemory):
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
        k: Most notes to recall.
        max_tokens: Most tokens of notes, about.
        evolve: Whether notes evolve when a turn is saved; False leaves it to `memory.evolve()`.
        on_error: `"log"` lets the chain run without memory when that does not answer; `"raise"` raises.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgenticMemory = Field(exclude=True, repr=False)
    namespace: Namespace
    thread: str | None = None
    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    exclude_input_keys: frozenset[str] = frozenset()
    return_messages: bool = False
    return_docs: bool = False
    k: int = Field(default=10, ge=1)
    max_tokens: int = Field(default=1000, ge=1)
    evolve: bool = True
    on_error: OnError = "log"
    _failures: Failures = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's signature
        """Start counting failures."""
        super().model_post_init(context)
        self._failures = Failures(self.on_error)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not answer so far, by what it was doing."""
        return self._failures.snapshot()

    @property
    def memory_variables(self) -> list[str]:
        """The variable that a prompt may use."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: Values) -> dict[str, Any]:
        """Return the notes about the input."""
        query, hits = self._said(inputs), []
        with self._failures.tolerated("recall"):
            hits = self.memory.search(query, namespace=self.namespace, k=self.k) if query else []
        return {self.memory_key: self._shown(hits)}

    async def aload_memory_variables(self, inputs: Values) -> dict[str, Any]:
        """Asynchronous twin of `load_memory_variables`."""
        query, hits = self._said(inputs), []
        with self._failures.tolerated("recall"):
            if query:
                hits = await self.memory.asearch(query, namespace=self.namespace, k=self.k)
        return {self.memory_key: self._shown(hits)}

    def save_context(self, inputs: Values, outputs: Mapping[str, str]) -> None:
        """Store what was said and answered.

        Raises:
            ConfigurationError: It is not clear which input or output that is.
        """
        for role, text in self._turn(inputs, outputs):
            with self._failures.tolerated("remember"):
                number = 1
                while taken := self.memory.get_all(**self._same(role, text, number)):
                    number += len(taken)
                self.memory.add_many([self._note(role, text, number)], **self._how())

    async def asave_context(self, inputs: Values, outputs: Mapping[str, str]) -> None:
        """Asynchronous twin of `save_context`."""
        for role, text in self._turn(inputs, outputs):
            with self._failures.tolerated("remember"):
                number = 1
                while taken := await self.memory.aget_all(**self._same(role, text, number)):
                    number += len(taken)
                await self.memory.aadd_many([self._note(role, text, number)], **self._how())

    def clear(self) -> None:
        """Delete every note of this namespace, and nothing else. It cannot be undone."""
        self.memory.clear(namespace=self.namespace)

    async def aclear(self) -> None:
        """Asynchronous twin of `clear`."""
        await asyncio.to_thread(self.clear)

    def _said(self, inputs: Values) -> str:
        """Return what to recall for; a chain with several inputs and no `input_key` gives them all."""
        given = self._given(inputs)
        if self.input_key is not None:
            return text_of(inputs.get(self.input_key))
        return "\n".join(text for text in map(text_of, given.values()) if text)

    def _given(self, inputs: Values) -> dict[str, Any]:
        """Return the inputs without what this memory put there itself."""
        ours = {self.memory_key, "stop", *self.exclude_input_keys}
        return {key: value for key, value in inputs.items() if key not in ours}

    def _turn(self, inputs: Values, outputs: Values) -> list[tuple[Role, str]]:
        """Return who said what, without what is empty or no text."""
        said = only(self._given(inputs), self.input_key, "input_key")
        key = self.output_key or ("output" if "output" in outputs else None)
        answered = only(outputs, key, "output_key")
        turn: list[tuple[Role, str]] = [("user", text_of(said)), ("assistant", text_of(answered))]
        return [(role, text) for role, text in turn if text]

    def _shown(self, hits: list[ScoredNote]) -> str | list[BaseMessage] | list[Document]:
        if self.return_docs:
            return [to_document(hit) for hit in hits]
        text = render_notes(hits, max_tokens=self.max_tokens)
        messages: list[BaseMessage] = [HumanMessage(text)] if text else []
        return messages if self.return_messages else text

    def _same(self, role: Role, text: str, number: int) -> dict[str, Any]:
        """Return how to find out whether this was said before, so often already."""
        keys = [occurrence_key(self.thread, role, text, n) for n in range(number, number + CHUNK)]
        return {"namespace": self.namespace, "where": {"key": {"$in": keys}}, "limit": CHUNK}

    def _note(self, role: Role, text: str, number: int) -> NoteInput:
        key = occurrence_key(self.thread, role, text, number)
        return NoteInput(content=text, key=key, thread=self.thread, speaker=role, source=role)

    def _how(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "evolve": self.evolve}
