"""`recall_node`, `remember_node`, `evolve_node`: the memory as steps of your own LangGraph.

::

    START → recall → answer (yours) → remember → evolve → END

`recall` reads before the answer; `remember` stores what was said, raw and fast; `evolve` constructs, links
and evolves it, after the answer has been given. Each factory returns a runnable for
`StateGraph.add_node` that works under `invoke` and `ainvoke` alike.
https://docs.langchain.com/oss/python/langgraph/graph-api#nodes
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from typing_extensions import TypedDict, Unpack

from amem_integrations import AgenticMemory, EvolutionReport, MissingExtraError
from amem_integrations.adapting import (
    LEFT_OVERS,
    RECALLED,
    Call,
    OnError,
    RecallKeywords,
    RecallOptions,
    both,
    check_counts,
    evolve_turn,
)

from .messages import ShouldStore, is_spoken
from .remember import Entry, Remember, begin, merged
from .retriever import Recall
from .runs import (
    Failures,
    NamespaceOf,
    checked_also,
    checked_source,
    namespace_of,
    report,
    run_of,
    source_name,
)

try:
    import langgraph.runtime  # noqa: F401 - a node asks it for its run
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

State = Any  # a mapping, a dataclass or a pydantic model: whatever the graph was built with
Update = dict[str, Any]
Node = Runnable[State, Update]


def _newest(_left: list[str], right: list[str]) -> list[str]:
    return right


class MemoryState(TypedDict, total=False):
    """The keys that the nodes write by default; inherit from it beside your own state.

    `memories` is text for a prompt ("" if nothing is known); `remembered` the ids of the notes of this
    turn; `evolution` what the last evolution did (`EvolutionReport.to_dict()`); `memory_turn` where the
    nodes note which messages belong to the run, and for whom. Nodes of two memories, such as a user's and
    a team's, may remember in one graph; two that recall need an `output_key` each.
    """

    memories: str
    remembered: Annotated[list[str], _newest]
    evolution: dict[str, Any]
    memory_turn: Annotated[dict[str, Entry], merged]


def recall_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    also: Mapping[str, NamespaceOf] | None = None,
    messages_key: str = "messages",
    output_key: str = "memories",
    turn_key: str = "memory_turn",
    on_error: OnError = "log",
    **recall: Unpack[RecallKeywords],
) -> Node:
    """Return a node that recalls notes for the last human message, as text under `output_key`.

    The text is a marked block of data for a prompt, or "" if nothing is known. No chat model is called.
    Notes made of the messages at the end of the conversation are left out.

    Args:
        memory: The memory to search.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        also: Further namespaces to read, as in `AMemMiddleware`.
        messages_key: Where the state keeps its messages.
        output_key: Where the text goes.
        turn_key: Where it is noted what this run was asked.
        on_error: `"log"` recalls nothing when the store or the embedder does not answer.
        recall: `k` (how many notes to consider), `max_tokens`, `where`, `min_similarity`, `links`, `as_of`:
            see `RecallOptions`.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: In a run that does not say whose memory it is.
    """
    recall.setdefault("k", RECALLED)
    recalls = Recall(memory, RecallOptions(**recall), Failures(on_error), checked_also(also))
    whose = checked_source(namespace)

    async def step(call: Call, state: State, config: RunnableConfig) -> Update:
        turn = _Turn(whose, state, config, messages_key, turn_key)
        entry = begin(turn.messages, turn.entry, turn.namespace)
        hits = await recalls.find(call, turn.messages, turn.namespace, turn.run)
        report("recall", notes=[hit.note.id for hit in hits])
        text = await recalls.text(call, hits, turn.namespace, turn.run)
        return {output_key: text, turn_key: turn.entries_with(entry)}

    return _node("recall", step)


def remember_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    should_store: ShouldStore = is_spoken,
    remember_unanswered: bool = True,
    messages_key: str = "messages",
    output_key: str = "remembered",
    turn_key: str = "memory_turn",
    on_error: OnError = "log",
) -> Node:
    """Return a node that stores this turn of the conversation; the ids of its notes go to `output_key`.

    The notes are raw (`pending`) and can be found at once; no model is called. Running it again stores nothing. What
    was said to somebody else in the same thread is not stored; what an earlier run could not store is.

    Args:
        memory: The memory to write to.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        should_store: Says of each message whether it is stored; by default questions and answers are.
        remember_unanswered: Whether what was said in a run that failed is stored with the next one.
        messages_key: Where the state keeps its messages.
        output_key: Where the ids go.
        turn_key: Where it is noted what has been stored.
        on_error: `"log"` goes on when the store does not answer.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: In a run that does not say whose memory it is.
    """
    storing = Remember(
        memory=memory,
        failures=Failures(on_error),
        should_store=should_store,
        unanswered=remember_unanswered,
    )
    whose = checked_source(namespace)

    async def step(call: Call, state: State, config: RunnableConfig) -> Update:
        turn = _Turn(whose, state, config, messages_key, turn_key)
        ids, entries = await turn.remember(call, storing)
        return {output_key: ids, turn_key: entries}

    return _node("remember", step)


def evolve_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    limit: int = LEFT_OVERS,
    remembered_key: str = "remembered",
    output_key: str = "evolution",
    on_error: OnError = "log",
) -> Node:
    """Return a node that constructs, links and evolves this turn's notes; a report goes to `output_key`.

    Put it after the answer: this is where models are called. For a step each, a human review, or resuming
    in the middle, use `build_evolution_graph`.

    Args:
        memory: The memory to work on.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        limit: Most notes to finish beyond those of this turn: what earlier turns left unfinished.
        remembered_key: Where `remember_node` has put the ids of this turn's notes.
        output_key: Where the report goes (`EvolutionReport.to_dict()`).
        on_error: `"log"` goes on when the store or a model does not answer; the notes stay pending.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: In a run that does not say whose memory it is.
    """
    check_counts(least=0, limit=limit)
    whose, failures = checked_source(namespace), Failures(on_error)

    async def step(call: Call, state: State, config: RunnableConfig) -> Update:
        ids = _value(state, remembered_key) or ()
        done, space = EvolutionReport(), namespace_of(whose, run_of(state, config))
        with failures.tolerated("evolve", answered=True) as reasons:
            done = await evolve_turn(call, memory, space, ids, left_overs=limit)
        if reasons:
            done = EvolutionReport(interrupted="; ".join(reasons))
        plain = as_json(done.to_dict())
        report("evolve", **plain)
        return {output_key: plain}

    return _node("evolve", step)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a node does, called under `invoke` and `ainvoke` alike."""

    flow: Callable[[Call, State, RunnableConfig], Awaitable[Update]]

    async def _run(self, call: Call, state: State, config: RunnableConfig) -> Update:
        """Return what the node writes into the state."""
        return await self.flow(call, state, config)

    run, arun = both(_run)


def _node(name: str, flow: Callable[[Call, State, RunnableConfig], Awaitable[Update]]) -> Node:
    step = _Step(flow)
    return RunnableLambda(step.run, step.arun, name=name)


class _Turn:
    """What a node reads of a run: whose it is, its messages, and what was noted of it."""

    def __init__(
        self,
        whose: NamespaceOf,
        state: State,
        config: RunnableConfig,
        messages_key: str,
        turn_key: str,
    ) -> None:
        self.run = run_of(state, config)
        self.namespace = namespace_of(whose, self.run)
        self.messages = convert_to_messages(_value(state, messages_key) or [])
        self._name, self._entries = source_name(whose), _value(state, turn_key) or {}
        self.entry: Entry = self._entries.get(self._name, {})

    async def remember(self, call: Call, storing: Remember) -> tuple[list[str], dict[str, Entry]]:
        """Store what the run was asked and has answered; return the ids of the notes, and what to note of it."""
        thread = self.run.thread
        stored, after = await storing.turn(call, self.messages, self.entry, self.namespace, thread)
        ids = [note_id for found in stored.values() for note_id in found]
        report("remember", notes=ids)
        return ids, self.entries_with(after)

    def entries_with(self, entry: Entry) -> dict[str, Entry]:
        return {**self._entries, self._name: entry}


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value with nothing but JSON types in it, as a checkpoint gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain


def _value(state: State, key: str) -> Any:  # noqa: ANN401 - the user's own type
    """Return a value of the state, or None if it is not there."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
