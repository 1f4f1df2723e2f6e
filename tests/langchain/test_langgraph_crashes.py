"""The graphs break at every step, and what is stored in the end is as if they had not."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from evolution_kit import (
    APPROVED,
    BEGIN,
    CONFIG,
    GRAPHS,
    STEPS,
    WHEN,
    CrashError,
    Crashing,
    finish,
    invoking,
    opened,
    picture,
    raising,
    run_and_die,
    seed,
    undisturbed,
)
from langchain_kit import ANN, scripted
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy

from amem_integrations import ModelUnavailableError
from amem_integrations.testing import HashEmbedder
from langchain_amem import MemoryState, build_evolution_graph

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
    model = scripted()
    with Crashing.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        memory.requests = model.requests
        seed(memory)
        memory.crash = raising
        yield memory


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("step", STEPS)
def test_after_an_exception_the_graph_resumes_where_it_broke(
    fragile: Crashing, saver: Any, step: str, when: str
) -> None:
    fragile.step, fragile.when = step, when
    graph = build_evolution_graph(fragile, checkpointer=saver)
    with pytest.raises(CrashError):
        graph.invoke(START_WITH, CONFIG, durability="sync")
    assert graph.get_state(CONFIG).next == (step,)
    graph.invoke(None, CONFIG, durability="sync")
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
    asked = len(fragile.requests)
    state = graph.invoke(None, CONFIG)
    assert visits == ["before"]
    assert picture(fragile) == undisturbed()
    assert len(state["evolution"]["done"]) == 3
    again = [request.task for request in fragile.requests[asked:]]
    assert (
        again == {"construct": ["construct", "evolve"], "propose": ["evolve"], "commit": []}[step]
    )


def test_a_retry_policy_tries_a_step_again(fragile: Crashing) -> None:
    def down() -> None:
        raise ModelUnavailableError("not now")

    fragile.step, fragile.crash = "propose", down
    policy = RetryPolicy(initial_interval=0.001, retry_on=ModelUnavailableError)
    graph = build_evolution_graph(fragile, on_error="raise", retry_policy=policy)
    assert graph.invoke(START_WITH)["evolution"]["interrupted"] is None
    assert picture(fragile) == undisturbed()


PROCESSES = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module")
def _server() -> None:
    """Start the process that forks those to be killed; it has everything imported already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        PROCESSES.set_forkserver_preload(["evolution_kit", "pytest"])
        forkserver.ensure_running()


ENDS = [(step, when) for step in (*STEPS[:2], "review", "commit") for when in WHEN]
ENDS += [("waiting", "before")]
NODES = [(step, when) for step in ("recall", "remember", "evolve") for when in WHEN]
NODES += [("answer", "before")]
# With which durability, and whether awaited. The reviewed graph alone is the subgraph of another.
FORMS = (("sync", False), ("exit", False), ("async", True))
CRASHES = [
    *[("reviewed", *end, "sync", False) for end in ENDS],
    *[("with_nodes", *end, *form) for end in NODES for form in FORMS],
    *[("with_subgraph", *end, *form) for end in ENDS for form in FORMS],
]


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """Return what is stored by each graph when nothing goes wrong."""
    pictures = {}
    for kind, build in GRAPHS.items():
        with Crashing.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
            seed(memory)
            graph = build(memory, InMemorySaver())
            graph.invoke(BEGIN, CONFIG)
            graph.invoke(APPROVED, CONFIG)
            pictures[kind] = picture(memory)
    return pictures


@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize(
    ("kind", "step", "when", "durability"),
    [
        ("with_nodes", "remember", "after", "sync"),
        ("with_nodes", "evolve", "before", "exit"),
        ("with_subgraph", "construct", "after", "sync"),
        ("with_subgraph", "waiting", "before", "async"),
        ("with_subgraph", "commit", "after", "sync"),
    ],
)
def test_after_kill_9_another_process_resumes(
    tmp_path: Path, whole: dict[str, Any], kind: str, step: str, when: str, durability: str
) -> None:
    arguments = (str(tmp_path), kind, step, when, durability)
    process = PROCESSES.Process(target=run_and_die, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with opened(tmp_path) as (memory, saver):
        resumed = finish(invoking(GRAPHS[kind](memory, saver), durability))
        assert resumed or durability != "sync"
        assert picture(memory) == whole[kind]


@pytest.mark.parametrize(("kind", "step", "when", "durability", "asynchronous"), CRASHES)
def test_after_an_exception_every_graph_resumes(
    whole: dict[str, Any], kind: str, step: str, when: str, durability: Any, asynchronous: bool
) -> None:
    model = scripted()
    with Crashing.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        memory.requests = model.requests
        seed(memory)
        memory.step, memory.when, memory.crash = step, when, raising
        invoke = invoking(GRAPHS[kind](memory, InMemorySaver()), durability, asynchronous)
        with pytest.raises(CrashError):  # noqa: PT012 - in whichever of the two
            invoke(BEGIN)
            memory.reach("waiting", "before")
            invoke(APPROVED)
        assert finish(invoke)
        assert picture(memory) == whole[kind]


@pytest.mark.parametrize("when", WHEN)
def test_a_crash_in_the_review_asks_again_and_no_model(fragile: Crashing, when: str) -> None:
    graph = build_evolution_graph(fragile, review=True, checkpointer=InMemorySaver())
    fragile.step, fragile.when = "review", when
    with pytest.raises(CrashError):
        graph.invoke(START_WITH, CONFIG)
    asked = len(fragile.requests)
    assert "__interrupt__" in graph.invoke(None, CONFIG)
    graph.invoke(Command(resume=True), CONFIG)
    assert len(fragile.requests) == asked
    assert picture(fragile) == undisturbed()
