"""Store a conversation: raw, once, and without one bad message stopping the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, InvalidInputError, Note, NoteInput

from ._failures import Failures
from ._messages import ShouldStore, note_inputs

# A conversation is stored in order, so if the note this far back is there, the ones before it are too.
RECENT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Stores messages as pending notes. No model is called; storing a message again changes nothing."""

    memory: AgenticMemory
    failures: Failures
    should_store: ShouldStore

    def store(
        self, messages: Sequence[BaseMessage], *, namespace: tuple[str, ...], thread: str | None
    ) -> list[Note] | None:
        """Return the notes of the messages worth storing, or None if the store did not answer."""
        with self.failures.tolerated("remember"):
            return self._store(self._items(messages, thread), namespace)
        return None

    async def astore(
        self, messages: Sequence[BaseMessage], *, namespace: tuple[str, ...], thread: str | None
    ) -> list[Note] | None:
        """Asynchronous twin of `store`."""
        with self.failures.tolerated("remember"):
            return await self._astore(self._items(messages, thread), namespace)
        return None

    def _store(self, items: list[NoteInput], namespace: tuple[str, ...]) -> list[Note]:
        if len(items) > RECENT:
            before = self.memory.get_all(
                namespace=namespace, where={"key": items[-RECENT].key}, limit=1
            )
            items = items[-RECENT:] if before else items
        try:
            return self.memory.add_many(items, namespace=namespace, evolve=False)
        except InvalidInputError:
            return [note for item in items for note in self._one(item, namespace)]

    async def _astore(self, items: list[NoteInput], namespace: tuple[str, ...]) -> list[Note]:
        if len(items) > RECENT:
            before = await self.memory.aget_all(
                namespace=namespace, where={"key": items[-RECENT].key}, limit=1
            )
            items = items[-RECENT:] if before else items
        try:
            return await self.memory.aadd_many(items, namespace=namespace, evolve=False)
        except InvalidInputError:
            return [note for item in items for note in await self._aone(item, namespace)]

    def _items(self, messages: Sequence[BaseMessage], thread: str | None) -> list[NoteInput]:
        return note_inputs(messages, thread=thread, should_store=self.should_store)

    def _one(self, item: NoteInput, namespace: tuple[str, ...]) -> list[Note]:
        try:
            return self.memory.add_many([item], namespace=namespace, evolve=False)
        except InvalidInputError as error:
            self.failures.note("remember a message", error)
            return []

    async def _aone(self, item: NoteInput, namespace: tuple[str, ...]) -> list[Note]:
        try:
            return await self.memory.aadd_many([item], namespace=namespace, evolve=False)
        except InvalidInputError as error:
            self.failures.note("remember a message", error)
            return []
