"""Recall: what is worth showing for a question, as hits or as text for a prompt. No chat model is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..context import render_notes
from ..fetch import get
from ..filters import check_count, conditions_of
from ..ids import now
from ..kinds import kind_of
from ..notes import Namespace, ScoredNote
from ..relevance import (
    is_short_reply,
    linked_turns,
    messages_before,
    question_before,
    relevant,
    telling,
    together,
)
from ..runtime import Runtime
from ..thresholds import relevance_floor
from .forms import profile
from .search import Asked, hits_by_namespace, merged, namespaces_of, once, via

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
    spaces = namespaces_of(namespace, also)
    asked = Asked(
        query=query,
        before=messages_before(query, messages),
        k=k,
        where=conditions_of(where, as_of, known_at),
        min_similarity=min_similarity,
        as_of=as_of,
        known_at=known_at,
        links=links,
    )
    if kind_of(query) == "filler":  # nothing is asked
        return []
    lists = await hits_by_namespace(runtime, spaces, asked)
    floor = await relevance_floor(runtime) if min_similarity is None else None
    shown = []
    for space, found in zip(spaces, lists, strict=True):
        hits = relevant(together(query, asked.before), found, floor)
        hits = hits if "kind" in (where or {}) else telling(query, hits)  # such as filler
        hits = await once(runtime, space, hits, asked, counted=found)
        # The notes that a reply is linked to have not been checked against conditions and times.
        shown.append(hits if asked.where else await _with_questions(runtime, space, hits))
    return merged(shown)[:k] if len(spaces) > 1 else shown[0]


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
    linked = {hit.note.id: linked_turns(hit.note) for hit in hits if is_short_reply(hit.note)}
    known = {hit.note.id: hit for hit in hits}
    missing = {other for others in linked.values() for other in others} - known.keys()
    read = {note.id: note for note in await get(runtime.store, namespace, sorted(missing))}
    notes, time = {**read, **{i: hit.note for i, hit in known.items()}}, now()
    shown: dict[str, ScoredNote] = {}
    for hit in hits:
        shown.setdefault(hit.note.id, hit)
        turns = [notes[i] for i in linked.get(hit.note.id, ()) if i in notes]
        asks = question_before(hit.note, [turn for turn in turns if not turn.is_expired(time)])
        if asks is not None:
            step = via(hit.note.id, hit.note.links[asks.id])
            brought = ScoredNote(note=asks, score=hit.score, similarity=None, via=(step,))
            shown.setdefault(asks.id, known.get(asks.id) or brought)
    return list(shown.values())
