"""Raw first: what was said is stored, and can be found, before any chat model is called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from .. import texts
from .._sync import resolve
from ..config import MemoryConfig
from ..errors import InvalidInputError
from ..ids import clock, new_operation, note_id, now
from ..notes import SOURCES, Namespace, Note, NoteInput
from ..ports import Indexed
from ..runtime import Runtime
from ..steps import edits
from ..steps.history import change
from .embedding import embed_if_possible
from .rewriting import rewrite


async def store_raw(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput]
) -> tuple[list[Note], list[str]]:
    """Store what is not there yet; return a note for each item, and the ids that need a model.

    An item that is there already gives the stored note. The same key with other content is the user's
    update: the note takes the new content and returns to `pending`.

    Raises:
        InvalidInputError: An item cannot be stored; then none is.
    """
    for item in items:
        check(item, runtime.config)
    wanted = [(note_id(namespace, item), item) for item in items]
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
    edited = {i: said_last[i].content for i in ids if _differs(stored[i], said_last[i])}
    stored |= await _update(runtime, namespace, edited)
    needing = [identity for identity in ids if identity in added or identity in edited]
    return [stored[identity] for identity, _ in wanted], needing


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
    if item.at is not None and item.at.tzinfo is None:
        raise InvalidInputError(
            f"at={item.at!r} has no time zone; add tzinfo, such as datetime.UTC"
        )
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


def _differs(known: Note, item: NoteInput) -> bool:
    return item.key is not None and known.content != item.content


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
    notes, _ = await rewrite(runtime, namespace, op, updates)
    return notes
