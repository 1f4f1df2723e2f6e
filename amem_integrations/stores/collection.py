"""What a store needs of Qdrant: a collection of points, in `edge_shard.py` or `qdrant_collection.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..ports import MaybeAwaitable, Vector
from .bm25 import Sparse
from .conditions import Dialect, Filter, IndexKind
from .payloads import CAUSES, TERMS, Point

# A filter is quick, and allowed by a server in strict mode, only if it names a field as its index does:
# "a" and "a[]" are two names. So the store makes its filters from the same constants.
BACKLINKS = ("links[].target", CAUSES, "supersessions[].by")
MENTIONS = ("cause", "data.shown")

# Each index makes a flush in a folder some milliseconds longer, and on a server takes memory maps.
NOTE_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant",
    "seq": "integer",
    "seq_us": "integer",
    "seq_ns": "integer",
    "at": "datetime",
    "when": "datetime",
    "recorded_at": "datetime",
    "until": "datetime",
    "expires_at": "datetime",
    "attempts": "integer",
    TERMS: "keyword",  # everything else that `where` can name
    **dict.fromkeys(BACKLINKS, "uuid"),
}
CHANGE_INDEXES: Mapping[str, IndexKind] = {
    "namespace": "tenant",
    "note_id": "keyword",
    "op": "keyword",
    "kind": "keyword",
    "seq": "integer",
    "seq_us": "integer",
    "seq_ns": "integer",
    **dict.fromkeys(MENTIONS, "keyword"),
}


@dataclass(frozen=True, slots=True)
class Nearest:
    """One query by a dense or a sparse vector; `corpus` is what word frequencies are counted over.

    With `among`, only what that query finds is scored.
    """

    vector: Vector | Sparse
    limit: int
    filter: Filter
    corpus: Filter
    among: Nearest | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    """The points that are best by reciprocal rank in several lists, 1 / (`k` + rank)."""

    parts: Sequence[Nearest]
    limit: int
    k: int


class Collection(Protocol):
    """A set of points with payloads; every method raises `StoreError` for trouble of its own.

    A method may be a coroutine.
    """

    @property
    def dialect(self) -> Dialect:
        """Makes the filters this collection understands."""

    def retrieve(
        self,
        ids: Sequence[str],
        fields: Sequence[str] | None = None,
        *,
        vectors: bool = False,
    ) -> MaybeAwaitable[dict[str, Point]]:
        """Return the points with these ids by id, with all or some payload fields."""

    def upsert(self, points: Sequence[Point], erase: Sequence[str] = ()) -> MaybeAwaitable[None]:
        """Write points, replacing those there are, and remove those to `erase`; in a folder, in one operation."""

    def insert(self, points: Sequence[Point]) -> MaybeAwaitable[set[str]]:
        """Write new points; return the ids that another writer took first."""

    def swap(self, points: Sequence[Point]) -> MaybeAwaitable[set[str]]:
        """Replace points whose stored `revision` is one less; return the ids where it was not."""

    def delete(self, which: Filter) -> MaybeAwaitable[None]:
        """Remove the points that match."""

    def nearest(self, queries: Sequence[Nearest]) -> MaybeAwaitable[list[list[tuple[str, float]]]]:
        """Return (id, score) for each query, sorted by (-score, id)."""

    def scroll(
        self,
        which: Filter | None,
        *,
        limit: int | None = None,
        newest_first: bool | None = None,
    ) -> MaybeAwaitable[list[Point]]:
        """Return matching points: all of them in any order, or `limit` of them in order of `seq`."""

    def count(self, which: Filter | None = None) -> MaybeAwaitable[int]:
        """Return how many points match, exactly."""

    def size(self) -> MaybeAwaitable[int]:
        """Return about how many points there are, by one quick try."""

    def distinct(self, key: str, which: Filter | None = None) -> MaybeAwaitable[list[str]]:
        """Return the values of an indexed keyword field, in all points or in those that match."""
