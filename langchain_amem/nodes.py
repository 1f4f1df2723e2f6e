"""`recall_node`, `remember_node`, `evolve_node`: the memory as steps of your own LangGraph.

::

    START → recall → answer (yours) → remember → evolve → END

`recall` reads before the answer; `remember` stores what was said, raw and fast; `evolve` constructs, links
and evolves what is pending, after the answer has been given. Each factory returns a runnable for
`StateGraph.add_node` that works under `invoke` and `ainvoke` alike.
https://docs.langchain.com/oss/python/langgraph/graph-api#nodes
"""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from typing_extensions import TypedDict

from amem_integrations import AgenticMemory, EvolutionReport

from ._failures import Failures, OnError
from ._graphs import State, as_json, run_of, tell
from ._messages import ShouldStore, said
from ._recall import Recall
from ._remember import Remember
from ._run import NamespaceOf, checked_source, namespace_of
from ._steps import Keys, RecallStep, RememberStep

Node = Runnable[State, dict[str, Any]]


class MemoryState(TypedDict, total=False):
    """The keys that the nodes write by default; inherit from it beside your own state.

    `memories` is text for a prompt ("" if nothing is known); `remembered` the ids of the notes of this
    turn; `evolution` what the last evolution did (`EvolutionReport.to_dict()`); `memory_turn` where the
    nodes note which messages belong to the run, and for whom.
    """

    memories: str
    remembered: list[str]
    evolution: dict[str, Any]
    memory_turn: dict[str, Any]


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
        NamespaceError: In a run that does not say whose memory it is.
    """
    step = RecallStep(
        recall=Recall(memory=memory, k=k, max_tokens=max_tokens),
        namespace=checked_source(namespace),
        keys=Keys(messages=messages_key, output=output_key, turn=turn_key),
        failures=Failures(on_error),
    )
    return RunnableLambda(step.run, step.arun, name="recall")


def remember_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    should_store: ShouldStore = said,
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
        messages_key: Where the state keeps its messages.
        output_key: Where the ids go.
        turn_key: Where it is noted what has been stored.
        on_error: `"log"` goes on when the store does not answer.

    Raises:
        NamespaceError: In a run that does not say whose memory it is.
    """
    step = RememberStep(
        remember=Remember(memory=memory, failures=Failures(on_error), should_store=should_store),
        namespace=checked_source(namespace),
        keys=Keys(messages=messages_key, output=output_key, turn=turn_key),
    )
    return RunnableLambda(step.run, step.arun, name="remember")


def evolve_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    limit: int | None = None,
    output_key: str = "evolution",
    on_error: OnError = "log",
) -> Node:
    """Return a node that constructs, links and evolves what is pending; a report goes to `output_key`.

    Put it after the answer: this is where models are called. For a step each, a human review, or resuming
    in the middle, use `build_evolution_graph`.

    Args:
        memory: The memory to work on.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        limit: Most notes to work on in one run.
        output_key: Where the report goes (`EvolutionReport.to_dict()`).
        on_error: `"log"` goes on when the store or a model does not answer; the notes stay pending.

    Raises:
        NamespaceError: In a run that does not say whose memory it is.
    """
    whose, failures = checked_source(namespace), Failures(on_error)

    def done(report: EvolutionReport) -> dict[str, Any]:
        plain = as_json(report.to_dict())
        tell("evolve", **plain)
        return {output_key: plain}

    def node(state: State, config: RunnableConfig) -> dict[str, Any]:
        space = namespace_of(whose, run_of(state, config))
        with failures.tolerated("evolve") as reasons:
            return done(memory.evolve(namespace=space, limit=limit))
        return done(EvolutionReport(interrupted="; ".join(reasons)))

    async def anode(state: State, config: RunnableConfig) -> dict[str, Any]:
        space = namespace_of(whose, run_of(state, config))
        with failures.tolerated("evolve") as reasons:
            return done(await memory.aevolve(namespace=space, limit=limit))
        return done(EvolutionReport(interrupted="; ".join(reasons)))

    return RunnableLambda(node, anode, name="evolve")
