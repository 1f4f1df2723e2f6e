"""Search: the best notes for a query. No chat model is called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import numpy as np

from ..conversation import Message
from ..embedding import embed_query, embed_said, size_of
from ..errors import InvalidInputError, ModelUnavailableError
from ..filters import Conditions, check_count, check_similarity, conditions_of, matches, unexpired
from ..ids import now
from ..journal.fold import notes_as_known
from ..kinds import words_of
from ..notes import Link, Namespace, Note, ScoredNote, Via, Why, check_namespace
from ..ports import Bring, Query, Ranked
from ..repetition import repeated, said_once
from ..runtime import Runtime, resolve
from ..stored_note import StoredNote, Vector
from ..texts import spans
from . import ranking
from .current_facts import CurrentFacts, named
from .passages import best_passages, in_order_of_passages
from .relevance import messages_before, mixed, together, words_before

PAGE = 64
SPARE = 20  # notes
NO_PASSAGES = np.zeros(0, dtype=np.float32)


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
    (Eq. 8-10 of the paper). A note that was superseded never stands above the note that takes its place; the latter is
    brought in where the query alone does not find it, if it meets `where`. While the embedder is unavailable, notes are
    found by their words alone.

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
            without the context that later notes added. Content and links are as they are now.
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
    searches = await searched(runtime, spaces, asked)
    return merged([one.found if repeats else await one.each_once() for one in searches])[:k]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to a memory, with its conditions; see `search` and `recall` for the fields."""

    query: str
    k: int
    before: tuple[Message, ...] = ()  # the messages that make the query clear
    where: Conditions = ()
    min_similarity: float | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    links: bool = True
    explain: bool = False
    said: Collection[str] = ()

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
    best, scores = ranking.LEAST, []
    for hit in reversed(hits):  # one that is found by its words has no vector yet
        best = max(best, ranking.LEAST if hit.similarity is None else hit.similarity)
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


async def searched(runtime: Runtime, spaces: Sequence[Namespace], asked: Asked) -> list[Search]:
    """Return a search in each namespace, with the best `k` hits; the lists of all namespaces are one request."""
    vector = await _query_vector(runtime, asked)
    searches = [Search(runtime, space, asked.known_at, vector, asked=asked) for space in spaces]
    lists = await resolve(runtime.store.search(spaces[0], [one.query for one in searches]))
    for one, found in zip(searches, lists, strict=True):
        one.found = await one.hits(found)
    return searches


async def _query_vector(runtime: Runtime, asked: Asked) -> Vector | None:
    what, vector, said_before = f"embedder {runtime.embedder.name}", None, list[Vector]()
    failed = ModelUnavailableError(f"{what} gave no vector for the question")
    try:
        vector = await embed_query(runtime, asked.query)
        said_before = await embed_said(runtime, asked.before)
    except ModelUnavailableError as error:
        vector, failed = None, error
    if vector is None:
        runtime.usage.count("search", without_vectors=1)
        runtime.degraded(failed)
        return None
    return mixed(vector, said_before) if said_before else vector


@dataclass(slots=True)
class Reader:
    """The notes of one namespace that were read so far.

    Attributes:
        known_at: When the memory knew the notes as they are here; None: they are as the memory knows them now.
        vector: The vector of the query; None: there is none.
        notes: The notes that were looked at.
        supersedes: The ids of the notes whose place each of these takes.
        cosines: The cosines of query and notes; of a long text that of its best passage.
        passages: The cosines of query and each passage of a note, of those whose vectors were read; empty without vectors.
        brought: The stored notes that came with the lists, which nothing has looked at yet.
    """

    runtime: Runtime
    namespace: Namespace
    known_at: datetime | None = None
    vector: Vector | None = None
    notes: dict[str, Note] = field(default_factory=dict)
    supersedes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)
    passages: dict[str, Vector] = field(default_factory=dict)
    brought: dict[str, StoredNote] = field(default_factory=dict)

    def lacks(self, note_id: str) -> bool:
        """Return whether the vectors of a note have to be read, for its cosine or those of its passages."""
        if self.vector is None or note_id in self.passages:
            return False
        note = self.notes.get(note_id)
        return note_id not in self.cosines or (note is not None and bool(note.passages))

    async def fetch(self, ids: Iterable[str], *, near: Iterable[str] = ()) -> None:
        """Fetch the notes that are not known yet, and the cosines of those that are to be `near`, of all their passages.

        Over a network all of that is one request, which brings the cosines of everything that it fetches.
        """
        missing = [note_id for note_id in ids if note_id not in self.notes]
        await self._keep([self.brought.pop(i) for i in missing if i in self.brought])
        missing = [note_id for note_id in missing if note_id not in self.notes]
        lacking = [note_id for note_id in near if self.lacks(note_id)]
        if self.runtime.store.remote and (lacking or any(map(self.lacks, missing))):
            lacking = list(dict.fromkeys([*missing, *lacking]))
        # Here a vector is larger than its note.
        await self._read([i for i in missing if i not in lacking])
        await self._read(lacking, vectors=True)

    async def fetch_related(self, notes: Iterable[Note]) -> None:
        """Fetch what supersedes notes, what supersedes that, and so on; and what those that are over had replaced."""
        todo, seen = list(notes), set[str]()
        while todo:
            seen |= {note.id for note in todo}
            past = [note.id for note in todo if note.holds_until or _is_retracted(note)]
            await self._read([note_id for note_id in past if note_id not in self.supersedes])
            replaced = {other for note_id in past for other in self.supersedes.get(note_id, ())}
            wanted = sorted(named(todo) | replaced)
            await self.fetch(wanted)
            todo = [self.notes[i] for i in wanted if i in self.notes and i not in seen]

    async def _read(self, ids: Sequence[str], *, vectors: bool = False) -> None:
        if ids:
            store = self.runtime.store
            stored = await resolve(store.notes(self.namespace, ids, vectors=vectors))
            await self._keep(list(stored.values()))

    async def _keep(self, stored: Sequence[StoredNote]) -> None:
        """Keep stored notes that were read, as they were known at the time that is asked about."""
        for one in stored:
            if self.vector is not None and one.vectors is not None:
                self.passages[one.id] = one.vectors @ self.vector
                self.cosines.setdefault(one.id, float(self.passages[one.id].max()))
            elif not one.has_vectors:
                self.passages[one.id] = NO_PASSAGES
        if stored and self.known_at is not None:
            store, most = self.runtime.store, self.runtime.config.max_links
            alive = [one for one in stored if one.note is not None]
            stored = await notes_as_known(store, self.namespace, alive, self.known_at, most)
        for one in stored:
            if one.note is not None:
                self.notes[one.id] = one.note
                self.supersedes[one.id] = one.supersedes


def _is_retracted(note: Note) -> bool:
    return any(s.relation == "retracts" for s in note.supersessions.values())


@dataclass(slots=True)
class Search(Reader):
    """One search in one namespace.

    Attributes:
        asked: What is asked.
        found: The hits, best first.
        lists: The dense and the BM25 list.
        fusion: The fused ranks of the notes in the lists.
        match: How well notes match.
        matched: The notes that are best without links, best first.
        lent: By note what it gives to each note that it is linked to.
        links: By note the links that were followed.
    """

    asked: Asked = field(kw_only=True)
    found: list[ScoredNote] = field(default_factory=list)
    lists: Ranked = field(default_factory=Ranked)
    fusion: ranking.Scores = field(default_factory=dict)
    match: ranking.Scores = field(default_factory=dict)
    matched: list[str] = field(default_factory=list)
    lent: dict[str, ranking.Scores] = field(default_factory=dict)
    links: dict[str, Mapping[str, Link]] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        """The query of the dense and the BM25 list."""
        # A few more than are looked at: the server orders equal scores otherwise, and weights move some.
        return Query(
            namespace=self.namespace,
            vector=self.vector,
            text=together(self.asked.query, self.asked.before),
            limit=max(ranking.FUSION_DEPTH, self.asked.k),
            where=self.asked.where,
            bring=Bring(limit=ranking.looked_at(self.asked.k) + SPARE, k=ranking.RRF_K),
        )

    async def hits(self, lists: Ranked) -> list[ScoredNote]:
        """Return the best `k` hits by the lists that the query found."""
        k = self.asked.k
        await self._fuse(lists)
        scores = dict(self.fusion)
        if self.asked.links:
            for note_id in self.matched[: ranking.looked_at(k)]:
                if note_id in self.notes:
                    links = self.links[note_id] = self.notes[note_id].links
                    lent = self.lent[note_id] = ranking.lent(self.fusion[note_id], links)
                    for target, share in lent.items():
                        scores[target] = scores.get(target, 0.0) + share
        # A note by the one speaker whom the query names may come from further below.
        far = 2 * k if ranking.named_by(self.asked.query, self.notes.values()) else k
        likely = ranking.order(scores, self.match)[: min(far, ranking.FUSION_DEPTH)]
        await self.fetch(likely, near=likely[:k])
        match = dict(self.match)
        for note_id in ranking.named_by(self.asked.query, self.notes.values()):
            if note_id in scores:
                scores[note_id] += ranking.NAMED
                match[note_id] = match.get(note_id, 0.0) + ranking.NAMED
        ordered = ranking.order(scores, match)
        ranking.lead(scores, ordered)
        notes = await self._best(ordered)
        await self.fetch_related(notes)
        return await self._with_cosines(self._in_order(notes, scores))

    async def once(self, hits: Sequence[ScoredNote]) -> list[ScoredNote]:
        """Return some of the hits, of those that say the same one; see `said_once`.

        Counted are all hits, and the notes that repeat them, as they were known at that time, if they meet the conditions.
        """
        known = {hit.note.id: hit.note for hit in (*self.found, *hits)}
        others = sorted({i for hit in hits for i in repeated(hit.note)} - known.keys())
        await self.fetch(others)
        time = now()
        for note in (self.notes[i] for i in others if i in self.notes):
            if matches(note, self.asked.where) and not note.is_expired(time):
                known[note.id] = note
        return said_once(hits, known.values())

    async def each_once(self) -> list[ScoredNote]:
        """Return the first `k` hits of which no two say the same, of a longer list where there are too few."""
        k, longer, shown = self.asked.k, self, await self.once(self.found)
        while len(shown) < k and len(longer.found) >= longer.asked.k:
            asked = replace(longer.asked, k=4 * longer.asked.k)
            (longer,) = await searched(self.runtime, [self.namespace], asked)
            shown = await longer.once(longer.found)
        return shown[:k]

    def _are_full(self, lists: Ranked) -> bool:
        """Return whether a list may have left something out."""
        return max(len(lists.dense), len(lists.lexical)) >= self.query.limit

    async def _fuse(self, lists: Ranked) -> None:
        """Fuse the dense and the BM25 list."""
        weights, time = await self._weigh(lists), now()
        if self._are_full(lists) and any(
            self.notes[note_id].is_expired(time) for note_id in weights
        ):
            # Expired notes fill the lists until they are swept: the other notes are looked for by themselves.
            self.asked = replace(self.asked, where=(*self.asked.where, unexpired(time)))
            (lists,) = await resolve(self.runtime.store.search(self.namespace, [self.query]))
            weights = await self._weigh(lists)
        light = sum(weight < ranking.STATED for weight in weights.values())
        if self._are_full(lists) and 2 * light > len(weights):
            # Questions and echoes fill the lists: statements are looked for by themselves.
            stated = replace(self.query, where=(*self.asked.where, *ranking.STATEMENTS))
            (more,) = await resolve(self.runtime.store.search(self.namespace, [stated]))
            await self._weigh(ranking.joined(more, lists))

    async def _weigh(self, lists: Ranked) -> dict[str, float]:
        """Fuse lists by what the best notes of them are, which are fetched; return the weights of these."""
        looked_at = ranking.looked_at(self.asked.k)
        said = {words_of(words_before(one)) for one in self.asked.before}
        weights: dict[str, float] = {}
        self.lists = lists
        self.cosines |= {**lists.cosines, **dict(lists.dense)}
        self.brought |= lists.brought
        while True:
            self.fusion, self.match = ranking.fuse(lists, weights)
            self.matched = ranking.order(self.fusion, self.match)
            new = [i for i in self.matched[:looked_at] if i not in weights]
            await self.fetch(new)
            notes = [self.notes[note_id] for note_id in new if note_id in self.notes]
            weights |= {one.id: ranking.weight_of(one, self.asked.query, said) for one in notes}
            if all(weights.get(i, ranking.STATED) == ranking.STATED for i in new):
                return weights

    async def _best(self, ordered: Sequence[str]) -> list[Note]:
        """Return the first k notes that may be shown, best first; fill in missing notes and cosines."""
        k, least, time = self.asked.k, self.asked.min_similarity, now()
        best: list[Note] = []
        # With a threshold many may be passed over: pages of a few would be as many calls.
        size = k if least is None else max(k, PAGE)
        for start in range(0, len(ordered), size):
            page = ordered[start : start + size]
            await self.fetch(page, near=() if least is None else page)
            for note in (self.notes[note_id] for note_id in page if note_id in self.notes):
                # The store's hits meet the conditions; a note that a link led to is checked here.
                fits = note.id in self.fusion or matches(note, self.asked.where)
                near = least is None or self.cosines.get(note.id, ranking.LEAST - 1) >= least
                is_said = note.content in self.asked.said
                if fits and near and not (is_said or note.is_expired(time)):
                    best.append(note)
            if len(best) >= k:
                break
        return best[:k]

    def _in_order(self, notes: Sequence[Note], scores: Mapping[str, float]) -> list[ScoredNote]:
        """Return the first k hits, in the order in which notes may be shown."""
        as_of, known = self.asked.as_of, {note.id for note in notes}
        time = as_of or self.known_at or self.runtime.clock.now()
        current = CurrentFacts(self.notes, time, now=now())
        matched = set(self.matched[: self.asked.k])
        shown = (
            (note, place)
            for note, place in current.in_order(notes)
            if note.id in known or matches(note, self.asked.where)
        )
        return [
            ScoredNote(
                note=current.view(note, as_of),
                score=scores[place.id],
                similarity=self.cosines.get(note.id),
                via="match" if note.id in matched else self._path(note, place),
                superseded_by=current.successor(note),
                contradicted_by=tuple(current.contradictions(note)),
                is_over=current.is_over(note),
                why=self._why(note.id) if self.asked.explain else None,
            )
            for note, place in islice(shown, self.asked.k)
        ]

    def _why(self, note_id: str) -> Why:
        dense, lexical = (
            {other: rank for rank, (other, _) in enumerate(ranked, start=1)}.get(note_id)
            for ranked in (self.lists.dense, self.lists.lexical)
        )
        return Why(
            dense_rank=dense,
            lexical_rank=lexical,
            match=self.match.get(note_id, 0.0),
            fusion=self.fusion.get(note_id, 0.0),
            spread=sum(lent.get(note_id, 0.0) for lent in self.lent.values()),
        )

    def _path(self, note: Note, place: Note) -> tuple[Via, ...] | Literal["match"]:
        """Return the links that led to a note, the one that gave most first; or what it was brought in for."""
        if place.id != note.id:
            given = place.supersessions.get(note.id) or note.supersessions.get(place.id)
            relation, reason = (given.relation, given.reason) if given else ("related", "")
            return (Via(note_id=place.id, relation=relation, reason=reason, strength=1.0),)
        gave = [(lent[note.id], i) for i, lent in self.lent.items() if note.id in lent]
        steps = [via(i, self.links[i][note.id]) for _, i in sorted(gave, reverse=True)]
        return tuple(steps) or "match"

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
        best = best_passages(self.asked.query, texts, self.passages)
        return in_order_of_passages(
            [replace(hit, passages=best.get(hit.note.id, ())) for hit in hits]
        )


def via(source: str, link: Link) -> Via:
    """Return the step over a link of the note `source`."""
    return Via(note_id=source, relation=link.relation, reason=link.reason, strength=link.strength)
