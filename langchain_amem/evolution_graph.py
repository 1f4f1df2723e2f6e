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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda
from typing_extensions import TypedDict

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    EvolutionReport,
    MissingExtraError,
    NamespaceError,
    Note,
)
from amem_integrations.adapting import (
    HELD,
    Call,
    OnError,
    both,
    check_counts,
    check_flags,
    check_namespace,
)

from .nodes import as_json
from .run import (
    Failures,
    Namespace,
    NamespaceOf,
    checked_source,
    current_run,
    namespace_of,
    report,
)

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer, RetryPolicy, interrupt
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

# The note that gives rise to it, its kind, what is planned.
Planned = tuple[str, str, Mapping[str, Any]]

KINDS = {"updates": "entry", "supersessions": "supersession", "links": "link"}
EDITABLE = {"context": str, "keywords": list, "tags": list}
NEW = {"state": {"$in": ["pending", "constructed"]}}

State = Mapping[str, Any]
Update = dict[str, Any]


class EvolutionInput(TypedDict, total=False):
    """What the graph reads of its caller's state.

    `namespace` says whose memory it is, unless the graph was built with one; `remembered` are the ids of this
    turn's notes, which come first.
    """

    namespace: list[str]
    remembered: list[str]


class EvolutionOutput(TypedDict, total=False):
    """What the graph gives its caller: `EvolutionReport.to_dict()`."""

    evolution: dict[str, Any]


class EvolutionState(EvolutionInput, EvolutionOutput, total=False):
    """What is kept between the steps: JSON values only, no vector, no object of ours."""

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
    on_error: OnError = "log",
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
    check_flags(review=review)
    check_counts(least=0, limit=limit)
    whose = None if namespace is None else checked_source(namespace)
    steps = Steps(memory=memory, namespace=whose, limit=limit, failures=Failures(on_error))
    names = ["construct", "propose", *(["review"] if review else []), "commit"]
    builder = StateGraph(EvolutionState, input_schema=EvolutionInput, output_schema=EvolutionOutput)
    for name in names:
        step, astep = getattr(steps, name), getattr(steps, f"a{name}")
        node: RunnableLambda[Any, Any] = RunnableLambda(step, astep, name=name)
        builder.add_node(name, node, retry_policy=retry_policy)
    for name, following in pairwise([START, *names, END]):
        builder.add_edge(name, following)
    return builder.compile(checkpointer=checkpointer, name="amem_evolution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Construct, propose, review, commit, as nodes.

    The first step puts the namespace into the state; the others read it only from there, so a run that
    is resumed with someone else's context still writes where it began. A fixed namespace is never read from
    the state, and a plan in the state says nothing about where it is written.
    """

    memory: AgenticMemory
    namespace: NamespaceOf | None
    limit: int
    failures: Failures

    async def _construct(self, call: Call, state: State, config: RunnableConfig) -> Update:
        """Give unfinished notes their attributes; idempotent, so it may write."""
        space = self._begun_for(state, config)
        # A thread may run this graph many times: nothing of an earlier run may show through.
        begun: Update = {"namespace": list(space), "ids": [], "plan": {}, "answers": {}}
        with self.failures.tolerated("construct") as reasons:
            begun["ids"] = await self._unfinished(call, space, state.get("remembered") or ())
            made = await call(self.memory.construct, begun["ids"], namespace=space)
            report("construct", **made)
            return {**begun, "evolution": as_json(made)}
        return {**begun, **_interrupted({}, "construct", reasons)}

    construct, aconstruct = both(_construct)

    async def _propose(self, call: Call, state: State, config: RunnableConfig) -> Update:  # noqa: ARG002 - as the others
        """Ask for links and updates; writes nothing."""
        with self.failures.tolerated("propose") as reasons:
            found = await call(self.memory.propose, state["ids"], namespace=self._kept(state))
            plan = as_json(found.to_dict())
            planned = _planned(plan)
            counts = Counter(kind for _, kind, _ in planned)
            report(
                "propose",
                notes=[note["id"] for note in plan["notes"]],
                links=counts["link"],
                updates=counts["entry"],
                supersessions=counts["supersession"],
                stopped=sum(bool(item["rejected"]) for *_, item in planned),
            )
            return {"plan": plan}
        return _interrupted(state, "propose", reasons)

    propose, apropose = both(_propose)

    async def _review(self, call: Call, state: State, config: RunnableConfig) -> Update:
        """Interrupt with what is proposed, and return what a person decides about each entry.

        It is a step of its own because `interrupt` runs its step again from the top: no model is asked twice.
        """
        asked = [
            (cause, kind, item)
            for cause, kind, item in _planned(state["plan"])
            # Links are made without being asked about, unless the memory holds everything back for a review.
            if kind != "link" or item["rejected"] is not None
        ]
        if not asked:
            return {"answers": {}}
        configurable = config.get("configurable", {})
        if configurable.get("__pregel_checkpointer", configurable.get("thread_id")) is None:
            # Without one, `interrupt` ends the run quietly and nothing could ever resume it.
            raise ConfigurationError(
                "review=True waits for a person, which needs a checkpointer: compile the outermost graph "
                "with one, and invoke it with a thread_id"
            )
        notes = await self._notes(call, self._kept(state), asked)
        contents = {note.id: note.content for note in notes}
        return _decided(asked, [_entry(*one, contents) for one in asked])

    review, areview = both(_review)

    async def _commit(self, call: Call, state: State, config: RunnableConfig) -> Update:  # noqa: ARG002 - as the others
        """Write the plan; committing it again changes nothing."""
        plan, space, done = state["plan"], self._kept(state), EvolutionReport()
        with self.failures.tolerated("commit") as reasons:
            if plan:
                answers = state["answers"]
                done = await call(self.memory.commit, plan, namespace=space, answers=answers)
            planned = _planned(plan)
            if planned and not (done.links or done.evolved or done.superseded or done.proposals):
                new = [note["id"] for note in plan["notes"]]
                notes = await self._notes(call, space, planned, new)
                done = _with_what_shows(done, planned, new, notes)
            before = EvolutionReport(
                constructed=tuple(state["evolution"].get("constructed", ())),
                failed=state["evolution"].get("failed", {}),
                interrupted=state["evolution"].get("interrupted"),
            )
            plain = as_json((before + done).to_dict())
            report("commit", **plain)
            return {"evolution": plain}
        return _interrupted(state, "commit", reasons)

    commit, acommit = both(_commit)

    def _begun_for(self, state: State, config: RunnableConfig) -> Namespace:
        if self.namespace is not None:
            return namespace_of(self.namespace, current_run(state, config))
        if state.get("namespace"):
            return check_namespace(state["namespace"])
        raise NamespaceError(
            "nothing says whose memory to evolve; give build_evolution_graph a `namespace`, or put "
            "`namespace` into the state"
        )

    def _kept(self, state: State) -> Namespace:
        if self.namespace is not None and not callable(self.namespace):
            return self.namespace
        return check_namespace(state["namespace"])

    async def _notes(
        self, call: Call, space: Namespace, planned: Sequence[Planned], new: Sequence[str] = ()
    ) -> list[Note]:
        """Return the notes that are planned to change, those that give rise to it, and some new ones."""
        ids = {each for cause, _, item in planned for each in (cause, item["target"])}.union(new)
        where = {"id": {"$in": sorted(ids)}}
        return await call(self.memory.get_all, namespace=space, where=where, limit=len(ids))

    async def _unfinished(
        self, call: Call, space: Namespace, remembered: Sequence[str]
    ) -> list[str]:
        """Return the ids of this turn's notes, then of others: what is new, then what failed."""
        failed = {"state": "failed", "attempts": {"$lt": self.memory.config.max_attempts}}
        ids: dict[str, None] = dict.fromkeys(remembered)
        most = len(ids) + self.limit
        for where in (NEW, failed):
            if len(ids) < most:
                found = await call(self.memory.get_all, namespace=space, where=where, limit=most)
                ids |= dict.fromkeys(note.id for note in found)
        return list(ids)[:most]


def _interrupted(state: State, step: str, reasons: Sequence[str]) -> Update:
    """Return a report that says where it stopped and why; what is unfinished stays so."""
    reason = "; ".join(reasons)
    report(step, interrupted=reason)
    return {"plan": {}, "evolution": {**state.get("evolution", {}), "interrupted": reason}}


def _planned(plan: State) -> list[Planned]:
    """Return what a plan would change: the note that gives rise to it, its kind, and what is planned."""
    return [
        (note["id"], kind, item)
        for note in plan.get("notes", ())
        for name, kind in KINDS.items()
        for item in note[name]
    ]


def _decided(asked: Sequence[Planned], entries: Sequence[Mapping[str, Any]]) -> Update:
    """Ask until there is an answer that can be used; an unusable one must not reach the commit."""
    problem = None
    while True:
        answer = interrupt({"kind": "amem.review", "entries": entries, "problem": problem})
        problem = _problem(answer, {entry["id"]: entry["kind"] for entry in entries})
        if problem is None:
            answers = answer
            if isinstance(answer, bool):  # True writes what was only held back for this question
                written = [p["id"] for *_, p in asked if not answer or p["rejected"] == HELD]
                answers = dict.fromkeys(written, answer)
            report("review", answers=answers)
            return {"answers": answers}


def _entry(
    cause: str, kind: str, planned: Mapping[str, Any], contents: Mapping[str, str]
) -> dict[str, Any]:
    """Return one proposal as before and after, with the note that gave rise to it."""
    names = EDITABLE if kind == "entry" else ("relation", "reason", "strength")
    adds = {name: planned[name] for name in names if name in planned}
    words = planned.get("context")
    if kind != "entry":
        words = f"{'outdated' if kind == 'supersession' else 'linked'} ({planned['relation']})"
        words += f": {planned['reason']}" if planned["reason"] else ""
    before = planned.get("before", "")
    return {
        "id": planned["id"],
        "kind": kind,
        "note": {"id": planned["target"], "content": contents.get(planned["target"])},
        "because_of": {"id": cause, "content": contents.get(cause)},
        "before": before,
        "after": f"{before} {words}".strip(),
        "adds": adds,
        "similarity": planned.get("similarity"),
        "stopped_by_gate": None if planned["rejected"] == HELD else planned["rejected"],
    }


def _problem(answer: object, kinds: Mapping[str, str]) -> str | None:
    """Return what is wrong with an answer, or None."""
    if isinstance(answer, bool):
        return None
    if not isinstance(answer, Mapping):
        return f"{answer!r} is no answer; give True, False, or a dict by entry id"
    if unknown := sorted(set(map(str, answer)) - set(kinds)):
        return f"there is no entry {', '.join(unknown)}"
    wrong = [entry for entry, one in answer.items() if not _usable(one, kinds[entry])]
    fields = ", ".join(f"{name}: {kind.__name__}" for name, kind in EDITABLE.items())
    form = f"True, False, or, for a context entry, a dict with {fields}"
    return f"{', '.join(wrong)}: give {form}" if wrong else None


def _usable(answer: object, kind: str) -> bool:
    if not isinstance(answer, Mapping) or kind != "entry":
        return isinstance(answer, bool)
    return bool(answer) and all(
        name in EDITABLE and isinstance(value, EDITABLE[name]) and value != ""
        for name, value in answer.items()
    )


# A run that is killed between the commit and its checkpoint commits the same plan again when it is resumed. The
# second commit changes nothing, so its report is made of what the notes show.


def _with_what_shows(
    done: EvolutionReport, planned: Sequence[Planned], new: Sequence[str], notes: Sequence[Note]
) -> EvolutionReport:
    """Return the report with what was planned for new notes and the notes show."""
    shows = {("link", note.id, target) for note in notes for target in note.links}
    shows |= {("entry", entry.cause, note.id) for note in notes for entry in note.contexts}
    shows |= {("supersession", newer, note.id) for note in notes for newer in note.supersessions}
    shown: dict[str, list[str]] = {kind: [] for kind in KINDS.values()}
    for cause, kind, item in planned:
        if (kind, cause, item["target"]) in shows:
            shown[kind].append(item["target"])
    finished = {note.id for note in notes if note.state == "done"}
    return replace(
        done,
        done=tuple(note_id for note_id in new if note_id in finished),
        links=len(shown["link"]),
        evolved=tuple(dict.fromkeys(shown["entry"])),
        superseded=tuple(dict.fromkeys(shown["supersession"])),
    )
