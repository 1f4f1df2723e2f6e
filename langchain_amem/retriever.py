"""`AMemRetriever`: the memory as a LangChain retriever."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StrictBool, StrictInt

from amem_integrations import AgenticMemory, ConfigurationError, InvalidInputError, adapting
from amem_integrations.adapting import Call

from .run import Door, Failures, to_documents


class Recalling(BaseModel):
    """The common options of the retriever and the memory of a chain: whose notes are found, and which."""

    # The framework's base classes allow more, and the configuration of the last base counts.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgenticMemory = Field(exclude=True, repr=False)
    also: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    k: StrictInt = 10
    where: dict[str, Any] | None = None
    min_similarity: float | None = Field(default=None, strict=True)
    links: StrictBool = True
    as_of: datetime | None = Field(default=None, strict=True)
    known_at: datetime | None = Field(default=None, strict=True)
    on_error: adapting.OnError = "log"
    _failures: Failures = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Check the options."""
        super().model_post_init(context)
        self._failures = Failures(self.on_error)
        self._door  # noqa: B018 - a mistake shows here, and not in the first search

    @property
    def _door(self) -> Door:
        """The options as they are now; each of them may be set later."""
        known = adapting.RecallOptions.__annotations__
        recall = {name: value for name, value in self if name in known}
        door: dict[str, Any] = {"also": self.also, "recall": recall, "failures": self._failures}
        # Each call names the namespace.
        return Door(self.memory, lambda _: (), evolve=getattr(self, "evolve", False), **door)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not work so far, by what it was doing."""
        return self._failures.snapshot()


class AMemRetriever(Recalling, BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A document is a note: `id` is the note's id, `page_content` its content word for word. In `metadata` are the note's own,
    as they were given (`source` too), and what is known of the hit beside: score, similarity, tags, keywords, contexts,
    links, the path that led there; of a long text the `passage` that matches, at most 1,500 characters.

    `k`, `namespace`, `where`, `min_similarity`, `links`, `as_of` and `known_at` may also be given per call:
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
        known_at: What the memory believed then.
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

    async def _search(
        self, call: Call, /, query: str, *, run_manager: Any, **options: Any
    ) -> list[Document]:
        """Return the notes found, as documents."""
        given = {name: value for name, value in options.items() if value is not None}
        whose = adapting.check_namespace(given.pop("namespace", self.namespace))
        try:
            given = adapting.checked_recall(given, adapting.SearchOptions)
            asked = {**(self._door.asked(None, namespace=whose) or {}), **given}
        except ConfigurationError as error:
            raise InvalidInputError(str(error)) from error
        if not query.strip():
            return []
        found = adapting.Recalled()
        with self._failures.tolerated("recall"):
            found = await call(self.memory.search_turn, query, **asked)
        self._failures.failed("recall", found.error)
        return to_documents(found)

    # LangChain forwards keyword arguments of `invoke` only if the synchronous method names some.
    _get_relevant_documents, _aget_relevant_documents = adapting.both(_search)
