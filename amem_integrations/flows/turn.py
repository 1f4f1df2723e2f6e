"""One turn of a conversation: notes are recalled for the turn, its messages are remembered, and evolve.

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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, TypedDict, Unpack

from ..conversation import SPEAKING, Message, message_key, note_inputs, occurrence_key
from ..errors import AmemError, ModelUnavailableError
from ..fetch import living
from ..filters import check_names, conditions_of
from ..ids import note_id
from ..journal.writer import as_it_is, insert
from ..notes import (
    Namespace,
    Note,
    NoteInput,
    ScoredNote,
    check_namespace,
    check_note_input,
    storable,
)
from ..plans import EvolutionReport
from ..ports import NoteQuery
from ..retrieval.context import render_notes
from ..retrieval.relevance import WINDOW
from ..retrieval.search import search
from ..runtime import Runtime, log, resolve
from ..stored_note import StoredNote
from .edit import add, new_note, store
from .evolve import evolve
from .forms import profile
from .read import marked, recall
from .writing import PAGE, writing

ANSWERS = "message_answers"  # metadata: the id of the message that is answered; of a note with thread and agent
HASH = "message_hash"  # metadata of a note: tells a message that was edited from a note that was corrected
RECALLED = 30  # notes to choose from; 1,000 tokens hold about 25
LEFT_OVERS = 8  # unfinished notes of earlier turns that a turn also finishes, if it evolves itself
MOST_ANSWERS = 64  # to one message that are looked through
AT_ONCE = 2  # occurrences of a text that are looked up at first; then four times as many each time


class SearchOptions(TypedDict, total=False):
    """The arguments of `AgenticMemory.search`, as keyword arguments of a door; `where` may be a function of its run."""

    k: int
    where: Any
    min_similarity: float | None
    links: bool
    as_of: datetime | None
    known_at: datetime | None


class RecallOptions(SearchOptions, total=False):
    """The arguments of `AgenticMemory.recall_turn`, as keyword arguments of a door."""

    max_tokens: int
    window: int


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
    max_tokens: int = 1000,
    window: int = WINDOW,
    **options: Unpack[SearchOptions],
) -> Recalled:
    """Return the notes that are worth showing for the last message of a user.

    What the messages themselves say is left out: it stands in the prompt. No chat model is called.

    Args:
        messages: The conversation so far, oldest first; nothing is recalled if no user said anything in words.
        namespace: Whose memory.
        also: Further namespaces to read, each by the name that marks its notes in the text.
        max_tokens: Most tokens of text, about.
        window: How many messages before the question, at most the last three, make clear what the question is about. 0: the
            question alone.
        options: `k` (30), how many notes to consider, of which as many are shown as fit (for more `max_tokens`, consider
            more); `where`, `min_similarity`, `links`, `as_of`, `known_at`: see `AgenticMemory.recall`.

    Raises:
        InvalidInputError: As for `AgenticMemory.recall`.
        NamespaceError: A namespace is missing or malformed.
        StoreError: The store refused.
    """
    asked = [n for n, one in enumerate(messages) if one.party == "user" and one.text.strip()]
    if not asked:
        return Recalled()
    last, errors, most = asked[-1], list[AmemError](), runtime.config.max_content_chars
    question = messages[last].text.strip()
    spoken = [one for one in messages[:last] if one.party in SPEAKING]
    # An agent may give its question a second time, behind what its tools said.
    before = [one for one in spoken if one.text.strip() not in ("", question)]
    options.setdefault("k", RECALLED)
    hits = await recall(
        replace(runtime, degraded=errors.append),
        question,
        namespace=namespace,
        also=also,
        messages=before[-window:] if window else (),
        said={storable(one.text).strip()[:most] for one in messages if one.party in SPEAKING},
        **options,
    )
    known = None
    narrowed = any(options.get(name) is not None for name in ("where", "as_of", "known_at"))
    if runtime.config.profile and not narrowed:
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
    agent: str = "",
    new: bool = False,
    just_said: bool = True,
    complete: bool = True,
) -> Remembered:
    """Store messages as pending notes; return a note for each that is worth storing.

    A message is known by thread, role and id; without an id by its text and the number of its occurrence. A message that
    is stored is left alone, since its note may have been corrected or deleted meanwhile; if the message itself was
    edited, so is its note. What an outage kept from being stored is stored before.

    Args:
        messages: What was said. A message with `stored=False`, or of another role, only counts for the occurrences of
            others; one with `stored=None` is only looked at for whether it was edited. An answer that names in
            `metadata["message_answers"]` the id of the message that it answers takes the place of an earlier answer to
            that message, of the same speaker and `agent`, which is not among the messages: a run that was killed was asked
            again.
        namespace: Whose memory.
        thread: The conversation.
        roles: Whose messages are stored, by any name (see `conversation.ROLES`).
        metadata: Your own, for each note, to filter on; where a message has a value of that name, its own counts.
        agent: Which of several agents answers: they may be asked by the same message, and each of them is remembered.
        new: All of the messages have just been said, none is stored: those without an id count on from what is stored of
            thread, role and text. False: they are a conversation from its start, or have ids.
        just_said: The time of those that carry none is now; False: it is not known.
        complete: The turn is over: notes that were stored without vectors get these by one call of the embedder. False
            stores the notes without, found by their words, since more of the turn follows.

    Raises:
        InvalidInputError: `roles` are no list of texts, or `metadata` holds no JSON, or a name of the memory's own.
        NamespaceError: The namespace is missing or malformed.
        StoreError: The store refused; the messages wait in the outbox.
    """
    space, most = check_namespace(namespace), runtime.config.max_content_chars
    given, time = list(messages), runtime.clock.now() if just_said else None
    check_names(metadata or (), HASH, ANSWERS)
    said = note_inputs(given, thread=thread, roles=roles, max_chars=most, now=time, new=new)
    for number, item in enumerate(said):
        own = {HASH: sha256(item.content.encode()).hexdigest()[:16]}
        if ANSWERS in item.metadata:  # by the key that no other thread has
            own[ANSWERS] = message_key(thread, agent, item.metadata[ANSWERS])
        said[number] = replace(item, metadata={**(metadata or {}), **item.metadata, **own})
        check_note_input(said[number], most)
    present = {message_key(thread, one.party, one.id): one for one in given if one.id is not None}
    looked_at = {key for key, one in present.items() if one.stored is None}
    keys = {*present, *(item.key for item in said)}
    errors = list[AmemError]()
    latest: dict[str | None, NoteInput] = {item.key: item for item in said if item.key}
    told = replace(runtime, degraded=errors.append)
    waiting = [  # in the words that they have by now, with the time at which they were said
        replace(latest.get(item.key, item), default_at=item.default_at)
        for item in runtime.outbox.take(space)
    ]
    try:
        if waiting:
            await _stored(told, space, waiting, keys)
        notes = await _stored(told, space, said, keys, looked_at, complete=complete)
    except BaseException:
        # Also of a task that was cancelled: to store a message again changes nothing.
        items = [*waiting, *(item for item in said if item.key not in looked_at)]
        if lost := runtime.outbox.keep(space, items):
            log.warning("%d messages that could not be stored were given up", lost)
        raise
    return Remembered(notes=notes, error=next(iter(errors), None))


async def remember_fact(
    runtime: Runtime,
    content: str,
    *,
    namespace: Sequence[str],
    thread: str | None = None,
    supersedes: Sequence[str] = (),
    assistant_supersedes: bool = False,
) -> tuple[Note, list[str]]:
    """Store a fact that an agent wants to remember; return its note, and the ids of the notes whose place it takes now.

    Of the notes in `supersedes`, that it takes the place of the others is proposed: they are the user's own words. With
    `assistant_supersedes` it takes the place of all, as if the user had said so.

    Raises:
        NoteNotFoundError: A note in `supersedes` is not there; nothing is stored.
        InvalidInputError: The content cannot be stored.
    """
    space = check_namespace(namespace)
    if assistant_supersedes:
        runtime = replace(runtime, config=replace(runtime.config, assistant_supersedes=True))
    note = await add(
        runtime,
        content,
        namespace=space,
        thread=thread,
        source="assistant",
        supersedes=supersedes,
        evolve=False,
    )
    older = await living(runtime.store, space, supersedes)
    return note, [i for i, one in older.items() if note.id in one.supersessions]


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


async def _stored(
    runtime: Runtime,
    namespace: Namespace,
    items: list[NoteInput],
    present: Collection[str | None],
    looked_at: Collection[str | None] = (),
    *,
    complete: bool = False,
) -> list[Note]:
    """Store messages that are not there, and edit the notes of those that were said in other words.

    Items without a key are given that of the next occurrence of their text, in the list itself: after an error the same
    items mean the same messages.

    Args:
        runtime: The ports.
        namespace: Whose memory.
        items: The messages.
        present: The keys of all messages of the conversation that are known; their notes are no earlier answers, and of
            another message, which waited in the outbox, it is not known which are.
        looked_at: The keys of the items that are not stored if they are not there.
        complete: The turn is over; see `remember_turn`.

    Returns:
        The notes as they stand, but for items that are only looked at, and for deleted ones.
    """
    while True:
        nameless = [place for place, item in enumerate(items) if item.key is None]
        ids, known = await _numbered(runtime, namespace, items)
        by_id = dict(zip(ids, items, strict=True))
        notes = {i: stored.note for i, stored in known.items() if stored.note is not None}
        taken, new = {*present, *(item.key for item in items)}, list[Note]()
        for i, item in by_id.items():
            if i not in known and item.key not in looked_at:
                is_shown = item.key in present
                earlier = is_shown and await _earlier_answer(runtime, namespace, item, taken)
                if earlier:
                    notes[i] = earlier
                    taken.add(earlier.key)
                else:
                    new.append(new_note(runtime, namespace, i, item))
        if new or complete:
            notes |= await _inserted(runtime, namespace, new, complete=complete)
        # Where another process has stored a message of the same text meanwhile, this one takes the next number.
        others = {note.id for note in new if notes[note.id].seq != note.seq}
        for place in nameless:
            if ids[place] in others:
                items[place] = replace(items[place], key=None)
        if all(item.key is not None for item in items):
            break
    edited = {
        i: replace(item, key=notes[i].key, metadata={**notes[i].metadata, **item.metadata})
        for i, item in by_id.items()
        if i in notes and notes[i].metadata.get(HASH, item.metadata[HASH]) != item.metadata[HASH]
    }
    if edited:
        changed, _ = await store(runtime, namespace, list(edited.values()))
        notes |= zip(edited, changed, strict=True)
    return [notes[i] for i in ids if i in notes and by_id[i].key not in looked_at]


async def _numbered(
    runtime: Runtime, namespace: Namespace, items: list[NoteInput]
) -> tuple[list[str], dict[str, StoredNote]]:
    """Give items without a key that of the next occurrence which is neither stored nor among the items.

    Return the ids of the items, and what is stored under them. One request does, if few occurrences are stored.
    """
    ids = ["" if item.key is None else note_id(namespace, item) for item in items]
    known, used, past = dict[str, StoredNote](), {item.key for item in items}, 0
    while True:
        upto = AT_ONCE + 4 * past
        tried = [
            (place, replace(item, key=occurrence_key(item.thread, item.source, item.content, nth)))
            for place, item in enumerate(items)
            if item.key is None
            for nth in range(past + 1, upto + 1)
        ]
        tried_ids = [note_id(namespace, one) for _, one in tried]
        looked_up = {*filter(None, ids), *tried_ids}
        known |= await resolve(runtime.store.notes(namespace, sorted(looked_up)))
        for (place, one), i in zip(tried, tried_ids, strict=True):
            if not ids[place] and one.key not in used and i not in known:
                items[place], ids[place] = one, i
                used.add(one.key)
        if all(ids):
            return ids, known
        past = upto


async def _earlier_answer(
    runtime: Runtime, namespace: Namespace, item: NoteInput, taken: Collection[str | None]
) -> Note | None:
    """Return the note of an earlier answer to the same message, whose key is not taken: a killed run was asked again."""
    if ANSWERS not in item.metadata:
        return None
    by_the_same = {f"metadata.{ANSWERS}": item.metadata[ANSWERS], "speaker": item.speaker}
    conditions = conditions_of(by_the_same)
    found = await resolve(runtime.store.scan(namespace, where=conditions, limit=MOST_ANSWERS))
    return next((note for note in found if note.key not in taken), None)


async def _inserted(
    runtime: Runtime, namespace: Namespace, notes: Sequence[Note], *, complete: bool
) -> dict[str, Note]:
    """Store new notes, and return by id what stands there; until the turn is `complete`, without vectors.

    Then those that have none get theirs too, by the same call of the embedder, whoever stored them.
    """

    async def embed_with_others(new: Sequence[StoredNote]) -> list[StoredNote]:
        bare = await writer.find_notes(NoteQuery(bare=True, least=PAGE))
        mine = {one.id for one in new}  # which another process may have stored in this moment
        others = [one for one in bare.values() if one.id not in mine][:PAGE]
        made = await writer.embed([*others, *new])
        await writer.swap_notes(
            (old, replace(one, token=writer.new_token()))
            for old, one in zip(others, made, strict=False)
            if one.has_vectors
        )
        if not all(one.has_vectors for one in made):
            name, how = runtime.embedder.name, "which is found by its words"
            text = f"embedder {name} gave no vector for some of what was said, {how}"
            runtime.degraded(ModelUnavailableError(text))
        return made[len(others) :]

    async with writing(runtime, namespace) as writer:
        embed = embed_with_others if complete else as_it_is
        stands = await insert(replace(writer, embed=embed), notes, {})
    return {i: stored.note for i, stored in stands.items() if stored.note is not None}
