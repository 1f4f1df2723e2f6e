"""`AMemRetriever`: the memory as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import Field, PrivateAttr

from amem_integrations import AgenticMemory
from amem_integrations.adapting import check_namespace

from ._documents import to_document
from ._failures import Failures, OnError
from ._names import provider_of


class AMemRetriever(BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A document is a note: `id` is the note's id, `page_content` its content word for word; score,
    similarity, tags, keywords, contexts, links and the path that led there are in `metadata`.

    `k`, `namespace`, `where` and `min_similarity` may also be given per call:
    `retriever.invoke("…", k=3, namespace=("ann",))`, or through `configurable_fields`.
    https://reference.langchain.com/python/langchain_core/retrievers/

    Attributes:
        memory: The memory to search.
        namespace: Whose notes; None means that every call has to say.
        k: Most notes to return.
        where: Conditions on fields; see `AgenticMemory.search`.
        min_similarity: Least cosine of query and note.
        on_error: `"log"` returns no notes when the store or the embedder does not answer; `"raise"`
            raises.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> note = memory.add("I moved to Oslo.", namespace=("ann",))
        >>> retriever = AMemRetriever(memory=memory, namespace=("ann",))
        >>> retriever.invoke("Where did Ann move to?")[0].page_content
        'I moved to Oslo.'
    """

    memory: AgenticMemory = Field(exclude=True, repr=False)
    namespace: tuple[str, ...] | None = None
    k: int = 10
    where: dict[str, Any] | None = None
    min_similarity: float | None = None
    on_error: OnError = "log"
    _failures: Failures = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's signature
        """Start counting failures."""
        super().model_post_init(context)
        self._failures = Failures(self.on_error)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not answer so far."""
        return self._failures.snapshot()

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:  # noqa: ANN401 - LangChain's
        """Return what a LangSmith trace says about this retriever: its store and its embedder.

        As for LangChain's own retrievers, the provider of embeddings is the name of their class.
        """
        embedder = self.memory.embedder
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = "Qdrant"
        params["ls_embedding_provider"] = provider_of(embedder)
        params["ls_embedding_model"] = embedder.name
        return params

    # LangChain forwards keyword arguments of `invoke` only if the synchronous method names some.
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        k: int | None = None,
        namespace: tuple[str, ...] | None = None,
        where: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
    ) -> list[Document]:
        options = self._options(k, namespace, where, min_similarity)
        with self._failures.tolerated("recall"):
            return [to_document(hit) for hit in self.memory.search(query, **options)]
        return []

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        k: int | None = None,
        namespace: tuple[str, ...] | None = None,
        where: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
    ) -> list[Document]:
        options = self._options(k, namespace, where, min_similarity)
        with self._failures.tolerated("recall"):
            return [to_document(hit) for hit in await self.memory.asearch(query, **options)]
        return []

    def _options(
        self,
        k: int | None,
        namespace: tuple[str, ...] | None,
        where: Mapping[str, Any] | None,
        min_similarity: float | None,
    ) -> dict[str, Any]:
        """Return the arguments of the search: what the call says, else what was set."""
        return {
            "namespace": check_namespace(self.namespace if namespace is None else namespace),
            "k": self.k if k is None else k,
            "where": self.where if where is None else where,
            "min_similarity": self.min_similarity if min_similarity is None else min_similarity,
        }
