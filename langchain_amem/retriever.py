"""`AMemRetriever`: the memory as a LangChain retriever; and the recall that the other doors share.

Recall is a retriever run: LangSmith, `astream_events` and callback handlers see it as one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
)
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from amem_integrations import AgenticMemory, ConfigurationError, InvalidInputError, ScoredNote
from amem_integrations.adapting import (
    Call,
    OnError,
    RecallOptions,
    both,
    check_namespace,
    directly,
)

from .messages import keys_of, question_in, said_before
from .runs import Failures, Namespace, NamespaceOf, Run, checked_also, others_of

# The model sees the end of the conversation anyway. What is further back is recalled like anything else,
# since a conversation may be trimmed before the model reads it.
VISIBLE = 10

PER_CALL = ("k", "where", "min_similarity", "links", "as_of")  # in the order of `_search`
RECALL = {option.name for option in fields(RecallOptions)}
OTHER_NAMES = {
    "top_k": "k",
    "similarity_top_k": "k",
    "score_threshold": "min_similarity",
    "filter": "where",
    "search_kwargs": "k, where and min_similarity",
}


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as they are: pydantic would read "yes" as True, and "3" as 3.

    Raises:
        ConfigurationError: One has the name that another library uses for ours, or a value it cannot have.
    """
    for name in OTHER_NAMES.keys() & options.keys():
        raise ConfigurationError(f"{name!r} is no option here; use {OTHER_NAMES[name]}")
    RecallOptions(**{name: options[name] for name in RECALL & options.keys()})
    checked_also(options.get("also"))
    return options


class RecallFields(BaseModel):
    """What is recalled from a memory, as fields of a pydantic model."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgenticMemory = Field(exclude=True, repr=False)
    also: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    k: int = 10
    where: dict[str, Any] | None = None
    min_similarity: float | None = None
    links: bool = True
    as_of: datetime | None = None
    on_error: OnError = "log"
    _failures: Failures = PrivateAttr()
    _checked = model_validator(mode="before")(checked_options)

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's signature
        """Start counting failures."""
        super().model_post_init(context)
        self._failures = Failures(self.on_error)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not work so far, by what it was doing."""
        return self._failures.snapshot()

    def _options(self, *given: object) -> RecallOptions:
        """Return what is asked for, and where that is None what was set."""
        own = {name: getattr(self, name) for name in PER_CALL}
        asked = zip(PER_CALL, given, strict=False)
        return RecallOptions(**own | {name: value for name, value in asked if value is not None})


class AMemRetriever(RecallFields, BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A document is a note: `id` is the note's id, `page_content` its content word for word; score,
    similarity, tags, keywords, contexts, links and the path that led there are in `metadata`.

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

    model_config = ConfigDict(extra="forbid")  # the framework's base class allows more

    namespace: tuple[str, ...] | None = None

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:  # noqa: ANN401 - LangChain's
        """Return what a LangSmith trace says about this retriever."""
        return {**super()._get_ls_params(**kwargs), **trace_params(self.memory)}

    async def _search(
        self,
        call: Call,
        query: str,
        *,
        run_manager: Any,  # noqa: ANN401, ARG002 - LangChain's signature
        namespace: tuple[str, ...] | None = None,
        k: int | None = None,
        where: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
        links: bool | None = None,
        as_of: datetime | None = None,
    ) -> list[Document]:
        """Return the notes found, as documents."""
        whose = check_namespace(self.namespace if namespace is None else namespace)
        try:
            options = self._options(k, where, min_similarity, links, as_of)
        except ConfigurationError as error:
            raise InvalidInputError(str(error)) from error
        if not query.strip():
            return []
        with self._failures.tolerated("recall"):
            spaces = [whose, *self.also.values()]
            hits = await options.search(call, self.memory, query, spaces)
            return [to_document(hit) for hit in hits]
        return []

    # LangChain forwards keyword arguments of `invoke` only if the synchronous method names some.
    _get_relevant_documents, _aget_relevant_documents = both(_search)


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
    """Return a note as a document: its content word for word, everything else in `metadata`."""
    return Document(id=hit.note.id, page_content=hit.note.content, metadata=hit.to_dict())


# The recall of a turn


async def traced(
    call: Call, memory: AgenticMemory, question: str, search: Awaitable[list[ScoredNote]]
) -> list[ScoredNote]:
    """Return what the search finds; it is a retriever run below the run that is under way."""
    config = ensure_config()
    form = (
        get_callback_manager_for_config
        if call is directly
        else get_async_callback_manager_for_config
    )
    manager: Any = form(config)
    manager.add_metadata({"ls_retriever_name": "amem", **trace_params(memory)}, inherit=False)
    run = await _now(manager.on_retriever_start({}, question, name="AMemRecall"))
    try:
        hits = await search
    except BaseException as error:
        await _now(run.on_retriever_error(error))
        raise
    await _now(run.on_retriever_end([to_document(hit) for hit in hits] if run.handlers else []))
    return hits


async def _now(value: Any) -> Any:  # noqa: ANN401 - what a manager of either form gives
    return await value if inspect.isawaitable(value) else value


@dataclass(frozen=True, slots=True)
class Recall:
    """Finds notes for what was last asked, in one namespace and in others that are read `also`."""

    memory: AgenticMemory
    options: RecallOptions
    failures: Failures
    also: Mapping[str, NamespaceOf]

    async def find(
        self, call: Call, messages: Sequence[BaseMessage], namespace: Namespace, run: Run
    ) -> list[ScoredNote]:
        """Return notes for the last question, best first, without what visible messages say."""
        question = question_in(messages)
        if not question or self.failures.resting("recall"):
            return []
        visible = keys_of(messages, run.thread, VISIBLE)
        said = {str(message.text).strip() for message in messages[-VISIBLE:]}
        spaces = [namespace, *others_of(self.also, run).values()]
        with self.failures.tolerated("recall"):
            most = self.options.k
            search = self.options.search(
                call,
                self.memory,
                question,
                spaces,
                k=most + len(visible),
                recall=True,
                messages=said_before(messages),
            )
            hits = await traced(call, self.memory, question, search)
            fresh = [hit for hit in hits if hit.note.key not in visible]
            return [hit for hit in fresh if hit.note.content not in said][:most]
        return []

    async def text(
        self, call: Call, hits: Sequence[ScoredNote], namespace: Namespace, run: Run
    ) -> str:
        """Return who the user is and notes as a marked block of data for a prompt, or "" if there is nothing."""
        about = ""
        if not self.failures.resting("recall"):
            with self.failures.tolerated("recall"):
                about = await self.options.about(call, self.memory, namespace)
        return self.options.render(hits, others_of(self.also, run), about=about)
