"""`AMemRetriever`: the memory as a LangChain retriever; and the recall that the other doors share.

Recall is a retriever run: LangSmith, `astream_events` and callback handlers see it as one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    ScoredNote,
    adapting,
)

from .run import Failures, checked_also

OPTIONS = ("k", "where", "min_similarity", "links", "as_of")


class Recalling(BaseModel):
    """The common options of the retriever and the memory of a chain: whose notes are found, and which."""

    # The framework's base classes allow more, and the configuration of the last base counts.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgenticMemory = Field(exclude=True, repr=False)
    also: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    k: int = 10
    where: dict[str, Any] | None = None
    min_similarity: float | None = None
    links: bool = True
    as_of: datetime | None = None
    on_error: adapting.OnError = "log"
    _failures: Failures = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options as they are: pydantic would read "yes" as True, and "3" as 3."""
        named = (*OPTIONS, "max_tokens")
        adapting.checked_recall({name: options[name] for name in named if name in options})
        checked_also(options.get("also"))
        return options

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's signature
        """Start counting failures."""
        super().model_post_init(context)
        self._failures = Failures(self.on_error)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not work so far, by what it was doing."""
        return self._failures.snapshot()

    @property
    def options(self) -> dict[str, Any]:
        """The options of a search, as keyword arguments of the memory."""
        return {name: getattr(self, name) for name in (*OPTIONS, "also")}


class AMemRetriever(Recalling, BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A document is a note: `id` is the note's id, `page_content` its content word for word. In `metadata` are the note's own,
    as they were given (`source` too), and what is known of the hit beside: score, similarity, tags, keywords, contexts,
    links, the path that led there; of a long text the `passage` that matches, at most 1,500 characters.

    `k`, `namespace`, `where`, `min_similarity`, `links` and `as_of` may also be given per call:
    `retriever.invoke("…", k=3, namespace=("ann",))`, or through `configurable_fields`.
    https://reference.langchain.com/python/langchain_core/retrievers/

    Attributes:
        memory: The memory to search.
        namespace: Whose notes; None means that every call has to say.
        k: Most notes to return.
        also: Further namespaces to search; a document says whose it is by `metadata["namespace"]`.
        where: Conditions on fields; see `AgenticMemory.search`.
        min_similarity: Least cosine of query and note.
        links: Whether links are followed.
        as_of: What was true then.
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

    model_config = Recalling.model_config

    namespace: tuple[str, ...] | None = None

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:  # noqa: ANN401 - LangChain's
        """Return what a LangSmith trace says about this retriever."""
        return {**super()._get_ls_params(**kwargs), **trace_params(self.memory)}

    async def _search(
        self,
        call: adapting.Call,
        /,
        query: str,
        *,
        run_manager: Any,  # noqa: ANN401, ARG002 - LangChain's signature
        namespace: tuple[str, ...] | None = None,
        **options: Any,  # noqa: ANN401 - see `OPTIONS`
    ) -> list[Document]:
        """Return the notes found, as documents."""
        whose = adapting.check_namespace(self.namespace if namespace is None else namespace)
        given = {name: value for name, value in options.items() if value is not None}
        try:
            asked = self.options | adapting.checked_recall(given)
        except ConfigurationError as error:
            raise InvalidInputError(str(error)) from error
        if not query.strip():
            return []
        found = adapting.Recalled()
        with self._failures.tolerated("recall"):
            found = await call(self.memory.search_turn, query, namespace=whose, **asked)
        self._failures.failed("recall", found.error)
        return list(map(to_document, found.hits))

    # LangChain forwards keyword arguments of `invoke` only if the synchronous method names some.
    _get_relevant_documents, _aget_relevant_documents = adapting.both(_search)


def trace_params(memory: AgenticMemory) -> LangSmithRetrieverParams:
    """Return what a LangSmith trace says about a memory: its store and its embedder.

    As for LangChain's own retrievers, the provider of embeddings is the name of their class.
    """
    embedder = memory.embedder
    return {
        "ls_vector_store_provider": "Qdrant",
        "ls_embedding_provider": str(getattr(embedder, "provider", type(embedder).__name__)),
        "ls_embedding_model": embedder.name,
    }


def to_document(hit: ScoredNote) -> Document:
    """Return a note as a document: its content word for word, what is known of the hit, and its own metadata above all."""
    about = hit.to_dict()
    if hit.note.origin == "document":
        del about["source"]  # of the document, not of the note
    own = {name: value for name, value in about.pop("metadata").items() if name != adapting.RECORD}
    passage = " … ".join(each.text for each in hit.passages) if hit.passage else None
    metadata = {**about, "passage": passage, **own}
    return Document(id=hit.note.id, page_content=hit.note.content, metadata=metadata)


class AMemRecall(BaseRetriever):
    """One recall of another door, as a retriever run below the run that is under way."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: AgenticMemory = Field(exclude=True, repr=False)
    find: Callable[[adapting.Call], Any]
    _found: adapting.Recalled = PrivateAttr()

    def _get_ls_params(self, **_: Any) -> LangSmithRetrieverParams:  # noqa: ANN401 - LangChain's
        return {"ls_retriever_name": "amem", **trace_params(self.memory)}

    async def _search(
        self,
        call: adapting.Call,
        /,
        query: str,  # noqa: ARG002 - LangChain's signature
        *,
        run_manager: Any,  # noqa: ANN401 - as above
    ) -> list[Document]:
        self._found = await self.find(call)
        return list(map(to_document, self._found.hits)) if run_manager.handlers else []

    _get_relevant_documents, _aget_relevant_documents = adapting.both(_search)


async def traced(
    call: adapting.Call,
    memory: AgenticMemory,
    question: str,
    method: Callable[..., adapting.Recalled],
    asked: Any,  # noqa: ANN401 - what the method looks for
    **options: Any,  # noqa: ANN401 - of the method
) -> adapting.Recalled:
    """Return the hits of a method of the memory, as a retriever run."""
    run = AMemRecall(memory=memory, find=lambda call: call(method, asked, **options))
    await call(run.invoke, question)
    return run._found  # noqa: SLF001 - of this module
