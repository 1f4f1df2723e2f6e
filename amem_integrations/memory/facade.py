"""`AgenticMemory`: what a program holds in its hands."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import Self

from .._sync import resolve, run
from ..config import MemoryConfig
from ..ports import ChatModel, Embedder, NoteStore
from .editing import EditingMethods
from .evolving import EvolvingMethods
from .history import HistoryMethods
from .opening import Place, open_embedder, open_model, open_store
from .portability import Portability
from .reading import ReadingMethods
from .writing import WritingMethods


class AgenticMemory(
    WritingMethods, EvolvingMethods, ReadingMethods, EditingMethods, HistoryMethods, Portability
):
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
            embedder: Encodes notes and queries; None takes all-MiniLM-L6-v2, if it is installed.
            config: How notes are made, linked and evolved.
            collection: Name of the collection, for several memories in one place.
            client_options: For a folder: `durability` ("interval", or "always" to survive power cuts). For
                a server: what `qdrant_client.QdrantClient` takes, such as `api_key` and `timeout`.

        Raises:
            StoreLockedError: Another process has the folder open.
            EmbedderMismatchError: The collection was made with another embedder.
            StoreUnavailableError: The server does not answer.
            MissingExtraError: No embedder was given and none is installed.
        """
        embedder = embedder if embedder is not None else open_embedder()
        store = open_store(location, embedder, collection, client_options)
        memory = cls(store, embedder, model, config)
        memory._place = Place(location, collection, client_options)
        return memory

    def __init__(
        self,
        store: NoteStore,
        embedder: Embedder,
        model: ChatModel | None = None,
        config: MemoryConfig | None = None,
    ) -> None:
        """Take ready ports; see `open` for the usual way."""
        self._on_close = []
        self._connect(store, embedder, open_model(model), config or MemoryConfig())

    def on_close(self, callback: Callable[[], object]) -> None:
        """Have `callback` called before the store is let go, such as to stop a background worker."""
        self._on_close.append(callback)

    def close(self) -> None:
        """Write everything to disk and let go of the store; calling it again does nothing."""
        while self._on_close:
            self._on_close.pop()()
        run(resolve(self._store.close()))

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
