"""Edit: what the user corrects and deletes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._sync import resolve
from ..changes.edits import change_of_namespace
from ..checks import check_note_input
from ..errors import InvalidInputError
from ..fetch import existing
from ..filters import Condition
from ..ids import check_namespace, new_operation, now
from ..notes import Note, NoteInput
from ..runtime import Runtime
from .content import change_note, later_chunks, remove_notes


async def update(
    runtime: Runtime,
    note_id: str,
    *,
    namespace: Sequence[str],
    content: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> Note:
    """Return the note with other content, other metadata, another time to expire, or all of these.

    The old values stay in the note's history, and nowhere else. With new content the note is pending again, and
    found by that content at once; its links stay, what its old content had added to other notes goes, and the
    next `evolve` makes attributes for it. For the first note of a long text, `content` is the whole text, and
    its other notes change with it. While the embedder is down the note is found by its new words, and has
    the vector of the old ones until it is constructed.

    Args:
        note_id: Which note.
        namespace: Whose memory.
        content: The new text.
        metadata: The new metadata, in place of all there was.
        expires_at: From this time on the note is not found any more.

    Raises:
        NoteNotFoundError: There is none with this id in this namespace.
        InvalidInputError: Nothing was given, or something that cannot be stored.
        StoreError: The store refused; `history` then tells what was written.
    """
    space = check_namespace(namespace)
    if content is None and metadata is None and expires_at is None:
        raise InvalidInputError("update was given nothing to change; give content or metadata")
    (note,) = await existing(runtime.store, space, [note_id])
    text = note.content if content is None else content
    given = NoteInput(content=text, metadata=metadata or {}, expires_at=expires_at)
    check_note_input(given, runtime.config)
    values: dict[str, Any] = {}
    if content is not None:
        values["content"] = content
    if metadata is not None:
        values["metadata"] = json.loads(json.dumps(dict(metadata)))  # as it will be stored
    if expires_at is not None:
        values["expires_at"] = expires_at
    return (await change_note(runtime, space, note, values))[0]


async def delete(runtime: Runtime, note_id: str, *, namespace: Sequence[str]) -> None:
    """Remove a note for good: its history, the links to it, and every text that a model made of it.

    With the first note of a long text, the one that `add` returned, all of that text goes. What stays is
    a receipt without content. It cannot be undone. It works while the embedder is down, too: notes that
    evolved by this one lose that text, and keep the vector it gave them until they change or `reindex`.

    Raises:
        NoteNotFoundError: There is none with this id in this namespace.
    """
    space = check_namespace(namespace)
    (note,) = await existing(runtime.store, space, [note_id])
    await remove_notes(runtime, space, [note, *await later_chunks(runtime, space, note)])


async def clear(runtime: Runtime, *, namespace: Sequence[str]) -> None:
    """Remove all notes of a namespace for good, with their history; no other namespace is touched.

    What stays are receipts without content: of this, and of what was deleted before. What models have cost stays
    in the ledger too, and counts against the limits of the day.
    """
    space = check_namespace(namespace)
    data = {"notes": await resolve(runtime.store.count(space))}
    receipt = change_of_namespace(new_operation(), "clear", space, now(), data)
    await resolve(runtime.store.clear(space, [receipt]))


async def sweep(runtime: Runtime, *, namespace: Sequence[str] | None = None) -> int:
    """Delete the notes that have expired, as `delete` does, and return how many there were.

    Args:
        namespace: Whose memory; None takes all of them.
    """
    where = (Condition("expires_at", "$lte", now()),)
    spaces = (
        await resolve(runtime.store.namespaces(where))
        if namespace is None
        else [check_namespace(namespace)]
    )
    swept = 0
    for space in spaces:
        while expired := await resolve(runtime.store.scan(space, where=where)):
            await remove_notes(runtime, space, expired)
            swept += len(expired)
    return swept
