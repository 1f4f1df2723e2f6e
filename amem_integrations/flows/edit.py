"""Edit: what the user corrects, replaces and deletes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from ..changes.edits import Edit, chain, change_of_namespace
from ..changes.rewrite import rewrite
from ..current_facts import is_later
from ..errors import InvalidInputError
from ..evolution.supersede import objection_to
from ..evolution.supersede import supersede as edit_of
from ..fetch import existing
from ..filters import Condition
from ..ids import derive, new_operation, now
from ..notes import (
    RELATIONS,
    USER,
    Change,
    Namespace,
    Note,
    NoteInput,
    Relation,
    check_namespace,
    check_note_input,
    check_time,
)
from ..plans import MAX_REASON_CHARS, PlannedSupersession
from ..runtime import Runtime, resolve
from .content import change_note, later_chunks, remove_notes


class Unchanged(Enum):
    """Stands for an argument that was not given, where None means something."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        """Return how it reads in a signature."""
        return self.name


UNCHANGED = Unchanged.UNCHANGED


async def update(
    runtime: Runtime,
    note_id: str,
    *,
    namespace: Sequence[str],
    content: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    until: datetime | Unchanged | None = UNCHANGED,
    expires_at: datetime | Unchanged | None = UNCHANGED,
) -> Note:
    """Return the note with other content, other metadata, another end or time to expire, or all of these.

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
        until: How long it holds; None: no end is known.
        expires_at: From this time on the note is not found any more; None: it does not expire.

    Raises:
        NoteNotFoundError: There is none with this id in this namespace.
        InvalidInputError: Nothing was given, or something that cannot be stored.
        StoreError: The store refused; `history` then tells what was written.
    """
    space = check_namespace(namespace)
    times: dict[str, Any] = {
        name: value
        for name, value in (("until", until), ("expires_at", expires_at))
        if not isinstance(value, Unchanged)
    }
    if content is None and metadata is None and not times:
        raise InvalidInputError("update was given nothing to change; give content or metadata")
    (note,) = await existing(runtime.store, space, [note_id])
    text = note.content if content is None else content
    given = NoteInput(content=text, metadata=metadata or {}, **times)
    check_note_input(given, runtime.config.max_content_chars)
    values: dict[str, Any] = {**times}
    if content is not None:
        values["content"] = given.content
    if metadata is not None:
        values["metadata"] = json.loads(json.dumps(dict(given.metadata)))  # as it will be stored
    return (await change_note(runtime, space, note, values))[0]


async def supersede(
    runtime: Runtime,
    older: str,
    newer: str,
    *,
    namespace: Sequence[str],
    relation: Relation = "updates",
    reason: str = "",
    since: datetime | None = None,
) -> Change:
    """Say that a later note takes the place of an earlier one, and return the change, which can be undone.

    Nothing of the earlier note is deleted or hidden: searches show it below what takes its place. All of a long text
    is superseded with its first note.

    Args:
        older: The note that is outdated.
        newer: The note that takes its place; later by event time (`at`, else when it was recorded).
        namespace: Whose memory.
        relation: `"updates"` (the world changed), `"corrects"` (it was never so), `"retracts"` (it no longer holds,
            and nothing takes its place) or `"contradicts"` (neither wins). That an earlier note was right after all
            is a retraction of what took its place.
        reason: Why, in a few words.
        since: The event time from which it counts; None takes that of the newer note.

    Raises:
        NoteNotFoundError: One of them is not in this namespace.
        InvalidInputError: `newer` is not later, it says so already, or an argument is no such value.
    """
    space = check_namespace(namespace)
    if relation not in RELATIONS:
        raise InvalidInputError(f"relation={relation!r} must be one of {', '.join(RELATIONS)}")
    if not isinstance(reason, str) or len(reason) > MAX_REASON_CHARS:
        raise InvalidInputError(f"reason must be a text of at most {MAX_REASON_CHARS} characters")
    check_time("since", since)
    first, later = await existing(runtime.store, space, [older, newer])
    _check_later(first, later)
    op, at = new_operation(), now()
    edits = {
        chunk.id: edit_of(
            _plan(op, chunk, later, relation, reason), later, model=USER, op=op, at=at, since=since
        )
        for chunk in [first, *await later_chunks(runtime, space, first)]
    }
    done = await rewrite(runtime, space, op, edits)
    if not done.changes:
        raise InvalidInputError(f"note {newer!r} {relation} note {older!r} already")
    return next((made for made in done.changes if made.note_id == older), done.changes[0])


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
    notes = [note, *await later_chunks(runtime, space, note)]
    await remove_notes(runtime, space, notes)


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


async def check_superseded(
    runtime: Runtime, namespace: Namespace, items: Iterable[NoteInput]
) -> dict[str, Note]:
    """Return by id the notes that items supersede.

    Raises:
        NoteNotFoundError: One is not there.
        InvalidInputError: An item is not later than what it supersedes.
    """
    wanted = {note_id: item for item in items for note_id in item.supersedes}
    if not wanted:
        return {}
    older = {note.id: note for note in await existing(runtime.store, namespace, sorted(wanted))}
    for note_id, item in wanted.items():
        when = item.at or item.default_at or now()
        if when < older[note_id].when:
            raise InvalidInputError(
                f"at={when!r} is before note {note_id!r}, so it cannot supersede that note"
            )
    return older


async def supersede_with(
    runtime: Runtime,
    namespace: Namespace,
    stored: Iterable[tuple[NoteInput, Note]],
    older: Mapping[str, Note],
) -> None:
    """Write what items supersede, once they are stored.

    What an assistant or a tool wants to replace of a user's words is proposed (see `MemoryConfig.assistant_supersedes`).
    """
    op, at = new_operation(), now()
    steps: defaultdict[str, list[Edit]] = defaultdict(list)
    for item, newer in stored:
        for outdated in (older[note_id] for note_id in dict.fromkeys(item.supersedes)):
            _check_later(outdated, newer)
            objection = objection_to(newer, outdated, runtime.config)
            for chunk in [outdated, *await later_chunks(runtime, namespace, outdated)]:
                plan = _plan(op, chunk, newer, "updates", "", objection)
                steps[chunk.id].append(edit_of(plan, newer, model=USER, op=op, at=at))
    await rewrite(runtime, namespace, op, {i: chain(parts) for i, parts in steps.items()})


def _plan(
    op: str,
    older: Note,
    newer: Note,
    relation: Relation,
    reason: str,
    rejected: str | None = None,
) -> PlannedSupersession:
    return PlannedSupersession(
        id=derive("change", op, "supersede", older.id, newer.id),
        target=older.id,
        relation=relation,
        reason=" ".join(reason.split()),
        rejected=rejected,
    )


def _check_later(older: Note, newer: Note) -> None:
    if newer.chunk_of == older.id:
        raise InvalidInputError(f"note {newer.id!r} is part of the text {older.id!r} itself")
    if not is_later(newer, older):
        raise InvalidInputError(
            f"note {newer.id!r} of {newer.when} is not later than note {older.id!r} of {older.when}, so it cannot "
            "supersede it; if the earlier one was right after all, let a note retract the later one"
        )
