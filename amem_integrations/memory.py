"""`AgenticMemory`: what a program holds in its hands. Its methods are the flows, in both forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from . import flows
from ._sync import Awaiting, blocking, describe, map_in_tasks, map_in_threads, resolve, run
from .changes.recovery import recover
from .config import MemoryConfig
from .errors import ConfigurationError
from .ids import clock
from .moving import rebuild
from .opening import Location, open_embedder, open_model, open_store
from .ports import ChatModel, Embedder, NoteStore
from .progress import Progress, reporter
from .runtime import Runtime, Usage

P = ParamSpec("P")
R = TypeVar("R")
Flow = Callable[Concatenate[Runtime, P], Coroutine[Any, Any, R]]


def _sync(flow: Flow[P, R]) -> Callable[Concatenate[AgenticMemory, P], R]:
    """Return the flow as a synchronous method."""

    def method(self: AgenticMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(flow(self._runtime, *args, **kwargs))

    _describe(method, flow, flow.__name__)
    return method


def _both(
    flow: Flow[P, R],
) -> tuple[
    Callable[Concatenate[AgenticMemory, P], R],
    Callable[Concatenate[AgenticMemory, P], Coroutine[Any, Any, R]],
]:
    """Return the flow as a method and as its asynchronous twin."""

    async def method(self: AgenticMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await flow(self._async_runtime, *args, **kwargs)

    _describe(method, flow, f"a{flow.__name__}")
    return _sync(flow), method


def _describe(method: Any, flow: Callable[..., object], name: str) -> None:  # noqa: ANN401
    """Give a method the signature of its flow, with `self` in place of the runtime, and its documentation."""
    _, *others = inspect.signature(flow).parameters.values()
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    describe(method, flow, name, [itself, *others])
    # Documentation tools take what says it is from elsewhere for an import.
    method.__module__, method.__qualname__ = __name__, f"AgenticMemory.{name}"


class AgenticMemory:
    """Long-term memory that organises itself, after A-MEM (arXiv 2502.12110).

    Safe to use from many threads and tasks at once. Every method that an agent calls at run time has an
    asynchronous twin with an `a` in front of its name.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> note = memory.add("I moved to Oslo.", namespace=("ann",), speaker="Ann")
        >>> memory.search("Where does Ann live?", namespace=("ann",))[0].note.content
        'I moved to Oslo.'
    """

    add, aadd = _both(flows.add.add)
    add_many, aadd_many = _both(flows.add.add_many)
    add_messages, aadd_messages = _both(flows.add.add_messages)

    evolve, aevolve = _both(flows.evolve.evolve)
    construct, aconstruct = _both(flows.evolve.construct)
    propose, apropose = _both(flows.evolve.propose)
    commit, acommit = _both(flows.evolve.commit)

    search, asearch = _both(flows.search.search)
    context, acontext = _both(flows.search.context)
    get, aget = _both(flows.search.get)
    get_all, aget_all = _both(flows.search.get_all)

    update, aupdate = _both(flows.edit.update)
    delete, adelete = _both(flows.edit.delete)
    clear, sweep = _sync(flows.edit.clear), _sync(flows.edit.sweep)

    history, undo = _sync(flows.history.history), _sync(flows.history.undo)
    proposals = _sync(flows.review.proposals)
    approve, reject = _sync(flows.review.approve), _sync(flows.review.reject)

    namespaces, stats = _sync(flows.admin.namespaces), _sync(flows.admin.stats)
    info, usage, graph = _sync(flows.admin.info), _sync(flows.admin.usage), _sync(flows.admin.graph)

    export, import_ = _sync(flows.transfer.export), _sync(flows.transfer.import_)

    @classmethod
    def open(
        cls,
        location: str | PathLike[str],
        *,
        model: ChatModel | None = None,
        embedder: Embedder | None = None,
        config: MemoryConfig | None = None,
        collection: str = "amem",
        **client_options: object,
    ) -> Self:
        """Return the memory kept at `location`, made there if there is none.

        Args:
            location: `":memory:"`, a folder (the embedded Qdrant engine), or the URL of a Qdrant server.
            model: Makes, links and evolves notes; None works without any language model.
            embedder: Embeds notes and queries; None takes all-MiniLM-L6-v2, if it is installed.
            config: How notes are made, linked and evolved.
            collection: Name of the collection, for several memories in one place.
            client_options: For a folder: `durability` ("interval", or "always" to survive power cuts). For
                a server: what `qdrant_client.QdrantClient` takes, such as `api_key` and `timeout`.

        Raises:
            StoreLockedError: Another process has the folder open.
            EmbedderMismatchError: The collection was made with another embedder.
            StoreUnavailableError: The server does not answer.
            MissingExtraError: No embedder was given and none is installed.
            ConfigurationError: `location`, `model` or `embedder` is none, or an option is unknown.
        """
        place = Location.of(location, collection, client_options)
        model, embedder = open_model(model), open_embedder(embedder)
        store = open_store(place, embedder=embedder.name, dimensions=embedder.dimensions)
        memory = cls(store, embedder, model, config)
        memory._location = place
        return memory

    def __init__(
        self,
        store: NoteStore,
        embedder: Embedder,
        model: ChatModel | None = None,
        config: MemoryConfig | None = None,
    ) -> None:
        """Take ready ports; see `open` for the usual way."""
        self._location: Location | None = None  # where it was opened, if it was
        self._on_close: list[Callable[[], object]] = []
        self._connect(store, open_embedder(embedder), open_model(model), config or MemoryConfig())

    @property
    def embedder(self) -> Embedder:
        """The embedder of notes and queries; a collection remembers its `name`."""
        return self._embedder

    @property
    def config(self) -> MemoryConfig:
        """How notes are made, linked and evolved."""
        return self._runtime.config

    def reindex(
        self, embedder: Embedder | None = None, *, progress: bool | Progress = False
    ) -> int:
        """Embed all notes anew, and return how many there are.

        With the embedder there is (None) it is done in place. With another one a folder is built anew beside
        the old one, and takes its place when it is complete; after an interruption it goes on where it was.
        A memory that cannot be opened, because only the new embedder is there, is for the function
        `amem_integrations.moving.reindex(location, embedder)`; one on a server for `migrate`.

        Raises:
            ConfigurationError: Another embedder, and the memory is not in a folder.
            ModelUnavailableError: The embedder failed; call it again to go on.
        """
        current = self._embedder
        wanted = embedder or current
        if (wanted.name, wanted.dimensions) == (current.name, current.dimensions):
            return run(flows.transfer.embed_anew(self._runtime, reporter(progress)))
        if self._location is None or not self._location.is_folder:
            raise ConfigurationError(
                "only a memory that was opened in a folder takes another embedder in place; use "
                "amem_integrations.moving.migrate(source, target, embedder=…)"
            )
        self._close_store()
        try:
            done = rebuild(self._location, wanted, reporter(progress))
            current = wanted
        finally:
            store = open_store(self._location, embedder=current.name, dimensions=current.dimensions)
            self._connect(store, current, self._runtime.model, self.config)
        return done

    def on_close(self, callback: Callable[[], object]) -> None:
        """Have `callback` called before the store is let go, such as to stop a background worker."""
        self._on_close.append(callback)

    def close(self) -> None:
        """Write everything to disk and let go of the store; calling it again does nothing."""
        while self._on_close:
            self._on_close.pop()()
        self._close_store()

    def __enter__(self) -> Self:
        """Return the memory itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the memory."""
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """Return the memory itself: frameworks copy their state, and there is only one store."""
        return self

    def _connect(
        self, store: NoteStore, embedder: Embedder, model: ChatModel, config: MemoryConfig
    ) -> None:
        """Set up the runtime of each form, and finish what a killed process has left."""
        self._embedder = embedder
        name = str(getattr(model, "name", type(model).__name__))
        self._runtime = Runtime(
            store=store,
            embedder=blocking(embedder, "embed_documents", "embed_query"),
            model=blocking(model, "generate"),
            model_name=name,
            config=config,
            usage=Usage(name),
            map=map_in_threads,
        )
        # An embedded store answers in well under a millisecond and holds the GIL meanwhile: a thread
        # would only add to that. A remote one is waited for.
        remote = getattr(store, "remote", True)
        self._async_runtime = replace(
            self._runtime,
            store=cast("NoteStore", Awaiting(store)) if remote else store,
            embedder=cast("Embedder", Awaiting(embedder)),
            model=cast("ChatModel", Awaiting(model)),
            map=map_in_tasks,
        )
        clock.start_above(run(resolve(store.last_seq())))
        if steps := getattr(store, "interrupted", ()):
            run(recover(self._runtime, steps))

    def _close_store(self) -> None:
        run(resolve(self._runtime.store.close()))
