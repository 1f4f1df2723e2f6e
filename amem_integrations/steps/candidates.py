"""Candidates: which earlier notes are shown for a new one (Eq. 4-5 of the paper).

The last notes of the same thread, then the hybrid nearest on the enriched text. Only notes that came
before (by seq) are candidates, so a batch can be linked in one go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import ranking, texts
from .._sync import resolve
from ..filters import Condition, Conditions
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


async def find(runtime: Runtime, namespace: Namespace, batch: Sequence[Note]) -> Offer:
    """Return the candidates of each note of a batch (one thread, in order of seq)."""
    store = runtime.store
    own = await resolve(store.vectors(namespace, [note.id for note in batch]))
    queries = [_query(note, own.get(note.id)) for note in batch]
    found = await resolve(store.search(namespace, queries))
    recent = await _recent(runtime, namespace, batch)
    chosen = {
        note.id: _choose(runtime, recent[note.id], ranked)
        for note, ranked in zip(batch, found, strict=True)
    }
    ids = list(dict.fromkeys(target for targets in chosen.values() for target in targets))
    notes = {note.id: note for note in await resolve(store.get(namespace, ids))}
    vectors = {**await resolve(store.vectors(namespace, ids)), **own}
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


async def _recent(
    runtime: Runtime, namespace: Namespace, batch: Sequence[Note]
) -> dict[str, list[str]]:
    """Return for each note the ids of the last notes of its thread before it, newest first."""
    wanted = runtime.config.recent
    if not wanted or batch[0].thread is None:
        return {note.id: [] for note in batch}
    where: Conditions = (
        Condition("thread", "$eq", batch[0].thread),
        Condition("seq", "$lt", batch[-1].seq),
    )
    last = await resolve(
        runtime.store.scan(namespace, where=where, limit=wanted + len(batch), newest_first=True)
    )
    return {
        note.id: [earlier.id for earlier in last if earlier.seq < note.seq][:wanted]
        for note in batch
    }
