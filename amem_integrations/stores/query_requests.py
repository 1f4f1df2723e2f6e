"""The requests of one batch of queries to a Qdrant server."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from .bm25 import Sparse
from .collection import Fused, Nearest
from .payloads import DENSE, LEXICAL


def sparse_vector(terms: Sparse) -> models.SparseVector:
    """Return a sparse vector as the client takes it."""
    return models.SparseVector(indices=terms[0], values=terms[1])


class QueryRequests:
    """Makes the requests of one batch; a vector that stands in several of them is converted once."""

    def __init__(self) -> None:
        """Start with nothing converted."""
        self._converted = dict[int, list[float]]()

    def scored(self, query: Nearest) -> models.QueryRequest:
        """Return the request for ids and scores."""
        among = None if query.among is None else models.Prefetch(**self._query(query.among))
        return models.QueryRequest(**self._query(query), prefetch=among, with_payload=False)

    def bringing(self, wanted: Fused) -> models.QueryRequest:
        """Return the request for points themselves: the best of several lists."""
        how: dict[str, Any] = {"with_payload": True, "limit": wanted.limit}
        parts = [self._query(part) for part in wanted.parts]
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
