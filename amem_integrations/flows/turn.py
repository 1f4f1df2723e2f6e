"""One turn of a conversation: what is recalled for it, what of it is remembered, and how that evolves.

Every adapter is built on these. Its framework's messages become `conversation.Message` values; then, under `invoke`
and `ainvoke` alike::

    recalled = memory.recall_turn(messages, namespace=space)                          # before the model is called
    memory.remember_turn(asked, namespace=space, thread=thread, complete=False)       # at the first call of the model
    done = memory.remember_turn(answer, namespace=space, thread=thread)               # the answer is there
    memory.evolve_later(space)                                                        # in the background

A failing embedder takes nothing away: `recalled.error` and `done.error` say why only words count. What a failing store
did not take waits in the outbox of the memory, and follows with the next turn of the same namespace; it is lost with the
process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from ..conversation import SPEAKING, Message, message_key, note_input, occurrence_key, parties
from ..errors import AmemError, ModelUnavailableError
from ..fetch import existing, living
from ..filters import WITHOUT_VECTOR
from ..ids import note_id
from ..journal.writer import Writer, restore
from ..notes import Namespace, Note, NoteInput, ScoredNote, check_namespace, check_note_input
from ..plans import EvolutionReport
from ..retrieval.context import render_notes
from ..retrieval.relevance import WINDOW
from ..retrieval.search import search
from ..runtime import Runtime, log, resolve
from ..stored_note import StoredNote
from .edit import add, new_note, store, supersede
from .evolve import evolve
from .forms import profile
from .read import get_all, marked, recall
from .writing import PAGE, writing

ANSWERS = "answers"  # metadata of a message and its note: the id of the message that it answers
HASH = "message_hash"  # metadata of a note: tells a message that was edited from a note that was corrected
RECALLED = 30  # notes to choose from; 1,000 tokens hold about 25
LEFT_OVERS = 8  # unfinished notes of earlier turns that a turn also finishes, if it evolves itself
MOST_ANSWERS = 64  # to one message that are looked through
MOST_NAMESPACES = 10_000  # of which it is known which notes have no vectors
AT_ONCE = 8  # occurrences of a text that are looked up at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The notes that are worth showing for a question.

    Attributes:
        hits: The notes, best first.
        text: The notes as text for a prompt, marked as data; "" if there are none.
        error: Why notes were looked for by their words alone; None if the embedder worked.
        about: Who the user is, which stands above the notes.
        also: The further namespaces that were read, by the names that mark their notes.
    """

    hits: list[ScoredNote] = field(default_factory=list)
    text: str = ""
    error: AmemError | None = None
    about: str = ""
    also: Mapping[str, Sequence[str]] | None = None

    def render(self, hits: Sequence[ScoredNote], max_tokens: int) -> str:
        """Return some of the hits as text for a prompt, as `text` has all of them."""
        return render_notes(marked(hits, self.also), max_tokens=max_tokens, about=self.about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The notes that were stored of a turn.

    Attributes:
        notes: A note for each message that is worth storing, also those that were stored before.
        error: Why the notes have no vectors yet, and are found by their words alone; None if they have.
    """

    notes: list[Note] = field(default_factory=list)
    error: AmemError | None = None


async def recall_turn(
    runtime: Runtime,
    messages: Sequence[Message],
    *,
    namespace: Sequence[str],
    also: Mapping[str, Sequence[str]] | None = None,
    k: int = RECALLED,
    max_tokens: int = 1000,
    where: Mapping[str, Any] | None = None,
    min_similarity: float | None = None,
    links: bool = True,
    as_of: datetime | None = None,
    window: int = WINDOW,
) -> Recalled:
    """Return the notes that are worth showing for the last message of a user.

    What the messages themselves say is left out: it stands in the prompt. No chat model is called.

    Args:
        messages: The conversation so far, oldest first; nothing is recalled if no user said anything in words.
        namespace: Whose memory.
        also: Further namespaces to read, each by the name that marks its notes in the text.
        k: How many notes to consider, of which as many are shown as fit; for more `max_tokens`, consider more.
        where, min_similarity, links, as_of: See `AgenticMemory.recall`.
        max_tokens: Most tokens of text, about.
        window: How many messages before the question make clear what the question is about. 0: the question alone.

    Raises:
        InvalidInputError: As for `AgenticMemory.recall`.
        NamespaceError: A namespace is missing or malformed.
        StoreError: The store refused.
    """
    asked = [n for n, one in enumerate(messages) if one.party == "user" and one.text.strip()]
    if not asked:
        return Recalled()
    last = asked[-1]
    before = [one.text for one in messages[:last] if one.party in SPEAKING and one.text.strip()]
    errors: list[AmemError] = []
    said = {one.text.strip() for one in messages if one.party in SPEAKING}
    hits = await recall(
        replace(runtime, degraded=errors.append),
        messages[last].text.strip(),
        namespace=namespace,
        also=also,
        k=k,
        where=where,
        min_similarity=min_similarity,
        links=links,
        as_of=as_of,
        messages=before[-window:] if window else (),
        said=said,
    )
    known = None
    if runtime.config.profile and where is None and as_of is None:
        known = await profile(runtime, namespace=namespace)
    error = next(iter(errors), None)
    found = Recalled(hits=hits, error=error, about=str(known or ""), also=also)
    return replace(found, text=found.render(hits, max_tokens))


async def search_turn(runtime: Runtime, /, query: str, **options: Any) -> Recalled:  # noqa: ANN401 - those of `search`
    """Return the hits of `AgenticMemory.search`, of notes that say the same one, and why only words counted, if so."""
    errors: list[AmemError] = []
    by_words = replace(runtime, degraded=errors.append)
    hits = await search(by_words, query, repeats=False, **options)
    return Recalled(hits=hits, error=next(iter(errors), None))


async def remember_turn(
    runtime: Runtime,
    messages: Iterable[Message],
    *,
    namespace: Sequence[str],
    thread: str | None = None,
    roles: Sequence[str] = SPEAKING,
    metadata: Mapping[str, Any] | None = None,
    new: bool = False,
    just_said: bool = True,
    complete: bool = True,
) -> Remembered:
    """Store messages as pending notes; return a note for each that is worth storing.

    A message is known by thread, role and id; without an id by its text and the number of its occurrence. A message that
    is stored is left alone, since its note may have been corrected or deleted meanwhile; if the message itself was
    edited, so is its note. What an outage kept from being stored is stored before.

    Args:
        messages: Those with `stored=False`, and those of other roles, only count for the occurrences of others; those with
            None are only looked at for whether they were edited. An answer
            that names in `metadata["answers"]` the id of the message that it answers takes the place of an earlier answer
            to that message which is not among the messages: a run that was killed was asked again.
        namespace: Whose memory.
        thread: The conversation.
        roles: Whose messages are stored, by any name (see `conversation.ROLES`).
        metadata: Your own, for each note, to filter on; where a message has a value of that name, its own counts.
        new: All of the messages have just been said, none is stored: those without an id count on from what is stored of
            thread, role and text. False: they are a conversation from its start, or have ids.
        just_said: The time of those that carry none is now; False: it is not known.
        complete: The turn is over: notes that were stored without vectors get these by one call of the embedder. False
            stores the notes without, found by their words, since more of the turn follows.

    Raises:
        InvalidInputError: `roles` are no list of texts, or `metadata` holds no JSON.
        NamespaceError: The namespace is missing or malformed.
        StoreError: The store refused; the messages wait in the outbox.
    """
    space, most = check_namespace(namespace), runtime.config.max_content_chars
    wanted, seen = parties(roles), Counter[tuple[str, str]]()
    time = runtime.clock.now() if just_said else None
    said, present, looked_at = list[NoteInput](), set[str | None](), set[str | None]()
    for message in messages:
        text = message.text.strip()
        counted = message.source if message.party in wanted else message.party
        seen[counted, text] += 1
        present.add(message.id and message_key(thread, message.party, message.id))
        if message.party in wanted and message.stored is not False and text:
            nth = None if new else seen[counted, text]
            item = note_input(message, thread, nth, now=time, max_chars=most)
            digest = sha256(item.content.encode()).hexdigest()[:16]
            said.append(replace(item, metadata={**(metadata or {}), **item.metadata, HASH: digest}))
            looked_at |= {item.key} if message.stored is None else set()
    for item in said:
        check_note_input(item, most)
    known: dict[str | None, NoteInput] = {one.key: one for one in said if one.key is not None}
    waiting = [  # in the words that they have by now, with the time at which they were said
        replace(known.get(item.key, item), default_at=item.default_at)
        for item in runtime.outbox.take(space)
    ]
    keys = {item.key for item in waiting} - {None}
    only_edited = looked_at - keys
    items = [*waiting, *(item for item in said if item.key not in keys)]
    try:
        error, changed = None, list[Note]()
        while True:
            bare = [place for place, item in enumerate(items) if item.key is None]
            items = await _numbered(runtime, space, items)
            notes, made, edited = await _looked_up(runtime, space, items, present, only_edited)
            if made or complete:
                stands, error = await _inserted(runtime, space, made, complete=complete)
                notes |= stands
                # Another process may have stored the same message in the meantime, in other words.
                by_id = {note_id(space, item): item for item in items}
                edited += [
                    _edited(by_id[i], one) for i, one in stands.items() if _differs(by_id[i], one)
                ]
            # Or another message of the same text, which has the number now: this one takes the next.
            if not _beaten(space, items, bare, made, notes):
                break
        if edited:
            changed, _ = await store(runtime, space, edited)
    except BaseException:
        # Also of a task that was cancelled: to store a message again changes nothing.
        items = [item for item in items if item.key is None or item.key not in only_edited]
        if lost := runtime.outbox.keep(space, items):
            log.warning("%d messages that could not be stored were given up", lost)
        raise
    now = {note.id: note for note in changed}
    mine = {item.key for item in (*said, *items[len(waiting) :])} - looked_at
    ids = [note_id(space, item) for item in items if item.key in mine]
    return Remembered(
        notes=[now.get(notes[i].id, notes[i]) for i in ids if i in notes], error=error
    )


async def remember_fact(
    runtime: Runtime,
    content: str,
    *,
    namespace: Sequence[str],
    thread: str | None = None,
    supersedes: Sequence[str] = (),
    assistant_supersedes: bool = False,
) -> tuple[Note, list[str]]:
    """Store what an agent wants to remember; return its note, and the ids of the notes whose place it takes now.

    Of the notes in `supersedes`, that it takes the place of the others is proposed: they are the user's own words. With
    `assistant_supersedes` it takes the place of all, as if the user had said so.

    Raises:
        NoteNotFoundError: A note in `supersedes` is not there; nothing is stored.
        InvalidInputError: The content cannot be stored.
    """
    space, older = check_namespace(namespace), list(dict.fromkeys(supersedes))
    await existing(runtime.store, space, older)
    note = await add(
        runtime,
        content,
        namespace=space,
        thread=thread,
        source="assistant",
        supersedes=() if assistant_supersedes else older,
        evolve=False,
    )

    async def taken() -> list[str]:
        stands = await living(runtime.store, space, older)
        return [i for i, one in stands.items() if note.id in one.supersessions]

    if assistant_supersedes:
        known = await taken()
        for note_id in (one for one in older if one not in known):
            await supersede(runtime, note_id, note.id, namespace=space)
    return note, await taken()


async def evolve_turn(
    runtime: Runtime,
    *,
    namespace: Sequence[str],
    ids: Sequence[str] = (),
    left_overs: int = LEFT_OVERS,
) -> EvolutionReport:
    """Construct, link and evolve these notes here and now, then up to `left_overs` others that are unfinished.

    Where a limit of the day is reached, the report says so; the notes stay as they are until the next day.

    Raises:
        ModelUnavailableError: The model did not answer for `ids`; a later turn goes on with them.
    """
    report = EvolutionReport()
    if ids:
        report = await evolve(runtime, namespace=namespace, ids=ids)
        if report.interrupted and not report.limited:
            raise ModelUnavailableError(report.interrupted)
    if left_overs and not report.limited:
        report += await evolve(runtime, namespace=namespace, limit=left_overs)
    return report


async def _looked_up(
    runtime: Runtime,
    namespace: Namespace,
    items: Sequence[NoteInput],
    present: Collection[str | None],
    only_edited: Collection[str | None],
) -> tuple[dict[str, Note], list[Note], list[NoteInput]]:
    """Return the notes that are there of these items, by id, new notes of the others, and the items that were edited."""
    by_id = {note_id(namespace, item): item for item in items}
    known = await resolve(runtime.store.notes(namespace, sorted(by_id))) if items else {}
    notes = {i: stored.note for i, stored in known.items() if stored.note is not None}
    # A message of the turn under way has no earlier answer.
    fresh = {one.id: one.note for one in tuple(runtime.fresh.get(namespace, ()))}
    asked = {note.key for note in fresh.values() if note is not None}
    if any(not known[i].has_vectors for i in notes.keys() - fresh.keys()):
        # A process that was killed has left them so: the end of the turn looks for all that have none.
        runtime.fresh.pop(namespace, None)
    new, edited, taken = list[Note](), list[NoteInput](), set(present)
    for i, item in by_id.items():
        note, question = notes.get(i), item.metadata.get(ANSWERS)
        if note is None and (i in known or item.key in only_edited):
            continue
        if note is None and question and message_key(item.thread, "user", question) not in asked:
            note = await _given_before(runtime, namespace, item, taken)
        if note is None:
            new.append(new_note(runtime, namespace, i, item))
            continue
        notes[i] = note
        taken.add(note.key)
        if _differs(item, note):
            edited.append(_edited(item, note))
    return notes, new, edited


def _differs(item: NoteInput, note: Note) -> bool:
    """Return whether a message has other words than when its note was stored."""
    return bool(note.metadata.get(HASH, item.metadata[HASH]) != item.metadata[HASH])


def _edited(item: NoteInput, note: Note) -> NoteInput:
    """Return the update of a note whose message was said in other words."""
    return replace(item, key=note.key, metadata={**note.metadata, **item.metadata})


async def _given_before(
    runtime: Runtime, namespace: Namespace, item: NoteInput, taken: Collection[str | None]
) -> Note | None:
    """Return the note of an earlier answer to the same message that belongs to none of the messages."""
    where = {
        "thread": item.thread,
        "source": item.source,
        f"metadata.{ANSWERS}": item.metadata[ANSWERS],
    }
    found = await get_all(runtime, namespace=namespace, where=where, limit=MOST_ANSWERS)
    return next((note for note in found if note.key not in taken), None)


async def _numbered(
    runtime: Runtime, namespace: Namespace, items: Sequence[NoteInput]
) -> list[NoteInput]:
    """Give those without a key the key of the next occurrence that is neither stored nor among the items.

    The next occurrences of all of them are looked up by one request; another follows where so many are stored already.
    """
    numbered, used, first = list(items), {item.key for item in items}, 1
    while places := [place for place, item in enumerate(numbered) if item.key is None]:
        named = {
            place: [
                replace(one, key=occurrence_key(one.thread, one.source, one.content, first + n))
                for n in range(AT_ONCE)
            ]
            for place in places
            for one in [numbered[place]]
        }
        ids = {one.key: note_id(namespace, one) for some in named.values() for one in some}
        known = await resolve(runtime.store.notes(namespace, sorted(set(ids.values()))))
        for place, some in named.items():
            free = (one for one in some if one.key not in used and ids[one.key] not in known)
            if (next_one := next(free, None)) is not None:
                numbered[place] = next_one
                used.add(next_one.key)
        first += AT_ONCE
    return numbered


def _beaten(
    namespace: Namespace,
    items: list[NoteInput],
    numbered: Iterable[int],
    made: Sequence[Note],
    notes: Mapping[str, Note],
) -> bool:
    """Take the new key of each message away under which another note stands; return whether there was one."""
    own, found = {note.id: note.seq for note in made}, False
    for place in numbered:
        note = notes.get(i := note_id(namespace, items[place]))
        if note is not None and note.id == i and note.seq != own.get(i):
            items[place], found = replace(items[place], key=None), True
    return found


async def _inserted(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], *, complete: bool
) -> tuple[dict[str, Note], AmemError | None]:
    """Store new notes; if the turn is `complete`, with vectors, which the notes that turns have stored without get too.

    The embedder is called once at most. Return the notes as they stand, by id, and why they are stored without vectors,
    if the embedder did not answer.
    """
    errors: list[AmemError] = []
    stands: Mapping[str, StoredNote] = {}
    lacks = True
    try:
        fresh = await _fresh(runtime, namespace) if complete else []
        async with writing(replace(runtime, degraded=errors.append), namespace) as writer:
            bare = [_bare(writer, note) for note in notes]
            made = [*fresh, *bare]
            if complete:
                made = await writer.embed(made)
            now = [replace(one, token=writer.new_token()) for one in made[: len(fresh)]]
            swaps = zip(fresh, now, strict=True)
            await writer.swap_notes((old, one) for old, one in swaps if one.has_vectors)
            if notes:
                stands = await restore(writer, made[len(fresh) :], {})
        lacks = not all(one.has_vectors for one in made)
        if not complete and (under_way := runtime.fresh.get(namespace)) is not None:
            under_way.extend(stands[one.id] for one in bare if one.id in stands)
    finally:
        if lacks and complete:  # the next turn looks for the notes that this one has taken
            runtime.fresh.pop(namespace, None)
    if complete and lacks and not errors:
        name = runtime.embedder.name
        text = (
            f"embedder {name} gave no vector for some of what was said, which is found by its words"
        )
        errors.append(ModelUnavailableError(text))
    notes_now = {i: one.note for i, one in stands.items() if one.note is not None}
    return notes_now, next(iter(errors), None)


def _bare(writer: Writer, note: Note) -> StoredNote:
    token = writer.new_token()
    return StoredNote(id=note.id, namespace=writer.namespace, token=token, rev=note.rev, note=note)


async def _fresh(runtime: Runtime, namespace: Namespace) -> list[StoredNote]:
    """Return the notes of turns under way, which have no vectors yet; in the first turn of a namespace, any that have none."""
    if (under_way := runtime.fresh.get(namespace)) is not None:
        return [under_way.popleft() for _ in range(len(under_way))]
    if len(runtime.fresh) >= MOST_NAMESPACES:
        runtime.fresh.clear()
    runtime.fresh[namespace] = deque()  # takes the notes that are stored meanwhile
    page = await resolve(runtime.store.scan(namespace, where=(WITHOUT_VECTOR,), limit=PAGE))
    found = await resolve(runtime.store.notes(namespace, [note.id for note in page]))
    if len(page) == PAGE:
        del runtime.fresh[namespace]
    return list(found.values())
