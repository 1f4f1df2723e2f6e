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

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, RetryPolicy, interrupt
from typing_extensions import TypedDict

from amem_integrations import AgenticMemory, EvolutionReport, Note, Plan, adapting
from amem_integrations.adapting import Call
from amem_integrations.errors import ConfigurationError, InvalidInputError

from .nodes import State, Update, node, report
from .run import Door, Failures, Namespace, NamespaceOf, Run

# The words for the kinds of items in a plan that a reviewer reads, and the other values of each kind.
KINDS = {"sentence": "entry", "supersession": "supersession", "link": "link"}
SHOWN = ("keywords", "tags", "relation", "strength")

Step = Callable[[Call, State, Run], Awaitable[Update]]


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
    whose = namespace if namespace is not None else (lambda run: run.state["namespace"])
    steps = _Steps(memory, whose, limit, failures=Failures(on_error))
    names = ["construct", "propose", *(["review"] if review else []), "commit"]
    builder = StateGraph(EvolutionState, input_schema=EvolutionInput, output_schema=EvolutionOutput)
    for name in names:
        flow: Step = getattr(steps, name)
        step: Any = node(name, flow if name == "review" else steps.tolerating(name, flow))
        builder.add_node(name, step, retry_policy=retry_policy)
    for name, following in pairwise([START, *names, END]):
        builder.add_edge(name, following)
    return builder.compile(checkpointer=checkpointer, name="amem_evolution")


@dataclass(eq=False)
class _Steps(Door):
    """Construct, propose, review, commit, as nodes.

    The first step puts the namespace into the state; the others read it only from there, so a run that
    is resumed with someone else's context still writes where it began. A fixed namespace is never read from
    the state, and a plan in the state says nothing about where it is written.
    """

    limit: int  # most notes that are taken up beyond those of a turn

    def tolerating(self, name: str, step: Step) -> Step:
        """Return a step after which the graph has nothing more to do, if the memory does not answer; the report says why."""

        async def tolerant(call: Call, state: State, run: Run) -> Update:
            with self.failures.tolerated(name) as reasons:
                return await step(call, state, run)
            interrupted = {"interrupted": "; ".join(reasons)}
            report(name, **interrupted)
            before = {} if name == "construct" else state["evolution"]
            return {"ids": [], "plan": {}, "answers": {}, "evolution": {**before, **interrupted}}

        return tolerant

    async def construct(self, call: Call, state: State, run: Run) -> Update:
        """Give the notes of this turn, then what is unfinished, their attributes; idempotent, so it may write."""
        space, ids = self.space(run), list(state.get("remembered") or ())
        most = len(ids) + self.limit
        where: dict[str, Any] = {"state": {"$in": ["pending", "constructed", "failed"]}}
        where["attempts"] = {"$lt": self.memory.config.max_attempts}
        found = await call(self.memory.get_all, namespace=space, where=where, limit=most or 1)
        ids = list(dict.fromkeys([*ids, *(note.id for note in found)]))[:most]
        made = await call(self.memory.construct, ids, namespace=space)
        report("construct", **made)
        # A thread may run this graph many times: nothing of an earlier run may show through.
        return {"namespace": list(space), "ids": ids, "plan": {}, "answers": {}, "evolution": made}

    async def propose(self, call: Call, state: State, run: Run) -> Update:
        """Ask for links and updates; writes nothing."""
        if not state["ids"]:
            return {}
        plan = await call(self.memory.propose, state["ids"], namespace=self._kept(state, run))
        kinds = Counter(dict.fromkeys((f"{kind}s" for kind in KINDS), 0))
        kinds.update(f"{item.kind}s" for item in plan.items.values())
        report("propose", notes=[note.id for note in plan.notes], **kinds)
        return {"plan": plan.to_dict()}

    async def review(self, call: Call, state: State, run: Run) -> Update:
        """Interrupt with what is proposed, and return what a person decides about each entry.

        It is a step of its own because `interrupt` runs its step again from the top: no model is asked twice.
        """
        planned = Plan.from_dict(state["plan"]).notes if state["plan"] else ()
        # Links are made without being asked about, unless the memory holds everything back for a review.
        asked = [
            (key, note.id, item)
            for kind in KINDS
            for note in planned
            for key, item in note.items.items()
            if item.kind == kind and (kind != "link" or "why" in item.data)
        ]
        if not asked:
            return {}
        configurable = run.config.get("configurable", {})
        if configurable.get("__pregel_checkpointer", configurable.get("thread_id")) is None:
            # Without one, `interrupt` ends the run quietly and nothing could ever resume it.
            raise ConfigurationError(
                "review=True waits for a person, which needs a checkpointer: compile the outermost graph "
                "with one, and invoke it with a thread_id"
            )
        ids = sorted({each for _, cause, item in asked for each in (cause, item.to)})
        options: dict[str, Any] = {"where": {"id": {"$in": ids}}, "limit": len(ids)}
        found = await call(self.memory.get_all, namespace=self._kept(state, run), **options)
        notes = {note.id: note for note in found}
        entries, problem = [_entry(*one, notes) for one in asked], None
        while True:  # an answer that cannot be used must not reach the commit
            answer = interrupt({"kind": "amem.review", "entries": entries, "problem": problem})
            if isinstance(answer, bool):  # True writes what was only held back for this question
                held = {key for key, _, item in asked if item.data.get("why") == adapting.HELD}
                answer = {key: answer for key, *_ in asked if not answer or key in held}
            try:
                adapting.decide(planned, answer)
            except InvalidInputError as error:
                problem = str(error)
            else:
                report("review", answers=answer)
                return {"answers": answer}

    async def commit(self, call: Call, state: State, run: Run) -> Update:
        """Write the plan; committing it again changes nothing."""
        before = {"constructed": (), **state["evolution"]}
        done = EvolutionReport(**{**before, "constructed": tuple(before["constructed"])})
        if plan := state["plan"]:
            space, answers = self._kept(state, run), state["answers"]
            done += await call(self.memory.commit, plan, namespace=space, answers=answers)
        report("commit", **done.to_dict())
        return {"evolution": done.to_dict()}

    def _kept(self, state: State, run: Run) -> Namespace:
        is_fixed = not callable(self.namespace)
        return self.space(run) if is_fixed else adapting.check_namespace(state["namespace"])


def _entry(key: str, cause: str, item: Any, notes: Mapping[str, Note]) -> dict[str, Any]:
    """Return one proposal as before and after, with the note that gave rise to it."""
    target, because, why = notes.get(item.to), notes.get(cause), item.data.get("why")
    adds = {name: item.data[name] for name in SHOWN if name in item.data}
    if item.kind == "sentence":
        contexts = " ".join(one.text for one in target.contexts if one.text) if target else ""
        before, adds["context"] = contexts or (target.content if target else ""), item.text
        after = f"{before} {item.text}".strip()
    else:
        before, adds["reason"] = "", item.text
        verb = "outdated" if item.kind == "supersession" else "linked"
        after = f"{verb} ({item.data['relation']}){': ' if item.text else ''}{item.text}"
    return {
        "id": key,
        "kind": KINDS[item.kind],
        "note": {"id": item.to, "content": target and target.content},
        "because_of": {"id": cause, "content": because and because.content},
        "before": before,
        "after": after,
        "adds": adds,
        "similarity": item.data.get("similarity"),
        "stopped_by_gate": None if why == adapting.HELD else why,
    }
