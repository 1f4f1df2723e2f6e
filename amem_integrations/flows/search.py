"""Read: search, context, get. None of it calls a chat model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .. import ranking
from ..context import as_of as seen_from
from ..context import render_notes
from ..embedding import embed_query
from ..errors import InvalidInputError, ModelUnavailableError
from ..fetch import existing, note_pages
from ..filters import Condition, Conditions, matches, parse
from ..ids import now
from ..notes import Link, Namespace, Note, ScoredNote, Via, Why, check_namespace, check_time
from ..ports import Query, Vector
from ..runtime import Runtime, resolve

log = logging.getLogger("amem_integrations")

# Notes that `context` chooses from: more than fit in a thousand tokens.
CONTEXT_NOTES = 20
PAGE = 64


async def search(
    runtime: Runtime,
    query: str,
    *,
    namespace: Sequence[str],
    k: int = 10,
    where: Mapping[str, Any] | None = None,
    min_similarity: float | None = None,
    as_of: datetime | None = None,
    links: bool = True,
    explain: bool = False,
) -> list[ScoredNote]:
    """Return the `k` best notes for a query, best first.

    Dense and BM25 hits are fused by reciprocal rank; then activation spreads over links, so that notes
    which belong to a hit are found as well (Eq. 8-10 of the paper). While the embedder is unavailable, notes are
    found by their words alone.

    Args:
        query: What to look for.
        namespace: Whose memory; no other is seen, and no link leads out of it.
        k: Most notes to return.
        where: Conditions on fields: `{"speaker": "Ann", "metadata.city": {"$in": ["Rome", "Oslo"]}}`;
            operators `$eq $ne $gt $gte $lt $lte $in`.
        min_similarity: Least cosine of query and note; notes without a vector yet are left out too.
        as_of: Only what had happened by then, without the context that later notes added. Content and
            links are as they are now.
        links: Whether links are followed.
        explain: Fill in `why`: ranks, fusion and spread.

    Raises:
        InvalidInputError: Empty query, or a bad `k`, `where`, `min_similarity` or `as_of`.
        NamespaceError: The namespace is missing or malformed.
    """
    space = check_namespace(namespace)
    conditions = _conditions(k, where, min_similarity, as_of)
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(f"query={query!r} must be text that says what to look for")
    found = await _find(runtime, space, query, conditions, max(ranking.FUSION_DEPTH, k))
    if links:
        await _spread(runtime, space, found)
    notes = await _best(runtime, space, found, conditions, k, min_similarity)
    matched = set(ranking.matched(found.activations, k))
    shown = [seen_from(note, as_of) if as_of else note for note in notes]
    return [_hit(found, note, is_match=note.id in matched, explain=explain) for note in shown]


async def context(
    runtime: Runtime,
    query: str,
    *,
    namespace: Sequence[str],
    max_tokens: int = 1000,
    k: int = CONTEXT_NOTES,
    where: Mapping[str, Any] | None = None,
    min_similarity: float | None = None,
    as_of: datetime | None = None,
) -> str:
    """Return the best notes for a query as text for a prompt, or "" if there are none.

    The text is marked as data, at most about `max_tokens` long, and holds no template placeholder. The
    other arguments are those of `search`.
    """
    check_count("max_tokens", max_tokens)
    hits = await search(
        runtime,
        query,
        namespace=namespace,
        k=k,
        where=where,
        min_similarity=min_similarity,
        as_of=as_of,
    )
    return render_notes(hits, max_tokens=max_tokens)


async def get(runtime: Runtime, note_id: str, *, namespace: Sequence[str]) -> Note:
    """Return one note.

    Raises:
        NoteNotFoundError: There is none with this id in this namespace, or it has expired.
    """
    (note,) = await existing(runtime.store, check_namespace(namespace), [note_id])
    return note


async def get_all(
    runtime: Runtime,
    *,
    namespace: Sequence[str],
    limit: int = 100,
    where: Mapping[str, Any] | None = None,
) -> list[Note]:
    """Return up to `limit` notes, oldest first; continue with `where={"seq": {"$gt": last.seq}}`.

    Raises:
        InvalidInputError: A bad `limit` or `where`.
    """
    space = check_namespace(namespace)
    check_count("limit", limit)
    found: list[Note] = []
    time = now()
    async for page in note_pages(
        runtime.store, space, parse(where) if where is not None else (), size=limit
    ):
        found += [note for note in page if not note.is_expired(time)]
        if len(found) >= limit:
            break
    return found[:limit]


@dataclass(slots=True)
class _Found:
    """What a search knows so far: scores, cosines and notes by id, and the links that were followed."""

    vector: Vector | None
    activations: ranking.Activations
    cosines: dict[str, float]
    notes: dict[str, Note] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, Link]] = field(default_factory=dict)


def _conditions(
    k: int,
    where: Mapping[str, Any] | None,
    min_similarity: float | None,
    as_of: datetime | None,
) -> Conditions:
    """Return what every hit must meet."""
    check_count("k", k)
    _check_similarity(min_similarity)
    check_time("as_of", as_of)
    conditions = parse(where) if where is not None else ()
    return conditions if as_of is None else (*conditions, Condition("when", "$lte", as_of))


def check_count(name: str, value: object) -> None:
    """Check a number of things.

    Raises:
        InvalidInputError: It is not a whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{name}={value!r} must be a whole number of at least 1")


def _check_similarity(value: object) -> None:
    """Check a threshold that may be None.

    Raises:
        InvalidInputError: It is no cosine.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise InvalidInputError(f"min_similarity={value!r} must be a cosine, from -1 to 1")


async def _find(
    runtime: Runtime, namespace: Namespace, query: str, where: Conditions, depth: int
) -> _Found:
    """Return what the dense and the BM25 list find, fused."""
    vector = await _query_vector(runtime, query)
    question = Query(vector=vector, text=query, limit=depth, where=where)
    (lists,) = await resolve(runtime.store.search(namespace, [question]))
    return _Found(vector, ranking.fuse(lists, depth), dict(lists.dense))


async def _spread(runtime: Runtime, namespace: Namespace, found: _Found) -> None:
    """Let the best hits activate what they are linked to."""
    # Most of the notes that will be shown are among those whose links are followed.
    await _fetch(runtime, namespace, found, ranking.matched(found.activations, ranking.SPREAD_FROM))
    found.links = {note_id: found.notes[note_id].links for note_id in found.notes}
    ranking.spread(found.activations, found.links)


async def _query_vector(runtime: Runtime, query: str) -> Vector | None:
    try:
        return await embed_query(runtime, query)
    except ModelUnavailableError as error:
        log.warning("%s; notes are searched by their words alone", error)
        return None


async def _best(
    runtime: Runtime,
    namespace: Namespace,
    found: _Found,
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
        await _fetch(runtime, namespace, found, page)
        for note in (found.notes[note_id] for note_id in page if note_id in found.notes):
            # What the store found meets the conditions; what a link led to has yet to.
            if not found.activations[note.id].fusion and not matches(note, where):
                continue
            if not note.is_expired(time) and _is_near(found.cosines.get(note.id), min_similarity):
                best.append(note)
        if len(best) >= k:
            break
    return best[:k]


async def _fetch(runtime: Runtime, namespace: Namespace, found: _Found, ids: Sequence[str]) -> None:
    """Fetch the notes that are not known yet, with the cosines that the dense list does not tell."""
    missing = [note_id for note_id in ids if note_id not in found.notes]
    known = [note_id for note_id in missing if note_id in found.cosines or found.vector is None]
    if known:  # a vector is larger than its note
        found.notes |= {
            note.id: note for note in await resolve(runtime.store.get(namespace, known))
        }
    if far := [note_id for note_id in missing if note_id not in known]:
        for item in await resolve(runtime.store.get_indexed(namespace, far)):
            found.notes[item.note.id] = item.note
            if found.vector is not None and item.vector is not None:
                found.cosines[item.note.id] = float(item.vector @ found.vector)


def _hit(found: _Found, note: Note, *, is_match: bool, explain: bool) -> ScoredNote:
    return ScoredNote(
        note=note,
        score=found.activations[note.id].score,
        similarity=found.cosines.get(note.id),
        via="match" if is_match else _path(note.id, found),
        why=_why(found.activations[note.id]) if explain else None,
    )


def _is_near(cosine: float | None, floor: float | None) -> bool:
    return floor is None or (cosine is not None and cosine >= floor)


def _why(activation: ranking.Activation) -> Why:
    return Why(
        dense_rank=activation.dense_rank,
        lexical_rank=activation.lexical_rank,
        fusion=activation.fusion,
        spread=activation.spread,
    )


def _path(note_id: str, found: _Found) -> tuple[Via, ...] | Literal["match"]:
    """Return the links that led to a note, the one that gave most first."""
    sources = sorted(found.activations[note_id].sources)[::-1]
    steps = [(source, found.links[source][note_id]) for _, source in sources]
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
