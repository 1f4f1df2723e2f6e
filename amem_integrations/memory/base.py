"""The two forms of the engine behind the facade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from .._sync import Awaiting, blocking, map_in_tasks, map_in_threads, run
from ..config import MemoryConfig
from ..engine import Claims, Engine, recover
from ..errors import ConfigurationError
from ..ports import ChatModel, Embedder, NoteStore
from ..runtime import Runtime
from ..usage import Usage
from .opening import Place


class Base:
    """Holds the ports, and an engine over each of their forms."""

    _place: Place | None = None  # where it was opened, if it was
    _store: NoteStore
    _embedder: Embedder
    _model: ChatModel
    _usage: Usage
    _engine: Engine
    _async_engine: Engine

    _on_close: list[Callable[[], object]]

    def _connect(
        self, store: NoteStore, embedder: Embedder, model: ChatModel, config: MemoryConfig
    ) -> None:
        if not callable(getattr(model, "generate", None)):
            raise ConfigurationError(
                f"model={model!r} is no chat model; give one with a method `generate`, such as "
                "OpenAIChatModel('…'), or None to work without"
            )
        self._store, self._embedder, self._model = store, embedder, model
        claims = Claims()
        name = str(getattr(model, "name", type(model).__name__))
        self._usage = Usage(name)
        now = Runtime(
            store=store,
            embedder=blocking(embedder, "embed_documents", "embed_query"),
            model=blocking(model, "generate"),
            model_name=name,
            config=config,
            usage=self._usage,
            map=map_in_threads,
        )
        # An embedded store answers in well under a millisecond and holds the GIL meanwhile: a thread
        # would only add to that. A remote one is waited for.
        remote = getattr(store, "remote", True)
        later = replace(
            now,
            store=cast("NoteStore", Awaiting(store)) if remote else store,
            embedder=cast("Embedder", Awaiting(embedder)),
            model=cast("ChatModel", Awaiting(model)),
            map=map_in_tasks,
        )
        self._engine = Engine(now, claims)
        self._async_engine = Engine(later, claims)
        if steps := getattr(store, "interrupted", ()):
            run(recover(now, steps))

    @property
    def embedder(self) -> Embedder:
        """The embedder of notes and queries; a collection remembers its `name`."""
        return self._embedder

    @property
    def config(self) -> MemoryConfig:
        """How notes are made, linked and evolved."""
        return self._engine.runtime.config
