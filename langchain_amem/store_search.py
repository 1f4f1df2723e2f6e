"""Searches the items of a LangGraph store: by meaning, by filters, by namespace."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, starmap
from operator import attrgetter, itemgetter
from typing import Any

from amem_integrations import MissingExtraError, Note, ScoredNote
from amem_integrations.adapting import falling

from .runs import Namespace
from .store_items import Items, is_apart, is_item, value_of

try:
    from langgraph.store.base import MatchCondition, SearchOp
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

DEPTH = 100  # as far down as a search of the memory goes

Scored = tuple[Note, float | None]


@dataclass(frozen=True, slots=True)
class Search:
    """One search of items."""

    items: Items
    op: SearchOp

    def run(self, places: Sequence[Namespace]) -> list[Scored]:
        """Return the notes of the items found in these places, with their scores.

        First come those that the query finds, best first; then, without a score, what is not indexed, in
        the order of the first put. So it is in LangGraph's InMemoryStore.
        """
        wanted = self.op.offset + self.op.limit
        found = self._ranked(places, wanted)
        if len(found) < wanted:
            seen = {note.id for note, _ in found}
            rest = heapq.merge(*map(self.items.scan, places), key=attrgetter("seq", "id"))
            others = (note for note in rest if note.id not in seen and self._fits(note))
            found += [(note, None) for note in islice(others, wanted - len(found))]
        return found[self.op.offset : wanted]

    def _ranked(self, places: Sequence[Namespace], wanted: int) -> list[Scored]:
        if not self.op.query or not self.op.query.strip() or not wanted:
            return []
        places = [place for place in places if not is_apart(place)]
        # Scores depend on what is below; those of several lists have to be the same on every page.
        depth = wanted if len(places) == 1 else max(wanted, DEPTH)
        lists = [falling(self._found(place, depth, wanted)) for place in places]
        scored = [(hit.note, score) for hits in lists for hit, score in hits]
        return sorted(scored, key=itemgetter(1), reverse=True)

    def _found(self, place: Namespace, depth: int, wanted: int) -> list[ScoredNote]:
        """Return the items of a namespace that the query finds, best first; no fewer than `wanted`."""
        query, memory = self.op.query or "", self.items.memory
        hits = memory.search(query, namespace=place, k=depth, where={"kind": "note"})
        found = [hit for hit in hits if self._fits(hit.note)]
        if len(found) >= wanted or len(hits) < min(depth, DEPTH):
            return found
        if depth < DEPTH:
            return self._found(place, DEPTH, wanted)
        # Too few of the best fit, so those that do are ranked among themselves.
        seen = {hit.note.id for hit in found}
        rest = [n.id for n in self.items.scan(place) if n.id not in seen and self._fits(n)]
        for start in range(0, len(rest), DEPTH):
            ids = rest[start : start + DEPTH]
            found += memory.search(query, namespace=place, k=len(ids), where={"id": {"$in": ids}})
        return found

    def _fits(self, note: Note) -> bool:
        return is_item(note) and matches(value_of(note), self.op.filter)


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Return whether a value meets a filter; what is missing counts as None.

    Raises:
        ValueError: An unknown operator.
    """
    return all(_compare(value.get(key), wanted) for key, wanted in (conditions or {}).items())


def _compare(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(starmap(_compare, zip(value, wanted, strict=True)))
    return bool(value == wanted)


def _holds(value: Any, operator: str, wanted: Any) -> bool:  # noqa: ANN401 - JSON values
    if operator == "$eq":
        return bool(value == wanted)
    if operator == "$ne":
        return bool(value != wanted)
    tests = {"$gt": "__gt__", "$gte": "__ge__", "$lt": "__lt__", "$lte": "__le__"}
    if operator not in tests:
        raise ValueError(f"Unsupported operator: {operator}; use $eq $ne $gt $gte $lt $lte")
    try:
        return bool(getattr(float(value), tests[operator])(float(wanted)))
    except (TypeError, ValueError):
        return False


def fits(condition: MatchCondition, namespace: Namespace) -> bool:
    """Return whether a namespace begins or ends as a condition wants it."""
    path = condition.path
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    if len(namespace) < len(path):
        return False
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=False))
