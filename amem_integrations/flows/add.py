"""Add: what is said is stored raw, and can be found, before any chat model is called; then it evolves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any

from .. import texts
from ..changes.edits import change
from ..chunks import Chunk, chunk_id, chunks
from ..conversation import SPEAKING, from_dict, note_inputs
from ..embedding import indexed
from ..errors import AmemError, InvalidInputError, NoteNotFoundError
from ..evolution.claiming import deadline
from ..ids import clock, derive, new_operation, note_id, now, time_of
from ..kinds import kind_of
from ..notes import Namespace, Note, NoteInput, Source, check_namespace, check_note_input
from ..ports import Indexed
from ..progress import Meter, Progress, reporter
from ..runtime import RULES, Runtime, resolve
from .content import SHARED, change_note, recover_interrupted
from .edit import check_superseded, supersede_with
from .evolve import evolve_notes


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
    notes, unfinished = await _store(runtime, space, _inputs(items))
    finished: Mapping[str, Note] = {}
    if evolve and unfinished:
        meter = None if report is None else Meter(report, len(unfinished))
        # Rules take moments: it costs less that another worker may do it too than to keep others off.
        free = runtime.model_name == RULES
        working = replace(runtime, shared_claims=None) if free else runtime
        until = 0.0 if free else deadline(runtime)
        finished, *_ = await evolve_notes(working, space, unfinished, meter, until=until)
    return [finished.get(note.id, note) for note in notes]


async def add_by_words(
    runtime: Runtime, items: Iterable[NoteInput], *, namespace: Sequence[str]
) -> list[Note]:
    """Return a note for each item, stored as by `add_many`; new ones have no vector until `embed_missing` makes one.

    It saves calls of the embedder where more notes are about to follow.
    """
    space = check_namespace(namespace)
    return (await _store(runtime, space, _inputs(items), vectors=False))[0]


async def add_messages(
    runtime: Runtime,
    messages: Iterable[Mapping[str, Any]],
    *,
    namespace: Sequence[str],
    thread: str | None = None,
    roles: Sequence[str] = SPEAKING,
    offset: int = 0,
    should_store: Callable[[Mapping[str, Any]], bool] | None = None,
) -> list[Note]:
    """Return a note for each non-empty chat message of the given roles.

    Of a message that is longer than `MemoryConfig.max_content_chars` the beginning is stored, with a warning.

    Args:
        messages: Dicts with `role` and `content` (text, or a list of blocks of which the text is
            taken), optionally `name` (the speaker), `at` (a datetime) and `id`. A message is known by
            thread, role and id; without an id, by its place in the thread: pass the conversation from
            its start each time, or say the `offset`, and nothing is stored twice.
        namespace: Whose memory it is.
        thread: The conversation.
        roles: Whose messages are stored.
        offset: How many messages of user and assistant came before the first of these in the thread.
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
    items = note_inputs(read, thread=thread, roles=roles, offset=offset, max_chars=most)
    return await add_many(runtime, items, namespace=namespace)


async def _store(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput], *, vectors: bool = True
) -> tuple[list[Note], list[Note]]:
    """Store what is not there yet; return a note for each item, and the notes that wait for a model.

    Without `vectors`, no embedder is called for what is new.

    An item that is there already gives the stored note. The same key with another content, speaker, time or
    metadata is the user's update: the note takes what was given, and returns to `pending` if that is more
    than metadata. An item that is too long for the embedder becomes several notes, and gives the first.

    Raises:
        InvalidInputError: An item cannot be stored; then none is.
    """
    for item in items:
        check_note_input(item, runtime.config.max_content_chars)
    if getattr(runtime.store, "interrupted", ()):
        await recover_interrupted(runtime)
    replacing = [item for item in items if item.supersedes]
    older = await check_superseded(runtime, namespace, replacing) if replacing else {}
    wanted, known = await _identified(runtime, namespace, items)
    parts = _new_parts(items, wanted, known)
    added = await _insert(runtime, namespace, parts, vectors=vectors)
    unfinished = {note_id: note for note_id, note in added.items() if note.state == "pending"}
    known |= added
    last = {whole[0].id: (item, whole) for item, whole in zip(items, wanted, strict=True)}
    for item, whole in last.values():  # of two items with one id the last counts
        changed = await _take_over(runtime, namespace, item, whole, known)
        known |= {note.id: note for note in changed}
        unfinished |= {note.id: note for note in changed if note.state == "pending"}
    if gone := last.keys() - known.keys():
        raise NoteNotFoundError(f"notes {gone} were deleted from {namespace!r} as they were added")
    notes = [known[whole[0].id] for whole in wanted]
    if older:
        await supersede_with(runtime, namespace, zip(items, notes, strict=True), older)
    return notes, list(unfinished.values())


async def _identified(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput]
) -> tuple[list[list[Chunk]], dict[str, Note]]:
    """Return the notes that each item becomes, and those of them that are stored.

    Without a key, the id stands for the words. Where the note of that id was corrected, superseded or has
    expired, the same words are a new statement, and get the next id.
    """
    wanted = [chunks(runtime, item, note_id(namespace, item)) for item in items]
    known: dict[str, Note] = {}
    looked_up: set[str] = set()
    while ids := list(dict.fromkeys(i for w in wanted for i in _ids(w) if i not in looked_up)):
        looked_up.update(ids)
        stored = await resolve(runtime.store.get(namespace, ids))
        known |= {note.id: note for note in stored}
        time = now()
        wanted = [
            chunks(runtime, item, derive("again", whole[0].id))
            if item.key is None and _is_past(known.get(whole[0].id), whole[0], time)
            else whole
            for item, whole in zip(items, wanted, strict=True)
        ]
    return wanted, known


def _ids(whole: Sequence[Chunk]) -> list[str]:
    """Return the ids of the notes of a text, and the one that follows if the stored text is longer."""
    return [*(part.id for part in whole), chunk_id(whole[0].id, len(whole) + 1)]


def _is_past(note: Note | None, part: Chunk, time: datetime) -> bool:
    if note is None:
        return False
    replaced = note.superseded_by is not None or note.is_expired(time)
    return replaced or note.content != part.item.content


def _new_parts(
    items: Sequence[NoteInput], wanted: Sequence[list[Chunk]], known: Mapping[str, Note]
) -> list[Chunk]:
    """Return what is to be stored: new texts, and chunks that are missing of those without a key."""
    new: dict[str, Chunk] = {}
    for item, whole in zip(items, wanted, strict=True):
        is_stored = whole[0].id in known or whole[0].id in new
        if not (is_stored and item.key is not None):
            for part in whole:
                if part.id not in known:
                    new.setdefault(part.id, part)
    return list(new.values())


async def _take_over(
    runtime: Runtime,
    namespace: Namespace,
    item: NoteInput,
    whole: Sequence[Chunk],
    known: Mapping[str, Note],
) -> list[Note]:
    """Return the notes that a repeated key changed; without a key nothing but missing chunks is new."""
    note = known.get(whole[0].id)
    if note is None or item.key is None:
        return []
    given = _given(item)
    values = {name: value for name, value in given.items() if getattr(note, name) != value}
    if note.is_expired(now()):
        # It is said again, so it holds again.
        values["expires_at"] = item.expires_at or _expiry(runtime, namespace, now())
    stored = [known[i].content for i in _ids(whole) if i in known]
    if stored != [part.item.content for part in whole]:
        values["content"] = item.content
    if not values:
        return []
    return await change_note(runtime, namespace, note, values, split=item.split)


def _given(item: NoteInput) -> dict[str, Any]:
    """Return what a note takes over from a repeated key; what is left out it keeps."""
    values = {name: getattr(item, name) for name in SHARED}
    values["metadata"] = json.loads(json.dumps(dict(item.metadata)))  # as it will be stored
    return {name: value for name, value in values.items() if value}


async def _insert(
    runtime: Runtime, namespace: Namespace, parts: Sequence[Chunk], *, vectors: bool
) -> dict[str, Note]:
    """Store new notes; return those that were not there yet, whoever else is adding them now."""
    if not parts:
        return {}
    op = new_operation()
    notes = _notes(runtime, namespace, parts, op)
    records = [change(op, "add", note, recorded_at=note.recorded_at) for note in notes]
    by_words = [Indexed(note=note, text=texts.lexical_text(note)) for note in notes]
    try:
        items = await indexed(runtime, notes) if vectors else by_words
    except AmemError:
        # Trouble that does not pass, such as a revoked key: the caller is told, and the words are kept.
        await resolve(runtime.store.insert(namespace, by_words, records))
        raise
    new = await resolve(runtime.store.insert(namespace, items, records))
    added = {note.id: note for note in notes if note.id in new}
    others = [note.id for note in notes if note.id not in new]
    if others:  # another process was faster, and works on them
        stored = await resolve(runtime.store.get(namespace, others))
        added |= {note.id: note for note in stored}
    return added


def _notes(runtime: Runtime, namespace: Namespace, parts: Sequence[Chunk], op: str) -> list[Note]:
    """Return the new notes; all chunks of a text expire together."""
    made: list[Note] = []
    ends: dict[str, datetime | None] = {}
    for part in parts:
        seq = clock.tick()
        default = part.item.expires_at or _expiry(runtime, namespace, time_of(seq))
        made.append(
            _note(namespace, part, op, seq, ends.setdefault(part.whole or part.id, default))
        )
    return made


def _expiry(runtime: Runtime, namespace: Namespace, recorded_at: datetime) -> datetime | None:
    """Return when a note expires that says nothing about it."""
    ttl = runtime.config.ttl and runtime.config.ttl_of(namespace)
    return recorded_at + ttl if ttl else None


def _note(
    namespace: Namespace, part: Chunk, op: str, seq: int, expires_at: datetime | None
) -> Note:
    item = part.item
    return Note(
        id=part.id,
        seq=seq,
        namespace=namespace,
        content=item.content,
        recorded_at=time_of(seq),
        at=item.at or item.default_at,
        speaker=item.speaker,
        source=item.source,
        kind=kind_of(item.content),
        thread=item.thread,
        key=item.key,
        chunk=part.number,
        chunk_of=part.whole,
        until=item.until,
        expires_at=expires_at,
        ops=(op,),
        metadata=dict(item.metadata),
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
