"""What a store needs of Qdrant: one collection of points, embedded or served.

`PointStore` is written over this interface alone; `_edge_shard.py` and `_qdrant_collection.py`
implement it. Filters are made by the collection's `Dialect` and opaque to everyone else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..ports import Vector
from ._filters import Dialect, Filter
from .bm25 import Sparse

DENSE, LEXICAL = "dense", "bm25"  # the names of the vectors

IndexKind = Literal["tenant", "keyword", "integer", "datetime", "uuid"]
# What the core itself filters and sorts by. Each index makes a flush in a folder some milliseconds longer.
NOTE_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant",
    "seq": "integer",
    "seq_us": "integer",
    "seq_ns": "integer",
    "at": "datetime",
    "thread": "keyword",
    "key": "keyword",
    "tags": "keyword",
    "state": "keyword",
    "links[].target": "uuid",
    "contexts[].cause": "uuid",
    "contexts[].seen": "uuid",
}
CHANGE_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant",
    "note_id": "keyword",
    "cause": "keyword",
    "data.entry.seen": "keyword",
    "kind": "keyword",
    "seq": "integer",
    "seq_us": "integer",
    "seq_ns": "integer",
}
# A server may refuse to filter by what has no index, so there everything users can name has one.
SERVER_NOTE_INDEXES: Mapping[str, IndexKind] = {
    **NOTE_INDEXES,
    "when": "datetime",
    "recorded_at": "datetime",
    "expires_at": "datetime",
    "speaker": "keyword",
    "source": "keyword",
    "keywords": "keyword",
    "attributes_source": "keyword",
    "superseded_by": "keyword",
    "revision": "integer",
    "attempts": "integer",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One point, to be written or as it was read."""

    id: str
    payload: dict[str, Any]
    dense: Vector | Sequence[float] | None = None
    lexical: Sparse | None = None


def is_written(wanted: Point, stored: Point | None) -> bool:
    """Return whether this version of a note was written; a later one may already have replaced it."""
    if stored is None:
        return False
    if ops := wanted.payload["ops"]:
        return ops[-1] in stored.payload["ops"]
    return bool(stored.payload["revision"] == wanted.payload["revision"])


@dataclass(frozen=True, slots=True)
class Nearest:
    """One query by a dense or a sparse vector; `corpus` is what word frequencies are counted over."""

    vector: Vector | Sparse
    limit: int
    filter: Filter
    corpus: Filter


class Collection(Protocol):
    """A set of points with payloads; every method raises `StoreError` for trouble of its own."""

    @property
    def dialect(self) -> Dialect:
        """Makes the filters this collection understands."""
        ...

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, *, vectors: bool = False
    ) -> dict[str, Point]:
        """Return the points with these ids by id, with all or some payload fields."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points, replacing those there are."""
        ...

    def insert(self, points: Sequence[Point]) -> set[str]:
        """Write new points; return the ids that another writer took first."""
        ...

    def swap(self, points: Sequence[Point]) -> set[str]:
        """Replace points whose stored `revision` is one less; return the ids where it was not."""
        ...

    def delete(self, which: Filter) -> None:
        """Remove the points that match."""
        ...

    def nearest(self, queries: Sequence[Nearest]) -> list[list[tuple[str, float]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""
        ...

    def scroll(
        self, which: Filter, *, limit: int | None = None, newest_first: bool | None = None
    ) -> list[Point]:
        """Return matching points: all of them in any order, or `limit` of them in order of `seq`."""
        ...

    def count(self, which: Filter | None = None) -> int:
        """Return how many points match, exactly."""
        ...

    def distinct(self, key: str, which: Filter | None = None) -> list[str]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
        ...
