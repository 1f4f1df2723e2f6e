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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from typing_extensions import TypedDict

from amem_integrations import AgenticMemory, EvolutionReport, MissingExtraError
from amem_integrations.adapting import LEFT_OVERS, Call, OnError, both, evolve_turn

from .messages import Entry, ShouldStore, begin, checked_filter, is_spoken
from .recall import Recall
from .remember import Remember
from .runs import Failures, NamespaceOf, checked_source, namespace_of, report, run_of, source_name

try:
    import langgraph.runtime  # noqa: F401 - a node asks it for its run
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

State = Any  # a mapping, a dataclass or a pydantic model: whatever the graph was built with
Update = dict[str, Any]
Node = Runnable[State, Update]


def _newest(_left: list[str], right: list[str]) -> list[str]:
    return right


def _merged(left: dict[str, Entry] | None, right: dict[str, Entry] | None) -> dict[str, Entry]:
    return {**(left or {}), **(right or {})}


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
    memory_turn: Annotated[dict[str, Entry], _merged]


def recall_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    k: int = 10,
    max_tokens: int = 1000,
    messages_key: str = "messages",
    output_key: str = "memories",
    turn_key: str = "memory_turn",
    on_error: OnError = "log",
) -> Node:
    """Return a node that recalls notes for the last human message, as text under `output_key`.

    The text is a marked block of data for a prompt, or "" if nothing is known. No chat model is called.
    Notes made of the messages at the end of the conversation are left out.

    Args:
        memory: The memory to search.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        k: Most notes to recall.
        max_tokens: Most tokens of text, about.
        messages_key: Where the state keeps its messages.
        output_key: Where the text goes.
        turn_key: Where it is noted what this run was asked.
        on_error: `"log"` recalls nothing when the store or the embedder does not answer.

    Raises:
        ConfigurationError: `k` or `max_tokens` is no whole number of at least 1.
        NamespaceError: In a run that does not say whose memory it is.
    """
    recall = Recall(memory=memory, k=k, max_tokens=max_tokens, failures=Failures(on_error))
    step = RecallStep(
        recall=recall,
        namespace=checked_source(namespace),
        messages_key=messages_key,
        output_key=output_key,
        turn_key=turn_key,
    )
    return RunnableLambda(step.run, step.arun, name="recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallStep:
    """Recalls for what is asked, and notes what the run was asked and for whom."""

    recall: Recall
    namespace: NamespaceOf
    messages_key: str
    output_key: str
    turn_key: str

    async def _run(self, call: Call, state: State, config: RunnableConfig) -> Update:
        """Return the text recalled."""
        run, messages = run_of(state, config), _messages(state, self.messages_key)
        namespace = namespace_of(self.namespace, run)
        turns, mine = _value(state, self.turn_key) or {}, source_name(self.namespace)
        entry, _ = begin(messages, turns.get(mine, {}), namespace)
        hits = await self.recall.find(call, messages, namespace, run.thread)
        report("recall", notes=[hit.note.id for hit in hits])
        return {self.output_key: self.recall.text(hits), self.turn_key: {**turns, mine: entry}}

    run, arun = both(_run)


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

    The notes are raw (`pending`): no model is called, and they can be found at once. A message is known
    by its id, so running the node again stores nothing. What was said to somebody else in the same thread
    is not stored; what an earlier run could not store is, if the state has `turn_key`.

    Args:
        memory: The memory to write to.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        should_store: Says of each message whether it is stored; by default what people said and what
            the agent answered, without tool calls and their results.
        remember_unanswered: Whether what was said in a run that failed is stored with the next one.
        messages_key: Where the state keeps its messages.
        output_key: Where the ids go.
        turn_key: Where it is noted what has been stored.
        on_error: `"log"` goes on when the store does not answer.

    Raises:
        ConfigurationError: `should_store` is no plain function.
        NamespaceError: In a run that does not say whose memory it is.
    """
    remember = Remember(
        memory=memory,
        failures=Failures(on_error),
        should_store=checked_filter(should_store),
        unanswered=remember_unanswered,
    )
    step = RememberStep(
        remember=remember,
        namespace=checked_source(namespace),
        messages_key=messages_key,
        output_key=output_key,
        turn_key=turn_key,
    )
    return RunnableLambda(step.run, step.arun, name="remember")


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberStep:
    """Stores what the run was asked and what it answered, for whom it was asked."""

    remember: Remember
    namespace: NamespaceOf
    messages_key: str
    output_key: str
    turn_key: str

    async def _run(self, call: Call, state: State, config: RunnableConfig) -> Update:
        """Return the ids of the notes."""
        run, messages = run_of(state, config), _messages(state, self.messages_key)
        namespace = namespace_of(self.namespace, run)
        turns, mine = _value(state, self.turn_key) or {}, source_name(self.namespace)
        entry = turns.get(mine, {})
        stored, after = await self.remember.turn(call, messages, entry, namespace, run.thread)
        ids = [note_id for found in stored.values() for note_id in found]
        report("remember", notes=ids)
        return {self.output_key: ids, self.turn_key: {**turns, mine: after}}

    run, arun = both(_run)


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
        NamespaceError: In a run that does not say whose memory it is.
    """
    step = EvolveStep(
        memory=memory,
        namespace=checked_source(namespace),
        limit=limit,
        remembered_key=remembered_key,
        output_key=output_key,
        failures=Failures(on_error),
    )
    return RunnableLambda(step.run, step.arun, name="evolve")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolveStep:
    """Evolves what this turn remembered, and some of what earlier ones left."""

    memory: AgenticMemory
    namespace: NamespaceOf
    limit: int
    remembered_key: str
    output_key: str
    failures: Failures

    async def _run(self, call: Call, state: State, config: RunnableConfig) -> Update:
        """Return what was done."""
        namespace = namespace_of(self.namespace, run_of(state, config))
        ids = _value(state, self.remembered_key) or ()
        done = None
        with self.failures.tolerated("evolve", answered=True) as reasons:
            done = await evolve_turn(call, self.memory, namespace, ids, left_overs=self.limit)
        plain = as_json((done or EvolutionReport(interrupted="; ".join(reasons))).to_dict())
        report("evolve", **plain)
        return {self.output_key: plain}

    run, arun = both(_run)


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value with nothing but JSON types in it, as a checkpoint gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain


def _value(state: State, key: str) -> Any:  # noqa: ANN401 - the user's own type
    """Return a value of the state, or None if it is not there."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def _messages(state: State, key: str) -> list[BaseMessage]:
    """Return the messages of the state, whichever form LangChain allows they are in."""
    return convert_to_messages(_value(state, key) or [])
