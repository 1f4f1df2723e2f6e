"""Candidates: the earlier notes that a new one may be linked to (Eq. 4-5 of the paper).

They are the last notes of the same thread, then the hybrid nearest on the enriched text, as far as they are near.
Only notes that came before (by seq) are candidates, so a batch can be linked in one go. Filler is none, and a question only
if it is one of the last notes of the thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import log

from .. import texts
from ..embedding import embed
from ..fetch import living
from ..filters import Condition, unexpired
from ..ids import now
from ..kinds import telling_words
from ..notes import Namespace, Note
from ..ports import Bring, Query, Ranked
from ..repetition import says_same
from ..retrieval import ranking
from ..runtime import RULES, Runtime, resolve
from ..stored_note import Vector
from .call import OpenCall
from .show import Candidate, Offer

# Least fused score of a candidate, as a share of the best. On LoCoMo .86 and .80 of the annotated links of two
# conversations lead to candidates (.87 and .81 at .5, .85 and .78 at .6), and recall is as with all; at .7 it is .015 lower.
NEAR = 0.55
SPARE = 2  # times as many notes as candidates come with a search: the fusion of a server is a little simpler
CONVERSED = Condition("origin", "$eq", "conversation")
SAID = (Condition("kind", "$in", ("statement", "question")), CONVERSED)


async def turns_before(runtime: Runtime, namespace: Namespace, note: Note, most: int) -> list[Note]:
    """Return the last notes of its thread before a note, `most` of them, oldest first."""
    if note.thread is None or not most:
        return []
    where = (Condition("thread", "$eq", note.thread), Condition("seq", "$lt", note.seq), CONVERSED)
    turns = runtime.store.scan(namespace, where=where, limit=most, newest_first=True)
    time = now()
    return [turn for turn in reversed(await resolve(turns)) if not turn.is_expired(time)]


async def find_candidates(call: OpenCall, new: Sequence[Note], fresh: Mapping[str, Note]) -> Offer:
    """Return the candidates of new notes of a batch; the turns before it are as many as the settings want.

    Args:
        call: The work on the batch.
        new: The new notes that are to be linked, with their entries.
        fresh: Notes with entries that are not written yet, by id: they are judged by these, whatever is stored.
    """
    if not new:
        return Offer.of((), {})
    runtime, namespace = call.runtime, call.namespace
    vectors = await first_vectors(runtime, [*new, *fresh.values()])
    last = max(note.seq for note in new)
    words = EntryWords(note for note in fresh.values() if note.seq < last)
    recent = _recent(call.before, new, runtime.config.recent)
    queries = [_query(runtime, note, vectors.get(note.id)) for note in new]
    hits = await resolve(runtime.store.search(namespace, queries))
    found = {
        note.id: _with_fresh(ranked, note, fresh, vectors, words)
        for note, ranked in zip(new, hits, strict=True)
    }
    notes = {note.id: note for note in call.before}
    for ranked in found.values():
        notes |= {i: one.note for i, one in ranked.brought.items() if one.note is not None}
    notes |= fresh
    chosen = {i: _choose(runtime, recent[i], ranked, notes) for i, ranked in found.items()}
    wanted = dict.fromkeys(chain.from_iterable(chosen.values()))
    if missing := [target for target in wanted if target not in notes]:
        notes |= await living(runtime.store, namespace, missing)
    time, lately = now(), set(chain.from_iterable(recent.values()))
    shown = {
        i: notes[i]
        for i in wanted
        if i in notes and not notes[i].is_expired(time)
        # A question of long ago brings nothing that its answer does not.
        if i in lately or notes[i].kind != "question"
    }
    by_rules = runtime.model_name == RULES

    def candidate(note: Note, other: Note) -> Candidate:
        is_current = other.superseded_by is None
        return Candidate(
            note=other,
            similarity=_similarity(runtime, note, other, found[note.id], vectors),
            previous=other.id in recent[note.id][:1],
            same=by_rules and is_current and says_same(note, other),
        )

    candidates = {
        note.id: [candidate(note, shown[i]) for i in chosen[note.id] if i in shown] for note in new
    }
    return Offer.of(new, candidates)


async def first_vectors(runtime: Runtime, notes: Iterable[Note]) -> dict[str, Vector]:
    """Return by id the vector of each note, of its first passage if there are several, as far as it has one.

    The embedder is called for what was not embedded lately; the journal writes the same vectors.
    """
    firsts = {note.id: texts.embedding_texts(note)[0] for note in notes}
    rows = await embed(runtime, list(firsts.values()))
    return {i: row for i, row in zip(firsts, rows, strict=True) if row is not None}


def _with_fresh(
    ranked: Ranked,
    note: Note,
    fresh: Mapping[str, Note],
    vectors: Mapping[str, Vector],
    words: EntryWords,
) -> Ranked:
    """Return the hits of a search, with the scores of notes whose entries are not written yet; filler is left out."""
    earlier = {i for i, other in fresh.items() if other.seq < note.seq and other.kind != "filler"}
    own, dense = vectors.get(note.id), list[tuple[str, float]]()
    if own is not None:
        dense = [(i, float(own @ vectors[i])) for i in earlier if i in vectors]
    dense += [(i, score) for i, score in ranked.dense if i not in fresh]
    lexical = [(i, score) for i, score in ranked.lexical if i not in fresh]
    lexical += words.scores(note, earlier, dict(ranked.lexical))
    return replace(ranked, dense=_best(dense), lexical=_best(lexical))


def _best(scores: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted(scores, key=lambda one: (-one[1], one[0]))[: ranking.FUSION_DEPTH]


class EntryWords:
    """The words of notes whose entries are not written yet: the store knows only the words that were said."""

    def __init__(self, notes: Iterable[Note]) -> None:
        """Take the telling words of content, speaker and date, the words that each entry adds, and how rare each word is."""
        by_id = {note.id: note for note in notes}
        whole = {i: _words(note) for i, note in by_id.items()}
        number = Counter(chain.from_iterable(whole.values()))
        self._rarity = {word: log(1 + len(by_id) / count) for word, count in number.items()}
        self._said = {i: _words(replace(note, contexts=())) for i, note in by_id.items()}
        self._added = {i: whole[i] - self._said[i] for i in whole}

    def scores(
        self, note: Note, ids: Collection[str], known: Mapping[str, float]
    ) -> list[tuple[str, float]]:
        """Return the BM25 scores that notes would have for a note if their entries were written; notes without a shared word have none.

        `known` are the scores of the words that were said: a word of an entry counts as much as a said word of the same rarity.
        """
        wanted = _words(note)
        said = {i: self._weight(self._said[i] & wanted) for i in ids}
        weight = sum(said[i] for i in ids if i in known)
        scale = sum(known[i] for i in ids if i in known) / weight if weight else 1.0
        scores = {i: known.get(i, 0.0) + scale * self._weight(self._added[i] & wanted) for i in ids}
        return [(i, score) for i, score in scores.items() if score]

    def _weight(self, words: Iterable[str]) -> float:
        return sum(self._rarity[word] for word in words)


def _words(note: Note) -> frozenset[str]:
    return telling_words(texts.lexical_text(note))


def _similarity(
    runtime: Runtime, note: Note, other: Note, ranked: Ranked, vectors: Mapping[str, Vector]
) -> float | None:
    """Return the cosine of two notes, if it is known without a request."""
    cosines = {**ranked.cosines, **dict(ranked.dense)}
    if other.id in cosines or note.id not in vectors:
        return cosines.get(other.id)
    text = texts.embedding_texts(other)[0]
    known = vectors.get(other.id, runtime.vectors.get("document", text))
    return None if known is None else float(vectors[note.id] @ known)


def _query(runtime: Runtime, note: Note, vector: Vector | None) -> Query:
    return Query(
        vector=vector,
        text=texts.lexical_text(note),
        limit=ranking.FUSION_DEPTH,
        where=(Condition("seq", "$lt", note.seq), *SAID, unexpired(now())),
        bring=Bring(limit=SPARE * runtime.config.candidates, k=ranking.RRF_K),
    )


def _choose(
    runtime: Runtime, recent: Sequence[str], ranked: Ranked, known: Collection[str]
) -> list[str]:
    """Return the candidates of a note; where a search has brought notes, another one is worth no further request."""
    fusion, _ = ranking.fuse(ranked, {})
    least = NEAR * max(fusion.values(), default=0.0)
    near = [i for i in sorted(fusion, key=fusion.__getitem__, reverse=True) if fusion[i] >= least]
    if ranked.brought:
        near = [one for one in near if one in known]
    return list(dict.fromkeys([*recent, *near]))[: runtime.config.candidates]


def _recent(before: Sequence[Note], new: Sequence[Note], count: int) -> dict[str, list[str]]:
    """Return for each note the ids of the last notes of its thread before it, newest first, without filler."""
    if any(note.thread is None for note in new):
        return {note.id: [] for note in new}
    turns = [turn for turn in (*before, *new) if turn.kind != "filler"]
    return {
        note.id: [turn.id for turn in reversed(turns) if turn.seq < note.seq][:count]
        for note in new
    }
