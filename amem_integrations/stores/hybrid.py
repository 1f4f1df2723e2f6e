"""Hybrid queries to a server that bring the notes with their answer, so that these need no request of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ports import Indexed, Query, Ranked
from .collection import Fused, Nearest, Those
from .payloads import Point, decode_note
from .qdrant_collection import QdrantCollection
from .reads import found_lists


async def ranked_with_notes(
    notes: QdrantCollection,
    key: str,
    queries: Sequence[Query],
    wanted: Sequence[Nearest],
    plan: Sequence[Mapping[str, int]],
) -> list[Ranked]:
    """Return the answers to queries with what they want brought along, by one request.

    `wanted` are the lists of all queries, and `plan` says for each which of them are its own. The cosines of what
    only words find come as a further list: what the lexical one finds, scored by the vector.
    """
    asked, points = list(wanted), list[Fused | Those]()
    sources: list[tuple[range, int | None]] = []
    for query, places in zip(queries, plan, strict=True):
        parts, first = [wanted[place] for place in places.values()], len(points)
        points += _brought_by(notes, key, query, parts)
        rescored = None
        if query.bring is not None and len(parts) > 1:
            dense, lexical = parts
            rescored = len(asked)
            asked.append(
                Nearest(dense.vector, lexical.limit, dense.filter, dense.corpus, among=lexical)
            )
        sources.append((range(first, len(points)), rescored))
    lists, found = await notes.nearest_and_points(asked, points, key)
    return [
        Ranked(
            **found_lists(places, lists),
            cosines={} if rescored is None else dict(lists[rescored]),
            brought={point.id: _indexed(point) for n in brought for point in found[n]},
        )
        for places, (brought, rescored) in zip(plan, sources, strict=True)
    ]


def _brought_by(
    notes: QdrantCollection, key: str, query: Query, parts: Sequence[Nearest]
) -> list[Fused | Those]:
    """Return what finds the notes that a query wants brought along."""
    if (bring := query.bring) is None:
        return []
    found: list[Fused | Those] = []
    if parts:
        found.append(Fused(parts, bring.limit, bring.k, bring.vectors))
    if bring.ids:
        ours = [notes.dialect.any_of("namespace", [key]), notes.dialect.ids(bring.ids)]
        found.append(Those(notes.dialect.every(ours), bring.vectors))
    return found


def _indexed(point: Point) -> Indexed:
    vector = None if point.dense is None else np.asarray(point.dense, dtype=np.float32)
    return Indexed(note=decode_note(point.id, point.payload), vector=vector)
