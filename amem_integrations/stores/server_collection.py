"""A collection of points on a Qdrant server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..ports import Ranked
from .bm25 import Sparse
from .conditions import Filter, any_of, every, one_of, some
from .connection import Connection
from .payloads import DENSE, LEXICAL, READ, Point, decode_note, rows
from .store import Limited, Search, pieces

Body = dict[str, Any]  # of a request or an answer of the REST interface

PAGE = 256  # points with their payloads in one request
PAGE_OF_SWAPS = 50  # points with a condition each
PAGE_OF_IDS = 1024  # points that are looked for
MAX_VALUES = 1_000_000

# One replica after the other, by a leader that is elected anew when its node is away: two writers of one point
# meet in the same order on all replicas. "strong" has a permanent leader, and would wait for that node.
WRITING = {"wait": "true", "ordering": "medium"}


class ServerCollection:
    """A `Collection` on a server, which other processes may write to as well.

    Writes are acknowledged when applied. Reads ask the majority of the replicas, if there are any.
    """

    def __init__(self, connection: Connection, name: str, *, replicated: bool) -> None:
        self._connection, self._name = connection, name
        self._reading = {"consistency": "majority"} if replicated else {}

    def retrieve(self, ids: Sequence[str], *, vectors: bool = False) -> list[Point]:
        """Return the points with these ids, with the fields that readers look at."""
        points: list[Point] = []
        for some_ids in pieces(ids, PAGE_OF_IDS):
            body = {"ids": some_ids, "with_payload": READ, "with_vector": vectors}
            points += _points(self._read("/points", body))
        return points

    def insert(self, points: Sequence[Point]) -> None:
        """Write those of the points whose ids are not there."""
        for page in pieces(points, PAGE):
            body = {"points": list(map(_struct, page)), "update_mode": "insert_only"}
            self._connection.request("PUT", self._name, "/points", body, WRITING)

    def swap(self, swaps: Sequence[tuple[str, Point]]) -> None:
        """Replace each point whose stored `token` is the one given."""
        for page in pieces(swaps, PAGE_OF_SWAPS):
            unchanged = [every([one_of([one.id]), any_of("token", [was])]) for was, one in page]
            body = {
                "points": [_struct(point) for _, point in page],
                "update_filter": some(unchanged),
                "update_mode": "update_only",
            }
            self._connection.request("PUT", self._name, "/points", body, WRITING)

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        self._connection.request("POST", self._name, "/points/delete", {"filter": which}, WRITING)

    def search(self, searches: Sequence[Search]) -> list[Ranked]:
        """Return the answer to each search, its lists sorted by (-score, id), with the notes to bring, by one request."""
        asked = list(map(_requests, searches))
        answers = iter(self._batch(request for own in asked for request in own.values()))
        return [_ranked({name: next(answers) for name in own}) for own in asked]

    def ordered(self, by: str, queries: Limited, *, newest_first: bool = True) -> list[Point]:
        """Return for each query that many matching points in the order of a field."""
        order = {"order_by": {"key": by, "direction": "desc" if newest_first else "asc"}}
        requests = (
            {"query": order, "filter": which, "limit": limit, "with_payload": READ}
            for which, limit in queries
        )
        return [point for found in self._batch(requests) for point in _points(found)]

    def scroll(self, which: Filter | None, least: int | None = None) -> list[Point]:
        """Return all matching points, or at least so many of them, in any order."""
        points, offset = list[Point](), None
        while True:
            body = {"filter": which, "limit": PAGE, "with_payload": True, "offset": offset}
            found = self._read("/points/scroll", body)
            points += _points(found["points"])
            offset = found.get("next_page_offset")
            if offset is None or (least is not None and len(points) >= least):
                return points

    def count(self, which: Filter) -> int:
        """Return how many points match, exactly."""
        return int(self._read("/points/count", {"filter": which, "exact": True})["count"])

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        body = {"key": key, "filter": which, "limit": MAX_VALUES, "exact": True}
        return [str(hit["value"]) for hit in self._read("/facet", body)["hits"] if hit["count"]]

    def _batch(self, requests: Iterable[Body]) -> list[list[Body]]:
        """Return the points that each request finds."""
        searches = list(requests)
        if not searches:
            return []
        answers = self._read("/points/query/batch", {"searches": searches})
        return [answer["points"] for answer in answers]

    def _read(self, path: str, body: Body) -> Any:  # noqa: ANN401 - JSON
        return self._connection.request("POST", self._name, path, body, self._reading)


def _requests(search: Search) -> dict[str, Body]:
    """Return the requests for the lists of a search and, if notes are to come along, for these.

    With the notes come the cosines of those that only words find.
    """
    made, common = dict[str, Body](), {"filter": search.filter, "limit": search.limit}
    if search.dense is not None:
        made["dense"] = {**common, "query": search.dense.tolist(), "using": DENSE}
    if search.words is not None:
        params = {"idf": {"corpus": search.corpus}}
        words = {"query": _sparse(search.words), "using": LEXICAL, "params": params}
        made["lexical"] = {**common, **words}
    if search.bring is None or not made:
        return made
    bring: Body = {"limit": search.bring.limit, "with_payload": READ}
    if len(made) == 1:
        (only,) = made.values()
        return {**made, "brought": {**only, **bring}}
    # The engine counts ranks from 0.
    fused = {"prefetch": list(made.values()), "query": {"rrf": {"k": search.bring.k + 1}}}
    cosines = {**made["dense"], "prefetch": made["lexical"]}
    return {**made, "cosines": cosines, "brought": {**fused, **bring}}


def _ranked(found: dict[str, list[Body]]) -> Ranked:
    stored = map(decode_note, _points(found.pop("brought", ())))
    cosines = dict(_hits(found.pop("cosines", ())))
    lists: dict[str, Any] = {name: _hits(points) for name, points in found.items()}
    return Ranked(**lists, cosines=cosines, brought={note.id: note for note in stored})


def _hits(found: Iterable[Body]) -> list[tuple[str, float]]:
    return sorted(((p["id"], p["score"]) for p in found), key=lambda hit: (-hit[1], hit[0]))


def _points(records: Iterable[Body]) -> list[Point]:
    """Return records of a server as points; one without a payload was never written whole."""
    return [
        Point(str(record["id"]), record["payload"], rows(record.get("vector")))
        for record in records
        if record.get("payload")
    ]


def _sparse(words: Sparse) -> Body:
    return {"indices": words[0], "values": words[1]}


def _struct(point: Point) -> Body:
    vectors: Body = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.lexical is not None:
        vectors[LEXICAL] = _sparse(point.lexical)
    return {"id": point.id, "vector": vectors, "payload": point.payload}
