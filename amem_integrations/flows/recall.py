"""Recall: what is worth showing for a question, as hits or as text for a prompt. No chat model is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..context import render_notes
from ..fetch import get
from ..filters import check_count, conditions_of
from ..follow_up import asked
from ..ids import now
from ..kinds import kind_of
from ..notes import Namespace, Note, ScoredNote, Via
from ..relevance import asked_before, relevant, telling
from ..runtime import Runtime
from ..thresholds import relevance_floor
from .forms import profile
from .search import merged, namespaces_of, once, search

# Notes to choose from; 2,000 tokens hold about 50.
RECALLED = 60


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
    messages: Sequence[str | Mapping[str, Any]] = (),
) -> list[ScoredNote]:
    """Return what is worth showing for a question, best first, at most `k` notes and the questions they reply to.

    A search that leaves out filler, the question itself, and what has nothing to do with the question: notes under
    `MemoryConfig.min_relevance` that have neither a name of the question nor half of its telling words. So there may be
    nothing to show. With `min_similarity` that counts instead. Of notes that say the same one is returned, in the fullest
    wording, with how often that was said and when last: notes that links of the relation `repeats` connect, and equal
    statements of one speaker (see `ScoredNote`). A short reply is followed by the question that it answers. The other
    arguments are those of `search`.

    Raises:
        InvalidInputError: As for `search`.
        NamespaceError: The namespace is missing or malformed.
    """
    space, *others = namespaces_of(namespace, also)
    if others:
        lists = [
            await recall(
                runtime,
                query,
                namespace=one,
                k=k,
                where=where,
                min_similarity=min_similarity,
                links=links,
                as_of=as_of,
                known_at=known_at,
                messages=messages,
            )
            for one in (space, *others)
        ]
        return merged(lists)[:k]
    hits = found = await search(
        runtime,
        query,
        namespace=space,
        k=k,
        where=where,
        min_similarity=min_similarity,
        links=links,
        as_of=as_of,
        known_at=known_at,
        messages=messages,
    )
    if kind_of(query) == "filler":  # nothing is asked
        return []
    if min_similarity is None:
        hits = relevant(asked(query, messages).words, hits, await relevance_floor(runtime))
    hits = hits if "kind" in (where or {}) else telling(query, hits)  # such as filler
    conditions = conditions_of(where, as_of, known_at)
    hits = await once(runtime, space, hits, conditions, known_at, counted=found)
    # The notes that a reply is linked to have not been checked against conditions and times.
    is_plain = where is None and as_of is None and known_at is None
    return await _with_questions(runtime, space, hits) if is_plain else hits


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
    messages: Sequence[str | Mapping[str, Any]] = (),
) -> str:
    """Return what is worth showing for a question (see `recall`) as text for a prompt, or "" if there is nothing.

    The text is marked as data, at most about `max_tokens` long, and holds no template placeholder; of the `k` notes
    that are considered it has as many as fit, by day, oldest first. What was said several times stands there once, with
    how often and when last. What was superseded is shown in a clause of what takes its place. A note of one of the `also` namespaces is marked with its name. With `MemoryConfig(profile=True)` the `Profile` stands above the notes, but under `where`, `as_of` or
    `known_at`.

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
    known = (
        await profile(runtime, namespace=namespace) if runtime.config.profile and plain else None
    )
    return render_notes(marked(hits, also), max_tokens=max_tokens, about=str(known or ""))


def marked(
    hits: Sequence[ScoredNote], also: Mapping[str, Sequence[str]] | None
) -> Sequence[ScoredNote]:
    """Return hits as text for a prompt is made of them: those of further namespaces say whose they are, by name."""
    names = {tuple(space): name for name, space in (also or {}).items()}

    def one(hit: ScoredNote) -> ScoredNote:
        name, speaker = names.get(hit.note.namespace), hit.note.speaker
        if name is None:
            return hit
        return replace(
            hit,
            note=hit.note.revised(speaker=f"from {name}: {speaker}" if speaker else f"from {name}"),
        )

    return [one(hit) for hit in hits] if names else hits


async def _with_questions(
    runtime: Runtime, namespace: Namespace, hits: Sequence[ScoredNote]
) -> list[ScoredNote]:
    """Return the hits, each short reply followed by the question that it answers."""
    known = {hit.note.id: hit for hit in hits}
    linked = {hit.note.id: await _turns_before(runtime, namespace, hit.note, known) for hit in hits}
    asked = {i: note for i, note in linked.items() if note is not None}
    shown: dict[str, ScoredNote] = {}
    for hit in hits:
        shown.setdefault(hit.note.id, hit)
        if note := asked.get(hit.note.id):
            shown.setdefault(note.id, known.get(note.id) or _question(note, hit))
    return list(shown.values())


async def _turns_before(
    runtime: Runtime, namespace: Namespace, note: Note, known: Mapping[str, ScoredNote]
) -> Note | None:
    """Return the question before a short reply."""
    if asked_before(note, [note.revised(seq=note.seq - 1, content="?")]) is None:
        return None  # it is no short reply
    wanted = [other for other, link in note.links.items() if link.direction == "out"]
    stored = [known[i].note for i in wanted if i in known]
    missing = [i for i in wanted if i not in known]
    stored += await get(runtime.store, namespace, missing)
    time = now()
    return asked_before(note, [turn for turn in stored if not turn.is_expired(time)])


def _question(note: Note, reply: ScoredNote) -> ScoredNote:
    link = reply.note.links[note.id]
    step = Via(
        note_id=reply.note.id, relation=link.relation, reason=link.reason, strength=link.strength
    )
    return ScoredNote(note=note, score=reply.score, similarity=None, via=(step,))
