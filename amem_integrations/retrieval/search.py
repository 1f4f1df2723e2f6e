"""Search: the best notes for a query. No chat model is called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal

from ..decisions import Source
from ..embedding import embed_query, size_of
from ..errors import InvalidInputError, ModelUnavailableError
from ..filters import Conditions, check_count, check_similarity, conditions_of, matches
from ..ids import now
from ..journal.fold import notes_as_known
from ..notes import Link, Namespace, Note, ScoredNote, Via, Why, check_namespace
from ..ports import Bring, Query, Ranked
from ..repetition import repeated, said_once
from ..runtime import Runtime, resolve
from ..splitting import spans
from ..stored_note import StoredNote, Vector
from . import ranking
from .context import as_of as seen_from
from .current_facts import CurrentFacts, named
from .passages import best_passages, in_order_of_passages
from .relevance import is_said_in, messages_before, mixed, together

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
        explain=explain,
    )
    lists = await hits_by_namespace(runtime, spaces, asked)
    if not repeats:
        lists = [
            await _each_once(runtime, space, asked, hits)
            for space, hits in zip(spaces, lists, strict=True)
        ]
    return merged(lists)[:k]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to a memory, with its conditions; see `search` for the fields."""

    query: str
    k: int
    before: tuple[str, ...] = ()  # the messages that make the query clear
    where: Conditions = ()
    min_similarity: float | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    links: bool = True
    explain: bool = False

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InvalidInputError: One of them cannot be used.
        """
        check_count("k", self.k)
        check_similarity(self.min_similarity)


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
    if len(lists) == 1:
        return list(lists[0])
    ranked = [
        (-score, rank, hit) for hits in lists for rank, (hit, score) in enumerate(falling(hits))
    ]
    return [hit for _, _, hit in sorted(ranked, key=lambda one: one[:2])]


async def hits_by_namespace(
    runtime: Runtime, spaces: Sequence[Namespace], asked: Asked
) -> list[list[ScoredNote]]:
    """Return the best `k` hits of each namespace; the lists of all namespaces are one request."""
    vector = await _query_vector(runtime, asked)
    searches = [Search(runtime, space, asked, vector) for space in spaces]
    queries = [replace(one.query, namespace=one.namespace) for one in searches]
    lists = await resolve(runtime.store.search(spaces[0], queries))
    return [await one.hits(found) for one, found in zip(searches, lists, strict=True)]


async def _query_vector(runtime: Runtime, asked: Asked) -> Vector | None:
    try:
        vector = await embed_query(runtime, asked.query)
        background = "\n".join(asked.before)
        said_before = await embed_query(runtime, background) if background else None
    except ModelUnavailableError as error:
        runtime.usage.count("search", without_vectors=1)
        runtime.degraded(error)
        return None
    return vector if vector is None or said_before is None else mixed(vector, said_before)


async def _each_once(
    runtime: Runtime, namespace: Namespace, asked: Asked, hits: list[ScoredNote]
) -> list[ScoredNote]:
    """Return the first `k` hits of which no two say the same, of a longer list where `hits` are too few."""
    most = asked.k
    while True:
        shown = await once(runtime, namespace, hits, asked)
        if len(shown) >= asked.k or len(hits) < most:
            return shown[: asked.k]
        most *= 4
        (hits,) = await hits_by_namespace(runtime, [namespace], replace(asked, k=most))


async def once(
    runtime: Runtime,
    namespace: Namespace,
    hits: Sequence[ScoredNote],
    asked: Asked,
    *,
    counted: Iterable[ScoredNote] = (),
) -> list[ScoredNote]:
    """Return the hits, of those that say the same one; see `relevance.said_once`.

    Counted are further hits, and the notes that links lead to, as they were known at that time, if they meet the
    conditions.
    """
    known = {hit.note.id: hit.note for hit in (*counted, *hits)}
    reader = Reader(runtime, namespace, asked.known_at)
    await reader.fetch(
        sorted({other for hit in hits for other in repeated(hit.note)} - known.keys())
    )
    time = now()
    others = [
        n for n in reader.notes.values() if matches(n, asked.where) and not n.is_expired(time)
    ]
    return said_once(hits, [*known.values(), *others])


@dataclass(slots=True)
class Reader:
    """The notes of one namespace that were read so far.

    Attributes:
        known_at: When the memory knew the notes as they are here; None: they are as the memory knows them now.
        vector: The vector of the query; None: there is none.
        brought: The stored notes that came with the lists, which nothing has looked at yet.
        notes: The notes that were looked at.
        supersedes: The ids of the notes whose place each of these takes.
        cosines: The cosines of query and notes.
        by_passage: The cosines of the query and each passage of the long texts whose vectors were read.
        without_vector: The notes that have no vector.
    """

    runtime: Runtime
    namespace: Namespace
    known_at: datetime | None = None
    vector: Vector | None = None
    brought: dict[str, StoredNote] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    supersedes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)
    by_passage: dict[str, Vector] = field(default_factory=dict)
    without_vector: set[str] = field(default_factory=set)

    def lacks(self, note_id: str) -> bool:
        """Return whether the vectors of a note have to be read, for its cosine or those of its passages."""
        if self.vector is None or note_id in self.without_vector or note_id in self.by_passage:
            return False
        note = self.notes.get(note_id)
        return note_id not in self.cosines or (note is not None and bool(note.passages))

    async def fetch(self, ids: Iterable[str], *, near: Collection[str] = ()) -> None:
        """Fetch the notes that are not known yet, and the cosines of those that are to be `near`, of all their passages.

        Over a network all of that is one request, which brings the cosines of everything that it fetches.
        """
        missing = [note_id for note_id in ids if note_id not in self.notes]
        if at_hand := [self.brought[i] for i in missing if i in self.brought]:
            await self._keep(at_hand)
            missing = [note_id for note_id in missing if note_id not in self.notes]
        lacking = [note_id for note_id in near if self.lacks(note_id)]
        if self.runtime.store.remote:
            far = bool(lacking) or any(map(self.lacks, missing))
            parts = [([*missing, *lacking], far)]
        else:  # a vector is larger than its note
            parts = [([i for i in missing if i not in lacking], False), (lacking, True)]
        for wanted, vectors in parts:
            if wanted:
                await self._read(wanted, vectors=vectors)

    async def fetch_related(self, notes: Sequence[Note]) -> None:
        """Fetch what supersedes notes, what supersedes that, and so on; and what those that are over had replaced."""
        todo, seen = list(notes), set[str]()
        while todo:
            seen |= {note.id for note in todo}
            past = [note.id for note in todo if note.holds_until or _is_retracted(note)]
            if unknown := [note_id for note_id in past if note_id not in self.supersedes]:
                await self._read(unknown)
            replaced = {other for note_id in past for other in self.supersedes.get(note_id, ())}
            wanted = sorted(named(todo) | replaced)
            await self.fetch(wanted)
            todo = [self.notes[i] for i in wanted if i in self.notes and i not in seen]

    async def _read(self, ids: Sequence[str], *, vectors: bool = False) -> None:
        store = self.runtime.store
        stored = await resolve(store.notes(self.namespace, ids, vectors=vectors))
        await self._keep(list(stored.values()))

    async def _keep(self, stored: Sequence[StoredNote]) -> None:
        """Keep stored notes that were read, as they were known at the time that is asked about."""
        alive = [one for one in stored if one.note is not None]
        rows: dict[Source, Vector] = {}
        if self.vector is not None:
            rows = {
                one.source: one.vectors @ self.vector for one in alive if one.vectors is not None
            }
        for source, cosines in rows.items():
            self.cosines.setdefault(source.id, float(cosines.max()))
        self.without_vector.update(one.id for one in alive if not one.embedded)
        if alive and self.known_at is not None:
            store, most = self.runtime.store, self.runtime.config.max_links
            alive = await notes_as_known(store, self.namespace, alive, self.known_at, most)
        for one in alive:
            if one.note is not None:
                self.notes[one.id] = one.note
            self.supersedes[one.id] = one.supersedes
            if one.source in rows:
                self.by_passage[one.id] = rows[one.source]


def _is_retracted(note: Note) -> bool:
    return any(s.relation == "retracts" for s in note.supersessions.values())


class Search(Reader):
    """One search in one namespace."""

    def __init__(
        self, runtime: Runtime, namespace: Namespace, asked: Asked, vector: Vector | None
    ) -> None:
        """Take what is asked, and the vector of the words if there is one."""
        super().__init__(runtime, namespace, asked.known_at, vector)
        self.asked = asked
        self.looked_at = ranking.looked_at(asked.k)
        self.activations: ranking.Activations = {}
        self.matched: list[str] = []  # the notes that are best without links, best first
        self.links: Mapping[str, Mapping[str, Link]] = {}  # those that were followed

    @property
    def query(self) -> Query:
        """The query of the dense and the BM25 list."""
        # A few more than are looked at: the server orders equal scores otherwise, and weights move some.
        return Query(
            vector=self.vector,
            text=together(self.asked.query, self.asked.before),
            limit=max(ranking.FUSION_DEPTH, self.asked.k),
            where=self.asked.where,
            bring=Bring(limit=self.looked_at + SPARE, k=ranking.RRF_K),
        )

    async def hits(self, lists: Ranked) -> list[ScoredNote]:
        """Return the best `k` hits by the lists that the query found."""
        k = self.asked.k
        await self._fuse(lists)
        if self.asked.links:
            best = self.matched[: self.looked_at]
            self.links = {i: self.notes[i].links for i in best if i in self.notes}
            ranking.spread(self.activations, self.links)
        likely = ranking.order(self.activations)[: min(2 * k, ranking.FUSION_DEPTH)]
        await self.fetch(likely, near=likely[:k] if self.runtime.store.remote else ())
        ranking.favour_named(self.activations, self.asked.query, self.notes.values())
        ranking.lead(self.activations)
        notes = await self._best()
        await self.fetch_related(notes)
        return await self._with_cosines(self._in_order(notes))

    async def _fuse(self, lists: Ranked) -> None:
        """Fuse the dense and the BM25 list."""
        self._bring(lists)
        weights = await self._weigh(lists)
        light = sum(weight < ranking.STATED for weight in weights.values())
        full = max(len(lists.dense), len(lists.lexical)) >= self.query.limit
        if full and 2 * light > len(weights):
            # Questions and echoes fill the lists: statements are looked for by themselves.
            stated = replace(self.query, where=(*self.asked.where, *ranking.STATEMENTS))
            (more,) = await resolve(self.runtime.store.search(self.namespace, [stated]))
            self._bring(more)
            lists = ranking.joined(more, lists)
            await self._weigh(lists)
        if self.asked.as_of and (nearer := await self._nearer(self.asked.as_of)):
            await self._weigh(replace(lists, dense=ranking.raised(lists.dense, nearer)))

    def _bring(self, lists: Ranked) -> None:
        """Keep the notes and cosines that came with lists."""
        self.cosines |= {**lists.cosines, **dict(lists.dense)}
        self.brought |= lists.brought

    async def _weigh(self, lists: Ranked) -> dict[str, float]:
        """Fuse the lists by what the best notes of them are, which are fetched; return the weights of these."""
        weights: dict[str, float] = {}
        self.activations = ranking.fuse(lists)
        while True:
            self.matched = ranking.matched(self.activations, max(self.asked.k, self.looked_at))
            new = [i for i in self.matched[: self.looked_at] if i not in weights]
            await self.fetch(new)
            notes = [self.notes[note_id] for note_id in new if note_id in self.notes]
            weights |= {note.id: self._weight(note) for note in notes}
            if all(weights[note.id] == ranking.STATED for note in notes):
                return weights
            self.activations = ranking.fuse(lists, weights)

    def _weight(self, note: Note) -> float:
        """Return how much a note counts; one that says just what a message before the query says is known already."""
        if is_said_in(self.asked.before, note):
            return ranking.FILLER
        return ranking.weight_of(note, self.asked.query)

    async def _nearer(self, as_of: datetime) -> dict[str, float]:
        """Return by note the cosine of what replaced it after a time: both answer the same question."""
        later = {
            note.id: [i for i, s in note.supersessions.items() if s.replaces and s.since > as_of]
            for note in self.notes.values()
        }
        newer = sorted({i for ids in later.values() for i in ids})
        await self.fetch(newer, near=newer)
        cosines = {
            i: [self.cosines[j] for j in ids if j in self.cosines] for i, ids in later.items()
        }
        return {note_id: max(some) for note_id, some in cosines.items() if some}

    async def _best(self) -> list[Note]:
        """Return the first k notes that may be shown, best first; fill in missing notes and cosines."""
        k, least = self.asked.k, self.asked.min_similarity
        ordered, best, time = ranking.order(self.activations), [], now()
        # With a threshold many may be passed over: pages of a few would be as many calls.
        size = k if least is None else max(k, PAGE)
        for start in range(0, len(ordered), size):
            page = ordered[start : start + size]
            await self.fetch(page, near=() if least is None else page)
            for note in (self.notes[note_id] for note_id in page if note_id in self.notes):
                # The store's hits meet the conditions; a note that a link led to is checked here.
                fits = self.activations[note.id].fusion or matches(note, self.asked.where)
                near = least is None or self.cosines.get(note.id, LEAST - 1) >= least
                if fits and near and not note.is_expired(time):
                    best.append(note)
            if len(best) >= k:
                break
        return best[:k]

    def _in_order(self, notes: Sequence[Note]) -> list[ScoredNote]:
        """Return the first k hits, in the order in which notes may be shown."""
        time, hits = now(), []
        as_of = self.asked.as_of
        current = CurrentFacts(
            self.notes, as_of or self.known_at or self.runtime.clock.now(), now=time
        )
        matched, ranked = set(self.matched[: self.asked.k]), {note.id for note in notes}
        for note, place in current.in_order(notes):
            if note.id not in ranked and not matches(note, self.asked.where):
                continue
            view = current.view(note)
            hit = ScoredNote(
                note=seen_from(view, as_of) if as_of else view,
                score=self.activations[place.id].score,
                similarity=self.cosines.get(note.id),
                via="match" if note.id in matched else self._path(note, place),
                superseded_by=current.successor(note),
                contradicted_by=tuple(current.contradictions(note)),
                is_over=current.is_over(note),
                why=self._why(note) if self.asked.explain else None,
            )
            hits.append(hit)
            if len(hits) == self.asked.k:
                break
        return hits

    def _why(self, note: Note) -> Why:
        found = self.activations.get(note.id, NONE)
        return Why(**{one.name: getattr(found, one.name) for one in fields(Why)})

    def _path(self, note: Note, place: Note) -> tuple[Via, ...] | Literal["match"]:
        """Return the links that led to a note, the one that gave most first; or what it was brought in for."""
        if place.id != note.id:
            given = place.supersessions.get(note.id) or note.supersessions.get(place.id)
            relation, reason = (given.relation, given.reason) if given else ("related", "")
            return (Via(note_id=place.id, relation=relation, reason=reason, strength=1.0),)
        sources = sorted(self.activations[note.id].sources, reverse=True)
        steps = tuple(via(source, self.links[source][note.id]) for _, source in sources)
        return steps or "match"

    async def _with_cosines(self, hits: Sequence[ScoredNote]) -> list[ScoredNote]:
        """Return hits with all their cosines, those on long texts with the passages that match best, and in their order."""
        if lacking := [hit.note.id for hit in hits if self.lacks(hit.note.id)]:
            await self.fetch((), near=lacking)
            hits = [replace(hit, similarity=self.cosines.get(hit.note.id)) for hit in hits]
        size = size_of(self.runtime.embedder)
        texts = {
            hit.note.id: (hit.note.content, passages)
            for hit in hits
            if (passages := hit.note.passages or spans(hit.note.content, size))
        }
        if not texts:
            return list(hits)
        cosines = {
            note_id: self.by_passage[note_id]
            for note_id, (_, passages) in texts.items()
            if len(self.by_passage.get(note_id, ())) == len(passages)
        }
        best = best_passages(self.asked.query, texts, cosines)
        return in_order_of_passages(
            [replace(hit, passages=best.get(hit.note.id, ())) for hit in hits]
        )


def via(source: str, link: Link) -> Via:
    """Return the step over a link of the note `source`."""
    return Via(note_id=source, relation=link.relation, reason=link.reason, strength=link.strength)
