"""Raw first: what was said is stored, and can be found, before any chat model is called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .. import texts
from .._sync import resolve
from ..config import MemoryConfig
from ..errors import AmemError, InvalidInputError, NoteNotFoundError
from ..ids import clock, derive, new_operation, note_id, now
from ..notes import SOURCES, Namespace, Note, NoteInput
from ..ports import Indexed, Vector
from ..runtime import Runtime
from ..steps import edits
from ..steps.history import change
from .embedding import embed_if_possible
from .pieces import Piece, split, surplus
from .rewriting import rewrite, withdraw_echoes


@dataclass(frozen=True, slots=True)
class Stored:
    """What `store_raw` did: a note for each item, the notes that need a model, and ids of notes to remove.

    Those are the last pieces of a long text that has become shorter.
    """

    notes: list[Note]
    needing: list[Note]
    surplus: list[str]


async def store_raw(runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput]) -> Stored:
    """Store what is not there yet.

    An item that is there already gives the stored note. The same key with another content, speaker, time or
    metadata is the user's update: the note takes what was given, and returns to `pending` if that is more
    than metadata. An item that is too long for the embedder becomes several notes, and gives the first.

    Raises:
        InvalidInputError: An item cannot be stored; then none is.
    """
    for item in items:
        check(item, runtime.config)
    sources = await _identified(runtime, namespace, items)
    pieces = {identity: split(runtime, namespace, item, identity) for identity, item in sources}
    wanted = [piece for identity, _ in sources for piece in pieces[identity]]
    ids = list(dict.fromkeys(identity for identity, _ in wanted))
    known = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    fresh = {
        identity: _note(identity, namespace, item)
        for identity, item in reversed(wanted)
        if identity not in known
    }
    added = await _insert(runtime, namespace, [fresh[i] for i in ids if i in fresh])
    stored = {note.id: note for note in await resolve(runtime.store.get(namespace, ids))}
    given = _given(sources, pieces)
    edited = {
        i: values for i in ids if i in stored and (values := _other(stored[i], given.get(i, {})))
    }
    stored |= await _update(runtime, namespace, edited)
    said_anew = {i for i in edited if i in stored and stored[i].state == "pending"}
    longer = {i: len(pieces[i]) for i in edited if i in pieces and "content" in edited[i]}
    return Stored(
        notes=[_present(stored, identity, namespace) for identity, _ in sources],
        needing=[stored[i] for i in ids if i in stored and i in added | said_anew],
        surplus=await surplus(runtime, namespace, longer),
    )


def _given(
    sources: Sequence[tuple[str, NoteInput]], pieces: Mapping[str, Sequence[Piece]]
) -> dict[str, dict[str, Any]]:
    """Return by note id what a note that is there is to take over; of two items with one id the last counts.

    Without a key the id stands for the words themselves, so nothing of such an item can be other, but for
    the pieces of a long text.
    """
    given: dict[str, dict[str, Any]] = {}
    for identity, source in sources:
        parts = pieces[identity]
        for piece_id, piece in parts:
            if source.key is not None:
                metadata = json.loads(json.dumps(dict(piece.metadata)))  # as it will be stored
                told = {"at": piece.at, "speaker": piece.speaker, "metadata": metadata}
                kept = {name: value for name, value in told.items() if value}
                given[piece_id] = {"content": piece.content, **kept}
            elif len(parts) > 1:
                given[piece_id] = {"content": piece.content}
    return given


def _other(note: Note, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is given and is not what the note has."""
    return {name: value for name, value in given.items() if getattr(note, name) != value}


def _present(stored: Mapping[str, Note], identity: str, namespace: Namespace) -> Note:
    if identity not in stored:
        raise NoteNotFoundError(f"note {identity!r} was deleted from {namespace!r} as it was added")
    return stored[identity]


async def _identified(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput]
) -> list[tuple[str, NoteInput]]:
    """Return the items with their ids.

    Without a key, the id stands for the words. Where the note of that id has been corrected since, the same
    words are a new statement, and get the next id.
    """
    sources = [(note_id(namespace, item), item) for item in items]
    open_ids = [identity for identity, item in sources if item.key is None]
    while open_ids:
        stored = await resolve(runtime.store.get(namespace, list(dict.fromkeys(open_ids))))
        contents = {note.id: note.content for note in stored}
        renamed = {
            identity: derive("again", identity)
            for identity, item in sources
            if item.key is None
            and identity in contents
            and identity in open_ids
            and contents[identity] != split(runtime, namespace, item, identity)[0][1].content
        }
        sources = [(renamed.get(identity, identity), item) for identity, item in sources]
        open_ids = list(renamed.values())
    return sources


def check(item: NoteInput, config: MemoryConfig) -> None:
    """Check one item.

    Raises:
        InvalidInputError: Empty or too long content, text that is not Unicode, a time without a zone, an
            unknown source, or metadata that is not JSON.
    """
    if not isinstance(item.content, str) or not item.content.strip():
        raise InvalidInputError(f"content={item.content!r} is empty; give the text to remember")
    if len(item.content) > config.max_content_chars:
        raise InvalidInputError(
            f"content has {len(item.content)} characters, more than {config.max_content_chars}; "
            "split it, or raise MemoryConfig.max_content_chars"
        )
    for name in ("content", "key", "thread", "speaker"):
        _check_text(name, getattr(item, name))
    for at in (item.at, item.default_at):
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise InvalidInputError(f"at={at!r} must be a datetime with a time zone, such as UTC")
    if item.source not in SOURCES:
        raise InvalidInputError(f"source={item.source!r} must be one of {', '.join(SOURCES)}")
    _check_metadata(item.metadata)


def _check_text(name: str, text: str | None) -> None:
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidInputError(f"{name}={text!r} must be a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} holds a lone surrogate at {error.start}; decode it properly first"
        ) from error
    if "\0" in text:
        raise InvalidInputError(f"{name} holds a NUL character; remove it")


def _check_metadata(metadata: Mapping[str, object]) -> None:
    try:
        json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"metadata={metadata!r} is not plain JSON: {error}") from error


def _note(identity: str, namespace: Namespace, item: NoteInput) -> Note:
    return Note(
        id=identity,
        seq=0,
        namespace=namespace,
        content=item.content,
        recorded_at=now(),
        at=item.at or item.default_at,
        speaker=item.speaker,
        source=item.source,
        thread=item.thread,
        key=item.key,
        metadata=dict(item.metadata),
    )


async def _insert(runtime: Runtime, namespace: Namespace, notes: Sequence[Note]) -> set[str]:
    """Store new notes; return the ids that were not there yet, whoever else is adding them now."""
    if not notes:
        return set()
    op = new_operation()
    ordered = [note.revised(seq=clock.tick(), ops=(op,)) for note in notes]
    changes = [change(op, "add", note, recorded_at=note.recorded_at) for note in ordered]

    async def store(vectors: Sequence[Vector | None]) -> set[str]:
        items = [
            Indexed(note=note, vector=vector, text=texts.lexical_text(note))
            for note, vector in zip(ordered, vectors, strict=True)
        ]
        return await resolve(runtime.store.insert(namespace, items, changes))

    try:
        rows = await embed_if_possible(runtime, [texts.embedding_text(note) for note in ordered])
    except AmemError:
        # Trouble that does not pass, such as a revoked key: the caller is told, and the words are kept.
        await store([None] * len(ordered))
        raise
    return await store(rows)


async def _update(
    runtime: Runtime, namespace: Namespace, edited: Mapping[str, Mapping[str, Any]]
) -> dict[str, Note]:
    if not edited:
        return {}
    op, at = new_operation(), now()
    updates = {identity: edits.update(op, at, values) for identity, values in edited.items()}
    notes, changes = await rewrite(runtime, namespace, op, updates)
    await withdraw_echoes(runtime, namespace, op, changes)
    return notes
