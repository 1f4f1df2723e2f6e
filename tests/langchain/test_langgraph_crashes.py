"""The evolution graph breaks at every step, and what is stored in the end is as if it had not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from evolution_kit import (
    STEPS,
    WHEN,
    CrashError,
    Crashing,
    opened,
    picture,
    raising,
    seed,
    undisturbed,
)
from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, scripted
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy

from amem_integrations import ModelUnavailableError
from amem_integrations.testing import HashEmbedder
from langchain_amem import (
    MemoryState,
    build_evolution_graph,
    evolve_node,
    recall_node,
    remember_node,
)

DURABILITY = ("sync", "async", "exit")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFIG: Any = {"configurable": {"thread_id": "1"}}
START_WITH: Any = {"namespace": list(ANN)}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as sqlite:
        yield sqlite


@pytest.fixture
def fragile() -> Any:
    with Crashing.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        seed(memory)
        memory.crash = raising
        yield memory


@pytest.mark.parametrize("durability", DURABILITY)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("step", STEPS)
def test_after_an_exception_the_graph_resumes_where_it_broke(
    fragile: Crashing, saver: Any, step: str, when: str, durability: Any
) -> None:
    fragile.step, fragile.when = step, when
    graph = build_evolution_graph(fragile, checkpointer=saver)
    with pytest.raises(CrashError):
        graph.invoke(START_WITH, CONFIG, durability=durability)
    assert graph.get_state(CONFIG).next == (step,)
    graph.invoke(None, CONFIG, durability=durability)
    assert picture(fragile) == undisturbed()


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("step", STEPS)
def test_without_a_checkpointer_running_it_again_is_enough(
    fragile: Crashing, step: str, when: str
) -> None:
    fragile.step, fragile.when = step, when
    graph = build_evolution_graph(fragile)
    with pytest.raises(CrashError):
        graph.invoke(START_WITH)
    graph.invoke(START_WITH)
    assert picture(fragile) == undisturbed()


@pytest.mark.parametrize("step", STEPS)
def test_as_a_node_the_subgraph_resumes_inside(fragile: Crashing, step: str) -> None:
    fragile.step = step
    visits: list[str] = []

    class State(MessagesState, MemoryState):
        """A conversation with a memory."""

    parent = StateGraph(State)
    parent.add_node("before", lambda _: visits.append("before"))
    parent.add_node("evolution", build_evolution_graph(fragile, namespace=ANN))
    parent.add_edge(START, "before")
    parent.add_edge("before", "evolution")
    graph = parent.compile(checkpointer=InMemorySaver())
    with pytest.raises(CrashError):
        graph.invoke({"messages": []}, CONFIG)
    asked = len(fragile._engine._runtime.model.requests)
    state = graph.invoke(None, CONFIG)
    assert visits == ["before"]
    assert picture(fragile) == undisturbed()
    assert len(state["evolution"]["done"]) == 3
    again = [request.task for request in fragile._engine._runtime.model.requests[asked:]]
    assert (
        again == {"construct": ["construct", "evolve"], "propose": ["evolve"], "commit": []}[step]
    )


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_commit_done_twice_reports_what_it_did_the_first_time(
    fragile: Crashing, asynchronous: bool
) -> None:
    fragile.step, fragile.when = "commit", "after"
    graph = build_evolution_graph(fragile, checkpointer=InMemorySaver())
    with pytest.raises(CrashError):
        graph.invoke(START_WITH, CONFIG)
    resumed = await graph.ainvoke(None, CONFIG) if asynchronous else graph.invoke(None, CONFIG)
    report = resumed["evolution"]
    with Crashing.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        seed(memory)
        whole = build_evolution_graph(memory).invoke(START_WITH)["evolution"]
    for told in (report, whole):
        told["evolved"] = sorted(told["evolved"])  # in order of the plan, or of the changes
    assert report == whole


def test_a_retry_policy_tries_a_step_again(fragile: Crashing) -> None:
    def down() -> None:
        raise ModelUnavailableError("not now")

    fragile.step, fragile.crash = "propose", down
    policy = RetryPolicy(initial_interval=0.001, retry_on=ModelUnavailableError)
    graph = build_evolution_graph(fragile, on_error="raise", retry_policy=policy)
    assert graph.invoke(START_WITH)["evolution"]["interrupted"] is None
    assert picture(fragile) == undisturbed()


def killed(tmp_path: Path, step: str, when: str, durability: str) -> None:
    """Run the graph in a process of its own that is killed on the way."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
    program = [
        sys.executable,
        str(HERE / "evolution_kit.py"),
        str(tmp_path),
        step,
        when,
        durability,
    ]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize("durability", DURABILITY)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("step", STEPS)
def test_after_kill_9_another_process_resumes(
    tmp_path: Path, step: str, when: str, durability: str
) -> None:
    killed(tmp_path, step, when, durability)
    with (
        opened(tmp_path / "memory") as memory,
        SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver,
    ):
        graph = build_evolution_graph(memory, checkpointer=saver)
        try:
            graph.invoke(None, CONFIG)
        except EmptyInputError:
            # Nothing of the run was written down, so there is nothing to resume; a new run does it.
            assert durability != "sync"
            graph.invoke(START_WITH, CONFIG)
        assert picture(memory) == undisturbed()


@pytest.mark.parametrize("when", WHEN)
def test_a_crash_in_the_review_asks_again_and_no_model(fragile: Crashing, when: str) -> None:
    graph = build_evolution_graph(fragile, review=True, checkpointer=InMemorySaver())
    fragile.step, fragile.when = "review", when
    with pytest.raises(CrashError):
        graph.invoke(START_WITH, CONFIG)
    asked = len(fragile._engine._runtime.model.requests)
    assert "__interrupt__" in graph.invoke(None, CONFIG)
    graph.invoke(Command(resume=True), CONFIG)
    assert len(fragile._engine._runtime.model.requests) == asked
    assert picture(fragile) == undisturbed()


class Talk(MessagesState, MemoryState):
    """A conversation with a memory."""


def conversation(memory: Crashing) -> Any:
    """Return a graph in which the memory takes three of four steps, with fixed message ids."""
    graph = StateGraph(Talk)
    graph.add_node("recall", recall_node(memory, namespace=ANN))
    graph.add_node("answer", lambda _: {"messages": [AIMessage("I see.", id="answer")]})
    graph.add_node("remember", remember_node(memory, namespace=ANN))
    graph.add_node("evolve", evolve_node(memory, namespace=ANN))
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", "evolve")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("durability", DURABILITY)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("step", ["recall", "remember", "evolve"])
def test_a_graph_of_nodes_resumes_where_it_broke(step: str, when: str, durability: Any) -> None:
    said: Any = {"messages": [HumanMessage("Oslo is cold.", id="question")]}
    pictures = []
    for breaks in (None, step):
        with Crashing.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
            memory.add("I moved to Oslo.", namespace=ANN, key="0")
            memory.step, memory.when, memory.crash = breaks, when, raising
            graph = conversation(memory)
            if breaks:
                with pytest.raises(CrashError):
                    graph.invoke(said, CONFIG, durability=durability)
                graph.invoke(None, CONFIG, durability=durability)
            else:
                graph.invoke(said, CONFIG)
            pictures.append(picture(memory))
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) == 3
