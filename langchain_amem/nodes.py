"""`recall_node`, `remember_node`, `evolve_node`: the memory as steps of your own LangGraph.

::

    START → recall → answer (yours) → remember → evolve → END

`recall` reads before the answer; `remember` stores what was said, raw and fast; `evolve` constructs, links
and evolves it, after the answer has been given. Each factory returns a runnable for
`StateGraph.add_node` that works under `invoke` and `ainvoke` alike.
https://docs.langchain.com/oss/python/langgraph/graph-api#nodes
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.config import get_stream_writer
from typing_extensions import TypedDict, Unpack

from amem_integrations import AgenticMemory, EvolutionReport, adapting
from amem_integrations.adapting import Call

from .messages import ShouldStore, is_spoken
from .record import Entry, Record, Saved, merged
from .run import ByRun, Door, Failures, NamespaceOf, Run, Turns, current_run

State = Any  # a mapping, a dataclass or a pydantic model: whatever the graph was built with
Update = dict[str, Any]
Node = Runnable[State, Update]


def _newest(_left: list[str], right: list[str]) -> list[str]:
    return right


class MemoryState(TypedDict, total=False):
    """The keys that the nodes write by default; inherit from it beside your own state.

    `memories` is text for a prompt ("" if nothing is known); `remembered` the ids of the notes of this turn (of nodes
    that remember at the same time, those of one); `evolution` what the last evolution did
    (`EvolutionReport.to_dict()`); `memory_turn` says, by run and namespace, which messages belong to it and, by a digest,
    who began it. Nodes of two memories, such as a user's and a team's, may remember in one graph, in any order; two
    that recall need an `output_key` each.
    """

    memories: str
    remembered: Annotated[list[str], _newest]
    evolution: dict[str, Any]
    memory_turn: Annotated[Saved, merged]


def recall_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    also: Mapping[str, NamespaceOf] | None = None,
    messages_key: str = "messages",
    output_key: str = "memories",
    turn_key: str = "memory_turn",
    on_error: adapting.OnError = "log",
    **recall: Unpack[adapting.RecallOptions],
) -> Node:
    """Return a node that recalls notes for the last human message, as text under `output_key`.

    The text is a marked block of data for a prompt, or "" if nothing is known. No chat model is called.
    What the messages of the conversation say themselves is left out. The node also notes who began the run, without
    which `remember_node` knows only who has resumed it.

    Args:
        memory: The memory to search.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        also: Further namespaces to read, as in `AMemMiddleware`.
        messages_key: Where the state keeps its messages.
        output_key: Where the text goes.
        turn_key: Where it is noted what this run was asked.
        on_error: `"log"` recalls nothing when the memory fails, and by words alone without its embedder.
        recall: `k` (how many notes to consider), `max_tokens`, `where` (also a function of the run),
            `min_similarity`, `links`, `as_of`, `known_at`, `window`: see `AgenticMemory.recall_turn`.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: In a run that does not say whose memory it is.
    """
    turns = Turns(memory, namespace, also=also, recall=recall, failures=Failures(on_error))

    async def step(call: Call, state: State, run: Run) -> Update:
        record = _record(state, messages_key, turn_key)
        mine = turns.entry(run, _name("recall", run))
        found = await turns.recalled(call, record.said, run, mine.namespace)
        report("recall", notes=[hit.note.id for hit in found.hits])
        return {output_key: found.text, turn_key: record.saved([turns.begun(record, run, mine)])}

    return node("recall", step)


def remember_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    evolve: bool = False,
    metadata: ByRun = None,
    should_store: ShouldStore = is_spoken,
    remember_unanswered: bool = True,
    messages_key: str = "messages",
    output_key: str = "remembered",
    turn_key: str = "memory_turn",
    on_error: adapting.OnError = "log",
) -> Node:
    """Return a node that stores this turn of the conversation; the ids of its notes go to `output_key`.

    The notes are raw (`pending`) and can be found at once; no model is called. Running it again stores nothing. What
    was said to somebody else in the same thread is not stored; what an earlier run could not store is.

    Args:
        memory: The memory to write to.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        evolve: Whether the memory then evolves the notes in the background; False leaves that to `evolve_node`, or to
            `build_evolution_graph`.
        metadata: Yours, for each note, to filter on: a dict, or a function of the run.
        should_store: Says of each message whether it is stored; by default questions and answers are.
        remember_unanswered: Whether what was said in a run that failed is stored with the next one.
        messages_key: Where the state keeps its messages.
        output_key: Where the ids go.
        turn_key: Where it is noted what has been stored.
        on_error: `"log"` goes on when the memory, or a function given here, fails.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: In a run that does not say whose memory it is.
    """
    turns = Turns(
        memory,
        namespace,
        evolve=evolve,
        metadata=metadata,
        should_store=should_store,
        unanswered=remember_unanswered,
        failures=Failures(on_error),
    )

    async def step(call: Call, state: State, run: Run) -> Update:
        record, over = _record(state, messages_key, turn_key), list[Entry]()
        mine = turns.entry(run, _name("remember", run))
        left, said = record.due(mine, unanswered=remember_unanswered)
        # The notes that a node has just remembered of this turn stand there already.
        is_another = any(one.run == said[0].run and one.state != "begun" for one in record.latest)
        ids = list(_value(state, output_key, ())) if is_another else []
        for one in (*left, *said):
            notes = await turns.store(call, record, run, one.namespace, range(one.start, one.seen))
            ids += [note.id for note in notes or () if one in said]
            turns.evolve_later(one.namespace)
            over.append(replace(one, state="left" if notes is None else "stored"))
        report("remember", notes=ids)
        return {output_key: ids, turn_key: record.saved(over)}

    return node("remember", step)


def evolve_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    limit: int = adapting.LEFT_OVERS,
    remembered_key: str = "remembered",
    output_key: str = "evolution",
    on_error: adapting.OnError = "log",
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
    adapting.check_counts(least=0, limit=limit)
    door = Door(memory, namespace, failures=Failures(on_error))

    async def step(call: Call, state: State, run: Run) -> Update:
        ids, space = _value(state, remembered_key, ()), door.space(run)
        with door.failures.tolerated("evolve") as reasons:
            done = await call(memory.evolve_turn, namespace=space, ids=ids, left_overs=limit)
        if reasons:
            done = EvolutionReport(interrupted="; ".join(reasons))
        report("evolve", **done.to_dict())
        return {output_key: done.to_dict()}

    return node("evolve", step)


def node(name: str, flow: Callable[[Call, State, Run], Awaitable[Update]]) -> Node:
    """Return a node that works under `invoke` and `ainvoke` alike."""

    async def step(_: None, call: Call, /, state: State, config: RunnableConfig) -> Update:
        return await flow(call, state, current_run(state, config))

    run, arun = adapting.both(step)
    return RunnableLambda(partial(run, None), partial(arun, None), name=name)


def report(step: str, **what: Any) -> None:
    """Send `{"amem": step, …}` to those who read the stream in the mode `custom`."""
    try:
        get_stream_writer()({"amem": step, **what})
    except (RuntimeError, KeyError):
        return


def _name(kind: str, run: Run) -> str:
    """Return the name of the node that has the run; outside a graph its kind."""
    return str(run.config.get("metadata", {}).get("langgraph_node", kind))


def _record(state: State, messages_key: str, turn_key: str) -> Record:
    messages = convert_to_messages(_value(state, messages_key, []))
    return Record(messages, _value(state, turn_key, {}))


def _value(state: State, key: str, default: Any) -> Any:
    """Return a value of the state, or the default if there is none."""
    found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    return found or default
