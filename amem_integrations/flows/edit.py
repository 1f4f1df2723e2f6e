"""Edit: what the user corrects, replaces and deletes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from uuid import uuid4

from ..decisions import Call, Decision, Item, Source
from ..embedding import WITHOUT_EMBEDDER
from ..errors import InvalidInputError
from ..evolution.gate import objection_to
from ..fetch import existing, not_found
from ..filters import Condition
from ..ids import now
from ..journal import erasure
from ..journal.changes import change_of_item
from ..journal.commit import commit
from ..journal.erasure import Redacted, forget
from ..journal.insertion import edit
from ..journal.redaction import ENDS
from ..journal.writer import Writer
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
    storable,
)
from ..plans import MAX_REASON_CHARS, Forgotten
from ..retrieval.current_facts import is_later
from ..runtime import Runtime, resolve
from ..stored_note import StoredNote
from .writing import writing

TOMBSTONES_STAY = timedelta(days=1)
# Speaker and time belong to the wording: all that was made of the text names them, and goes when one of them changes.
WORDING = ("content", "at", "speaker")


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
    at: datetime | Unchanged | None = UNCHANGED,
    speaker: str | Unchanged | None = UNCHANGED,
    until: datetime | Unchanged | None = UNCHANGED,
    expires_at: datetime | Unchanged | None = UNCHANGED,
    thorough: bool = False,
) -> Note:
    """Return the note with other content, another time or speaker, other metadata, or several of these.

    The old values stay in the note's history, and nowhere else. With other content, time or speaker the note is pending
    again, and found by the new content at once; its links and what was made of the old wording go, in this note and in
    others, and the next `evolve` makes attributes for it. What the user decided, such as a supersession, stays in force.
    While the embedder is down the note is found by its new words.

    Args:
        note_id: Which note.
        namespace: Whose memory.
        content: The new text.
        metadata: The new metadata, in place of all there was.
        at: When it happened; None: when it was recorded.
        speaker: Who said it; None: nobody is named.
        until: How long it holds; None: no end is known.
        expires_at: From this time on the note is not found any more; None: it does not expire.
        thorough: With another content, time or speaker: the earlier wordings go from the history too, and everything
            that was written by calls which were shown them (see `delete`).

    Raises:
        NoteNotFoundError: There is none with this id in this namespace.
        InvalidInputError: Nothing was given, or something that cannot be stored.
        StoreError: The store refused; `history` then tells what was written.
    """
    space = check_namespace(namespace)
    given = {"at": at, "speaker": speaker, "until": until, "expires_at": expires_at}
    values: dict[str, Any] = {
        name: value for name, value in given.items() if not isinstance(value, Unchanged)
    }
    values |= {} if content is None else {"content": content}
    values |= {} if metadata is None else {"metadata": metadata}
    if not values:
        raise InvalidInputError("update was given nothing to change; give content or metadata")
    if thorough and values.keys().isdisjoint(WORDING):
        raise InvalidInputError("thorough=True is for another content, time or speaker; give one")
    item = NoteInput(**{"content": "any", **values})
    check_note_input(item, runtime.config.max_content_chars)
    values = {name: getattr(item, name) for name in values}
    async with writing(runtime, space, despite=WITHOUT_EMBEDDER) as writer:
        stands, _ = await change_note(writer, note_id, values, thorough=thorough)
    return stands


async def change_note(
    writer: Writer,
    note_id: str,
    values: Mapping[str, object],
    *,
    thorough: bool = False,
    expired: bool = False,
) -> tuple[Note, bool]:
    """Give fields of a note other values; return the note as it stands, and whether the note has another wording now.

    Raises:
        NoteNotFoundError: The note is not there, or (without `expired`) has expired.
    """
    wording = {name: value for name, value in values.items() if name in WORDING}
    given = {**values}
    if "metadata" in given:
        given["metadata"] = json.loads(json.dumps(given["metadata"]))  # as it will be stored

    def changed(note: Note) -> Note:
        if note.is_expired(now()) and not expired:
            raise not_found(writer.namespace, note_id)
        return replace(note, **given)  # type: ignore[arg-type]

    def is_other(stored: StoredNote) -> bool:
        return thorough or any(
            getattr(stored.note, name, value) != value for name, value in wording.items()
        )

    gone: Redacted | None = None
    if wording:
        gone = await forget(writer, note_id, changed, thorough=thorough, only_if=is_other)
    if gone is None:
        stands = await edit(writer, note_id, changed)
    else:
        stands = (await writer.notes([note_id])).get(note_id)
    if stands is None or stands.note is None:
        raise not_found(writer.namespace, note_id)
    return stands.note, gone is not None


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

    Nothing of the earlier note is deleted or hidden: searches show it below what takes its place. It stays so, whatever
    models decide, and after corrections of both notes.

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
    async with writing(runtime, space) as writer:
        first, later = await existing(runtime.store, space, [older, newer])
        _check_later(first, later)
        text = " ".join(storable(reason).split())
        known = first.supersessions.get(newer)
        if known is not None and (known.relation, known.reason) == (relation, text):
            raise InvalidInputError(f"note {newer!r} {relation} note {older!r} already")
        decision = _verdict(writer, first, later, relation=relation, reason=text, since=since)
        await _decide(writer, [decision])
    return change_of_item(decision, decision.items[0])


async def delete(
    runtime: Runtime, note_id: str, *, namespace: Sequence[str], thorough: bool = False
) -> Forgotten:
    """Remove a note for good, with all that was made of its text, and return what went.

    Gone are its content, its earlier wordings, its links, and of other notes every entry, sentence and reason that has
    the note among its sources: the texts that it was shown for and shares a telling word with. Notes that lose their
    attributes are pending again, and the next `evolve` makes them anew. What a model concluded in other words stays.
    It cannot be undone, and works while the embedder is down, too.

    Args:
        note_id: Which note.
        namespace: Whose memory.
        thorough: Also remove everything that was written by calls of a model which were shown the note, whatever it says,
            and what calls that are under way will answer. A note that was deleted without can be deleted thoroughly
            as long as its history tells of it.

    Raises:
        NoteNotFoundError: There is none with this id in this namespace.
    """
    space = check_namespace(namespace)
    time, is_again = now(), space in runtime.unfinished

    def is_there(stored: StoredNote) -> bool:
        if stored.note is None:  # to help a delete that failed half way, or make a delete thorough
            return thorough or is_again or stored.purge is not None
        return not stored.note.is_expired(time)

    async with writing(runtime, space, despite=WITHOUT_EMBEDDER) as writer:
        redacted = await forget(writer, note_id, thorough=thorough, only_if=is_there)
    if redacted is None:
        raise not_found(space, note_id)
    return _forgotten(note_id, redacted)


async def clear(runtime: Runtime, *, namespace: Sequence[str]) -> None:
    """Remove all notes of a namespace for good, with all that was decided about them; no other namespace is touched.

    What models have cost stays in the ledger, and counts against the limits of the day.
    """
    space = check_namespace(namespace)
    async with writing(runtime, space, despite=WITHOUT_EMBEDDER) as writer:
        await erasure.clear(writer)


async def sweep(runtime: Runtime, *, namespace: Sequence[str] | None = None) -> int:
    """Delete the notes that have expired, as `delete` does, and return how many there were.

    What is left of notes that were deleted more than a day ago, by which their history is known, goes too.

    Args:
        namespace: Whose memory; None takes all of them.
    """
    before, swept = now() - TOMBSTONES_STAY, 0
    if namespace is not None:
        async with writing(runtime, check_namespace(namespace), despite=WITHOUT_EMBEDDER) as writer:
            return await erasure.sweep(writer, before)
    expired = Condition("expires_at", "$lte", now())
    for space in await resolve(runtime.store.namespaces((expired,))):
        async with writing(runtime, space, despite=WITHOUT_EMBEDDER) as writer:
            swept += await erasure.sweep(writer, before)
    for space in await resolve(runtime.store.namespaces(recorded=True)):
        await resolve(runtime.store.remove_tombstones(space, before))
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
        when = item.at or item.default_at or runtime.clock.now()
        if when < older[note_id].when:
            raise InvalidInputError(
                f"at={when!r} is before note {note_id!r}, so it cannot supersede that note"
            )
    return older


async def supersede_with(
    runtime: Runtime,
    writer: Writer,
    stored: Iterable[tuple[NoteInput, Note]],
    older: Mapping[str, Note],
) -> None:
    """Write what items supersede, once they are stored.

    What an assistant or a tool wants to replace of a user's words is proposed (see `MemoryConfig.assistant_supersedes`).
    """
    decisions = []
    for item, newer in stored:
        for outdated in (older[note_id] for note_id in dict.fromkeys(item.supersedes)):
            _check_later(outdated, newer)
            if newer.id not in outdated.supersessions:
                why = objection_to(newer, outdated, runtime.config)
                decisions.append(_verdict(writer, outdated, newer, why=why))
    if decisions:
        await _decide(writer, decisions)


async def _decide(writer: Writer, decisions: Sequence[Decision]) -> None:
    """Write what the user decided.

    Raises:
        NoteNotFoundError: A note that it is about was deleted meanwhile.
    """
    call = Call(
        id=decisions[0].call,
        token=writer.new_token(),
        namespace=writer.namespace,
        by=USER,
        seq=writer.new_seq(),
        data={"task": "supersede"},
    )
    decisions = [replace(one, call=call.id) for one in decisions]
    settled = await commit(writer, call, decisions)
    for decision in settled.decisions.values():
        if decision.void:
            await existing(writer.store, writer.namespace, decision.about)


def _verdict(
    writer: Writer,
    older: Note,
    newer: Note,
    *,
    relation: Relation = "updates",
    reason: str = "",
    since: datetime | None = None,
    why: str | None = None,
) -> Decision:
    """Return the user's decision that a note takes the place of another; one that `why` speaks against waits.

    Each is a decision by itself, as it goes when one of its two notes is deleted.
    """
    data = {"relation": relation} | ({} if why is None else {"why": why})
    item = Item(
        kind="supersession",
        to=older.id,
        by=USER,
        text=reason,
        sources=(Source(newer.id, newer.rev), Source(older.id, older.rev)),
        data=data,
        switch="on" if why is None else "waiting",
    )
    return Decision(
        id=str(uuid4()),
        token=writer.new_token(),
        namespace=writer.namespace,
        call=str(uuid4()),
        note=newer.id,
        rev=newer.rev,
        stage="user",
        seq=writer.new_seq(),
        at=since or newer.when,
        items=(item,),
    )


def _check_later(older: Note, newer: Note) -> None:
    if not is_later(newer, older):
        raise InvalidInputError(
            f"note {newer.id!r} of {newer.when} is not later than note {older.id!r} of {older.when}, so it cannot "
            "supersede it; if the earlier one was right after all, let a note retract the later one"
        )


def _forgotten(note_id: str, redacted: Redacted) -> Forgotten:
    """Return what went, of decisions as they were and what is left of them."""
    gone: defaultdict[str, set[str]] = defaultdict(set)
    for before, after in redacted.values():
        left = {item.number: item for item in after.items}
        for item in before.items:
            if item == left.get(item.number):
                continue
            if item.kind in ENDS:
                gone["reasons"] |= {before.note, item.to, item.other} - {""}
            else:
                gone[item.kind].add(item.to)
            if item.kind == "entry" and item.is_on:
                gone["again"].add(before.note)
    ids = {name: tuple(sorted(some - {note_id})) for name, some in gone.items()}
    return Forgotten(
        entries=ids.get("entry", ()),
        sentences=ids.get("sentence", ()),
        reasons=ids.get("reasons", ()),
        forms=ids.get("form", ()),
        pending=len(ids.get("again", ())),
    )
