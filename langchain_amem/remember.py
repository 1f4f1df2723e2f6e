"""Remember a conversation: raw, once, for whom it was said to, and whatever becomes of a single run.

The middleware and the nodes keep an entry in the state: `cursor`, the mark of the last message that was stored; and
of the run under way `namespace`, and `asked`: by mark, what people said, to whom and when. Among that is what earlier
runs left, since they failed (`unanswered`) or could not be stored. Messages are found by their marks, since others may
remove or rewrite some of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from amem_integrations import AgenticMemory, InvalidInputError, Note, NoteInput
from amem_integrations.adapting import Call, Waiting, check_flags

from .messages import (
    ANSWERS,
    HASH,
    ShouldStore,
    checked_filter,
    is_human,
    keys_of,
    notes_of,
)
from .runs import Failures, Namespace

# A conversation is stored in order, so if the note this far back is there, the ones before it are too.
RECENT = 64
ORPHANS = 64  # notes looked through for answers that were given again

Entry = dict[str, Any]
Stored = dict[Namespace, list[str]]


class Part(NamedTuple):
    """Messages that are to be remembered together, from `start` up to `stop`."""

    namespace: Namespace
    at: datetime
    start: int
    stop: int


Todo = tuple[Sequence[BaseMessage], Part, str | None]  # a conversation, what of it, its thread


def begin(messages: Sequence[BaseMessage], entry: Mapping[str, Any], namespace: Namespace) -> Entry:
    """Return the entry of a run that starts with these messages.

    What an earlier run left stays with whom it was said to.
    """
    marks, earlier = _marks(messages), entry.get("asked") or {}
    new = [
        marks[i]
        for i in range(_start(messages, marks, entry, namespace), len(messages))
        if is_human(messages[i])
    ]
    said = {"namespace": list(namespace), "at": datetime.now(UTC).isoformat()}
    return {
        **entry,
        "namespace": list(namespace),
        "asked": {mark: earlier.get(mark, said) for mark in new},
        "unanswered": [mark for mark in new if mark in earlier],
    }


def parts(
    messages: Sequence[BaseMessage],
    entry: Mapping[str, Any],
    namespace: Namespace,
    *,
    unanswered: bool = True,
) -> list[Part]:
    """Return which messages there are to remember at the end of a run, and for whom.

    A run may be resumed by somebody else, who approves something or adds to it. What it was asked is still
    for whom it began; what they add, and what follows, is for them.

    Args:
        messages: The conversation.
        entry: What is noted of it.
        namespace: Whose run ends.
        unanswered: Whether what earlier runs said that failed or were blocked is among it.
    """
    marks, asked = _marks(messages), entry.get("asked") or {}
    start = _start(messages, marks, entry, namespace)
    if not unanswered:
        start = max(start, _start_of_run(messages, marks, entry))
    new: Entry = {"namespace": list(namespace), "at": datetime.now(UTC).isoformat()}
    said = {**new, "namespace": entry["namespace"]} if asked else new
    found: list[Part] = []
    for i in range(start, len(messages)):
        if is_human(messages[i]):
            said = asked.get(marks[i], new)
        whose, at = tuple(said["namespace"]), datetime.fromisoformat(said["at"])
        if found and (whose, at) == found[-1][:2]:
            found[-1] = found[-1]._replace(stop=i + 1)
        else:
            found.append(Part(whose, at, i, i + 1))
    return found


def _asked(messages: Sequence[BaseMessage], left: Sequence[Part]) -> dict[str, Entry]:
    """Return what people said in these parts, to whom and when."""
    marks = _marks(messages)
    return {
        marks[i]: {"namespace": list(part.namespace), "at": part.at.isoformat()}
        for part in left
        for i in range(part.start, part.stop)
        if is_human(messages[i])
    }


def merged(left: Mapping[str, Entry] | None, right: Mapping[str, Entry] | None) -> dict[str, Entry]:
    """Return the entries of two updates of a state; of one name the later."""
    return {**(left or {}), **(right or {})}


def _marks(messages: Sequence[BaseMessage]) -> list[str]:
    """Return by what each message is known: its role and id, or without an id its place and text."""
    return [
        f"{message.type} {message.id or _place(i, message)}" for i, message in enumerate(messages)
    ]


def _place(number: int, message: BaseMessage) -> str:
    return f"{number} {sha256(str(message.text).encode(errors='replace')).hexdigest()[:16]}"


def _start(
    messages: Sequence[BaseMessage],
    marks: Sequence[str],
    entry: Mapping[str, Any],
    namespace: Namespace,
) -> int:
    """Return the place of the first message that is not stored yet.

    Without a known mark (the first run, or no checkpointer and the history passed in each time) that is what
    follows the last answer before the last thing that a person said.
    """
    asked = entry.get("asked") or {}
    first = next((i for i, mark in enumerate(marks) if mark in asked), None)
    if first is not None:
        return first
    if entry.get("cursor") in marks and entry.get("namespace") == list(namespace):
        return marks.index(entry["cursor"]) + 1
    people = [i for i, message in enumerate(messages) if is_human(message)]
    for i in range(people[-1] - 1 if people else -1, -1, -1):
        message = messages[i]
        if isinstance(message, AIMessage) and not message.tool_calls:
            return i + 1
    return 0


def _start_of_run(
    messages: Sequence[BaseMessage], marks: Sequence[str], entry: Mapping[str, Any]
) -> int:
    """Return the place of the first message that a run was asked, without what earlier ones were.

    Where that was not noted (`entry` has no `asked`), it is the last one of a person.
    """
    asked, unanswered = entry.get("asked"), entry.get("unanswered", ())
    people = [i for i, message in enumerate(messages) if is_human(message)]
    mine = people[-1:] if asked is None else [i for i in people if marks[i] in asked]
    mine = [i for i in mine if marks[i] not in unanswered]
    # Else the last message is of a run that was blocked before it was noted here.
    return mine[0] if mine and mine[-1] + 1 not in people else len(messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Stores messages as pending notes. No model is called; storing a message again changes nothing.

    A message that is stored already is left alone, since its note may have been corrected meanwhile; but
    if the message itself was edited, so is the note. An answer that was given again, by a run that was killed
    and resumed, takes the place of the one before: it answers the same message, and is not in the conversation.

    What cannot be stored is noted in the state, and waits here too, for where no state is kept.
    """

    memory: AgenticMemory
    failures: Failures
    should_store: ShouldStore
    unanswered: bool = True
    waiting: Waiting[Todo] = field(default_factory=Waiting)

    def __post_init__(self) -> None:
        """Check the options."""
        checked_filter(self.should_store)
        check_flags(remember_unanswered=self.unanswered)

    async def turn(
        self,
        call: Call,
        messages: Sequence[BaseMessage],
        entry: Mapping[str, Any],
        namespace: Namespace,
        thread: str | None,
    ) -> tuple[Stored, Entry]:
        """Store what a run was asked and has answered; return the ids of its notes, and the entry after it.

        What waits since an outage is stored too, and evolves as other left-overs do, some in each turn.
        """
        new: dict[Hashable, Todo] = {
            (thread, part.namespace, part.at): (messages[: part.stop], part, thread)
            for part in parts(messages, entry, namespace, unanswered=self.unanswered)
        }
        stored: Stored = {}
        marks = _marks(messages)
        left = set(entry.get("unanswered", entry.get("asked") or ()))  # by earlier runs
        todo = {**self.waiting.take(), **new}
        try:
            for key, what in list(todo.items()):
                if (notes := await self.store(call, *what)) is None:
                    break
                del todo[key]
                if key in new and not left.intersection(marks[what[1].start : what[1].stop]):
                    stored.setdefault(what[1].namespace, []).extend(note.id for note in notes)
        finally:
            if self.unanswered and (lost := self.waiting.keep(todo)):
                self.failures.note("remember", OverflowError(f"{lost} turns were given up"))
        after, failed = {"namespace": list(namespace)}, new.keys() & todo.keys()
        if not failed or not self.unanswered:
            return stored, {**after, "cursor": marks[-1] if messages else None}
        asked = _asked(messages, [part for key, (_, part, _) in new.items() if key in failed])
        return stored, {**after, "cursor": entry.get("cursor"), "asked": asked}

    async def store(
        self,
        call: Call,
        messages: Sequence[BaseMessage],
        part: Part,
        thread: str | None,
    ) -> list[Note] | None:
        """Return the notes of the messages worth storing, or None if they could not be stored."""
        namespace = part.namespace
        with self.failures.tolerated("remember", answered=True):
            items = notes_of(
                messages,
                thread=thread,
                should_store=self.should_store,
                skip=part.start,
                now=part.at,
                max_chars=self.memory.config.max_content_chars,
            )
            if len(items) > RECENT and await self._known(call, items[-RECENT:][:1], namespace):
                items = items[-RECENT:]
            earlier = self._earlier(messages[: part.start], thread, lambda _: True)
            stored = await self._known(call, [*earlier, *items], namespace)
            if any(_edited(item, stored) for item in earlier):  # rare: `should_store` may be slow
                earlier = self._earlier(messages[: part.start], thread, self.should_store)
            for item in (*earlier, *items):
                if _edited(item, stored):
                    await self._rewrite(call, stored[item.key], item)
            known = {item.key: stored[item.key] for item in items if item.key in stored}
            known |= await self._given_again(call, items, known, messages, namespace)
            fresh = [item for item in items if item.key not in known]
            added = await add_each(call, self.memory, fresh, namespace, self.failures)
            notes = known | {note.key: note for note in added}
            return [notes[key] for key in dict.fromkeys(i.key for i in items) if key in notes]
        return None

    def _earlier(
        self, messages: Sequence[BaseMessage], thread: str | None, should_store: ShouldStore
    ) -> list[NoteInput]:
        """Return the last messages of earlier turns as notes: those with an id may have been edited since."""
        return notes_of(
            messages,
            thread=thread,
            should_store=lambda message: message.id is not None and should_store(message),
            skip=max(0, len(messages) - RECENT),
            max_chars=self.memory.config.max_content_chars,
        )

    async def _known(
        self, call: Call, items: Sequence[NoteInput], namespace: Namespace
    ) -> dict[str | None, Note]:
        """Return the notes that are there already, by key."""
        if not items:
            return {}
        where = {"key": {"$in": [item.key for item in items]}}
        found = await call(self.memory.get_all, namespace=namespace, where=where, limit=len(items))
        return {note.key: note for note in found}

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
        return next((note for note in found if note.key not in taken), None)


def _edited(item: NoteInput, stored: Mapping[str | None, Note]) -> bool:
    """Return whether a message is another than the one that its note was made of."""
    note = stored.get(item.key)
    return note is not None and note.metadata.get(HASH, item.metadata[HASH]) != item.metadata[HASH]


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
