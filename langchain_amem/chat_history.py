"""`AMemChatMessageHistory`: the messages of one conversation, kept in the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage

from amem_integrations import AgenticMemory, Note
from amem_integrations.adapting import check_flags, check_namespace, notes_of
from amem_integrations.conversation import Message

from .messages import to_message

SPOKEN: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}


class AMemChatMessageHistory(BaseChatMessageHistory):
    """The messages of one thread, in order, in the words in which they were said.

    What is added is found by every search of the namespace, too. Messages without text are not kept.
    https://reference.langchain.com/python/langchain_core/chat_history/

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> history = AMemChatMessageHistory(memory, ("ann",), "monday", evolve=False)
        >>> history.add_messages([HumanMessage("I moved to Oslo."), AIMessage("How nice.")])
        >>> [message.text for message in history.messages]
        ['I moved to Oslo.', 'How nice.']
    """

    def __init__(
        self, memory: AgenticMemory, namespace: Sequence[str], thread: str, *, evolve: bool = True
    ) -> None:
        """Take a memory, whose it is, and which conversation; `evolve` evolves in the background what is added.

        Raises:
            ConfigurationError: `evolve` is neither True nor False.
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        check_flags(evolve=evolve)
        self.memory, self.namespace, self.thread = memory, check_namespace(namespace), thread
        self._evolve = evolve

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, oldest first."""
        return [_message(note) for note in self._notes()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages that have just been said.

        Raises:
            StoreError: The store refused; the messages follow with the next ones, so added again they are said twice.
        """
        said = [_named(to_message(message)) for message in messages]
        self.memory.remember_turn(
            said,
            namespace=self.namespace,
            thread=self.thread,
            roles=tuple({one.party for one in said}),
            new=True,
        )
        if self._evolve:
            self.memory.evolve_later(self.namespace)

    def clear(self) -> None:
        """Delete the notes of this thread for good, and no others."""
        # Messages that wait since an outage are stored, to be deleted, and a clear that failed half way is finished.
        self.memory.remember_turn([], namespace=self.namespace)
        for note in list(self._notes()):
            self.memory.delete(note.id, namespace=self.namespace)

    def _notes(self) -> Iterator[Note]:
        return notes_of(
            self.memory, self.namespace, {"thread": self.thread, "origin": "conversation"}
        )


def _named(message: Message) -> Message:
    """Return a message whose speaker is "system" if and only if it is a system message, by which `_message` tells it."""
    is_it = message.party == "system" or message.speaker == "system"
    return replace(message, speaker=None) if is_it else message


def _message(note: Note) -> BaseMessage:
    name = None if note.speaker == note.source else note.speaker
    if name == "system":
        return SystemMessage(note.content)
    if note.source in SPOKEN:
        return SPOKEN[note.source](note.content, name=name)
    return ChatMessage(content=note.content, role=name or note.source)
