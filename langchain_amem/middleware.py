"""`AMemMiddleware`: long-term memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, get_args
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from typing_extensions import Unpack

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MissingExtraError,
    NamespaceError,
)
from amem_integrations.adapting import (
    Call,
    OnError,
    RecallOptions,
    both,
    check_flags,
    checked_recall,
)

from .messages import (
    Entry,
    ShouldStore,
    began,
    checked_filter,
    ended,
    is_added_to,
    is_human,
    is_spoken,
    marks_of,
    place_after,
    seen_by,
    with_final_answer,
)
from .run import (
    Failures,
    Namespace,
    NamespaceOf,
    Run,
    checked_also,
    checked_source,
    current_run,
    namespace_of,
)
from .tools import Kind, memory_tools
from .turn import ByRun, Turns

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr
    from langgraph.channels.untracked_value import UntrackedValue
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingExtraError("langchain", "langchain") from error

Inject = Literal["system", "message"]

MOST_RUNS = 1000  # that are under way at once in this process


def merged(left: Mapping[str, Entry] | None, right: Mapping[str, Entry] | None) -> dict[str, Entry]:
    """Return the entries of two updates of a state; of one name the later."""
    return {**(left or {}), **(right or {})}


class AMemState(AgentState[Any]):
    """What the middleware keeps in the agent's state, by its name: JSON without any text of a note or message."""

    amem: NotRequired[Annotated[dict[str, Entry], PrivateStateAttr, merged]]
    amem_run: NotRequired[Annotated[dict[str, str], UntrackedValue, PrivateStateAttr]]


@dataclass(slots=True)
class _UnderWay:
    """What this process knows of a run: what was recalled, and the messages that are stored."""

    text: str | None = None
    stored: set[str] = field(default_factory=set)
    has_looked: bool = False


class AMemMiddleware(AgentMiddleware[Any, Any, Any]):  # Any: lists of middleware are invariant
    """Recalls notes before an agent answers, and remembers the turn.

    At the first call of the model in a run, notes are recalled for what was asked; the model is shown them at each
    call, and the history stays as it is. What people said is stored then too, as that call shows it: what another
    middleware redacts is stored redacted. The answer is stored when the run ends. Notes are raw at first; a thread of
    the memory constructs, links and evolves them afterwards (`memory.flush` waits for it). A message is known by its
    id, so none is stored twice.

    Put it last in `middleware`: what rewrites the system message after it would erase the notes.
    https://docs.langchain.com/oss/python/langchain/middleware/custom

    Args:
        memory: The memory to use.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`),
            such as `lambda run: (run.context.user_id,)`. A run without it is an error.
        also: Further namespaces to read, each by the name that marks its notes in the prompt:
            `{"team": ("acme",)}`, or a function of the run, which may return an empty one. Nothing is written to them.
        inject: Where notes are shown: at the end of the system message, or (`"message"`) in one before
            the last human message, which leaves a cached system prompt as it is.
        remember: False reads only.
        evolve: Whether the memory constructs, links and evolves what was said, in the background; False leaves that to
            `memory.evolve()` or `amem worker`.
        tools: Kinds of `memory_tools` that the agent gets as well, for the same namespace: `("search", "remember")`.
        metadata: Yours, for each note, to filter on: a dict, or a function of the run.
        should_store: Says of each message whether it is stored.
        remember_unanswered: Whether what was said in a run that another middleware ended before the model was called is
            stored; with the next run at the latest.
        on_error: `"log"` lets the agent work without memory when the memory, or a function given here, fails.
        name: Two of these in one agent need two names.
        recall: `k`, `max_tokens`, `where` (also a function of the run), `min_similarity`, `links`, `as_of`, `window`:
            see `AgenticMemory.recall_turn`.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: The namespace is malformed.
    """

    state_schema = AMemState

    def __init__(  # noqa: PLR0913 - options are keywords
        self,
        memory: AgenticMemory,
        *,
        namespace: NamespaceOf,
        also: Mapping[str, NamespaceOf] | None = None,
        inject: Inject = "system",
        remember: bool = True,
        evolve: bool = True,
        tools: Sequence[Kind] = (),
        metadata: ByRun = None,
        should_store: ShouldStore = is_spoken,
        remember_unanswered: bool = True,
        on_error: OnError = "log",
        name: str = "AMemMiddleware",
        **recall: Unpack[RecallOptions],
    ) -> None:
        """Set up; nothing is read or written yet."""
        super().__init__()
        if inject not in get_args(Inject):
            raise ConfigurationError(f"inject={inject!r} must be one of {get_args(Inject)}")
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name={name!r} must be a text that is not empty")
        check_flags(remember=remember, evolve=evolve, remember_unanswered=remember_unanswered)
        self._name, self._inject, self._memory = name, inject, memory
        self._remember, self._evolve, self._unanswered = remember, evolve, remember_unanswered
        self._namespace = checked_source(namespace)
        self._turns = Turns(
            memory=memory,
            failures=Failures(on_error),
            also=checked_also(also),
            recall=checked_recall(recall),
            should_store=checked_filter(should_store),
            metadata=metadata,
        )
        self._under_way: OrderedDict[str, _UnderWay] = OrderedDict()
        self.tools = memory_tools(
            memory, namespace=namespace, also=also, kinds=tools, evolve=evolve, on_error=on_error
        )

    @property
    def name(self) -> str:
        """The name given; an agent takes no two middlewares of one name."""
        return self._name

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not work so far, by what it was doing."""
        return self._turns.failures.snapshot()

    def before_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002 - LangChain's signature
        """Settle whose run it is, and which messages belong to it."""
        space = namespace_of(self._namespace, current_run(state))
        entry = began(
            state["messages"],
            state.get("amem") or {},
            self._name,
            space,
            unanswered=self._unanswered,
        )
        token = str(uuid4())
        self._under_way[token] = _UnderWay()
        while len(self._under_way) > MOST_RUNS:
            self._under_way.popitem(last=False)
        tokens = {**(state.get("amem_run") or {}), self._name: token}
        return {"amem": {self._name: entry}, "amem_run": tokens}

    async def abefore_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do what `before_agent` does."""
        return self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Store what people said, and show the notes to the model."""
        return handler(self._prepare(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do what `wrap_model_call` does."""
        return await handler(await self._aprepare(request))

    async def _prepared(self, call: Call, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request with the notes recalled; what people said is stored."""
        state, messages = request.state, request.messages
        entry, run = self._entry(state), current_run(state)
        known = self._known(state) or _UnderWay()
        if known.text is None:
            found = await self._turns.find(call, messages, run, self._whose(run, entry, messages))
            known.text = found.text
        if self._remember:
            await self._store_asked(call, messages, run, entry, known)
        return self._with_notes(request, known.text)

    _prepare, _aprepare = both(_prepared)

    async def _store_asked(
        self,
        call: Call,
        messages: Sequence[BaseMessage],
        run: Run,
        entry: Entry,
        known: _UnderWay,
    ) -> None:
        """Store what people said, for whom the run began; what was added since, for who added it."""
        # Also where nothing is new, a message of an earlier turn may have been edited.
        spaces: dict[Namespace, set[int]] = {}
        if not known.has_looked:
            spaces[self._whose(run, entry, messages)] = set()
        seen, marks = seen_by(messages, entry), marks_of(messages)
        for number in range(place_after(messages, entry), len(messages)):
            if is_human(messages[number]) and marks[number] not in known.stored:
                begun = number < seen and "seen" in entry
                space = tuple(entry["namespace"]) if begun else self._whose(run, entry, messages)
                spaces.setdefault(space, set()).add(number)
        for space, places in spaces.items():
            await self._turns.store(
                call,
                messages,
                run,
                space,
                wanted=places.__contains__,
                edited=lambda number: is_human(messages[number]),
                complete=False,
            )
            known.stored |= {marks[number] for number in places}
        known.has_looked = True

    async def _finish(self, call: Call, state: AMemState) -> dict[str, Any] | None:
        """Store the answer, and have the turn evolve."""
        entry, run, known = self._entry(state), current_run(state), self._known(state)
        messages = with_final_answer(state["messages"], state.get("structured_response"))
        self._under_way.pop((state.get("amem_run") or {}).get(self._name, ""), None)
        space = self._whose(run, entry, messages)
        # Another middleware may end a run before the model is called, or before this one has noted the run.
        blocked = "seen" not in entry or (known is not None and known.text is None)
        if self._remember and (self._unanswered or not blocked):
            start = place_after(messages, entry)
            await self._turns.store(
                call,
                messages,
                run,
                space,
                wanted=lambda n: n >= start and (blocked or not is_human(messages[n])),
                edited=lambda n: n < start and not is_human(messages[n]),
            )
            for each in {space, tuple(entry.get("namespace", space))} if self._evolve else ():
                self._memory.evolve_later(each)
        return {"amem": {self._name: ended(state["messages"], space)}}

    _end, _aend = both(_finish)

    def after_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - LangChain's signature
        """Store the answer, and have the turn evolve."""
        return self._end(state)

    async def aafter_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - LangChain's signature
        """Do what `after_agent` does."""
        return await self._aend(state)

    def _entry(self, state: Any) -> Entry:  # noqa: ANN401 - LangChain's type
        """Return what the middleware of this name keeps in the state."""
        entry: Entry = (state.get("amem") or {}).get(self._name, {})
        return entry

    def _known(self, state: Any) -> _UnderWay | None:  # noqa: ANN401 - LangChain's type
        """Return what this process knows of a run; None where the run was resumed."""
        return self._under_way.get((state.get("amem_run") or {}).get(self._name, ""))

    def _whose(self, run: Run, entry: Entry, messages: Sequence[BaseMessage]) -> Namespace:
        """Return for whom what follows is: for whom the run began, or for who has added to it since.

        Raises:
            NamespaceError: Nothing says whose it is.
        """
        if "seen" in entry and not is_added_to(messages, entry):
            return tuple(entry["namespace"])
        try:
            return namespace_of(self._namespace, run)
        except NamespaceError:
            if "seen" not in entry:
                raise
            return tuple(entry["namespace"])

    def _with_notes(self, request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
        """Return the request with the notes recalled, or as it is if there are none."""
        if not text:
            return request
        if self._inject == "system":
            return request.override(system_message=_extended(request.system_message, text))
        messages = list(request.messages)
        people = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
        messages.insert(people[-1] if people else 0, HumanMessage(text))
        return request.override(messages=messages)


def _extended(system: SystemMessage | None, text: str) -> SystemMessage:
    """Return the system message with the notes at its end; plain text stays plain text."""
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}".strip()})
    block = {"type": "text", "text": text}
    return system.model_copy(update={"content": [*system.content, block]})
