"""`AMemRetriever`: the memory as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from amem_integrations import AgenticMemory, ConfigurationError, ScoredNote
from amem_integrations.adapting import Call, OnError, both, check_namespace

from .runs import Failures

OTHER_NAMES = {
    "top_k": "k",
    "similarity_top_k": "k",
    "score_threshold": "min_similarity",
    "filter": "where",
    "search_kwargs": "k, where and min_similarity",
}


def checked_options(options: Any) -> Any:  # noqa: ANN401 - pydantic's signature
    """Return the options, if none has the name that another library uses for ours.

    Raises:
        ConfigurationError: One has.
    """
    for name in OTHER_NAMES.keys() & set(options if isinstance(options, dict) else ()):
        raise ConfigurationError(f"{name!r} is no option here; use {OTHER_NAMES[name]}")
    return options


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

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgenticMemory = Field(exclude=True, repr=False)
    namespace: tuple[str, ...] | None = None
    k: int = Field(default=10, ge=1)
    where: dict[str, Any] | None = None
    min_similarity: float | None = None
    on_error: OnError = "log"
    _failures: Failures = PrivateAttr()
    _checked = model_validator(mode="before")(checked_options)

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
        params["ls_embedding_provider"] = str(
            getattr(embedder, "provider", type(embedder).__name__)
        )
        params["ls_embedding_model"] = embedder.name
        return params

    async def _search(
        self,
        call: Call,
        query: str,
        *,
        run_manager: Any,  # noqa: ANN401, ARG002 - LangChain's signature
        k: int | None = None,
        namespace: tuple[str, ...] | None = None,
        where: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
    ) -> list[Document]:
        """Return the notes found, as documents."""
        whose = check_namespace(self.namespace if namespace is None else namespace)
        with self._failures.tolerated("recall"):
            hits = await call(
                self.memory.search,
                query,
                namespace=whose,
                k=self.k if k is None else k,
                where=self.where if where is None else where,
                min_similarity=self.min_similarity if min_similarity is None else min_similarity,
            )
            return [to_document(hit) for hit in hits]
        return []

    # LangChain forwards keyword arguments of `invoke` only if the synchronous method names some.
    _get_relevant_documents, _aget_relevant_documents = both(_search)


def to_document(hit: ScoredNote) -> Document:
    """Return a note as a document: its content word for word, everything else in `metadata`."""
    return Document(id=hit.note.id, page_content=hit.note.content, metadata=hit.to_dict())
