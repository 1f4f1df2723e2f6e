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
    Call,
    OnError,
    RecallOptions,
    both,
    check_counts,
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
    place_after,
    seen_by,
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
    report,
)
from .turn import ByRun, Turns

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
    turn; `evolution` what the last evolution did (`EvolutionReport.to_dict()`); `memory_turn` which messages
    belong to the run, by the namespace whose it is. Nodes of two memories, such as a user's and
    a team's, may remember in one graph, in any order; two that recall need an `output_key` each.
    """

    memories: str
    remembered: Annotated[list[str], _newest]
    evolution: dict[str, Any]
    memory_turn: Annotated[dict[str, Entry], _merged]


def recall_node(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf,
    also: Mapping[str, NamespaceOf] | None = None,
    messages_key: str = "messages",
    output_key: str = "memories",
    turn_key: str = "memory_turn",
    on_error: OnError = "log",
    **recall: Unpack[RecallOptions],
) -> Node:
    """Return a node that recalls notes for the last human message, as text under `output_key`.

    The text is a marked block of data for a prompt, or "" if nothing is known. No chat model is called.
    What the messages of the conversation say themselves is left out.

    Args:
        memory: The memory to search.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`).
        also: Further namespaces to read, as in `AMemMiddleware`.
        messages_key: Where the state keeps its messages.
        output_key: Where the text goes.
        turn_key: Where it is noted what this run was asked.
        on_error: `"log"` recalls nothing when the memory fails, and by words alone without its embedder.
        recall: `k` (how many notes to consider), `max_tokens`, `where` (also a function of the run),
            `min_similarity`, `links`, `as_of`, `window`: see `AgenticMemory.recall_turn`.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: In a run that does not say whose memory it is.
    """
    turns = Turns(
        memory=memory,
        failures=Failures(on_error),
        also=checked_also(also),
        recall=checked_recall(recall),
    )
    whose = checked_source(namespace)

    async def step(call: Call, state: State, config: RunnableConfig) -> Update:
        turn = _Turn(whose, state, config, messages_key, turn_key)
        found = await turns.find(call, turn.messages, turn.run, turn.namespace)
        report("recall", notes=[hit.note.id for hit in found.hits])
        return {output_key: found.text, turn_key: turn.begun()}

    return _node("recall", step)


def remember_node(  # noqa: PLR0913 - options are keywords
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
    on_error: OnError = "log",
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
    check_flags(evolve=evolve, remember_unanswered=remember_unanswered)
    turns = Turns(
        memory=memory,
        failures=Failures(on_error),
        should_store=checked_filter(should_store),
        metadata=metadata,
    )
    whose = checked_source(namespace)

    async def step(call: Call, state: State, config: RunnableConfig) -> Update:
        turn = _Turn(whose, state, config, messages_key, turn_key)
        # What another memory has just remembered of this turn stands there already.
        done = ended(turn.messages, ())["cursor"]
        others = [
            one["cursor"]
            for key, one in turn.entries.items()
            if key != turn.key and "seen" not in one
        ]
        ids = list(_value(state, output_key) or ()) if done and done in others else []
        entries: dict[str, Entry] = {}
        for space, places in turn.parts(unanswered=remember_unanswered).items():
            entries[json.dumps(space)] = ended(turn.messages, space)
            notes = await turns.store(
                call,
                turn.messages,
                turn.run,
                space,
                wanted=places.__contains__,
                edited=lambda number, end=places.start: number < end,  # type: ignore[misc]
            )
            ids += [note.id for note in notes]
            if evolve:
                memory.evolve_later(space)
        report("remember", notes=ids)
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
        done, space = EvolutionReport(), namespace_of(whose, current_run(state, config))
        with failures.tolerated("evolve") as reasons:
            done = await call(memory.evolve_turn, namespace=space, ids=ids, left_overs=limit)
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
        self.run: Run = current_run(state, config)
        self.namespace = namespace_of(whose, self.run)
        self.messages = convert_to_messages(_value(state, messages_key) or [])
        self.entries: dict[str, Entry] = _value(state, turn_key) or {}
        self.key = json.dumps(self.namespace)

    def begun(self) -> dict[str, Entry]:
        """Return the entry of the run that begins here."""
        entry = began(self.messages, self.entries, self.key, self.namespace)
        return {self.key: {**entry, "by": self.run.caller}}

    def parts(self, *, unanswered: bool) -> dict[Namespace, range]:
        """Return which messages there are to remember, by place, and for whom.

        Where somebody else has resumed the run, they are for whom it began, but for what was added since.
        """
        entry, end = self.entries.get(self.key) or {}, len(self.messages)
        others = [
            one for one in self.entries.values() if one.get("by") not in (None, self.run.caller)
        ]
        if "seen" in entry or not others:
            start = self._start(entry, unanswered=unanswered)
            return {self.namespace: range(start, end)}
        first = max(others, key=lambda one: seen_by(self.messages, one))
        seen = seen_by(self.messages, first) if is_added_to(self.messages, first) else end
        theirs = range(place_after(self.messages, first), seen)
        return {tuple(first["namespace"]): theirs, self.namespace: range(seen, end)}

    def _start(self, entry: Entry, *, unanswered: bool) -> int:
        if "seen" in entry:
            entry = entry if unanswered else {**entry, "cursor": entry["since"]}
            return place_after(self.messages, entry)
        # The run was not noted when it began.
        entry = began(self.messages, self.entries, self.key, self.namespace)
        people = [number for number, message in enumerate(self.messages) if is_human(message)]
        start = place_after(self.messages, entry)
        return max(start, people[-1]) if people and not unanswered else start


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value with nothing but JSON types in it, as a checkpoint gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain


def _value(state: State, key: str) -> Any:  # noqa: ANN401 - the user's own type
    """Return a value of the state, or None if it is not there."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
