"""Candidates: which earlier notes are shown for a new one (Eq. 4-5 of the paper).

The last notes of the same thread, then the hybrid nearest on the enriched text. Only notes that came
before (by seq) are candidates, so a batch can be linked in one go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import ranking, texts
from .._sync import resolve
from ..embedding import embed
from ..filters import Condition
from ..ids import now
from ..notes import Namespace, Note
from ..plans import Candidate
from ..ports import Query, Ranked, Vector
from ..runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is shown for a batch: candidates by new note, the notes themselves, and all vectors."""

    candidates: Mapping[str, Sequence[Candidate]]
    notes: Mapping[str, Note]
    vectors: Mapping[str, Vector]


async def turns_before(
    runtime: Runtime, namespace: Namespace, note: Note, count: int
) -> list[Note]:
    """Return the last `count` notes of its thread before a note, oldest first."""
    if note.thread is None or not count:
        return []
    where = (Condition("thread", "$eq", note.thread), Condition("seq", "$lt", note.seq))
    turns = await resolve(
        runtime.store.scan(namespace, where=where, limit=count, newest_first=True)
    )
    time = now()
    return [turn for turn in reversed(turns) if not turn.is_expired(time)]


async def find(
    runtime: Runtime, namespace: Namespace, batch: Sequence[Note], before: Sequence[Note]
) -> Offer:
    """Return the candidates of each note of a batch (one thread, in order of seq).

    `before` are the turns before the batch, oldest first, at least as many as the settings want.
    """
    own = await _vectors_of(runtime, batch)
    queries = [_query(note, own.get(note.id)) for note in batch]
    found = await resolve(runtime.store.search(namespace, queries))
    recent = _recent(batch, before, runtime.config.recent)
    chosen = {
        note.id: _choose(runtime, recent[note.id], ranked)
        for note, ranked in zip(batch, found, strict=True)
    }
    ids = list(dict.fromkeys(target for targets in chosen.values() for target in targets))
    time = now()
    stored = [
        item
        for item in await resolve(runtime.store.get_indexed(namespace, ids))
        if not item.note.is_expired(time)
    ]
    notes = {item.note.id: item.note for item in stored}
    vectors = {item.note.id: item.vector for item in stored if item.vector is not None} | own
    candidates = {
        note.id: [
            Candidate(
                id=target,
                similarity=similarity(vectors, note.id, target),
                previous=target in recent[note.id][:1],
            )
            for target in chosen[note.id]
            if target in notes
        ]
        for note in batch
    }
    return Offer(candidates=candidates, notes=notes, vectors=vectors)


def similarity(vectors: Mapping[str, Vector], one: str, other: str) -> float | None:
    """Return the cosine of two notes, or None where either has no vector."""
    if one not in vectors or other not in vectors:
        return None
    return float(vectors[one] @ vectors[other])


async def _vectors_of(runtime: Runtime, notes: Sequence[Note]) -> dict[str, Vector]:
    """Return the vectors of notes that were just embedded: their texts are in the cache."""
    rows = await embed(runtime, [texts.embedding_text(note) for note in notes])
    return {note.id: row for note, row in zip(notes, rows, strict=True) if row is not None}


def _query(note: Note, vector: Vector | None) -> Query:
    return Query(
        vector=vector,
        text=texts.lexical_text(note),
        limit=ranking.FUSION_DEPTH,
        where=(Condition("seq", "$lt", note.seq),),
    )


def _choose(runtime: Runtime, recent: Sequence[str], ranked: Ranked) -> list[str]:
    nearest = ranking.order(ranking.fuse(ranked))
    return list(dict.fromkeys([*recent, *nearest]))[: runtime.config.candidates]


def _recent(batch: Sequence[Note], before: Sequence[Note], count: int) -> dict[str, list[str]]:
    """Return for each note the ids of the last notes of its thread before it, newest first."""
    if not count or batch[0].thread is None:
        return {note.id: [] for note in batch}
    turns = [*before, *batch]
    return {
        note.id: [turn.id for turn in reversed(turns) if turn.seq < note.seq][:count]
        for note in batch
    }
