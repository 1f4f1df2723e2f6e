"""Candidates: the earlier notes that a new one may be linked to (Eq. 4-5 of the paper).

They are the last notes of the same thread, then the hybrid nearest on the enriched text, as far as they are near.
Only notes that came before (by seq) are candidates, so a batch can be linked in one go. Filler and forms are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .. import ranking, repetition, texts
from ..embedder_table import MEASURED
from ..embedding import embed, embed_if_possible
from ..filters import Condition
from ..ids import now
from ..notes import Namespace, Note
from ..plans import Candidate
from ..ports import Query, Ranked, Vector
from ..runtime import RULES, Runtime, resolve
from .construct import Batch
from .show import Offer

# Least fused score of a candidate, as a share of the best. On LoCoMo .87 and .80 of the annotated links of two
# conversations lead to candidates (.84 and .78 at .6), and recall is as with all; at .7 it is .015 lower.
NEAR = 0.5
SAYING = Condition("kind", "$in", ("statement", "question"))
# Notes that say the same differ in their contexts: by their vectors they are so much further apart than by their contents.
SLACK = 0.3


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


async def find_candidates(runtime: Runtime, namespace: Namespace, batch: Batch) -> Offer:
    """Return the candidates of each note of a batch; the turns before it are as many as the settings want."""
    if not batch.notes:
        return Offer.of((), {}, {}, {})
    rows = await embed(runtime, [texts.embedding_text(note) for note in batch.notes])  # cached
    own = {note.id: row for note, row in zip(batch.notes, rows, strict=True) if row is not None}
    recent = _recent(batch, runtime.config.recent)
    queries = [_query(note, own.get(note.id)) for note in batch.notes]
    found = await resolve(runtime.store.search(namespace, queries))
    chosen = {
        note.id: _choose(runtime, recent[note.id], ranked)
        for note, ranked in zip(batch.notes, found, strict=True)
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
                similarity=float(vectors[note.id] @ vectors[target])
                if {note.id, target} <= vectors.keys()
                else None,
                previous=target in recent[note.id][:1],
            )
            for target in chosen[note.id]
            if target in notes
        ]
        for note in batch.notes
    }
    if runtime.model_name == RULES:
        candidates = await _with_repeated(runtime, batch.notes, candidates, notes)
    return Offer.of(batch.notes, candidates, notes, vectors)


async def _with_repeated(
    runtime: Runtime,
    batch: Sequence[Note],
    candidates: Mapping[str, Sequence[Candidate]],
    notes: Mapping[str, Note],
) -> dict[str, list[Candidate]]:
    """Return the candidates, of which those are marked that say the same as the new note.

    With an embedder for which nothing was measured none is.
    """
    measured = MEASURED.get(runtime.embedder.name)
    least = measured.repeats if measured else 1.0
    likely = {
        (note.id, one.id): (note.content, notes[one.id].content)
        for note in batch
        for one in (candidates[note.id] if measured else ())
        if one.similarity is not None
        and one.similarity >= least - SLACK
        and notes[one.id].superseded_by is None
        and repetition.says_same(note, notes[one.id])
    }
    wanted = sorted({text for pair in likely.values() for text in pair})
    rows = await embed_if_possible(runtime, wanted) if wanted else []
    vectors = dict(zip(wanted, rows, strict=True))

    def is_same(note_id: str, other: str) -> bool:
        if (pair := likely.get((note_id, other))) is None:
            return False
        one, two = (vectors[text] for text in pair)
        return one is not None and two is not None and float(one @ two) >= least

    return {
        note.id: [replace(one, same=is_same(note.id, one.id)) for one in candidates[note.id]]
        for note in batch
    }


def _query(note: Note, vector: Vector | None) -> Query:
    return Query(
        vector=vector,
        text=texts.lexical_text(note),
        limit=ranking.FUSION_DEPTH,
        where=(Condition("seq", "$lt", note.seq), SAYING),
    )


def _choose(runtime: Runtime, recent: Sequence[str], ranked: Ranked) -> list[str]:
    fused = ranking.fuse(ranked)
    nearest = ranking.order(fused)
    near = [one for one in nearest if fused[one].fusion >= NEAR * fused[nearest[0]].fusion]
    return list(dict.fromkeys([*recent, *near]))[: runtime.config.candidates]


def _recent(batch: Batch, count: int) -> dict[str, list[str]]:
    """Return for each note the ids of the last notes of its thread before it, newest first, without filler."""
    if not count or any(note.thread is None for note in batch.notes):
        return {note.id: [] for note in batch.notes}
    turns = [turn for turn in (*batch.before, *batch.notes) if turn.kind != "filler"]
    return {
        note.id: [turn.id for turn in reversed(turns) if turn.seq < note.seq][:count]
        for note in batch.notes
    }
