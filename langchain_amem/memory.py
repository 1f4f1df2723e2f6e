"""`AMemMemory`: the memory of LangChain's classic chains (`langchain-classic`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import ConfigDict, Field, PrivateAttr, field_validator

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MissingExtraError,
    NoteInput,
    ScoredNote,
    render_notes,
)

from ._documents import to_document
from ._failures import Failures, OnError
from ._messages import occurrence_key
from ._run import checked_namespace

try:
    from langchain_classic.base_memory import BaseMemory
except ImportError as error:
    raise MissingExtraError("langchain-classic", "classic") from error

Values: TypeAlias = Mapping[str, Any]
Namespace: TypeAlias = tuple[str, ...]


class AMemMemory(BaseMemory):
    """Long-term memory for any classic chain: `ConversationChain`, `LLMChain`, `AgentExecutor`, …

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

    @field_validator("namespace")
    @classmethod
    def _whose(cls, namespace: Namespace) -> Namespace:
        return checked_namespace(namespace)

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
                before = self.memory.get_all(**self._same(role, text))
                self.memory.add_many([self._note(role, text, before)], **self._how())

    async def asave_context(self, inputs: Values, outputs: Mapping[str, str]) -> None:
        """Asynchronous twin of `save_context`."""
        for role, text in self._turn(inputs, outputs):
            with self._failures.tolerated("remember"):
                before = await self.memory.aget_all(**self._same(role, text))
                await self.memory.aadd_many([self._note(role, text, before)], **self._how())

    def clear(self) -> None:
        """Delete every note of this namespace, and nothing else. It cannot be undone."""
        self.memory.clear(namespace=self.namespace)
