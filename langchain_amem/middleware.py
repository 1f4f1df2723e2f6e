"""`AMemMiddleware`: long-term memory for an agent made by `create_agent`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from langchain_core.messages import HumanMessage, SystemMessage
from typing_extensions import Unpack

from amem_integrations import (
    AgenticMemory,
    AmemError,
    ConfigurationError,
    MissingExtraError,
    NamespaceError,
)
from amem_integrations.adapting import (
    PASSING,
    RECALLED,
    Background,
    Call,
    OnError,
    RecallKeywords,
    RecallOptions,
    both,
    evolve_turn,
)

from .messages import ShouldStore, is_spoken
from .remember import Entry, Remember, begin, merged
from .retriever import Recall
from .runs import (
    Failures,
    Namespace,
    NamespaceOf,
    Run,
    checked_also,
    checked_source,
    namespace_of,
    run_now,
)

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingExtraError("langchain", "langchain") from error

log = logging.getLogger("langchain_amem")

Inject = Literal["system", "message"]
Write = Literal["inline", "background", "worker", "off"]
Entries = dict[str, Entry]

STEP = 8  # notes evolved at once in the background: closing waits for one step


class AMemState(AgentState[Any]):
    """What the middleware keeps in the agent's state: JSON, by its name, in no input or output."""

    amem: NotRequired[Annotated[Entries, PrivateStateAttr, merged]]


class AMemMiddleware(AgentMiddleware[Any, Any, Any]):  # Any: lists of middleware are invariant
    """Recalls notes before an agent answers, and remembers the turn when it has.

    Notes are recalled once a run, for what was asked, and shown to the model at each call; the history stays
    as it is. When the run ends its new messages are stored, raw; then they are constructed, linked and evolved,
    together with a few notes that earlier turns left unfinished. A message is known by its id, so none is
    stored twice. A run that fails is stored with the next one (`remember_unanswered`).

    Put it last in `middleware`: what rewrites the system message after it would erase the notes.
    https://docs.langchain.com/oss/python/langchain/middleware/custom

    Args:
        memory: The memory to use.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`),
            such as `lambda run: (run.context.user_id,)`. A run without it is an error.
        also: Further namespaces to read, each by the name that marks its notes in the prompt:
            `{"team": ("acme",)}`, or a function of the run. Nothing is ever written to them.
        inject: Where notes are shown: at the end of the system message, or (`"message"`) in one before
            the last human message, which leaves a cached system prompt as it is.
        write: When notes evolve: before the run returns, in a thread of its own, or by `amem worker`
            (they are stored before it returns all the same); `"off"` stores nothing.
        should_store: Says of each message whether it is stored.
        remember_unanswered: Whether what was said in a run that failed, or that another middleware
            blocked, is stored with the next run. Without it, a run that could not be stored is not
            stored later either.
        on_error: `"log"` lets the agent work without memory when that does not answer.
        name: Two of these in one agent need two names.
        recall: `k`, `max_tokens`, `where`, `min_similarity`, `links`, `as_of`: see `RecallOptions`.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: The namespace is malformed.
    """

    state_schema = AMemState

    def __init__(
        self,
        memory: AgenticMemory,
        *,
        namespace: NamespaceOf,
        also: Mapping[str, NamespaceOf] | None = None,
        inject: Inject = "system",
        write: Write = "inline",
        should_store: ShouldStore = is_spoken,
        remember_unanswered: bool = True,
        on_error: OnError = "log",
        name: str = "AMemMiddleware",
        **recall: Unpack[RecallKeywords],
    ) -> None:
        """Set up; with `write="background"` what an earlier process left unfinished is taken up."""
        super().__init__()
        if inject not in get_args(Inject) or write not in get_args(Write):
            raise ConfigurationError(
                f"inject={inject!r} must be one of {get_args(Inject)}, and write={write!r} of "
                f"{get_args(Write)}"
            )
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name={name!r} must be a text that is not empty")
        self.tools = []
        self._name, self._inject, self._write, self._memory = name, inject, write, memory
        self._namespace = checked_source(namespace)
        self._failures = Failures(on_error)
        recall.setdefault("k", RECALLED)
        self._recall = Recall(memory, RecallOptions(**recall), self._failures, checked_also(also))
        self._remember = Remember(
            memory=memory,
            failures=self._failures,
            should_store=should_store,
            unanswered=remember_unanswered,
        )
        self._background: Background[Namespace | None] = Background(self._evolve_step)
        if write == "background":
            memory.on_close(self._background.close, flush=self._background.flush)
            self._background.submit(None)

    @property
    def name(self) -> str:
        """The name given; an agent takes no two middlewares of one name."""
        return self._name

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not work so far, by what it was doing."""
        return self._failures.snapshot()

    async def _before_agent(
        self, call: Call, state: AMemState, runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Recall notes for what is asked."""
        run, messages = run_now(state, runtime.context), state["messages"]
        namespace = namespace_of(self._namespace, run)
        entry = begin(messages, _entry(state, self._name), namespace)
        hits = await self._recall.find(call, messages, namespace, run)
        text = await self._recall.text(call, hits, namespace, run)
        return self._update({**entry, "recalled": text})

    before_agent, abefore_agent = both(_before_agent)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the notes to the model."""
        return handler(self._with_notes(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Show the notes to the model; the asynchronous form."""
        return await handler(self._with_notes(request))

    async def _after_agent(
        self, call: Call, state: AMemState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Store what was said, then evolve it or have it evolved."""
        if self._write == "off":
            return None
        run = run_now(state, runtime.context)
        # Another middleware may end a run before this one has noted what it was asked.
        entry = {"asked": {}, **_entry(state, self._name)}
        stored, after = await self._remember.turn(
            call, state["messages"], entry, self._whose(run, entry), run.thread
        )
        for namespace, ids in stored.items():
            if self._write == "background":
                self._background.submit(namespace)
            elif self._write == "inline":
                await self._evolve(call, namespace, ids)
        return self._update({**after, "recalled": ""})

    async def _evolve(self, call: Call, namespace: Namespace, ids: Sequence[str]) -> None:
        with self._failures.tolerated("evolve", answered=True):
            await evolve_turn(call, self._memory, namespace, ids)

    after_agent, aafter_agent = both(_after_agent)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to evolve in the background; return False on a time-out.

        Raises:
            AmemError: What waiting would not mend, such as a wrong key.
        """
        return self._background.flush(timeout)

    def close(self, timeout: float | None = 1.0) -> bool:
        """Stop the work in the background; the memory stays open, and unfinished notes wait.

        Returns whether the step under way has ended within `timeout` seconds. Closing the memory stops it too.
        """
        return self._background.close(timeout)

    def _update(self, entry: Entry) -> dict[str, Any]:
        return {"amem": {self._name: entry}}

    def _whose(self, run: Run, entry: Mapping[str, Any]) -> Namespace:
        """Return whose run ends here; if it was resumed without saying so, whose it was when it began."""
        try:
            return namespace_of(self._namespace, run)
        except NamespaceError:
            if "namespace" not in entry:
                raise
            return tuple(entry["namespace"])

    def _evolve_step(self, namespace: Namespace | None) -> bool:
        """Evolve some of what is unfinished, and return whether there may be more."""
        with self._failures.tolerated("evolve"):
            try:
                report = self._memory.evolve(namespace=namespace, limit=STEP)
            except AmemError as error:
                if self._background.closed:
                    return False  # the memory is closed meanwhile; the next start goes on
                if not isinstance(error, PASSING):
                    self._failures.note("evolve", error)
                raise
            handled = len(report.done) + len(report.failed)
            return bool(report.done) and handled >= STEP and report.interrupted is None
        return False

    def _with_notes(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request with the notes recalled, or as it is if there are none."""
        text = str(_entry(request.state, self._name).get("recalled", ""))
        if not text:
            return request
        if self._inject == "system":
            return request.override(system_message=_extended(request.system_message, text))
        messages = list(request.messages)
        people = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
        messages.insert(people[-1] if people else 0, HumanMessage(text))
        return request.override(messages=messages)


def _entry(state: object, name: str) -> Entry:
    """Return what the middleware of this name keeps in the state."""
    entries = cast("Mapping[str, Any]", state).get("amem") or {}
    return cast("Entry", entries.get(name, {}))


def _extended(system: SystemMessage | None, text: str) -> SystemMessage:
    """Return the system message with the notes at its end; plain text stays plain text."""
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}".strip()})
    block = {"type": "text", "text": text}
    return system.model_copy(update={"content": [*system.content, block]})
