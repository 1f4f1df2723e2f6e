"""The requests of one batch of queries to a Qdrant server."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from .bm25 import Sparse
from .collection import Fused, Nearest, Those
from .payloads import DENSE, LEXICAL

PAGE = 256  # points with their payloads in one request


def sparse_vector(terms: Sparse) -> models.SparseVector:
    """Return a sparse vector as the client takes it."""
    return models.SparseVector(indices=terms[0], values=terms[1])


class QueryRequests:
    """Makes the requests of one batch; a vector that stands in several of them is converted once."""

    def __init__(self, shard: str | None) -> None:
        """Start with nothing converted; `shard` is what every request names."""
        self._shard, self._converted = shard, dict[int, list[float]]()

    def scored(self, query: Nearest) -> models.QueryRequest:
        """Return the request for ids and scores."""
        among = None if query.among is None else models.Prefetch(**self._query(query.among))
        how: dict[str, Any] = {"prefetch": among, "with_payload": False, "shard_key": self._shard}
        return models.QueryRequest(**self._query(query), **how)

    def bringing(self, wanted: Fused | Those) -> models.QueryRequest:
        """Return the request for points themselves: the best of several lists, or those that match."""
        how: dict[str, Any] = {"with_payload": True, "shard_key": self._shard}
        if wanted.vectors:
            how["with_vector"] = [DENSE]
        if isinstance(wanted, Those):
            if wanted.fields is not None:
                how["with_payload"] = list(wanted.fields)
            return models.QueryRequest(filter=wanted.filter, limit=PAGE, **how)
        parts = [self._query(part) for part in wanted.parts]
        how["limit"] = wanted.limit
        if len(parts) == 1:
            return models.QueryRequest(**{**parts[0], **how})
        # The engine counts ranks from 0.
        fusion = models.RrfQuery(rrf=models.Rrf(k=wanted.k + 1))
        lists = [models.Prefetch(**part) for part in parts]
        return models.QueryRequest(prefetch=lists, query=fusion, **how)

    def _query(self, query: Nearest) -> dict[str, Any]:
        common = {"filter": query.filter, "limit": query.limit}
        if isinstance(query.vector, tuple):
            params = models.SearchParams(idf=models.IdfCorpusParams(corpus=query.corpus))
            return {
                **common,
                "query": sparse_vector(query.vector),
                "using": LEXICAL,
                "params": params,
            }
        numbers = self._converted.setdefault(id(query.vector), [])
        if not numbers:
            numbers += query.vector.tolist()
        return {**common, "query": numbers, "using": DENSE}
