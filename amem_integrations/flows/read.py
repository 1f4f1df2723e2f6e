"""Read: notes by their ids or all of them, and what is worth showing for a question. No chat model is called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from ..conversation import Message
from ..errors import InvalidInputError, NoteNotFoundError
from ..fetch import NOTES, existing, living, note_pages
from ..filters import Condition, check_count, conditions_of, matches
from ..ids import now
from ..kinds import is_question, kind_of, words_of
from ..notes import Namespace, Note, ScoredNote, check_namespace
from ..retrieval import relevance
from ..retrieval.context import render_notes
from ..retrieval.current_facts import CurrentFacts
from ..retrieval.search import Asked, Reader, merged, namespaces_of, searched, via
from ..runtime import Runtime
from ..thresholds import relevance_floor
from .forms import profile

# Notes to choose from; 2,000 tokens hold about 50.
RECALLED = 60
SHORT_REPLY = 5  # words of a reply that says little without its question


async def get(
    runtime: Runtime,
    note_id: str,
    *,
    namespace: Sequence[str],
    as_of: datetime | None = None,
    known_at: datetime | None = None,
) -> Note:
    """Return one note, as it stands now, or as it stood at a time (see `search`).

    Raises:
        NoteNotFoundError: There is none with this id in this namespace, it has expired, or came later.
    """
    space = check_namespace(namespace)
    conditions = conditions_of(None, as_of, known_at)
    notes = await existing(runtime.store, space, [note_id])
    if not all(matches(note, conditions) for note in notes):
        raise NoteNotFoundError(f"there was no note {note_id!r} at that time; it came later")
    views = await _views(runtime, space, notes, as_of, known_at)
    return views[0]


async def get_all(
    runtime: Runtime,
    *,
    namespace: Sequence[str],
    limit: int = 100,
    where: Mapping[str, Any] | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
) -> list[Note]:
    """Return up to `limit` notes, oldest first, as they stand now, or as they stood at a time (see `search`).

    Continue with `where={"seq": {"$gt": last.seq}}`.

    Raises:
        InvalidInputError: A bad `limit`, `where`, `as_of` or `known_at`.
    """
    space = check_namespace(namespace)
    check_count("limit", limit)
    found: list[Note] = []
    conditions = conditions_of(where, as_of, known_at)
    async for page in note_pages(
        runtime.store, space, conditions, size=min(limit, NOTES), expired=False
    ):
        found += page
        if len(found) >= limit:
            break
    return await _views(runtime, space, found[:limit], as_of, known_at)


async def _views(
    runtime: Runtime,
    namespace: Namespace,
    notes: Sequence[Note],
    as_of: datetime | None,
    known_at: datetime | None,
) -> list[Note]:
    """Return notes as they stood at a time, or stand now."""
    reader = Reader(runtime, namespace, known_at)
    if known_at is None:
        reader.notes |= {note.id: note for note in notes}
    await reader.fetch([note.id for note in notes])
    shown = [reader.notes[note.id] for note in notes if note.id in reader.notes]
    await reader.fetch_related(shown)
    current = CurrentFacts(reader.notes, as_of or known_at or runtime.clock.now(), now=now())
    return [current.view(note, as_of) for note in shown]


async def recall(
    runtime: Runtime,
    query: str,
    *,
    namespace: Sequence[str],
    also: Mapping[str, Sequence[str]] | None = None,
    k: int = RECALLED,
    where: Mapping[str, Any] | None = None,
    min_similarity: float | None = None,
    links: bool = True,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    messages: Sequence[str | Mapping[str, Any] | Message] = (),
    said: Collection[str] = (),
) -> list[ScoredNote]:
    """Return the notes that are worth showing for a question, best first, at most `k` notes and the questions they reply to.

    A search that leaves out filler, the question itself, and what has nothing to do with the question: notes under
    `MemoryConfig.min_relevance` that have neither a name of the question nor half of its telling words. So there may be
    nothing to show. With `min_similarity` that counts instead. Of notes that say the same one is returned, in the fullest
    wording, with how often that was said and when last: notes that links of the relation `repeats` connect, and equal
    statements of one speaker (see `ScoredNote`). A short reply is followed by the question that it answers. Notes whose
    content is one of the texts in `said` are left out: those texts stand in the prompt already. The other arguments are
    those of `search`.

    Raises:
        InvalidInputError: As for `search`, or `said` is no collection of texts.
        NamespaceError: The namespace is missing or malformed.
    """
    check_count("k", k)
    if isinstance(said, str) or not isinstance(said, Collection):
        raise InvalidInputError(f"said={said!r} must be a list of texts")
    spaces = namespaces_of(namespace, also)
    asked = Asked(
        query=query,
        before=relevance.messages_before(query, messages),
        k=k,
        where=conditions_of(where, as_of, known_at),
        min_similarity=min_similarity,
        as_of=as_of,
        known_at=known_at,
        links=links,
        said=said,
    )
    if kind_of(query) == "filler":  # nothing is asked
        return []
    of_kind = any(isinstance(one, Condition) and one.field == "kind" for one in asked.where)
    searches = await searched(runtime, spaces, asked)
    floor = await relevance_floor(runtime) if min_similarity is None else None
    lists = []
    for one in searches:
        found = [hit for hit in one.found if hit.note.content not in said]
        hits = relevance.relevant(relevance.together(query, asked.before), found, floor)
        hits = await one.once(hits if of_kind else relevance.telling(query, hits))
        # The notes that a reply is linked to have not been checked against conditions and times.
        hits = hits if asked.where else await _with_questions(runtime, one.namespace, hits)
        lists.append([hit for hit in hits if hit.note.content not in said])
    return merged(lists)[:k] if len(spaces) > 1 else lists[0]


async def context(
    runtime: Runtime,
    query: str,
    *,
    namespace: Sequence[str],
    also: Mapping[str, Sequence[str]] | None = None,
    max_tokens: int = 1000,
    k: int = RECALLED,
    where: Mapping[str, Any] | None = None,
    min_similarity: float | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    messages: Sequence[str | Mapping[str, Any] | Message] = (),
) -> str:
    """Return the notes for a question (see `recall`) as text for a prompt, or "" if there is nothing.

    The text is marked as data, at most about `max_tokens` long, and holds no template placeholder; of the `k` notes
    that are considered it has as many as fit, by day, oldest first. What was said several times stands there once, with
    how often and when last. What was superseded is shown in a clause of what takes its place. A note of one of the
    `also` namespaces is marked with the name of that namespace. With `MemoryConfig(profile=True)` the `Profile` stands
    above the notes, unless `where`, `as_of` or `known_at` is given.

    Raises:
        InvalidInputError: As for `search`, or a bad `max_tokens`.
        NamespaceError: The namespace is missing or malformed.
    """
    check_count("max_tokens", max_tokens)
    hits = await recall(
        runtime,
        query,
        namespace=namespace,
        also=also,
        k=k,
        where=where,
        min_similarity=min_similarity,
        as_of=as_of,
        known_at=known_at,
        messages=messages,
    )
    plain = where is None and as_of is None and known_at is None
    user = await profile(runtime, namespace=namespace) if plain and runtime.config.profile else None
    return render_notes(marked(hits, also), max_tokens=max_tokens, about=str(user or ""))


def marked(
    hits: Sequence[ScoredNote], also: Mapping[str, Sequence[str]] | None
) -> Sequence[ScoredNote]:
    """Return hits as text for a prompt is made of them: those of further namespaces say whose they are, by name."""
    names = {tuple(space): f"from {name}" for name, space in (also or {}).items()}

    def one(hit: ScoredNote) -> ScoredNote:
        whose = [names[hit.note.namespace], *filter(None, [hit.note.speaker])]
        return replace(hit, note=hit.note.revised(speaker=": ".join(whose)))

    return [one(hit) if hit.note.namespace in names else hit for hit in hits]


async def _with_questions(
    runtime: Runtime, namespace: Namespace, hits: Sequence[ScoredNote]
) -> list[ScoredNote]:
    """Return the hits, each short reply followed by the question that it answers: the last linked turn before it asks."""
    linked = {
        hit.note.id: [i for i, link in hit.note.links.items() if link.direction == "out"]
        for hit in hits
        if hit.note.thread is not None and len(words_of(hit.note.content).split()) <= SHORT_REPLY
    }
    known = {hit.note.id: hit for hit in hits}
    missing = set(chain.from_iterable(linked.values())) - known.keys()
    notes = await living(runtime.store, namespace, sorted(missing))
    notes |= {i: hit.note for i, hit in known.items()}
    shown: dict[str, ScoredNote] = {}
    for hit in hits:
        note = hit.note
        shown.setdefault(note.id, hit)
        turns = [notes[i] for i in linked.get(note.id, ()) if i in notes]
        before = [one for one in turns if one.thread == note.thread and one.seq < note.seq]
        asks = max(before, key=lambda one: one.seq, default=None)
        if asks is not None and is_question(asks.content):
            step = via(note.id, note.links[asks.id])
            brought = ScoredNote(note=asks, score=hit.score, similarity=None, via=(step,))
            shown.setdefault(asks.id, known.get(asks.id, brought))
    return list(shown.values())
