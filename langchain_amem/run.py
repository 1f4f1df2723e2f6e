"""The run behind every door: whose memory it is about, what is recalled and stored, failures, and reports to the stream."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import ConfigDict, Field, PrivateAttr

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    NamespaceError,
    Note,
    ScoredNote,
    adapting,
)
from amem_integrations.conversation import Message

log = logging.getLogger("langchain_amem")

Namespace = tuple[str, ...]
NamespaceOf = tuple[str, ...] | Callable[[Any], Sequence[str]]
ByRun = Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None

_lock = threading.Lock()
_total: Counter[str] = Counter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The argument of a callable `namespace`, `where` or `metadata`: `context`, `state` and `config` of the run.

    LangChain's `ToolRuntime` has the same three, so one function serves the middleware, the nodes and
    the tools: `lambda run: (run.context.user_id,)`.
    """

    context: Any = None
    state: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def thread(self) -> str | None:
        """The `thread_id` the run was configured with, if any."""
        thread = self.config.get("configurable", {}).get("thread_id")
        return None if thread is None else str(thread)

    @property
    def caller(self) -> str:
        """A digest of the `context` and the configuration of the run, which tells one caller from another."""
        machinery = ("__", "checkpoint", "thread_id")
        given = self.config.get("configurable", {}).items()
        named = sorted((each for each in given if not each[0].startswith(machinery)), key=str)
        return sha256(repr((self.context, named)).encode()).hexdigest()[:16]


def current_run(state: Any, config: Mapping[str, Any] | None = None) -> Run:  # noqa: ANN401 - the user's own type
    """Return the run that a hook or a node is called in; outside a graph there is no `context`."""
    from langgraph.config import get_config  # noqa: PLC0415 - an extra
    from langgraph.runtime import get_runtime  # noqa: PLC0415 - an extra

    try:
        context = getattr(get_runtime(), "context", None)
        return Run(context=context, state=state, config=config or get_config())
    except (RuntimeError, KeyError):
        return Run(state=state, config=config or {})


def report(step: str, **what: Any) -> None:  # noqa: ANN401 - JSON values
    """Send `{"amem": step, …}` to those who read the stream in the mode `custom`."""
    from langgraph.config import get_stream_writer  # noqa: PLC0415 - an extra

    try:
        get_stream_writer()({"amem": step, **what})
    except (RuntimeError, KeyError):
        return


def namespace_of(namespace: NamespaceOf, run: Any, *, optional: bool = False) -> Namespace:  # noqa: ANN401 - Run or ToolRuntime
    """Return the namespace of this run; an empty one only if it is optional.

    Raises:
        NamespaceError: The run does not say whose memory it is; there is no shared default.
    """
    if not callable(namespace):
        return namespace
    try:
        found = namespace(run)
        return () if optional and not found else adapting.check_namespace(found)
    except (AttributeError, KeyError, TypeError) as error:
        raise NamespaceError(
            f"this run does not say whose memory it is ({error!r}); pass what `namespace` reads, "
            "such as invoke(…, context=…), also when a run is resumed"
        ) from error


def checked_source(namespace: NamespaceOf) -> NamespaceOf:
    """Return a callable as it is, and a tuple checked, so that a mistake shows at construction."""
    return namespace if callable(namespace) else adapting.check_namespace(namespace)


def checked_also(also: Mapping[str, NamespaceOf] | None) -> dict[str, NamespaceOf]:
    """Return the namespaces that are read besides, by the names that mark their notes.

    Raises:
        ConfigurationError: A name is empty, or it is no mapping.
        NamespaceError: A namespace is malformed.
    """
    named = {} if also is None else also
    if not isinstance(named, Mapping) or not all(isinstance(n, str) and n.strip() for n in named):
        raise ConfigurationError(
            f"also={also!r} must be a dict of names to namespaces, such as {{'team': ('acme',)}}"
        )
    return {name: checked_source(source) for name, source in named.items()}


class Failures(adapting.Failures):
    """Counts for itself, and for the whole process."""

    def __init__(self, on_error: adapting.OnError = "log") -> None:
        """Start at zero."""
        super().__init__(log, on_error)

    def count(self, doing: str, error: BaseException | None = None) -> None:
        """Count one failure."""
        super().count(doing, error)
        with _lock:
            _total[doing] += 1


def failures() -> dict[str, int]:
    """Return how often the memory did not work in this process, by what an adapter was doing.

    Keys: `recall`, `remember`, `evolve`, and so on; also callbacks of yours that raised, such as `should_store`.
    """
    with _lock:
        return dict(_total)


def trace_params(memory: AgenticMemory) -> LangSmithRetrieverParams:
    """Return the fields of a LangSmith trace about a memory: its store and its embedder.

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


@dataclass(eq=False)
class Door:
    """The options that middleware, nodes and tools share, checked: whose memory, what is read of it, and on failure what.

    Raises:
        ConfigurationError: There is no memory, or an option has a value it cannot have.
        NamespaceError: A namespace is malformed.
    """

    memory: AgenticMemory
    namespace: NamespaceOf
    _: KW_ONLY
    also: Mapping[str, NamespaceOf] | None = None
    recall: Mapping[str, Any] = field(default_factory=dict)
    evolve: bool = False
    on_error: adapting.OnError = "log"

    def __post_init__(self) -> None:
        """Check the options."""
        adapting.check_memory(self.memory)
        adapting.check_flags(evolve=self.evolve)
        self.failures = Failures(self.on_error)
        self.namespace, self.also = checked_source(self.namespace), checked_also(self.also)
        adapting.checked_recall(self.recall)

    def space(self, run: Any) -> Namespace:  # noqa: ANN401 - Run or ToolRuntime
        """Return whose memory it is in a run."""
        return namespace_of(self.namespace, run)

    def asked(self, run: Any, space: Namespace) -> dict[str, Any]:  # noqa: ANN401 - as above
        """Return the options of a recall in a run; a function may give an empty namespace to read none.

        A function that fails costs the recall that namespace, or, if it is `where`, all notes: none is shown unfiltered.

        Raises:
            NamespaceError: The run does not say one of the further namespaces.
        """
        also = dict[str, Namespace]()
        for name, one in (self.also or {}).items():
            with self.failures.tolerated("also", callback=True):
                if found := namespace_of(one, run, optional=True):
                    also[name] = found
        where = self.recall.get("where")
        if callable(where):
            where = where(run)
            adapting.parse(
                {} if where is None else where
            )  # else a search would fail, or know no filter
        return {**self.recall, "where": where, "also": also, "namespace": space}

    async def found(
        self,
        call: adapting.Call,
        question: str,
        method: Callable[..., adapting.Recalled],
        asked: object,
        **options: Any,  # noqa: ANN401 - of the method
    ) -> adapting.Recalled:
        """Return the hits of a method of the memory, as a retriever run."""
        run = AMemRecall(memory=self.memory, find=lambda call: call(method, asked, **options))
        await call(run.invoke, question)
        return run._found  # noqa: SLF001 - of this module

    async def recalled(
        self, call: adapting.Call, said: Sequence[Message], options: Mapping[str, Any]
    ) -> adapting.Recalled:
        """Return the notes that are worth showing for the last message of a person; none if the memory does not answer."""
        found = adapting.Recalled()
        question = next((one.text for one in reversed(said) if one.party == "user"), "")
        if self.failures.resting("recall"):
            return found
        with self.failures.tolerated("recall"):
            found = await self.found(call, question, self.memory.recall_turn, said, **options)
        self.failures.failed("recall", found.error)
        return found

    async def remembered(
        self,
        call: adapting.Call,
        said: Sequence[Message],
        space: Namespace,
        **options: Any,  # noqa: ANN401 - of `AgenticMemory.remember_turn`
    ) -> list[Note]:
        """Store messages, and return their notes; none if the memory does not answer."""
        done = adapting.Remembered()
        with self.failures.tolerated("remember"):
            done = await call(self.memory.remember_turn, said, namespace=space, **options)
        self.failures.failed("remember", done.error)
        return done.notes

    def evolve_later(self, space: Namespace) -> None:
        """Have the memory evolve a namespace in the background, if it shall."""
        if self.evolve:
            self.memory.evolve_later(space)
