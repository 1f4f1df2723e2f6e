"""`AMemMiddleware`: long-term memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired, get_args
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.runtime import Runtime
from typing_extensions import Unpack

from amem_integrations import AgenticMemory, ConfigurationError, adapting
from amem_integrations.adapting import Call

from .messages import ShouldStore, is_spoken, with_final_answer
from .record import Entry, Record, Saved, merged
from .run import ByRun, Failures, Namespace, NamespaceOf, Run, Turns, current_run
from .tools import Kind, memory_tools

Inject = Literal["system", "message"]


class Token(str):  # noqa: SLOT000 - its attributes are optional
    """The name of a run in the state, by which this process alone knows what the run has recalled and stored.

    Attributes:
        notes: The recalled notes as text; None: nothing was recalled yet.
        stored: The messages that were stored when the model was called, by their marks.
    """

    notes: str | None = None
    stored: frozenset[str | None] = frozenset()


def _merged(left: dict[str, Saved], right: dict[str, Saved]) -> dict[str, Saved]:
    return {**left, **{name: merged(left.get(name, {}), one) for name, one in right.items()}}


class AMemState(AgentState[Any]):
    """The part of the agent's state that the middleware keeps, by its name: JSON without any text of a note or message."""

    amem: NotRequired[Annotated[dict[str, Saved], PrivateStateAttr, _merged]]
    amem_run: NotRequired[Annotated[dict[str, Token], UntrackedValue, PrivateStateAttr]]


class AMemMiddleware(AgentMiddleware[Any, Any, Any]):  # Any: lists of middleware are invariant
    """Recalls notes before an agent answers, and remembers the turn.

    At the first call of the model in a run, notes are recalled for what was asked; the model is shown them at each
    call, and the history stays as it is. What people said is stored then too, as that call shows it: what another
    middleware redacts is stored redacted, and what it adds for the model alone is not stored. The answer is stored when
    the run ends. Notes are raw at first; a thread of the memory constructs, links and evolves them afterwards
    (`memory.flush` waits for it). A message is known by its id, so none is stored twice.

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
        tools: Kinds of `memory_tools` that the agent gets as well, for the same namespace: `("search", "remember")`. A
            search by the agent has the options of `recall`, such as `where`, too.
        metadata: Yours, for each note, to filter on: a dict, or a function of the run.
        should_store: Says of each message whether it is stored.
        remember_unanswered: Whether what was said in a run that another middleware ended before the model was called is
            stored; with the next run at the latest.
        on_error: `"log"` lets the agent work without memory when the memory, or a function given here, fails.
        name: Two of these in one agent need two names.
        recall: `k`, `max_tokens`, `where` (also a function of the run), `min_similarity`, `links`, `as_of`, `known_at`,
            `window`: see `AgenticMemory.recall_turn`.

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
        remember: bool = True,
        evolve: bool = True,
        tools: Sequence[Kind] = (),
        metadata: ByRun = None,
        should_store: ShouldStore = is_spoken,
        remember_unanswered: bool = True,
        on_error: adapting.OnError = "log",
        name: str = "AMemMiddleware",
        **recall: Unpack[adapting.RecallOptions],
    ) -> None:
        """Set up; nothing is read or written yet."""
        super().__init__()
        if inject not in get_args(Inject):
            raise ConfigurationError(f"inject={inject!r} must be one of {get_args(Inject)}")
        adapting.check_flags(remember=remember)
        self._name, self._inject, self._remember = name, inject, remember
        self._turns = Turns(
            memory,
            namespace,
            also=also,
            recall=recall,
            evolve=evolve,
            should_store=should_store,
            metadata=metadata,
            unanswered=remember_unanswered,
            failures=Failures(on_error),
        )
        door: dict[str, Any] = {"namespace": namespace, "also": also, "evolve": evolve}
        searched = adapting.SearchOptions.__annotations__
        door |= {name: value for name, value in recall.items() if name in searched}
        self.tools = memory_tools(memory, kinds=tools, on_error=on_error, **door)

    @property
    def name(self) -> str:
        """The name given; an agent takes no two middlewares of one name."""
        return self._name

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not work so far, by what it was doing."""
        return self._turns.failures.snapshot()

    def before_agent(self, state: AMemState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Settle whose run it is, and which messages belong to it."""
        record, run = self._record(state, state["messages"]), current_run(state)
        begun = self._turns.begun(record, run, self._turns.entry(run, self._name))
        tokens = {**state.get("amem_run", {}), self._name: Token(uuid4())}
        return {"amem": {self._name: record.saved([begun])}, "amem_run": tokens}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Store the words of people, and show the notes to the model."""
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
        state: Any = request.state
        given: list[Any] = convert_to_messages(request.messages)  # another middleware may add dicts
        request = request.override(messages=given)
        record, run = self._record(state, _said(given, state["messages"])), current_run(state)
        token = state.get("amem_run", {}).get(self._name, Token())  # none: the run was resumed
        (left, said), is_first = self._due(record, run), token.notes is None
        if token.notes is None:
            found = await self._turns.recalled(call, record.said, run, said[-1].namespace)
            token.notes = found.text
        shown = defaultdict[Namespace, set[int]](set)
        for one in (*left, *said) if self._remember else ():
            places = range(one.start, one.seen)
            shown[one.namespace] |= {n for n in places if one in left or n in record.people}
        for space, some in shown.items():
            new = {n for n in some if record.marks[n + 1] not in token.stored}
            # Also where nothing is new, a message of an earlier turn may have been edited.
            if new or is_first:
                await self._turns.store(call, record, run, space, new, complete=False)
            token.stored |= {record.marks[n + 1] for n in new}
        return self._with_notes(request, token.notes)

    _prepare, _aprepare = adapting.both(_prepared)

    async def _after_agent(
        self, call: Call, state: AMemState, runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Store the answer, and have the turn evolve; a run that was not stored stays open, for the next one."""
        messages = with_final_answer(state["messages"], state.get("structured_response"))
        record, run = self._record(state, messages), current_run(state)
        token, (left, said) = state.get("amem_run", {}).get(self._name), self._due(record, run)
        # Another middleware may end a run before the model is called, or before this one has noted the run.
        is_noted = any(one.state == "begun" for one in record.latest)
        blocked = not is_noted or (token is not None and token.notes is None)
        remembers = self._remember and (self._turns.unanswered or not blocked)
        asked, is_stored = [] if blocked else record.people, True
        for one in said if remembers else ():
            some = set(range(one.start, one.seen)).difference(asked)
            notes = await self._turns.store(call, record, run, one.namespace, some, looks=False)
            self._turns.evolve_later(one.namespace)
            is_stored &= notes is not None
        # Messages that an earlier run left are stored as a model is shown them.
        over = said if remembers and blocked else [*left, *said]
        ended = [replace(one, state="stored" if is_stored else "left") for one in over]
        return {"amem": {self._name: self._record(state, state["messages"]).saved(ended)}}

    after_agent, aafter_agent = adapting.both(_after_agent)

    def _record(self, state: Any, messages: Sequence[BaseMessage]) -> Record:
        return Record(messages, state.get("amem", {}).get(self._name))

    def _due(self, record: Record, run: Run) -> tuple[list[Entry], list[Entry]]:
        """Return the entries that are due; until somebody adds something, a run is of whoever began it, also when it is resumed."""
        begun = (one for one in record.latest if one.state == "begun")
        own = next((one for one in begun if not record.words(one.seen or record.end)), None)
        mine = own or self._turns.entry(run, self._name)
        return record.due(mine, unanswered=self._turns.unanswered)

    def _with_notes(self, request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
        """Return the request with the notes recalled, or as it is if there are none."""
        if not text:
            return request
        if self._inject == "message":
            messages = list(request.messages)
            people = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
            messages.insert(people[-1] if people else 0, HumanMessage(text))
            return request.override(messages=messages)
        system = request.system_message or SystemMessage("")
        content: Any = f"{system.content}\n\n{text}".strip()
        if not isinstance(system.content, str):
            content = [*system.content, {"type": "text", "text": text}]
        return request.override(system_message=system.model_copy(update={"content": content}))


def _said(shown: list[BaseMessage], messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a conversation as a call shows them, without additions of another middleware for the model."""
    known, ids = {one.id: one for one in messages}, {one.id for one in shown}
    people = [one.id for one in messages if isinstance(one, HumanMessage)]
    if not ids.issuperset(people[-1:]):  # what is redacted may have lost its id
        return shown
    said = [(known[one.id], one) for one in shown if one.id in known]
    return [given if given.text in one.text else one for given, one in said]
