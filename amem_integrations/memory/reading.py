"""Facade: methods that read, each with its asynchronous twin. None of them calls a chat model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._sync import run
from ..engine import SearchOptions
from ..engine.reading import CONTEXT_NOTES
from ..notes import Note, ScoredNote
from .base import Base


class ReadingMethods(Base):
    """`search`, `context`, `get`, `get_all`."""

    def search(
        self,
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
        which belong to a hit are found as well (Eq. 8-10 of the paper).

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
            InvalidInputError: Empty query, or a bad `k`, `where` or `as_of`.
            NamespaceError: The namespace is missing or malformed.
            ModelUnavailableError: The embedder failed.
        """
        options = SearchOptions(
            k=k,
            where=where,
            min_similarity=min_similarity,
            as_of=as_of,
            links=links,
            explain=explain,
        )
        return run(self._engine.search(query, namespace=namespace, options=options))

    async def asearch(
        self,
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
        """Asynchronous twin of `search`."""
        options = SearchOptions(
            k=k,
            where=where,
            min_similarity=min_similarity,
            as_of=as_of,
            links=links,
            explain=explain,
        )
        return await self._async_engine.search(query, namespace=namespace, options=options)

    def context(
        self,
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
        options = SearchOptions(k=k, where=where, min_similarity=min_similarity, as_of=as_of)
        return run(
            self._engine.context(query, namespace=namespace, max_tokens=max_tokens, options=options)
        )

    async def acontext(
        self,
        query: str,
        *,
        namespace: Sequence[str],
        max_tokens: int = 1000,
        k: int = CONTEXT_NOTES,
        where: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
        as_of: datetime | None = None,
    ) -> str:
        """Asynchronous twin of `context`."""
        options = SearchOptions(k=k, where=where, min_similarity=min_similarity, as_of=as_of)
        return await self._async_engine.context(
            query, namespace=namespace, max_tokens=max_tokens, options=options
        )

    def get(self, note_id: str, *, namespace: Sequence[str]) -> Note:
        """Return one note.

        Raises:
            NoteNotFoundError: There is none with this id in this namespace.
        """
        return run(self._engine.get(note_id, namespace=namespace))

    async def aget(self, note_id: str, *, namespace: Sequence[str]) -> Note:
        """Asynchronous twin of `get`."""
        return await self._async_engine.get(note_id, namespace=namespace)

    def get_all(
        self,
        *,
        namespace: Sequence[str],
        limit: int = 100,
        where: Mapping[str, Any] | None = None,
    ) -> list[Note]:
        """Return up to `limit` notes, oldest first; continue with `where={"seq": {"$gt": last.seq}}`.

        Raises:
            InvalidInputError: A bad `limit` or `where`.
        """
        return run(self._engine.get_all(namespace=namespace, limit=limit, where=where))

    async def aget_all(
        self,
        *,
        namespace: Sequence[str],
        limit: int = 100,
        where: Mapping[str, Any] | None = None,
    ) -> list[Note]:
        """Asynchronous twin of `get_all`."""
        return await self._async_engine.get_all(namespace=namespace, limit=limit, where=where)
