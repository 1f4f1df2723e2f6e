"""Store a conversation: raw, once, and without one bad message stopping the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, InvalidInputError, Note, NoteInput
from amem_integrations.adapting import Call, remembered
from amem_integrations.adapting import Remember as RememberMode

from .messages import (
    ANSWERS,
    HASH,
    Entry,
    Part,
    ShouldStore,
    answered_parts,
    finished,
    keys_of,
    notes_of,
    parts,
)
from .recall import reinforce
from .runs import Failures, Namespace

# A conversation is stored in order, so if the note this far back is there, the ones before it are too.
RECENT = 64
ORPHANS = 64  # notes looked through for answers that were given again

Stored = dict[Namespace, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Stores messages as pending notes. No model is called; storing a message again changes nothing.

    A message that is stored already is left alone, since its note may have been corrected meanwhile; but
    if the message itself was edited, so is the note. An answer that was given again, by a run that was killed
    and resumed, takes the place of the one before: it answers the same message, and is not in the conversation.
    """

    memory: AgenticMemory
    failures: Failures
    should_store: ShouldStore
    unanswered: bool = True
    reinforces: bool = False
    keeps: RememberMode = "turns"

    async def turn(
        self,
        call: Call,
        messages: Sequence[BaseMessage],
        entry: Mapping[str, Any],
        namespace: Namespace,
        thread: str | None,
    ) -> tuple[Stored, Entry]:
        """Store what a run was asked and has answered; return the ids of the notes, and the entry after it.

        With `reinforces`, the links that led to what the answer used are reinforced.
        """
        stored: Stored = {}
        complete = True
        for whose, part in self._parts(messages, entry, namespace):
            notes = await self.store(
                call, messages[: part.stop], namespace=whose, thread=thread, skip=part.start
            )
            complete = complete and notes is not None
            stored[whose] = [note.id for note in notes or ()]
        if self.reinforces:
            await reinforce(call, self.memory, messages, entry, self.failures)
        if complete:
            return stored, finished(messages, namespace)
        # What could not be stored stays with whom it was said to, for the next run to store.
        mine = entry.get("namespace") == list(namespace)
        return stored, dict(entry) if mine else {"namespace": list(namespace)}

    def _parts(
        self, messages: Sequence[BaseMessage], entry: Mapping[str, Any], namespace: Namespace
    ) -> list[Part]:
        which = parts if self.unanswered else answered_parts
        return which(messages, entry, namespace)

    async def store(
        self,
        call: Call,
        messages: Sequence[BaseMessage],
        *,
        namespace: Namespace,
        thread: str | None,
        skip: int = 0,
    ) -> list[Note] | None:
        """Return the notes of the messages worth storing, or None if they could not be stored.

        The first `skip` messages only count for the positions of messages without an id.
        """
        with self.failures.tolerated("remember", answered=True):
            items = notes_of(
                messages,
                thread=thread,
                should_store=self.should_store,
                skip=skip,
                now=datetime.now(UTC),
                max_chars=self.memory.config.max_content_chars,
            )
            items = remembered(items, self.keeps)
            if len(items) > RECENT and await self._known(call, items[-RECENT:][:1], namespace):
                items = items[-RECENT:]
            known = await self._known(call, items, namespace)
            for note in known.values():
                await self._follow_edit(call, note, items)
            again = await self._given_again(call, items, known, messages, namespace)
            known |= again
            fresh = [item for item in items if item.key not in known]
            added = await add_each(call, self.memory, fresh, namespace, self.failures)
            notes = known | {note.key: note for note in added}
            return [notes[key] for key in dict.fromkeys(i.key for i in items) if key in notes]
        return None

    async def _known(
        self, call: Call, items: Sequence[NoteInput], namespace: Namespace
    ) -> dict[str | None, Note]:
        """Return the notes that are there already, by key."""
        if not items:
            return {}
        where = {"key": {"$in": [item.key for item in items]}}
        found = await call(self.memory.get_all, namespace=namespace, where=where, limit=len(items))
        return {note.key: note for note in found}

    async def _follow_edit(self, call: Call, note: Note, items: Sequence[NoteInput]) -> None:
        """Give a note the text of its message, if that is another than the one it was made of."""
        item = next(item for item in items if item.key == note.key)
        if note.metadata.get(HASH, item.metadata[HASH]) != item.metadata[HASH]:
            await self._rewrite(call, note, item)

    async def _rewrite(self, call: Call, note: Note, item: NoteInput) -> Note:
        metadata = {**note.metadata, **item.metadata}
        try:
            return await call(
                self.memory.update,
                note.id,
                namespace=note.namespace,
                content=item.content,
                metadata=metadata,
            )
        except InvalidInputError as error:
            self.failures.note("edit a message", error)
            return note

    async def _given_again(
        self,
        call: Call,
        items: Sequence[NoteInput],
        known: Mapping[str | None, Note],
        messages: Sequence[BaseMessage],
        namespace: Namespace,
    ) -> dict[str | None, Note]:
        """Return by their new key the notes of answers that were given again under another id.

        Only a run that had stored its turn already can do so: the question is known, the answer is not.
        """
        answers = [i for i in items if i.key not in known and i.metadata.get(ANSWERS)]
        if not answers or not any(note.source == "user" for note in known.values()):
            return {}
        present = keys_of(messages, items[0].thread, len(messages))
        found: dict[str | None, Note] = {}
        for item in answers:
            taken = present | {note.key for note in found.values()}
            orphan = await self._orphan(call, item, taken, known, namespace)
            if orphan is not None:
                same = orphan.metadata[HASH] == item.metadata[HASH]
                found[item.key] = orphan if same else await self._rewrite(call, orphan, item)
        return found

    async def _orphan(
        self,
        call: Call,
        item: NoteInput,
        taken: set[str | None],
        known: Mapping[str | None, Note],
        namespace: Namespace,
    ) -> Note | None:
        """Return the first note that answers the same message and belongs to none of the conversation."""
        after = min(note.seq for note in known.values())
        where = {
            "thread": item.thread,
            "source": item.source,
            "seq": {"$gt": after},
            f"metadata.{ANSWERS}": item.metadata[ANSWERS],
        }
        found = await call(self.memory.get_all, namespace=namespace, where=where, limit=ORPHANS)
        # The further chunks of a long text have keys that are not those of messages.
        wholes = [note for note in found if note.key and note.key.startswith("[")]
        return next((note for note in wholes if note.key not in taken), None)


async def add_each(
    call: Call,
    memory: AgenticMemory,
    items: Sequence[NoteInput],
    namespace: Namespace,
    failures: Failures,
) -> list[Note]:
    """Store the items raw, all at once if that can be, else those that can be stored."""
    if not items:
        return []
    try:
        return await call(memory.add_many, items, namespace=namespace, evolve=False)
    except InvalidInputError as error:
        if len(items) == 1:
            failures.note("remember a message", error)
            return []
    return [
        note for item in items for note in await add_each(call, memory, [item], namespace, failures)
    ]
