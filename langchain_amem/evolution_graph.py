"""`build_evolution_graph`: evolution as a graph of its own, resumable and open to review.

::

    START → construct → propose → [review] → commit → END

The steps are the core's own. `construct` gives pending notes their attributes and writes them:
each note once, so doing it again costs nothing. `propose` asks for links and updates and writes nothing.
`review` shows the proposals to a person (`interrupt`). `commit` writes; committing a plan again changes nothing.
Whatever happens in between, the graph can be resumed or run again.
https://docs.langchain.com/oss/python/langgraph/use-subgraphs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from typing_extensions import TypedDict

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    EvolutionReport,
    InvalidInputError,
    MissingExtraError,
    NamespaceError,
    Note,
    Plan,
    adapting,
)

from .nodes import node
from .run import (
    Failures,
    Namespace,
    NamespaceOf,
    Run,
    checked_source,
    namespace_of,
    report,
)

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer, RetryPolicy, interrupt
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

# The words for the kinds of items in a plan that a reviewer reads, and the other values of each kind.
KINDS = {"sentence": "entry", "supersession": "supersession", "link": "link"}
SHOWN = ("keywords", "tags", "relation", "strength")
NEW = {"state": {"$in": ["pending", "constructed"]}}

State = Mapping[str, Any]
Update = dict[str, Any]


class EvolutionInput(TypedDict, total=False):
    """The part of the caller's state that the graph reads.

    `namespace` says whose memory it is, unless the graph was built with one; `remembered` are the ids of this
    turn's notes, which come first.
    """

    namespace: list[str]
    remembered: list[str]


class EvolutionOutput(TypedDict, total=False):
    """The result that the graph gives its caller: `EvolutionReport.to_dict()`."""

    evolution: dict[str, Any]


class EvolutionState(EvolutionInput, EvolutionOutput, total=False):
    """The state between the steps: JSON values only, no vector, no object of ours."""

    ids: list[str]
    plan: dict[str, Any]
    answers: dict[str, Any]


EvolutionGraph = CompiledStateGraph[EvolutionState, Any, EvolutionInput, EvolutionOutput]


def build_evolution_graph(
    memory: AgenticMemory,
    *,
    namespace: NamespaceOf | None = None,
    review: bool = False,
    limit: int = 64,
    on_error: adapting.OnError = "log",
    retry_policy: RetryPolicy | None = None,
    checkpointer: Checkpointer = None,
) -> EvolutionGraph:
    """Return the compiled graph, for use as a node of your own graph or alone.

    It works on what this turn remembered (`remembered` in the state), then on what is unfinished otherwise,
    oldest first. In `add_node` use it as it is; it inherits the parent's checkpointer. Alone:
    `graph.invoke({"namespace": ["ann"]})`. Each step reports to the stream (mode `custom`, with
    `subgraphs=True` from a parent) what it changed: `{"amem": "commit", "evolved": […], …}`.

    Args:
        memory: The memory to work on.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`), asked
            once by the first step and kept in the state; None takes `namespace` of the input.
        review: Show a person what is proposed before it is written: context entries, what supersedes what,
            and, with `MemoryConfig(review=True)`, links. Needs a checkpointer. Resume with
            `Command(resume=…)`: True (as the gate left it), False (write none), or a dict of entry id to
            True, False, or, for a context entry, other `context`, `keywords`, `tags`.
        limit: Most notes in one run beyond those of this turn.
        on_error: `"log"` ends the run when a model or the store does not answer (`interrupted` in the
            report says why; the notes stay unfinished and a later run takes them up); `"raise"` raises,
            so that the run can be resumed.
        retry_policy: For all steps, with `on_error="raise"`.
        checkpointer: For use alone.

    Raises:
        ConfigurationError: An option has a value it cannot have.
        NamespaceError: The namespace is malformed.
    """
    adapting.check_flags(review=review)
    adapting.check_counts(least=0, limit=limit)
    whose = None if namespace is None else checked_source(namespace)
    steps = _Steps(memory=memory, namespace=whose, limit=limit, failures=Failures(on_error))
    names = ["construct", "propose", *(["review"] if review else []), "commit"]
    builder = StateGraph(EvolutionState, input_schema=EvolutionInput, output_schema=EvolutionOutput)
    for name in names:
        step: Any = node(name, getattr(steps, name))
        builder.add_node(name, step, retry_policy=retry_policy)
    for name, following in pairwise([START, *names, END]):
        builder.add_edge(name, following)
    return builder.compile(checkpointer=checkpointer, name="amem_evolution")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Construct, propose, review, commit, as nodes.

    The first step puts the namespace into the state; the others read it only from there, so a run that
    is resumed with someone else's context still writes where it began. A fixed namespace is never read from
    the state, and a plan in the state says nothing about where it is written.
    """

    memory: AgenticMemory
    namespace: NamespaceOf | None
    limit: int
    failures: Failures

    async def construct(self, call: adapting.Call, state: State, run: Run) -> Update:
        """Give unfinished notes their attributes; idempotent, so it may write."""
        if self.namespace is not None:
            space = namespace_of(self.namespace, run)
        elif state.get("namespace"):
            space = adapting.check_namespace(state["namespace"])
        else:
            raise NamespaceError(
                "nothing says whose memory to evolve; give build_evolution_graph a `namespace`, or put "
                "`namespace` into the state"
            )
        # A thread may run this graph many times: nothing of an earlier run may show through.
        begun: Update = {"namespace": list(space), "ids": [], "plan": {}, "answers": {}}
        with self.failures.tolerated("construct") as reasons:
            ids = await self._unfinished(call, space, state.get("remembered") or ())
            begun["ids"] = ids
            made = await call(self.memory.construct, ids, namespace=space)
            report("construct", **made)
            return {**begun, "evolution": made}
        return {**begun, **_interrupted({}, "construct", reasons)}

    async def propose(self, call: adapting.Call, state: State, _run: Run) -> Update:
        """Ask for links and updates; writes nothing."""
        with self.failures.tolerated("propose") as reasons:
            plan = await call(self.memory.propose, state["ids"], namespace=self._kept(state))
            kinds = [kind for _, _, kind, _ in _planned(plan)]
            report(
                "propose",
                notes=[note.id for note in plan.notes],
                links=kinds.count("link"),
                updates=kinds.count("entry"),
                supersessions=kinds.count("supersession"),
                stopped=sum("why" in item.data for *_, item in _planned(plan)),
            )
            return {"plan": plan.to_dict()}
        return _interrupted(state, "propose", reasons)

    async def review(self, call: adapting.Call, state: State, run: Run) -> Update:
        """Interrupt with what is proposed, and return what a person decides about each entry.

        It is a step of its own because `interrupt` runs its step again from the top: no model is asked twice.
        """
        plan = Plan.from_dict(state["plan"]) if state["plan"] else None
        # Links are made without being asked about, unless the memory holds everything back for a review.
        asked = [one for one in _planned(plan) if one[2] != "link" or "why" in one[3].data]
        if plan is None or not asked:
            return {"answers": {}}
        configurable = run.config.get("configurable", {})
        if configurable.get("__pregel_checkpointer", configurable.get("thread_id")) is None:
            # Without one, `interrupt` ends the run quietly and nothing could ever resume it.
            raise ConfigurationError(
                "review=True waits for a person, which needs a checkpointer: compile the outermost graph "
                "with one, and invoke it with a thread_id"
            )
        ids = sorted({each for _, cause, _, item in asked for each in (cause, item.to)})
        options: dict[str, Any] = {"where": {"id": {"$in": ids}}, "limit": len(ids)}
        found = await call(self.memory.get_all, namespace=self._kept(state), **options)
        notes = {note.id: note for note in found}
        entries, problem = [_entry(*one, notes) for one in asked], None
        while True:  # an answer that cannot be used must not reach the commit
            answer = interrupt({"kind": "amem.review", "entries": entries, "problem": problem})
            if isinstance(answer, bool):  # True writes what was only held back for this question
                held = [
                    key
                    for key, *_, one in asked
                    if not answer or one.data.get("why") == adapting.HELD
                ]
                answer = dict.fromkeys(held, answer)
            try:
                adapting.decide(plan.notes, answer)
            except InvalidInputError as error:
                problem = str(error)
            else:
                report("review", answers=answer)
                return {"answers": answer}

    async def commit(self, call: adapting.Call, state: State, _run: Run) -> Update:
        """Write the plan; committing it again changes nothing."""
        plan, space, done = state["plan"], self._kept(state), EvolutionReport()
        with self.failures.tolerated("commit") as reasons:
            if plan:
                commit = self.memory.commit
                done = await call(commit, plan, namespace=space, answers=state["answers"])
            before = {"constructed": (), **state["evolution"]}
            before["constructed"] = tuple(before["constructed"])
            whole = (EvolutionReport(**before) + done).to_dict()
            report("commit", **whole)
            return {"evolution": whole}
        return _interrupted(state, "commit", reasons)

    def _kept(self, state: State) -> Namespace:
        if self.namespace is not None and not callable(self.namespace):
            return self.namespace
        return adapting.check_namespace(state["namespace"])

    async def _unfinished(
        self, call: adapting.Call, space: Namespace, remembered: Sequence[str]
    ) -> list[str]:
        """Return the ids of this turn's notes, then of others: what is new, then what failed."""
        failed = {"state": "failed", "attempts": {"$lt": self.memory.config.max_attempts}}
        ids = list(remembered)
        most = len(ids) + self.limit
        for where in (NEW, failed):
            found = await call(self.memory.get_all, namespace=space, where=where, limit=most)
            ids += [note.id for note in found]
        return list(dict.fromkeys(ids))[:most]


def _interrupted(state: State, step: str, reasons: Sequence[str]) -> Update:
    """Return a report that says where it stopped and why; what is unfinished stays so."""
    reason = "; ".join(reasons)
    report(step, interrupted=reason)
    return {"plan": {}, "evolution": {**state.get("evolution", {}), "interrupted": reason}}


def _planned(plan: Plan | None) -> list[tuple[str, str, str, Any]]:
    """Return each change that a plan would make: its id, the note that gives rise to it, its kind, and the item."""
    return [
        (key, note.id, kind, item)
        for wanted, kind in KINDS.items()
        for note in (plan.notes if plan else ())
        for key, item in note.items.items()
        if item.kind == wanted
    ]


def _entry(
    key: str,
    cause: str,
    kind: str,
    item: Any,  # noqa: ANN401 - an item of a plan
    notes: Mapping[str, Note],
) -> dict[str, Any]:
    """Return one proposal as before and after, with the note that gave rise to it."""
    target, because = notes.get(item.to), notes.get(cause)
    words, before, why = item.text, "", item.data.get("why")
    if kind == "entry" and target is not None:
        before = " ".join(one.text for one in target.shown_contexts if one.text) or target.content
    if kind != "entry":
        words = f"{'outdated' if kind == 'supersession' else 'linked'} ({item.data['relation']})"
        words += f": {item.text}" if item.text else ""
    adds = {"context" if kind == "entry" else "reason": item.text}
    return {
        "id": key,
        "kind": kind,
        "note": {"id": item.to, "content": target and target.content},
        "because_of": {"id": cause, "content": because and because.content},
        "before": before,
        "after": f"{before} {words}".strip(),
        "adds": adds | {name: item.data[name] for name in SHOWN if name in item.data},
        "similarity": item.data.get("similarity"),
        "stopped_by_gate": None if why == adapting.HELD else why,
    }
