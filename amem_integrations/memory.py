"""`AgenticMemory`: what a program holds in its hands. Its methods are the flows, in both forms."""

# ruff: noqa: SLF001 - the class methods that make a memory set its attributes

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, cast

from . import flows, opening, runtime
from .budget import Budget
from .config import MemoryConfig
from .errors import ConfigurationError
from .notes import Namespace, check_namespace
from .opening import Location
from .ports import ChatModel, Embedder
from .reindex import reindex
from .retrieval.search import search as retrieve
from .runtime import Awaiting, Blocking, Progress, Runtime, both_methods, run, sync_method

if TYPE_CHECKING:
    from .stores.store import Store

LOOK = 0.02  # seconds from one look whether the worker is done to the next


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

    add, aadd = both_methods(flows.edit.add)
    add_many, aadd_many = both_methods(flows.edit.add_many)
    add_messages, aadd_messages = both_methods(flows.edit.add_messages)

    evolve, aevolve = both_methods(flows.evolve.evolve)
    work, awork = both_methods(flows.worker.work)
    construct, aconstruct = both_methods(flows.evolve.construct)
    propose, apropose = both_methods(flows.evolve.propose)
    commit, acommit = both_methods(flows.evolve.commit)

    search, asearch = both_methods(retrieve)
    recall, arecall = both_methods(flows.read.recall)
    context, acontext = both_methods(flows.read.context)
    get, aget = both_methods(flows.read.get)
    get_all, aget_all = both_methods(flows.read.get_all)

    update, aupdate = both_methods(flows.edit.update)
    delete, adelete = both_methods(flows.edit.delete)
    supersede, asupersede = both_methods(flows.edit.supersede)
    clear, sweep = sync_method(flows.edit.clear), sync_method(flows.edit.sweep)

    recall_turn, arecall_turn = both_methods(flows.turn.recall_turn)
    search_turn, asearch_turn = both_methods(flows.turn.search_turn)
    remember_turn, aremember_turn = both_methods(flows.turn.remember_turn)
    remember_fact, aremember_fact = both_methods(flows.turn.remember_fact)
    evolve_turn, aevolve_turn = both_methods(flows.turn.evolve_turn)

    fill, afill = both_methods(flows.forms.fill)
    profile, aprofile = both_methods(flows.forms.profile)

    history, undo = sync_method(flows.history.history), sync_method(flows.history.undo)
    proposals = sync_method(flows.history.proposals)
    approve, reject = sync_method(flows.history.approve), sync_method(flows.history.reject)

    namespaces, stats = sync_method(flows.overview.namespaces), sync_method(flows.overview.stats)
    info, graph = sync_method(flows.overview.info), sync_method(flows.overview.graph)
    usage = sync_method(flows.overview.usage)

    export, import_ = sync_method(flows.transfer.export), sync_method(flows.transfer.import_)

    @classmethod
    def open(
        cls,
        location: str | PathLike[str],
        *,
        model: ChatModel | None = None,
        embedder: Embedder | None = None,
        config: MemoryConfig | None = None,
        collection: str = "amem",
        worker: bool = False,
        **client_options: object,
    ) -> Self:
        """Return the memory kept at `location`, made there if there is none.

        Args:
            location: `":memory:"`, a folder (the embedded Qdrant engine), or the URL of a Qdrant server.
            model: Makes, links and evolves notes; None works without any language model.
            embedder: Embeds notes and queries; None takes all-MiniLM-L6-v2, if it is installed.
            config: How notes are made, linked and evolved.
            collection: Name of the collection, for several memories in one place.
            worker: Start at once to evolve in the background what earlier processes left pending; else that starts
                with the first turn that is to evolve (see `evolve_later`).
            client_options: For a folder: `durability` ("interval", or "always" to survive power cuts), `min_free_bytes`.
                For a server: `connections`, `metadata_indexes`, `collection_options`, `allow_insecure`, `pauses`, and what
                `qdrant_client.QdrantClient` takes, such as `api_key` and `timeout` (see `docs/stores.md`).

        Raises:
            StoreLockedError: The folder is open already, in another process or in this one.
            EmbedderMismatchError: The collection was made with another embedder.
            StoreUnavailableError: The server does not answer.
            MissingExtraError: No embedder was given and none is installed.
            ConfigurationError: `location`, `model` or `embedder` is none, or an option is unknown.
        """
        if not isinstance(config, MemoryConfig | None):
            raise ConfigurationError(f"config={config!r} must be a MemoryConfig")
        place = Location.of(location, collection, client_options)
        model, embedder = opening.open_model(model), opening.open_embedder(embedder)
        store = opening.open_store(place, embedder=embedder.name, dimensions=embedder.dimensions)
        try:
            memory = cls._over(store, embedder, model, config)
            run(flows.writing.embed_missing(memory._runtime, memory._resumed))
        except BaseException:
            store.close()  # or nobody could open the folder again
            raise
        memory._location = place
        if worker:
            memory.evolve_later()
        return memory

    _runtime: Runtime  # as a synchronous caller has it
    _async_runtime: Runtime  # with the same state, as an asynchronous caller has it
    _location: Location | None  # where it was opened, if it was
    _resumed: Sequence[Namespace]  # where something was left, or had no vector, when it was opened
    _worker: flows.worker.Background
    _on_close: ExitStack

    def __init__(self, *_: object, **__: object) -> None:
        """Refuse: `open` is the way in.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError("AgenticMemory is not called; use AgenticMemory.open(location)")

    @classmethod
    def _over(
        cls,
        store: Store,
        embedder: Embedder,
        model: ChatModel | None = None,
        config: MemoryConfig | None = None,
    ) -> Self:
        """Return a memory over an open store."""
        memory = cls.__new__(cls)
        memory._location, memory._on_close = None, ExitStack()
        memory._worker = flows.worker.Background(memory._evolve_pending)
        memory._connect(store, embedder, opening.open_model(model), config or MemoryConfig())
        return memory

    @classmethod
    def _as_made(cls, place: Location) -> Self:
        """Return the memory at a place as it was made, without its embedder; raise `StoreError` if there is none."""
        store = opening.open_store(place)
        made = store.made_with
        return cls._over(store, opening.UnloadedEmbedder(made["embedder"], made["dimensions"]))

    @property
    def embedder(self) -> Embedder:
        """The embedder of notes and queries; a collection remembers its `name`."""
        return self._embedder

    @property
    def config(self) -> MemoryConfig:
        """How notes are made, linked and evolved."""
        return self._runtime.config

    @property
    def model_name(self) -> str:
        """The name by which notes and history know the model; `"rules"` without a language model."""
        return self._runtime.model_name

    def reindex(
        self, embedder: Embedder | None = None, *, progress: bool | Progress = False
    ) -> int:
        """Embed all notes anew, and return how many there are.

        With the embedder there is (None) it is done in place. With another one a folder is built anew beside
        the old one, and takes its place when it is complete; after an interruption the old one is there, and it begins again.
        A memory that cannot be opened, because only the new embedder is there, is for the function
        `amem_integrations.reindex.reindex(location, embedder)`; one on a server is exported and imported.

        Raises:
            ConfigurationError: Another embedder, and the memory is not in a folder; or it is no embedder.
            StoreClosedError: The memory is closed.
            ModelUnavailableError: The embedder failed; call it again.
        """
        current = self._embedder
        wanted = current if embedder is None else opening.open_embedder(embedder)
        if (wanted.name, wanted.dimensions) == (current.name, current.dimensions):
            return run(flows.writing.embed_anew(self._runtime, progress))
        if self._location is None or not self._location.is_folder:
            raise ConfigurationError(
                "only a memory that was opened in a folder takes another embedder in place; export() this one, and "
                "import_() the file into a memory that is opened with the other embedder and another collection="
            )
        before = self._runtime
        before.store.last_seq()  # an error, if the memory is closed: it stays so
        before.store.close()
        try:
            path, how = self._location.path, {"collection": self._location.collection}
            done = reindex(path, wanted, progress=progress, **how, **self._location.options)
            current = wanted
        finally:
            store = opening.open_store(
                self._location, embedder=current.name, dimensions=current.dimensions
            )
            self._connect(store, current, self._model, self.config)
            kept: dict[str, Any] = {"outbox": before.outbox, "usage": before.usage}
            self._runtime = replace(self._runtime, **kept)
            self._async_runtime = replace(self._async_runtime, **kept)
        return done

    def compact(self) -> None:
        """Write a folder anew, without the bytes of what was deleted, which the engine only marks as gone.

        `info()` says how many there are. It takes about as long as an import, and others wait meanwhile.

        Raises:
            ConfigurationError: The memory is not in a folder: a server maintains its collections by itself.
            StoreFullError: There is no room for a second copy beside the first.
        """
        self._runtime.store.compact()

    async def acompact(self) -> None:
        """Call `compact` in a thread."""
        await asyncio.to_thread(self.compact)

    def optimize(self) -> bool:
        """Build the graph that finds neighbours among very many notes; return whether anything was done.

        It takes minutes (100,000 notes: about two), and Python stands still meanwhile. Worth it from about 200,000
        notes; exact search is quick enough below.

        Raises:
            ConfigurationError: The memory is not in a folder: a server maintains its collections by itself.
            StoreFullError: There is no room for a second copy beside the first.
        """
        return self._runtime.store.optimize()

    async def aoptimize(self) -> bool:
        """Call `optimize` in a thread."""
        return await asyncio.to_thread(self.optimize)

    def evolve_later(self, namespace: Sequence[str] | None = None) -> None:
        """Have the background worker evolve what is pending in a namespace, or (None) in all; return at once.

        The worker is a thread of this process, which starts with the first call. `flush` waits for it, and `close`
        stops it; what it has not done then stays pending in the store.
        """
        self._worker.submit(None if namespace is None else check_namespace(namespace))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the background worker has nothing left to do, and everything written survives a power cut.

        Return False if the worker took longer than `timeout` seconds.

        Raises:
            AmemError: The first error of the worker that waiting does not mend, such as a refused key.
        """
        done = self._worker.flush(timeout)
        self._runtime.store.flush()
        return done

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as `flush` has it
        """Do what `flush` does; a thread that waits as long as the worker works could not be cancelled."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while not self._worker.is_idle() and (left := end - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, LOOK))
        return await asyncio.to_thread(self.flush, None if timeout is None else 0)

    def on_close(self, callback: Callable[[], object]) -> None:
        """Have `callback` called before the store is let go, such as to stop a thread that works on the memory."""
        self._on_close.callback(callback)

    def close(self) -> None:
        """Write everything to disk and let go of the store; calling it again does nothing."""
        self._runtime.closing.set()
        self._worker.close()
        with closing(self._runtime.store):
            self._on_close.close()

    async def aclose(self) -> None:
        """Call `close` in a thread."""
        await runtime.in_thread(self.close, whole=True)

    async def __aenter__(self) -> Self:
        """Return the memory itself."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the memory."""
        await self.aclose()

    def __repr__(self) -> str:
        """Return the place of the memory, and the names of its embedder and model."""
        names = f"embedder={self._embedder.name!r}, model={self._runtime.model_name!r}"
        return f"<AgenticMemory at {self._runtime.store.where!r}: {names}>"

    def __enter__(self) -> Self:
        """Return the memory itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the memory."""
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """Return the memory itself: frameworks copy their state, and there is only one store."""
        return self

    def _connect(
        self, store: Store, embedder: Embedder, model: ChatModel, config: MemoryConfig
    ) -> None:
        """Set up the runtime of each form, and finish what a killed process has left."""
        self._embedder, self._model = embedder, model
        name = str(getattr(model, "name", type(model).__name__))
        limits = () if name == runtime.RULES else (config.daily_calls, config.daily_tokens)
        self._runtime = Runtime(
            store=store,
            embedder=cast("Embedder", Blocking(embedder)),
            model=cast("ChatModel", Blocking(model)),
            model_name=name,
            config=config,
            usage=runtime.Usage(name),
            map=runtime.map_in_threads,
            budget=Budget(*limits),
        )
        # An embedded store answers in well under a millisecond and holds the GIL meanwhile: a thread
        # would only add to that. A remote one is waited for.
        self._async_runtime = replace(
            self._runtime,
            store=cast("Store", Awaiting(store)) if store.remote else store,
            embedder=cast("Embedder", Awaiting(embedder)),
            model=cast("ChatModel", Awaiting(model)),
            map=runtime.map_in_tasks,
            pause=asyncio.sleep,
        )
        self._runtime.clock.start_above(store.last_seq())
        self._resumed = run(flows.writing.resume_all(self._runtime))

    def _evolve_pending(self, namespace: Namespace | None) -> None:
        run(flows.worker.work(self._runtime, namespace=namespace, once=True))
