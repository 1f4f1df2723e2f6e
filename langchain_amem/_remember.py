"""Store a conversation: raw, once, and without one bad message stopping the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, InvalidInputError, Note, NoteInput

from ._failures import Failures
from ._messages import HASH, ShouldStore, note_inputs

# A conversation is stored in order, so if the note this far back is there, the ones before it are too.
RECENT = 64

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Stores messages as pending notes. No model is called; storing a message again changes nothing.

    A message that is stored already is left alone, since its note may have been corrected meanwhile; but
    if the message itself was edited, so is the note.
    """

    memory: AgenticMemory
    failures: Failures
    should_store: ShouldStore

    def store(
        self,
        messages: Sequence[BaseMessage],
        *,
        namespace: Namespace,
        thread: str | None,
        skip: int = 0,
    ) -> list[Note] | None:
        """Return the notes of the messages worth storing, or None if the store did not answer.

        The first `skip` messages only count for telling repeats without an id apart.
        """
        with self.failures.tolerated("remember"):
            items = self._items(messages, thread, skip)
            if _long(items) and self.memory.get_all(**_known(items[-RECENT:][:1], namespace)):
                items = items[-RECENT:]
            known = self.memory.get_all(**_known(items, namespace)) if items else []
            fresh = _fresh(items, known)
            try:
                added = self.memory.add_many(fresh, namespace=namespace, evolve=False)
            except InvalidInputError:
                added = [note for item in fresh for note in self._one(item, namespace)]
            for note, item in _edited(items, known):
                self._edit(note, item)
            return _in_order(items, known, added)
        return None

    async def astore(
        self,
        messages: Sequence[BaseMessage],
        *,
        namespace: Namespace,
        thread: str | None,
        skip: int = 0,
    ) -> list[Note] | None:
        """Asynchronous twin of `store`."""
        with self.failures.tolerated("remember"):
            items = self._items(messages, thread, skip)
            first = _known(items[-RECENT:][:1], namespace)
            if _long(items) and await self.memory.aget_all(**first):
                items = items[-RECENT:]
            known = await self.memory.aget_all(**_known(items, namespace)) if items else []
            fresh = _fresh(items, known)
            try:
                added = await self.memory.aadd_many(fresh, namespace=namespace, evolve=False)
            except InvalidInputError:
                added = [note for item in fresh for note in await self._aone(item, namespace)]
            for note, item in _edited(items, known):
                await self._aedit(note, item)
            return _in_order(items, known, added)
        return None

    def _items(
        self, messages: Sequence[BaseMessage], thread: str | None, skip: int
    ) -> list[NoteInput]:
        return note_inputs(messages, thread=thread, should_store=self.should_store, skip=skip)

    def _one(self, item: NoteInput, namespace: Namespace) -> list[Note]:
        try:
            return self.memory.add_many([item], namespace=namespace, evolve=False)
        except InvalidInputError as error:
            self.failures.note("remember a message", error)
            return []

    async def _aone(self, item: NoteInput, namespace: Namespace) -> list[Note]:
        try:
            return await self.memory.aadd_many([item], namespace=namespace, evolve=False)
        except InvalidInputError as error:
            self.failures.note("remember a message", error)
            return []

    def _edit(self, note: Note, item: NoteInput) -> None:
        try:
            self.memory.update(note.id, namespace=note.namespace, **_changes(note, item))
        except InvalidInputError as error:
            self.failures.note("edit a message", error)

    async def _aedit(self, note: Note, item: NoteInput) -> None:
        try:
            await self.memory.aupdate(note.id, namespace=note.namespace, **_changes(note, item))
        except InvalidInputError as error:
            self.failures.note("edit a message", error)


def _long(items: Sequence[NoteInput]) -> bool:
    return len(items) > RECENT


def _known(items: Sequence[NoteInput], namespace: Namespace) -> dict[str, Any]:
    """Return how to find the notes that are there already."""
    keys = [item.key for item in items]
    return {"namespace": namespace, "where": {"key": {"$in": keys}}, "limit": max(1, len(keys))}


def _fresh(items: Sequence[NoteInput], known: Sequence[Note]) -> list[NoteInput]:
    keys = {note.key for note in known}
    return [item for item in items if item.key not in keys]


def _edited(items: Sequence[NoteInput], known: Sequence[Note]) -> list[tuple[Note, NoteInput]]:
    """Return the notes whose message is another than the one they were made of."""
    by_key = {item.key: item for item in items}
    pairs = [(note, by_key[note.key]) for note in known]
    return [(n, i) for n, i in pairs if n.metadata.get(HASH, i.metadata[HASH]) != i.metadata[HASH]]


def _changes(note: Note, item: NoteInput) -> dict[str, Any]:
    return {"content": item.content, "metadata": {**note.metadata, **item.metadata}}


def _in_order(
    items: Sequence[NoteInput], known: Sequence[Note], added: Sequence[Note]
) -> list[Note]:
    notes = {note.key: note for note in (*known, *added)}
    return [notes[key] for key in dict.fromkeys(i.key for i in items) if key in notes]
