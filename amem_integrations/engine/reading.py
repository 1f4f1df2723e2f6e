"""The flows that read: search, context, get. None of them calls a chat model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from .. import ranking
from .._sync import resolve
from ..context import as_of as seen_from
from ..context import render_notes
from ..errors import InvalidInputError
from ..filters import Conditions, matches, parse
from ..ids import check_count, check_namespace, now
from ..notes import Link, Namespace, Note, ScoredNote, Via, Why
from ..ports import Query, Vector
from ..runtime import Runtime
from .embedding import embed_query
from .existing import existing

# Notes that `context` chooses from: more than fit in a thousand tokens.
CONTEXT_NOTES = 20
PAGE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How to search; see `AgenticMemory.search`."""

    k: int = 10
    where: Mapping[str, Any] | None = None
    min_similarity: float | None = None
    as_of: datetime | None = None
    links: bool = True
    explain: bool = False

    def conditions(self) -> Conditions:
        """Return what every hit must meet.

        Raises:
            InvalidInputError: Bad `k`, `where` or `as_of`.
        """
        check_count("k", self.k)
        conditions = parse(self.where)
        if self.as_of is None:
            return conditions
        return (*conditions, *parse({"when": {"$lte": self.as_of}}))


class Reading:
    """Flows over the ports of `runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def search(
        self, query: str, *, namespace: Sequence[str], options: SearchOptions
    ) -> list[ScoredNote]:
        """Return the best notes for a query: hybrid lists, fused, and activation spread over links."""
        space = check_namespace(namespace)
        where = options.conditions()
        if not isinstance(query, str) or not query.strip():
            raise InvalidInputError(f"query={query!r} must be text that says what to look for")
        store = self._runtime.store
        vector = await embed_query(self._runtime, query)
        question = Query(vector=vector, text=query, limit=ranking.FUSION_DEPTH, where=where)
        (lists,) = await resolve(store.search(space, [question]))
        found = ranking.fuse(lists)
        # Most of the notes that will be shown are among those whose links are followed.
        seeds = ranking.matched(found, ranking.SPREAD_FROM) if options.links else []
        known = {note.id: note for note in await resolve(store.get(space, seeds))}
        links = {note.id: note.links for note in known.values()}
        ranking.spread(found, links)
        cosines = dict(lists.dense)
        notes = await self._best(space, vector, found, known, cosines, where, options)
        matched = set(ranking.matched(found, options.k))
        return [
            ScoredNote(
                note=note,
                score=found[note.id].score,
                similarity=cosines.get(note.id),
                via="match" if note.id in matched else _path(note.id, found[note.id], links),
                why=_why(found[note.id]) if options.explain else None,
            )
            for note in notes
        ]

    async def context(
        self, query: str, *, namespace: Sequence[str], max_tokens: int, options: SearchOptions
    ) -> str:
        """Return the best notes as text for a prompt, at most `max_tokens` long."""
        hits = await self.search(query, namespace=namespace, options=options)
        return render_notes(hits, max_tokens=max_tokens)

    async def get(self, note_id: str, *, namespace: Sequence[str]) -> Note:
        """Return one note."""
        (note,) = await existing(self._runtime.store, check_namespace(namespace), [note_id])
        return note

    async def get_all(
        self, *, namespace: Sequence[str], limit: int, where: Mapping[str, Any] | None
    ) -> list[Note]:
        """Return notes, oldest first."""
        space = check_namespace(namespace)
        check_count("limit", limit)
        return await resolve(self._runtime.store.scan(space, where=parse(where), limit=limit))

    async def namespaces(self) -> list[Namespace]:
        """Return the namespaces that hold notes."""
        return await resolve(self._runtime.store.namespaces())

    async def _best(
        self,
        namespace: Namespace,
        vector: Vector,
        found: ranking.Activations,
        known: dict[str, Note],
        cosines: dict[str, float],
        where: Conditions,
        options: SearchOptions,
    ) -> list[Note]:
        """Return the first k notes that may be shown, best first; fill in missing cosines."""
        ordered, best, at = ranking.order(found), [], now()
        # With a threshold many may be passed over: pages of a few would be as many calls.
        size = options.k if options.min_similarity is None else max(options.k, PAGE)
        for start in range(0, len(ordered), size):
            page = ordered[start : start + size]
            await self._add_cosines(namespace, vector, page, cosines)
            await self._add_notes(namespace, page, known)
            for note in (known[note_id] for note_id in page if note_id in known):
                # What the store found meets the conditions; what a link led to has yet to.
                if not found[note.id].fusion and not matches(note, where):
                    continue
                expired = note.expires_at is not None and note.expires_at <= at
                if expired or _too_far(cosines.get(note.id), options.min_similarity):
                    continue
                best.append(seen_from(note, options.as_of) if options.as_of else note)
            if len(best) >= options.k:
                break
        return best[: options.k]

    async def _add_notes(
        self, namespace: Namespace, page: Sequence[str], known: dict[str, Note]
    ) -> None:
        missing = [note_id for note_id in page if note_id not in known]
        if missing:
            stored = await resolve(self._runtime.store.get(namespace, missing))
            known.update({note.id: note for note in stored})

    async def _add_cosines(
        self, namespace: Namespace, vector: Vector, page: Sequence[str], cosines: dict[str, float]
    ) -> None:
        missing = [note_id for note_id in page if note_id not in cosines]
        if missing:
            stored = await resolve(self._runtime.store.vectors(namespace, missing))
            cosines.update({note_id: float(row @ vector) for note_id, row in stored.items()})


def _too_far(cosine: float | None, floor: float | None) -> bool:
    return floor is not None and (cosine is None or cosine < floor)


def _why(activation: ranking.Activation) -> Why:
    return Why(
        dense_rank=activation.dense_rank,
        lexical_rank=activation.lexical_rank,
        fusion=activation.fusion,
        spread=activation.spread,
    )


def _path(
    note_id: str, activation: ranking.Activation, links: Mapping[str, Mapping[str, Link]]
) -> tuple[Via, ...] | Literal["match"]:
    """Return the links that led to a note, the one that gave most first."""
    steps = [(source, links[source][note_id]) for _, source in sorted(activation.sources)[::-1]]
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
