"""Edit: what the user adds, corrects, replaces and deletes.

What is said is stored raw, and can be found, before any chat model is called; then it evolves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from types import EllipsisType
from typing import Any

from ..conversation import SPEAKING, from_dict, note_inputs
from ..decisions import Call, Decision, Item
from ..errors import AmemError, InvalidInputError, NoteNotFoundError
from ..evolution.gate import objection_to
from ..fetch import existing, not_found
from ..filters import check_id
from ..ids import derive, new_operation, now, time_of
from ..ids import note_id as id_of
from ..journal import erasure
from ..journal.commit import ENDS, commit
from ..journal.erasure import Redacted, forget
from ..journal.fold import first_state
from ..journal.history import changes_of_item
from ..journal.projection import project
from ..journal.writer import Writer, insert
from ..kinds import kind_of
from ..notes import (
    RELATIONS,
    USER,
    Change,
    Namespace,
    Note,
    NoteInput,
    Relation,
    Source,
    Wording,
    check_namespace,
    check_note_input,
    check_time,
    storable,
)  # fmt: skip
from ..plans import MAX_REASON_CHARS, Forgotten
from ..ports import RecordQuery
from ..retrieval.current_facts import is_later
from ..runtime import Meter, Progress, Runtime, resolve
from ..stored_note import StoredNote
from .evolve import evolve_notes, raise_mistake
from .writing import WORDING, change_note, living_note, writing

TOMBSTONES_STAY = timedelta(days=1)
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
    meter = Meter(progress)
    notes, waiting = await store(runtime, space, _inputs(items))
    finished: Mapping[str, Note] = {}
    if evolve and waiting:
        meter.total = len(waiting)
        finished, _ = await evolve_notes(runtime, space, waiting, meter)
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


async def update(
    runtime: Runtime,
    note_id: str,
    *,
    namespace: Sequence[str],
    content: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    at: datetime | EllipsisType | None = ...,
    speaker: str | EllipsisType | None = ...,
    until: datetime | EllipsisType | None = ...,
    expires_at: datetime | EllipsisType | None = ...,
    thorough: bool = False,
) -> Note:
    """Return the note with other content, another time or speaker, other metadata, or several of these.

    The old values stay in the note's history, and nowhere else. With other content, time or speaker the note is pending
    again, and found by the new content at once; its links and what was made of the old wording go, in this note and in
    others, and the next `evolve` makes attributes for it. What the user decided, such as a supersession, stays in force.
    While the embedder is down the note is found by its new words. What is not given (`...`) stays.

    Args:
        note_id: Which note.
        namespace: Whose memory.
        content: The new text.
        metadata: The new metadata, in place of all there was.
        at: When it happened; None: when it was recorded.
        speaker: Who said the content; None: nobody is named.
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
    check_id(note_id)
    given = {"at": at, "speaker": speaker, "until": until, "expires_at": expires_at}
    values: dict[str, Any] = {name: one for name, one in given.items() if one is not ...}
    values |= {} if content is None else {"content": content}
    values |= {} if metadata is None else {"metadata": metadata}
    if not values:
        raise InvalidInputError("update was given nothing to change; give content or metadata")
    _check(thorough)
    if thorough and values.keys().isdisjoint(WORDING):
        raise InvalidInputError("thorough=True is for another content, time or speaker; give one")
    item = NoteInput(**{"content": "any", **values})
    check_note_input(item, runtime.config.max_content_chars)
    values = {name: getattr(item, name) for name in values}

    def check(note: Note) -> None:
        if note.is_expired(now()):
            raise not_found(space, note_id)

    async with writing(runtime, space) as writer:
        return await change_note(writer, note_id, values, thorough=thorough, check=check)


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
        text = " ".join(storable(reason).split())
        known = first.supersessions.get(newer)
        if known is not None and (known.relation, known.reason) == (relation, text):
            raise InvalidInputError(f"note {newer!r} {relation} note {older!r} already")
        said = _verdict(first, later, relation=relation, reason=text)
        (decision,) = await _decide(writer, [(later, since or later.when, said)])
    return next(changes_of_item(decision, decision.items[0])).change


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
        InvalidInputError: `thorough` is neither True nor False.
    """
    space = check_namespace(namespace)
    check_id(note_id)
    _check(thorough)
    time, is_again = now(), space in runtime.unfinished

    def is_there(stored: StoredNote) -> bool:
        if stored.note is None:  # to help a delete that failed half way, or make a delete thorough
            return thorough or is_again or stored.purge is not None
        return not stored.note.is_expired(time)

    async with writing(runtime, space) as writer:
        redacted = await forget(writer, note_id, thorough=thorough, only_if=is_there)
    if redacted is None:
        raise not_found(space, note_id)
    return _forgotten(note_id, redacted)


async def clear(runtime: Runtime, *, namespace: Sequence[str]) -> None:
    """Remove all notes of a namespace for good, with all that was decided about them; no other namespace is touched.

    What models have cost stays in the ledger, and counts against the limits of the day.
    """
    space = check_namespace(namespace)
    async with writing(runtime, space) as writer:
        await erasure.clear(writer)
    runtime.outbox.take(space)  # or the next turn would store what was said before


async def sweep(runtime: Runtime, *, namespace: Sequence[str] | None = None) -> int:
    """Delete the notes that have expired, as `delete` does, and return how many there were.

    What is left of notes that were deleted more than a day ago, by which their history is known, goes too.

    Args:
        namespace: Whose memory; None takes all of them.
    """
    swept, time = 0, now()
    before = time - TOMBSTONES_STAY
    if namespace is not None:
        spaces = [check_namespace(namespace)]
    else:  # of very many users few have anything to sweep
        spaces = await resolve(runtime.store.to_sweep(time, before))
    for space in spaces:
        async with writing(runtime, space) as writer:
            swept += await erasure.sweep(writer, before)
    return swept


async def store(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput]
) -> tuple[list[Note], list[Note]]:
    """Store the items that are not there yet; return a note for each item, and the notes that wait for a model since.

    An item that is there already gives the stored note. The same key with other values is the user's update: the note
    takes what was given, and with another content, time or speaker it is `pending` again.

    Raises:
        InvalidInputError: An item cannot be stored; then none is.
    """
    for item in items:
        check_note_input(item, runtime.config.max_content_chars)
    named = sorted({note_id for item in items for note_id in item.supersedes})
    errors: list[AmemError] = []
    async with writing(replace(runtime, degraded=errors.append), namespace) as writer:
        # If the answer to the same call was lost, its decisions show by now.
        older = {note.id: note for note in await existing(runtime.store, namespace, named)}
        ids, known = await _identified(writer, items)
        before = {i: stored.note for i, stored in known.items() if stored.note is not None}
        notes = dict(before)
        for i, item in zip(ids, items, strict=True):
            if i not in notes:
                notes[i] = new_note(runtime, namespace, i, item)
        said = list(zip(items, ids, strict=True))
        planned = [replace(notes[i], at=item.at or notes[i].at) for item, i in said]
        _verdicts(runtime, items, planned, older)  # refuses before anything is stored
        new = [note for i, note in notes.items() if i not in before]
        # With a key somebody else may have said something else under the same id.
        look = any(note.key is not None for note in new)
        stands = await insert(writer, new, known, look=look)
        notes |= {note.id: living_note(writer, note.id, stands.get(note.id)) for note in new}
        for item, i in said:
            if item.key is not None:
                notes[i] = await _take_over(runtime, writer, item, notes[i])
        found = [notes[i] for i in ids]
        verdicts = await _not_proposed(writer, _verdicts(runtime, items, found, older), before)
        if verdicts:
            await _decide(writer, verdicts)
    for error in errors:
        runtime.degraded(error)
        raise_mistake(error)  # the caller is told, and the words are kept
    waited = {i: note.rev for i, note in before.items() if note.state == "pending"}
    waiting = [n for i, n in notes.items() if n.state == "pending" and waited.get(i) != n.rev]
    return found, waiting


async def _identified(
    writer: Writer, items: Sequence[NoteInput]
) -> tuple[list[str], dict[str, StoredNote]]:
    """Return the id of each item, and what is stored under these ids.

    Without a key, the id stands for the words and counts their occurrence. Where the note of that id was corrected,
    superseded or has expired, the same words are a new statement, and get the next id.
    """
    ids = [id_of(writer.namespace, item) for item in items]
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


async def _take_over(runtime: Runtime, writer: Writer, item: NoteInput, note: Note) -> Note:
    """Return the note that a repeated key has changed, as it stands.

    Fields that the item leaves out stay as they are. A note that had expired, and was swept meanwhile, is stored anew.

    Raises:
        NoteNotFoundError: The note was deleted meanwhile.
    """
    names = ("content", "origin", "at", "speaker", "until", "expires_at", "metadata")
    given = {name: value for name in names if (value := getattr(item, name))}
    values = {name: value for name, value in given.items() if getattr(note, name) != value}
    if was_over := note.is_expired(now()):
        # The content is said again, so the note holds again.
        values["expires_at"] = item.expires_at or _expiry(runtime, writer.namespace, now())
    try:
        note = await change_note(writer, note.id, values) if values else note
    except NoteNotFoundError:
        if not was_over:
            raise
        stands = await insert(writer, [new_note(runtime, writer.namespace, note.id, item)])
        return living_note(writer, note.id, stands.get(note.id))
    if "origin" in values:  # whether it waits for a model follows from that
        note = living_note(writer, note.id, (await project(writer, [note.id])).get(note.id))
    return note


def _expiry(runtime: Runtime, namespace: Namespace, recorded_at: datetime) -> datetime | None:
    """Return when a note expires that says nothing about it."""
    ttl = runtime.config.ttl_of(namespace)
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
    is_list = isinstance(items, Iterable) and not isinstance(items, str | Mapping)
    given: list[Any] = list(items) if is_list else [items]
    for item in given:
        if not is_list or not isinstance(item, str | NoteInput):
            raise InvalidInputError(
                f"add_many wants a list of texts or NoteInput values, not {item!r}; use add for one"
            )
    return [NoteInput(content=one) if isinstance(one, str) else one for one in given]


def _verdict(older: Note, newer: Note, *, relation: Relation = "updates", reason: str = "") -> Item:
    """Return the user's verdict that a note takes the place of another.

    Raises:
        InvalidInputError: The note is not later than the other.
    """
    if not is_later(newer, older):
        raise InvalidInputError(
            f"note {newer.id!r} of {newer.when} is not later than note {older.id!r} of {older.when}, so it cannot "
            "supersede it; if the earlier one was right after all, let a note retract the later one"
        )
    sources = (Wording(newer.id, newer.rev), Wording(older.id, older.rev))
    data = {"relation": relation}
    return Item(kind="supersession", to=older.id, by=USER, text=reason, sources=sources, data=data)


def _verdicts(
    runtime: Runtime, items: Iterable[NoteInput], notes: Iterable[Note], older: Mapping[str, Note]
) -> list[tuple[Note, datetime, Item]]:
    """Return the verdicts of items with their notes, for `_decide`.

    What an assistant or a tool wants to replace of a user's words is proposed (see `MemoryConfig.assistant_supersedes`).

    Raises:
        InvalidInputError: An item is not later than what it supersedes.
    """
    return [
        (newer, newer.when, _verdict(one, newer).judged(objection_to(newer, one, runtime.config)))
        for item, newer in zip(items, notes, strict=True)
        for one in (older[note_id] for note_id in dict.fromkeys(item.supersedes))
        if newer.id not in one.supersessions
    ]


async def _not_proposed(
    writer: Writer, verdicts: Sequence[tuple[Note, datetime, Item]], before: Collection[str]
) -> Sequence[tuple[Note, datetime, Item]]:
    """Return verdicts without the proposals that wait already: of notes that were there before, an agent says it again."""
    again = {newer.id for newer, _, item in verdicts if not item.is_on and newer.id in before}
    if not again:
        return verdicts
    found = await writer.decisions(RecordQuery(about=frozenset(again), waiting=True))
    waiting = {
        (decision.note, item.to)
        for decision in found.values()
        for item in decision.items
        if (item.kind, item.switch) == ("supersession", "waiting")
    }
    return [one for one in verdicts if one[2].is_on or (one[0].id, one[2].to) not in waiting]


async def _decide(
    writer: Writer, verdicts: Iterable[tuple[Note, datetime, Item]]
) -> list[Decision]:
    """Write verdicts of the user, each given with the newer note and the time from which the verdict counts.

    Each is a decision by itself, as it goes when one of its two notes is deleted. Return the decisions.

    Raises:
        NoteNotFoundError: A note that a verdict is about was deleted meanwhile.
    """
    call = Call(
        id=new_operation(),
        token=writer.new_token(),
        namespace=writer.namespace,
        by=USER,
        seq=writer.new_seq(),
    )
    decisions = [
        Decision(
            id=new_operation(),
            token=writer.new_token(),
            namespace=writer.namespace,
            call=call.id,
            note=newer.id,
            rev=newer.rev,
            stage="user",
            seq=writer.new_seq(),
            at=since,
            items=(item,),
        )
        for newer, since, item in verdicts
    ]
    settled = await commit(writer, call, decisions)
    for decision in settled.decisions.values():
        if decision.void:
            await existing(writer.store, writer.namespace, decision.about)
    return decisions


def _check(thorough: object) -> None:
    if not isinstance(thorough, bool):  # "false", as some models write it, would count as true
        raise InvalidInputError(f"thorough={thorough!r} must be True or False")


def _forgotten(note_id: str, redacted: Redacted) -> Forgotten:
    """Return the items that went, by comparing decisions as they were with decisions as they are left."""
    gone: defaultdict[str, set[str]] = defaultdict(set)
    for before, after in redacted.values():
        for item in before.items:
            if item in after.items:
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
