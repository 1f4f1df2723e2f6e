"""Search: the best notes for a query. No chat model is called."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from .. import ranking
from ..context import as_of as seen_from
from ..current_facts import CurrentFacts, named
from ..decisions import Source
from ..embedding import embed_query
from ..errors import InvalidInputError, ModelUnavailableError
from ..filters import Conditions, check_count, check_similarity, conditions_of, matches
from ..follow_up import Asked, asked, mixed
from ..ids import now
from ..journal.known_at import notes_as_known
from ..notes import Link, Namespace, Note, ScoredNote, Via, Why, check_namespace
from ..passages import best_passages, in_order_of_passages, size_of, spans
from ..ports import Bring, Query, Ranked
from ..relevance import repeated, said_once
from ..runtime import Runtime, resolve
from ..stored_note import StoredNote, Vector

log = logging.getLogger("amem_integrations")


PAGE = 64
SPARE = 20  # notes
LEAST = -1.0  # the least cosine there is: of what is found by its words, and has no vector yet
NONE = ranking.Activation()


async def search(
    runtime: Runtime,
    query: str,
    *,
    namespace: Sequence[str],
    also: Mapping[str, Sequence[str]] | None = None,
    k: int = 10,
    where: Mapping[str, Any] | None = None,
    min_similarity: float | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    links: bool = True,
    explain: bool = False,
    repeats: bool = True,
    messages: Sequence[str | Mapping[str, Any]] = (),
) -> list[ScoredNote]:
    """Return the `k` best notes for a query, best first.

    The two notes that match best, by cosine and BM25 score, stand first. For the others dense and BM25 hits are fused by
    reciprocal rank; then activation spreads over links, so that notes which belong to a hit are found as well
    (Eq. 8-10 of the paper). A note that was superseded never stands above
    what takes its place, which is brought in beside it if the query does not find it by itself (and `where` lets
    it). While the embedder is unavailable, notes are found by their words alone.

    Args:
        query: What to look for.
        namespace: Whose memory; no other is seen, and no link leads out of it.
        also: Further namespaces to read, each by a name for the reader: `{"team": ("acme",)}`. Each is searched by
            itself; `hit.note.namespace` says whose a hit is.
        k: Most notes to return.
        where: Conditions on fields: `{"speaker": "Ann", "metadata.city": {"$in": ["Rome", "Oslo"]}}`;
            operators `$eq $ne $gt $gte $lt $lte $in $nin $exists`, and `$or` and `$and` of several such dicts.
        min_similarity: Least cosine of query and note; notes without a vector yet are left out too.
        as_of: What was true then: only what had happened by then, superseded by what had happened by then,
            without the context that later notes added. Content and links are as they are now. A note that was
            replaced since counts as near as what replaced it.
        known_at: What the memory believed then: only what had been recorded by then, with the content, context,
            links and supersessions of that moment. Ranked by the vectors of today; what was deleted since is gone.
        links: Whether links are followed.
        explain: Fill in `why`: ranks, match, fusion and spread.
        repeats: Whether all notes that say the same are returned. False returns one of them, in its fullest wording,
            with how often that was said and when last (`times_said`, `last_said`).
        messages: What was said before the query, newest last: texts, or dicts as for `add_messages`. They count where
            the query cannot be understood without them ("And where does she work?"); a note that says just what one
            of them says then comes last.

    Raises:
        InvalidInputError: Empty query, or bad `messages`, or a bad `k`, `where`, `min_similarity`, `as_of` or `known_at`.
        NamespaceError: The namespace is missing or malformed.
    """
    space, *others = namespaces_of(namespace, also)
    check_count("k", k)
    if others:
        lists = [
            await search(
                runtime,
                query,
                namespace=one,
                k=k,
                where=where,
                min_similarity=min_similarity,
                as_of=as_of,
                known_at=known_at,
                links=links,
                explain=explain,
                repeats=repeats,
                messages=messages,
            )
            for one in (space, *others)
        ]
        return merged(lists)[:k]
    check_similarity(min_similarity)
    conditions = conditions_of(where, as_of, known_at)
    _check_query(query)
    wanted = asked(query, messages)
    most = k
    while True:
        found, notes = await _ranked(
            runtime, space, wanted, conditions, most, min_similarity, known_at, as_of, links=links
        )
        current = CurrentFacts(found.notes, as_of or known_at or runtime.clock.now(), now=now())
        hits = _hits(found, current, notes, conditions, k=most, explain=explain, as_of=as_of)
        hits = await _with_cosines(runtime, space, found, wanted, hits)
        if repeats:
            return hits
        shown = await once(runtime, space, hits, conditions, known_at)
        if len(shown) >= k or len(hits) < most:
            return shown[:k]
        most *= 4


def namespaces_of(
    namespace: Sequence[str], also: Mapping[str, Sequence[str]] | None
) -> list[Namespace]:
    """Return the namespaces that are read, each once, whose memory it is first.

    Raises:
        InvalidInputError: `also` does not give each further namespace a name.
        NamespaceError: A namespace is missing or malformed.
    """
    named = {} if also is None else also
    if not isinstance(named, Mapping) or not all(isinstance(n, str) and n.strip() for n in named):
        raise InvalidInputError(
            f"also={also!r} must be a dict of names to namespaces, such as {{'team': ('acme',)}}"
        )
    return list(dict.fromkeys(map(check_namespace, (namespace, *named.values()))))


def falling(hits: Sequence[ScoredNote]) -> Iterator[tuple[ScoredNote, float]]:
    """Return hits with scores that never rise: the cosine, or that of a better one further down.

    The memory ranks by meaning, words and links. What stands above a note that is nearer by meaning is at least as
    good, so it is given the same score: hits of several searches can then be sorted by it.
    """
    best, scores = LEAST, []
    for hit in reversed(hits):
        best = max(best, LEAST if hit.similarity is None else hit.similarity)
        scores.append(best)
    return zip(hits, reversed(scores), strict=True)


def merged(lists: Sequence[Sequence[ScoredNote]]) -> list[ScoredNote]:
    """Return the hits of several searches, best first; of equally good ones, those first that rank higher."""
    ranked = [
        (-score, rank, hit) for hits in lists for rank, (hit, score) in enumerate(falling(hits))
    ]
    return [hit for _, _, hit in sorted(ranked, key=lambda one: one[:2])]


async def once(
    runtime: Runtime,
    namespace: Namespace,
    hits: Sequence[ScoredNote],
    where: Conditions,
    known_at: datetime | None,
    *,
    counted: Iterable[ScoredNote] = (),
) -> list[ScoredNote]:
    """Return the hits, of those that say the same one; see `relevance.said_once`.

    Counted are further hits, and the notes that links lead to, as they were known at that time, if they meet the
    conditions.
    """
    known = {hit.note.id: hit.note for hit in (*counted, *hits)}
    wanted = sorted({other for hit in hits for other in repeated(hit.note)} - known.keys())
    found = Found(known_at=known_at)
    await fetch_notes(runtime, namespace, found, wanted)
    time = now()
    others = [n for n in found.notes.values() if matches(n, where) and not n.is_expired(time)]
    return said_once(hits, [*known.values(), *others])


@dataclass(slots=True, kw_only=True)
class Found:
    """The state of a search.

    Attributes:
        known_at: When the memory knew the notes as they are here; None: they are as the memory knows them now.
        vector: The vector of the query; None: the query has none.
        activations: The scores.
        matched: The notes that are best without links, best first.
        brought: The stored notes that came with the lists, which nothing has looked at yet.
        notes: The notes that were looked at.
        supersedes: The ids of the notes whose place each of these takes.
        cosines: The cosines of query and notes.
        by_passage: The cosines of the query and each passage of the long texts whose vectors were read.
        links: The links that were followed.
        without_vector: The notes that have no vector.
    """

    known_at: datetime | None = None
    vector: Vector | None = None
    activations: ranking.Activations = field(default_factory=dict)
    matched: list[str] = field(default_factory=list)
    brought: dict[str, StoredNote] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    supersedes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)
    by_passage: dict[str, Vector] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, Link]] = field(default_factory=dict)
    without_vector: set[str] = field(default_factory=set)

    def lacks(self, note_id: str) -> bool:
        """Return whether the vectors of a note have to be read, for its cosine or those of its passages."""
        if self.vector is None or note_id in self.without_vector or note_id in self.by_passage:
            return False
        note = self.notes.get(note_id)
        return note_id not in self.cosines or (note is not None and bool(note.passages))


def _check_query(query: object) -> None:
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(f"query={query!r} must be text that says what to look for")


async def _ranked(
    runtime: Runtime,
    namespace: Namespace,
    wanted: Asked,
    where: Conditions,
    k: int,
    floor: float | None,
    known_at: datetime | None,
    as_of: datetime | None,
    *,
    links: bool,
) -> tuple[Found, list[Note]]:
    """Return what a query finds, with what supersedes it, and the first k notes of it."""
    found = await _find(runtime, namespace, wanted, where, k, known_at, as_of)
    if links:
        _spread(found, k)
    likely = ranking.order(found.activations)[: min(2 * k, ranking.FUSION_DEPTH)]
    await fetch_notes(
        runtime, namespace, found, likely, near=likely[:k] if runtime.store.remote else ()
    )
    ranking.favour_named(found.activations, wanted.query, found.notes.values())
    ranking.lead(found.activations)
    notes = await _best(runtime, namespace, found, where, k, floor)
    await fetch_related(runtime, namespace, found, notes)
    return found, notes


async def _find(
    runtime: Runtime,
    namespace: Namespace,
    wanted: Asked,
    where: Conditions,
    k: int,
    known_at: datetime | None,
    as_of: datetime | None,
) -> Found:
    """Return what the dense and the BM25 list find, fused."""
    vector = await _query_vector(runtime, wanted)
    depth = max(ranking.FUSION_DEPTH, k)
    # A few more than are looked at: the server orders equal scores otherwise, and weights move some.
    bring = Bring(limit=ranking.looked_at(k) + SPARE, k=ranking.RRF_K)
    found = Found(known_at=known_at, vector=vector)
    query = Query(vector=vector, text=wanted.words, limit=depth, where=where, bring=bring)
    lists = await _lists(runtime, namespace, query, found)
    weights = await _weigh(runtime, namespace, wanted, lists, found, k)
    light = sum(weight < ranking.STATED for weight in weights.values())
    if max(len(lists.dense), len(lists.lexical)) >= depth and 2 * light > len(weights):
        # Questions and echoes fill the lists: statements are looked for by themselves.
        stated = replace(query, where=(*where, *ranking.STATEMENTS))
        more = await _lists(runtime, namespace, stated, found)
        lists = ranking.joined(more, lists)
        await _weigh(runtime, namespace, wanted, lists, found, k)
    if as_of and (nearer := await _nearer(runtime, namespace, found, as_of)):
        dense = ranking.raised(lists.dense, nearer)
        await _weigh(runtime, namespace, wanted, replace(lists, dense=dense), found, k)
    return found


async def _nearer(
    runtime: Runtime, namespace: Namespace, found: Found, as_of: datetime
) -> dict[str, float]:
    """Return by note the cosine of what replaced it after a time: both answer the same question."""
    later = {
        note.id: [i for i, s in note.supersessions.items() if s.replaces and s.since > as_of]
        for note in found.notes.values()
    }
    newer = sorted({i for ids in later.values() for i in ids})
    await fetch_notes(runtime, namespace, found, newer, near=newer)
    cosines = {i: [found.cosines[j] for j in ids if j in found.cosines] for i, ids in later.items()}
    return {note_id: max(some) for note_id, some in cosines.items() if some}


async def _lists(runtime: Runtime, namespace: Namespace, query: Query, found: Found) -> Ranked:
    """Return what the store finds; the notes and cosines that come with it are kept."""
    (lists,) = await resolve(runtime.store.search(namespace, [query]))
    found.cosines |= {**lists.cosines, **dict(lists.dense)}
    found.brought |= lists.brought
    return lists


async def _weigh(
    runtime: Runtime, namespace: Namespace, wanted: Asked, lists: Ranked, found: Found, k: int
) -> dict[str, float]:
    """Fuse the lists by what the best notes of them are, which are fetched; return the weights of these."""
    weights: dict[str, float] = {}
    found.activations = ranking.fuse(lists)
    while True:
        found.matched = ranking.matched(found.activations, max(k, ranking.looked_at(k)))
        best = found.matched[: ranking.looked_at(k)]
        new = [note_id for note_id in best if note_id not in weights]
        await fetch_notes(runtime, namespace, found, new)
        notes = [found.notes[note_id] for note_id in new if note_id in found.notes]
        weights |= {note.id: _weight(note, wanted) for note in notes}
        if all(weights[note.id] == ranking.STATED for note in notes):
            return weights
        found.activations = ranking.fuse(lists, weights)


def _weight(note: Note, wanted: Asked) -> float:
    """Return how much a note counts; one that says just what a message before the query says is known already."""
    if wanted.is_said_in(note):
        return ranking.FILLER
    return ranking.weight_of(note, wanted.query)


def _spread(found: Found, k: int) -> None:
    """Let the best hits activate what they are linked to."""
    best = found.matched[: ranking.looked_at(k)]
    found.links = {i: found.notes[i].links for i in best if i in found.notes}
    ranking.spread(found.activations, found.links)


async def _query_vector(runtime: Runtime, wanted: Asked) -> Vector | None:
    try:
        vector = await embed_query(runtime, wanted.query)
        background = await embed_query(runtime, wanted.background) if wanted.before else None
    except ModelUnavailableError as error:
        runtime.usage.count("search", without_vectors=1)
        runtime.degraded(error)
        return None
    return vector if vector is None or background is None else mixed(vector, background)


async def _best(
    runtime: Runtime,
    namespace: Namespace,
    found: Found,
    where: Conditions,
    k: int,
    min_similarity: float | None,
) -> list[Note]:
    """Return the first k notes that may be shown, best first; fill in missing notes and cosines."""
    ordered, best, time = ranking.order(found.activations), [], now()
    # With a threshold many may be passed over: pages of a few would be as many calls.
    size = k if min_similarity is None else max(k, PAGE)
    for start in range(0, len(ordered), size):
        page = ordered[start : start + size]
        near = () if min_similarity is None else page
        await fetch_notes(runtime, namespace, found, page, near=near)
        for note in (found.notes[note_id] for note_id in page if note_id in found.notes):
            # The store's hits meet the conditions; a note that a link led to is checked here.
            if not (found.activations[note.id].fusion or matches(note, where)):
                continue
            if note.is_expired(time):
                continue
            if _is_near(found.cosines.get(note.id), min_similarity):
                best.append(note)
        if len(best) >= k:
            break
    return best[:k]


async def fetch_notes(
    runtime: Runtime,
    namespace: Namespace,
    found: Found,
    ids: Iterable[str],
    *,
    near: Collection[str] = (),
) -> None:
    """Fetch the notes that are not known yet, and the cosines of those that are to be `near`, of all their passages.

    Over a network all of that is one request, which brings the cosines of everything that it fetches.
    """
    missing = [note_id for note_id in ids if note_id not in found.notes]
    if at_hand := [found.brought[i] for i in missing if i in found.brought]:
        await _keep(runtime, namespace, found, at_hand)
        missing = [note_id for note_id in missing if note_id not in found.notes]
    lacking = [note_id for note_id in near if found.lacks(note_id)]
    if runtime.store.remote:
        far = lacking or any(found.lacks(note_id) for note_id in missing)
        parts = [([*missing, *lacking], bool(far))]
    else:  # a vector is larger than its note
        parts = [([i for i in missing if i not in lacking], False), (lacking, True)]
    for wanted, vectors in parts:
        if wanted:
            stored = await resolve(runtime.store.notes(namespace, wanted, vectors=vectors))
            await _keep(runtime, namespace, found, list(stored.values()))


async def _keep(
    runtime: Runtime, namespace: Namespace, found: Found, stored: Sequence[StoredNote]
) -> None:
    """Keep stored notes that were read, as they were known at the time that is asked about."""
    alive = [one for one in stored if one.note is not None]
    rows: dict[Source, Vector] = {}
    if found.vector is not None:
        rows = {one.source: one.vectors @ found.vector for one in alive if one.vectors is not None}
    for source, cosines in rows.items():
        found.cosines.setdefault(source.id, float(cosines.max()))
    found.without_vector.update(one.id for one in alive if not one.embedded)
    if alive and found.known_at is not None:
        most = runtime.config.max_links
        alive = await notes_as_known(runtime.store, namespace, alive, found.known_at, most)
    for one in alive:
        if one.note is not None:
            found.notes[one.id] = one.note
        found.supersedes[one.id] = one.supersedes
        if one.source in rows:
            found.by_passage[one.id] = rows[one.source]


async def fetch_related(
    runtime: Runtime, namespace: Namespace, found: Found, notes: Sequence[Note]
) -> None:
    """Fetch what supersedes notes, what supersedes that, and so on; and what those that are over had replaced."""
    todo, seen = list(notes), set[str]()
    while todo:
        seen |= {note.id for note in todo}
        past = [note.id for note in todo if note.holds_until or _is_retracted(note)]
        if unknown := [note_id for note_id in past if note_id not in found.supersedes]:
            stored = await resolve(runtime.store.notes(namespace, unknown))
            await _keep(runtime, namespace, found, list(stored.values()))
        replaced = {other for note_id in past for other in found.supersedes.get(note_id, ())}
        wanted = sorted(named(todo) | replaced)
        await fetch_notes(runtime, namespace, found, wanted)
        todo = [found.notes[i] for i in wanted if i in found.notes and i not in seen]


async def _with_cosines(
    runtime: Runtime,
    namespace: Namespace,
    found: Found,
    wanted: Asked,
    hits: Sequence[ScoredNote],
) -> list[ScoredNote]:
    """Return hits with all their cosines, those on long texts with the passages that match best, and in their order."""
    lacking = [hit.note.id for hit in hits if found.lacks(hit.note.id)]
    if lacking:
        await fetch_notes(runtime, namespace, found, (), near=lacking)
        hits = [replace(hit, similarity=found.cosines.get(hit.note.id)) for hit in hits]
    size = size_of(runtime.embedder)
    texts = {
        hit.note.id: (hit.note.content, passages)
        for hit in hits
        if (passages := hit.note.passages or spans(hit.note.content, size))
    }
    if not texts:
        return list(hits)
    cosines = {
        note_id: found.by_passage[note_id]
        for note_id, (_, passages) in texts.items()
        if len(found.by_passage.get(note_id, ())) == len(passages)
    }
    best = best_passages(wanted.query, texts, cosines)
    return in_order_of_passages([replace(hit, passages=best.get(hit.note.id, ())) for hit in hits])


def _is_retracted(note: Note) -> bool:
    return any(s.relation == "retracts" for s in note.supersessions.values())


def _hits(
    found: Found,
    current: CurrentFacts,
    notes: Sequence[Note],
    where: Conditions,
    *,
    k: int,
    explain: bool,
    as_of: datetime | None,
) -> list[ScoredNote]:
    """Return the first k hits, in the order in which notes may be shown."""
    matched, hits = set(found.matched[:k]), []
    ranked = {note.id for note in notes}
    for note, place in current.in_order(notes):
        if note.id not in ranked and not matches(note, where):
            continue
        activation = found.activations.get(note.id, NONE)
        view = current.view(note)
        hit = ScoredNote(
            note=seen_from(view, as_of) if as_of else view,
            score=found.activations[place.id].score,
            similarity=found.cosines.get(note.id),
            via="match" if note.id in matched else _path(note, place, found),
            superseded_by=current.successor(note),
            contradicted_by=tuple(current.contradictions(note)),
            is_over=current.is_over(note),
            why=_why(activation) if explain else None,
        )
        hits.append(hit)
        if len(hits) == k:
            break
    return hits


def _is_near(cosine: float | None, floor: float | None) -> bool:
    return floor is None or (cosine is not None and cosine >= floor)


def _why(activation: ranking.Activation) -> Why:
    return Why(
        dense_rank=activation.dense_rank,
        lexical_rank=activation.lexical_rank,
        match=activation.match,
        fusion=activation.fusion,
        spread=activation.spread,
    )


def _path(note: Note, place: Note, found: Found) -> tuple[Via, ...] | Literal["match"]:
    """Return the links that led to a note, the one that gave most first; or what it was brought in for."""
    if place.id != note.id:
        given = place.supersessions.get(note.id) or note.supersessions.get(place.id)
        relation, reason = (given.relation, given.reason) if given else ("related", "")
        return (Via(note_id=place.id, relation=relation, reason=reason, strength=1.0),)
    sources = sorted(found.activations[note.id].sources)[::-1]
    steps = [(source, found.links[source][note.id]) for _, source in sources]
    return (
        tuple(
            Via(
                note_id=source,
                relation=link.relation,
                reason=link.reason,
                strength=link.strength,
            )
            for source, link in steps
        )
        or "match"
    )
