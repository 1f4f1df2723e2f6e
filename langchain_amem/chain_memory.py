"""`AMemMemory`: the memory of LangChain's classic chains (`langchain-classic`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_classic.base_memory import BaseMemory
from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import StrictBool, StrictInt

from amem_integrations import ConfigurationError, adapting
from amem_integrations.adapting import Call
from amem_integrations.conversation import Message

from .messages import to_message
from .retriever import Recalling

Values = Mapping[str, Any]


class AMemMemory(Recalling, BaseMemory):
    """Long-term memory for any classic chain.

    Before a chain runs, notes about its input are put into the variable `memory_key`: as text, with
    `return_messages` as one message. When it has run, input and output are stored; what was recalled is never stored
    again.
    https://reference.langchain.com/python/langchain_classic/base_memory/

    Attributes:
        memory: The memory to use.
        namespace: Whose memory. A chain has no run-time context: make one of these for each user.
        thread: The conversation, if there are several.
        memory_key: The variable that the notes are put into.
        input_key: What a person says; needed if a chain has several inputs, as under `CombinedMemory`.
        output_key: What the chain answers; needed if it has several outputs and none is `output`.
        return_messages: Give a list of messages instead of text, as `MessagesPlaceholder` and
            `ConversationalRetrievalChain` want it.
        also: Further namespaces to read, each by the name that marks its notes in the prompt.
        k: How many notes to consider, of which as many are shown as fit.
        where: Conditions on fields; see `AgenticMemory.search`.
        min_similarity: Least cosine of question and note.
        links: Whether links are followed.
        as_of: What was true then.
        known_at: What the memory believed then.
        max_tokens: Most tokens of notes, about.
        remember: False reads only.
        evolve: Whether the memory evolves in the background what was said.
        on_error: `"log"` lets the chain run without memory when that does not answer; `"raise"` raises.
    """

    model_config = Recalling.model_config

    namespace: tuple[str, ...]
    thread: str | None = None
    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    return_messages: StrictBool = False
    k: StrictInt = adapting.RECALLED
    max_tokens: StrictInt = 1000
    remember: StrictBool = True
    evolve: StrictBool = True

    @property
    def memory_variables(self) -> list[str]:
        """The variable that a prompt may use."""
        return [self.memory_key]

    async def _load_memory_variables(self, call: Call, inputs: Values) -> dict[str, Any]:
        """Return the notes about the input; a chain with several inputs and no `input_key` asks with all of them."""
        given = self._given(inputs) if self.input_key is None else {"": inputs.get(self.input_key)}
        texts = [_message(value, "user").text for value in given.values()]
        said = [Message(role="user", text="\n".join(texts))]
        found = await self._door.recalled(call, said, None, self.namespace)
        messages = [HumanMessage(found.text)] if found.text else []
        return {self.memory_key: messages if self.return_messages else found.text}

    async def _save_context(self, call: Call, inputs: Values, outputs: Mapping[str, str]) -> None:
        """Store the input and the output of the chain as two messages.

        Raises:
            ConfigurationError: It is not clear which input or output that is.
        """
        if not self.remember:
            return
        asked = _only(self._given(inputs), self.input_key, "input_key")
        key = self.output_key or ("output" if "output" in outputs else None)
        answered = _only(outputs, key, "output_key")
        said = [_message(asked, "user"), _message(answered, "assistant")]
        await self._door.remembered(call, said, self.namespace, thread=self.thread, new=True)
        self._door.evolve_later(self.namespace)

    load_memory_variables, aload_memory_variables = adapting.both(_load_memory_variables)
    save_context, asave_context = adapting.both(_save_context)

    def clear(self) -> None:
        """Delete every note of this namespace, and nothing else. It cannot be undone."""
        self.memory.clear(namespace=self.namespace)

    def _given(self, inputs: Values) -> dict[str, Any]:
        """Return the inputs without what this memory put there itself."""
        return {k: value for k, value in inputs.items() if k not in (self.memory_key, "stop")}


def _message(value: object, role: str) -> Message:
    """Return a value of a chain as a message: text, a message, the last of several; else an empty one."""
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, BaseMessage):
        return replace(to_message(value), role=role)
    return Message(role=role, text=value if isinstance(value, str) else "")


def _only(values: Values, key: str | None, option: str) -> Any:
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
