"""`build_evolution_graph`: evolution as a graph of its own, resumable and open to review.

::

    START → construct → propose → [review] → commit → END

The three steps are the core's own. `construct` gives pending notes their attributes and writes them:
each note once, so doing it again costs nothing. `propose` asks for links and updates and writes nothing.
`review` shows the proposals to a person (`interrupt`). `commit` writes; committing a plan again changes
nothing. Whatever happens in between, the graph can be resumed or run again.
https://docs.langchain.com/oss/python/langgraph/use-subgraphs
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from langchain_core.runnables import RunnableLambda
from typing_extensions import TypedDict

from amem_integrations import AgenticMemory, MissingExtraError

from ._evolving import Evolving
from ._failures import Failures, OnError
from ._review import Review
from ._run import NamespaceOf, checked_source

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer, RetryPolicy
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error


class EvolutionInput(TypedDict, total=False):
    """What the graph reads of its caller's state: whose memory, unless it was built with a namespace."""

    namespace: list[str]


class EvolutionOutput(TypedDict, total=False):
    """What the graph gives its caller: `EvolutionReport.to_dict()`."""

    evolution: dict[str, Any]


class EvolutionState(EvolutionInput, EvolutionOutput, total=False):
    """What is kept between the steps: JSON values only, no vector, no object of ours."""

    ids: list[str]
    plan: dict[str, Any]
    decisions: dict[str, Any]


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

    It works on what is unfinished in the namespace, oldest first. Use it as it is in `add_node`; it inherits the parent's checkpointer. Alone:
    `graph.invoke({"namespace": ["ann"]})`. Each step tells the stream (mode `custom`, with
    `subgraphs=True` from a parent) what it changed: `{"amem": "commit", "evolved": […], …}`.

    Args:
        memory: The memory to work on.
        namespace: Whose memory: a tuple, or a function of the run (`context`, `state`, `config`), asked
            once by the first step and kept in the state; None takes `namespace` of the input.
        review: Show every proposed entry to a person before it is written. Needs a checkpointer. Resume
            with `Command(resume=…)`: True (as the gate left it), False (write none), or a dict of entry
            id to True, False, or other `context`, `keywords`, `tags`.
        limit: Most notes in one run.
        on_error: `"log"` ends the run when a model or the store does not answer (`interrupted` in the
            report says why; the notes stay unfinished and a later run takes them up); `"raise"` raises,
            so that the run can be resumed.
        retry_policy: For all steps, with `on_error="raise"`.
        checkpointer: For use alone.
    """
    whose = None if namespace is None else checked_source(namespace)
    steps = Evolving(memory=memory, namespace=whose, limit=limit, failures=Failures(on_error))
    builder = StateGraph(EvolutionState, input_schema=EvolutionInput, output_schema=EvolutionOutput)
    nodes: dict[str, RunnableLambda[Any, Any]] = {
        "construct": RunnableLambda(steps.construct, steps.aconstruct, name="construct"),
        "propose": RunnableLambda(steps.propose, steps.apropose, name="propose"),
        "commit": RunnableLambda(steps.commit, steps.acommit, name="commit"),
    }
    if review:
        person = Review(memory=memory)
        nodes["review"] = RunnableLambda(person.review, person.areview, name="review")
    for name, node in nodes.items():
        builder.add_node(name, node, retry_policy=retry_policy)
    order = [START, "construct", "propose", *(["review"] if review else []), "commit", END]
    for step, following in pairwise(order):
        builder.add_edge(step, following)
    return builder.compile(checkpointer=checkpointer, name="amem_evolution")
