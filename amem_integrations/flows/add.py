"""Add: what is said is stored raw, and can be found, before any chat model is called; then it evolves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any

from ..conversation import SPEAKING, from_dict, note_inputs
from ..errors import AmemError, InvalidInputError, StoreError
from ..fetch import not_found
from ..ids import derive, note_id, now, time_of
from ..journal.fold import first_state
from ..journal.insertion import insert
from ..journal.projection import project
from ..journal.writer import Writer, as_it_is
from ..kinds import kind_of
from ..notes import Namespace, Note, NoteInput, Source, check_namespace, check_note_input
from ..runtime import Meter, Progress, Runtime, reporter
from ..stored_note import StoredNote
from .edit import change_note, check_superseded, supersede_with
from .evolve import evolve_notes
from .writing import writing

TAKEN = ("content", "speaker", "source", "origin", "thread", "key", "until")  # as they are given


async def add(
    runtime: Runtime,
    content: str,
    *,
    namespace: Sequence[str],
    at: datetime | None = None,
    key: str | None = None,
    thread: str | None = None,
    speaker: str | None = None,
    source: Source = "user",
    metadata: Mapping[str, Any] | None = None,
    until: datetime | None = None,
    expires_at: datetime | None = None,
    supersedes: Sequence[str] = (),
    evolve: bool = True,
) -> Note:
    """Return the note made of something experienced; it is stored, and can be found, before any model is called.

    Adding the same again returns the existing note and costs no model call. The same `key` again is the user's
    correction: the note takes what is given and keeps what is left out; with other content it is made again.

    Args:
        content: What was said or seen; never changed by a model.
        namespace: Whose memory it is, such as `("user-42",)`.
        at, speaker, source, metadata, until, expires_at: See `NoteInput`.
        key: Identifies the experience, such as a message id; without one, thread, speaker, content, `at` do.
        thread: The conversation; notes of one thread give each other context.
        supersedes: Ids of earlier notes whose place it takes (see `supersede`).
        evolve: Construct, link and evolve at once; False leaves that to `evolve()`.

    Raises:
        InvalidInputError: The note cannot be stored as given, or is not later than one it supersedes.
        NoteNotFoundError: A note in `supersedes` is not there.
        NamespaceError: The namespace is missing or malformed.
        StoreError: The store refused.
        ModelUnavailableError: Only with `on_model_error="raise"`; the raw note is stored.
    """
    item = NoteInput(
        content=content,
        at=at,
        key=key,
        thread=thread,
        speaker=speaker,
        source=source,
        metadata=metadata or {},
        until=until,
        expires_at=expires_at,
        supersedes=supersedes,
    )
    return (await add_many(runtime, [item], namespace=namespace, evolve=evolve))[0]


async def add_many(
    runtime: Runtime,
    items: Iterable[str | NoteInput],
    *,
    namespace: Sequence[str],
    evolve: bool = True,
    progress: bool | Progress = False,
) -> list[Note]:
    """Return a note for each item, in order; either all are stored or none.

    Model calls are made for batches of one thread, about .14 a note.

    Args:
        items: Texts, or `NoteInput` values with the fields of `add`.
        namespace: Whose memory it is.
        evolve: Construct, link and evolve at once; False leaves that to `evolve()`.
        progress: True logs how far it is; a function is called with (notes finished, notes in all).

    Raises:
        InvalidInputError: An item cannot be stored as given; none is.
        NoteNotFoundError: An item supersedes a note that is not there; none is stored.
    """
    space = check_namespace(namespace)
    report = None if progress is False else reporter(progress)
    notes, unfinished = await store(runtime, space, _inputs(items))
    finished: Mapping[str, Note] = {}
    if evolve and unfinished:
        meter = None if report is None else Meter(report, len(unfinished))
        finished, *_ = await evolve_notes(runtime, space, unfinished, meter)
    return [finished.get(note.id, note) for note in notes]


async def add_messages(
    runtime: Runtime,
    messages: Iterable[Mapping[str, Any]],
    *,
    namespace: Sequence[str],
    thread: str | None = None,
    roles: Sequence[str] = SPEAKING,
    should_store: Callable[[Mapping[str, Any]], bool] | None = None,
) -> list[Note]:
    """Return a note for each non-empty chat message of the given roles.

    Of a message that is longer than `MemoryConfig.max_content_chars` the beginning is stored, with a warning.

    Args:
        messages: Dicts with `role` and `content` (text, or a list of blocks of which the text is
            taken), optionally `name` (the speaker), `at` (a datetime) and `id`. A message is known by
            thread, role and id; without an id, as the first, second, … of its text and role: pass the conversation
            from its start each time, and nothing is stored twice.
        namespace: Whose memory it is.
        thread: The conversation.
        roles: Whose messages are stored.
        should_store: Called with each message; False leaves it out.

    Raises:
        InvalidInputError: A message has no role, or content that is no text; or `should_store` is a coroutine
            function.
    """
    if iscoroutinefunction(should_store):
        raise InvalidInputError("should_store must be a plain function, not a coroutine function")
    if not isinstance(messages, Iterable):
        raise InvalidInputError(f"messages={messages!r} must be a list of messages")
    read = [
        replace(from_dict(message), stored=should_store is None or bool(should_store(message)))
        for message in messages
    ]
    most = runtime.config.max_content_chars
    items = note_inputs(read, thread=thread, roles=roles, max_chars=most)
    return await add_many(runtime, items, namespace=namespace)


async def store(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput], *, vectors: bool = True
) -> tuple[list[Note], list[Note]]:
    """Store what is not there yet; return a note for each item, and the notes that wait for a model.

    Without `vectors`, no embedder is called for what is new: the turn that stores it goes on, and embeds it later.

    An item that is there already gives the stored note. The same key with other values is the user's update: the note
    takes what was given, and with another content, time or speaker it is `pending` again.

    Raises:
        InvalidInputError: An item cannot be stored; then none is.
    """
    for item in items:
        check_note_input(item, runtime.config.max_content_chars)
    replacing = [item for item in items if item.supersedes]
    older = await check_superseded(runtime, namespace, replacing) if replacing else {}
    async with writing(runtime, namespace) as writer:
        ids, known = await _identified(writer, items)
        # Of two items with one id the first is new, and the last one counts.
        first = dict(reversed(list(zip(ids, items, strict=True))))
        last = dict(zip(ids, items, strict=True))
        new = [
            new_note(runtime, namespace, i, first[i])
            for i in dict.fromkeys(ids)
            if (stored := known.get(i)) is None or stored.is_deleted
        ]
        stands = dict(known)
        if new:
            stands |= await _insert(runtime, writer, new, known, vectors=vectors)
        unfinished = [note.id for note in new]
        notes = {i: _living(namespace, stands[i]) for i in last}
        for i, item in last.items():
            if item.key is not None:
                notes[i], is_made_anew = await _take_over(runtime, writer, item, stands[i])
                unfinished += [i] if is_made_anew else []
        found = [notes[i] for i in ids]
        if older:
            await supersede_with(runtime, writer, zip(items, found, strict=True), older)
    waiting = [notes[i] for i in dict.fromkeys(unfinished) if notes[i].state == "pending"]
    return found, waiting


async def _identified(
    writer: Writer, items: Sequence[NoteInput]
) -> tuple[list[str], dict[str, StoredNote]]:
    """Return the id of each item, and what is stored under these ids.

    Without a key, the id stands for the words and counts their occurrence. Where the note of that id was corrected,
    superseded or has expired, the same words are a new statement, and get the next id.
    """
    ids = [note_id(writer.namespace, item) for item in items]
    known: dict[str, StoredNote] = {}
    looked_up: set[str] = set()
    while wanted := set(ids) - looked_up:
        looked_up |= wanted
        known |= await writer.notes(wanted)
        time = now()
        ids = [
            derive("again", i) if item.key is None and _is_past(known.get(i), item, time) else i
            for i, item in zip(ids, items, strict=True)
        ]
    return ids, known


def _is_past(stored: StoredNote | None, item: NoteInput, time: datetime) -> bool:
    if stored is None or stored.note is None:
        return False
    note = stored.note
    replaced = note.superseded_by is not None or note.is_expired(time)
    return replaced or note.content != item.content


async def _insert(
    runtime: Runtime,
    writer: Writer,
    notes: Sequence[Note],
    known: Mapping[str, StoredNote],
    *,
    vectors: bool,
) -> Mapping[str, StoredNote]:
    """Store new notes, and return what stands under their ids.

    With a key somebody else may have said something else under the same id, so that has to be read.
    """
    by_words = replace(writer, embed=as_it_is)
    among = {note.id: known[note.id] for note in notes if note.id in known}
    look = any(note.key is not None for note in notes)
    if not vectors:
        runtime.vectors.lacking = True
        stands = await insert(by_words, notes, among, look=look)
        if (fresh := runtime.fresh.get(writer.namespace)) is not None:
            fresh.extend(stands[note.id] for note in notes)
        return stands
    try:
        stands = await insert(writer, notes, among, look=look)
    except StoreError:
        raise
    except AmemError:
        # Trouble that does not pass, such as a revoked key: the caller is told, and the words are kept.
        runtime.vectors.lacking = True
        runtime.fresh.pop(writer.namespace, None)
        await insert(by_words, notes, among, look=look)
        raise
    if not all(stands[note.id].has_vectors for note in notes):
        runtime.fresh.pop(writer.namespace, None)  # the next turn looks for these notes
    return stands


async def _take_over(
    runtime: Runtime, writer: Writer, item: NoteInput, stored: StoredNote
) -> tuple[Note, bool]:
    """Return the note that a repeated key has changed as it stands, and whether it is to be made anew.

    Fields that the item leaves out stay as they are.

    Raises:
        NoteNotFoundError: The note was deleted meanwhile.
    """
    note = _living(writer.namespace, stored)
    given: dict[str, Any] = {"content": item.content, "origin": item.origin}
    for name in ("at", "speaker", "until", "expires_at", "metadata"):
        if value := getattr(item, name):
            given[name] = json.loads(json.dumps(value)) if name == "metadata" else value
    values = {name: value for name, value in given.items() if getattr(note, name) != value}
    if note.is_expired(now()):
        # The content is said again, so the note holds again.
        values["expires_at"] = item.expires_at or _expiry(runtime, writer.namespace, now())
    if not values:
        return note, False
    note, is_made_anew = await change_note(writer, note.id, values, expired=True)
    if "origin" in values and not is_made_anew:  # whether it waits for a model follows from that
        await project(writer, [note.id])
        note = _living(writer.namespace, (await writer.notes([note.id]))[note.id])
    return note, is_made_anew or "origin" in values


def _living(namespace: Namespace, stored: StoredNote) -> Note:
    if stored.note is None:
        raise not_found(namespace, stored.id)
    return stored.note


def _expiry(runtime: Runtime, namespace: Namespace, recorded_at: datetime) -> datetime | None:
    """Return when a note expires that says nothing about it."""
    ttl = runtime.config.ttl and runtime.config.ttl_of(namespace)
    return recorded_at + ttl if ttl else None


def new_note(runtime: Runtime, namespace: Namespace, identity: str, item: NoteInput) -> Note:
    """Return the note that is made of an item."""
    seq = runtime.clock.tick()
    recorded_at = time_of(seq)
    return Note(
        id=identity,
        seq=seq,
        rev=seq,
        state=first_state(item),
        namespace=namespace,
        recorded_at=recorded_at,
        at=item.at or item.default_at,
        kind=kind_of(item.content),
        expires_at=item.expires_at or _expiry(runtime, namespace, recorded_at),
        metadata=dict(item.metadata),
        **{name: getattr(item, name) for name in TAKEN},
    )


def _inputs(items: Iterable[str | NoteInput]) -> list[NoteInput]:
    if isinstance(items, str | NoteInput | Mapping) or not isinstance(items, Iterable):
        raise InvalidInputError(
            f"add_many wants a list of texts or NoteInput values, not {items!r}; use add for one"
        )
    given = list(items)
    for item in given:
        if not isinstance(item, str | NoteInput):
            raise InvalidInputError(f"{item!r} is neither text nor a NoteInput")
    return [item if isinstance(item, NoteInput) else NoteInput(content=item) for item in given]
