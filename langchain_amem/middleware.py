"""`AMemMiddleware`: long-term memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from amem_integrations import AgenticMemory, ConfigurationError, MissingExtraError, render_notes

from ._agent_state import AMemState, entry_of
from ._failures import Failures, OnError
from ._graphs import run_now
from ._inject import Inject, with_memories
from ._messages import ShouldStore, said
from ._recall import Recall
from ._remember import Remember
from ._run import NamespaceOf, checked_source, namespace_of
from ._turns import Entry, begin, spoken
from ._worker import worker

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        ModelRequest,
        ModelResponse,
    )
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingExtraError("langchain", "langchain") from error

Write = Literal["inline", "background", "off"]
INLINE = 64  # most notes to evolve before a run returns: a long past is not worked off there


class AMemMiddleware(AgentMiddleware[AMemState, Any, Any]):
    """Recalls notes before an agent answers, and remembers the turn when it has.

    Notes are recalled once a run, for what was asked, and shown to the model at each call; the history stays
    as it is. When the run ends its new messages are stored, raw, then constructed, linked and evolved. A
    message is known by its id, so none is stored twice. A run that fails is stored with the next one.

    Put it last in `middleware`: what rewrites the system message after it would erase the notes.
    https://docs.langchain.com/oss/python/langchain/middleware/custom
    """

    state_schema = AMemState

    def __init__(
        self,
        memory: AgenticMemory,
        *,
        namespace: NamespaceOf,
        k: int = 10,
        max_tokens: int = 1000,
        inject: Inject = "system",
        write: Write = "inline",
        should_store: ShouldStore = said,
        on_error: OnError = "log",
        name: str = "AMemMiddleware",
    ) -> None:
        """Set up; with `write="background"` what an earlier process left pending is taken up.

        Args:
            memory: The memory to use.
            namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`),
                such as `lambda run: (run.context.user_id,)`. A run without it is an error.
            k: Most notes to recall, in about `max_tokens`.
            max_tokens: See there.
            inject: Where notes are shown: at the end of the system message, or (`"message"`) in one before
                the last human message, which leaves a cached system prompt as it is.
            write: When notes evolve: before the run returns, or in a thread of its own (they are stored
                before it returns all the same); `"off"` stores nothing.
            should_store: Says of each message whether it is stored.
            on_error: `"log"` lets the agent work without memory when that does not answer.
            name: Two of these in one agent need two names.

        Raises:
            ConfigurationError: `inject` or `write` is unknown.
            NamespaceError: The namespace is malformed.
        """
        super().__init__()
        if inject not in ("system", "message") or write not in ("inline", "background", "off"):
            raise ConfigurationError(f"inject={inject!r} or write={write!r} is unknown")
        self.tools = []
        self._name, self._inject, self._write = name, inject, write
        self._memory, self._max_tokens = memory, max_tokens
        self._namespace = checked_source(namespace)
        self._failures = Failures(on_error)
        self._recall = Recall(memory=memory, k=k, max_tokens=max_tokens)
        self._remember = Remember(memory=memory, failures=self._failures, should_store=should_store)
        self._worker = worker(memory, self._failures)
        if write == "background":
            self._worker.submit(None)

    @property
    def name(self) -> str:
        """The name given; an agent takes no two middlewares of one name."""
        return self._name

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not answer so far, by what it was doing."""
        return self._failures.snapshot()

    def before_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Recall notes for what is asked."""
        entry, left = self._begin(state, runtime)
        with self._failures.tolerated("recall"):
            hits = self._recall.find(state["messages"], tuple(entry["namespace"]))
            entry["recalled"] = render_notes(hits, max_tokens=self._max_tokens)
        if left:
            self._remember.store(left, **_whose(entry_of(state, self._name)))
        return {"amem": {self._name: entry}}

    async def abefore_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Asynchronous twin of `before_agent`."""
        entry, left = self._begin(state, runtime)
        with self._failures.tolerated("recall"):
            hits = await self._recall.afind(state["messages"], tuple(entry["namespace"]))
            entry["recalled"] = render_notes(hits, max_tokens=self._max_tokens)
        if left:
            await self._remember.astore(left, **_whose(entry_of(state, self._name)))
        return {"amem": {self._name: entry}}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Show the notes to the model."""
        return handler(with_memories(request, self._name, self._inject))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Asynchronous twin of `wrap_model_call`."""
        return await handler(with_memories(request, self._name, self._inject))

    def after_agent(
        self,
        state: AMemState,
        runtime: Runtime[Any],  # noqa: ARG002 - LangChain passes it by name
    ) -> dict[str, Any] | None:
        """Store what was said, then evolve or have it evolved."""
        entry, new = self._spoken(state)
        if not new:
            return None
        if self._remember.store(new, **_whose(entry)) is not None:
            entry = {**entry, "cursor": state["messages"][-1].id, "asked": []}
        if self._write == "background":
            self._worker.submit(tuple(entry["namespace"]))
        else:
            with self._failures.tolerated("evolve"):
                self._memory.evolve(namespace=entry["namespace"], limit=INLINE)
        return {"amem": {self._name: {**entry, "recalled": ""}}}

    async def aafter_agent(
        self,
        state: AMemState,
        runtime: Runtime[Any],  # noqa: ARG002 - LangChain passes it by name
    ) -> dict[str, Any] | None:
        """Asynchronous twin of `after_agent`."""
        entry, new = self._spoken(state)
        if not new:
            return None
        if await self._remember.astore(new, **_whose(entry)) is not None:
            entry = {**entry, "cursor": state["messages"][-1].id, "asked": []}
        if self._write == "background":
            self._worker.submit(tuple(entry["namespace"]))
        else:
            with self._failures.tolerated("evolve"):
                await self._memory.aevolve(namespace=entry["namespace"], limit=INLINE)
        return {"amem": {self._name: {**entry, "recalled": ""}}}

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to evolve in the background; return False on a time-out."""
        return self._worker.flush(timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Finish what is left in the background and take nothing more; the memory stays open."""
        return self._worker.close(timeout)

    def _begin(self, state: AMemState, runtime: Runtime[Any]) -> tuple[Entry, list[BaseMessage]]:
        namespace = namespace_of(self._namespace, run_now(state, runtime.context))
        entry, left = begin(state["messages"], entry_of(state, self._name), namespace)
        return entry, [] if self._write == "off" else left

    def _spoken(self, state: AMemState) -> tuple[Entry, list[BaseMessage]]:
        # The namespace is the one the run began with, also when it is resumed with another context.
        entry = entry_of(state, self._name)
        return entry, [] if self._write == "off" else spoken(state["messages"], entry)


def _whose(entry: Entry) -> dict[str, Any]:
    return {"namespace": tuple(entry["namespace"]), "thread": run_now(None, None).thread}
