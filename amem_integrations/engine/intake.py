"""Raw first: what was said is stored, and can be found, before any chat model is called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from .. import texts
from .._sync import resolve
from ..config import MemoryConfig
from ..errors import InvalidInputError, NoteNotFoundError
from ..ids import clock, derive, new_operation, note_id, now
from ..notes import SOURCES, Namespace, Note, NoteInput
from ..ports import Indexed
from ..runtime import Runtime
from ..steps import edits
from ..steps.history import change
from .embedding import embed_if_possible
from .pieces import split, surplus
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

    An item that is there already gives the stored note. The same key with other content is the user's
    update: the note takes the new content and returns to `pending`. An item that is too long for the
    encoder becomes several notes, and gives the first of them.

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
    said_last = dict(wanted)
    fixed = {i for i, made in pieces.items() if len(made) == 1}
    edited = {
        i: said_last[i].content
        for i in ids
        if i in stored and _differs(stored[i], said_last[i], keyed=i not in fixed)
    }
    stored |= await _update(runtime, namespace, edited)
    return Stored(
        notes=[_present(stored, identity, namespace) for identity, _ in sources],
        needing=[stored[i] for i in ids if i in stored and (i in added or i in edited)],
        surplus=await surplus(
            runtime, namespace, {i: len(pieces[i]) for i in edited if i in pieces}
        ),
    )


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
    if item.at is not None and (not isinstance(item.at, datetime) or item.at.tzinfo is None):
        raise InvalidInputError(f"at={item.at!r} must be a datetime with a time zone, such as UTC")
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


def _differs(known: Note, item: NoteInput, *, keyed: bool) -> bool:
    return (keyed or item.key is not None) and known.content != item.content


def _note(identity: str, namespace: Namespace, item: NoteInput) -> Note:
    return Note(
        id=identity,
        seq=0,
        namespace=namespace,
        content=item.content,
        recorded_at=now(),
        at=item.at,
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
    vectors = await embed_if_possible(runtime, [texts.embedding_text(note) for note in ordered])
    items = [
        Indexed(note=note, vector=vector, text=texts.lexical_text(note))
        for note, vector in zip(ordered, vectors, strict=True)
    ]
    changes = [change(op, "add", note, recorded_at=note.recorded_at) for note in ordered]
    return await resolve(runtime.store.insert(namespace, items, changes))


async def _update(
    runtime: Runtime, namespace: Namespace, contents: Mapping[str, str]
) -> dict[str, Note]:
    if not contents:
        return {}
    op, at = new_operation(), now()
    updates = {
        identity: edits.update(op, at, content=content) for identity, content in contents.items()
    }
    notes, changes = await rewrite(runtime, namespace, op, updates)
    await withdraw_echoes(runtime, namespace, op, changes)
    return notes
