"""The graphs break at every step, and what is stored in the end is as if they had not."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver

import evolution_kit as kit
import pytest
from langchain_kit import ANN
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError
from langgraph.types import RetryPolicy

from amem_integrations import ModelUnavailableError
from langchain_amem import build_evolution_graph

START_WITH = {"namespace": list(ANN)}
WHEN = ("before", "after")
STEPS = [(step, when) for step in ("construct", "propose", "commit") for when in WHEN]
REVIEW = [("review", when) for when in WHEN]
TURN = [(step, when) for step in ("recall", "remember", "evolve") for when in WHEN]


@pytest.fixture
def fragile():
    with kit.crashing() as memory:
        kit.seed(memory)
        yield memory


@pytest.mark.parametrize(("step", "when"), STEPS)
def test_after_an_exception_the_graph_resumes_where_it_broke(fragile, step, when):
    fragile.step, fragile.when = step, when
    graph = build_evolution_graph(fragile, checkpointer=InMemorySaver())
    with pytest.raises(kit.CrashError):
        graph.invoke(START_WITH, kit.CONFIG, durability="sync")
    assert graph.get_state(kit.CONFIG).next == (step,)
    asked = len(fragile.requests)
    graph.invoke(None, kit.CONFIG, durability="sync")
    assert kit.picture(fragile) == kit.undisturbed()
    again = [request.task for request in fragile.requests[asked:]]
    construct = ["construct"] if (step, when) == ("construct", "before") else []
    assert again == [*construct, *(["evolve"] if step != "commit" else [])]


def test_without_a_checkpointer_running_it_again_is_enough():
    for step, when in STEPS:
        with kit.crashing() as memory:
            kit.seed(memory)
            memory.step, memory.when = step, when
            graph = build_evolution_graph(memory)
            with pytest.raises(kit.CrashError):
                graph.invoke(START_WITH)
            graph.invoke(START_WITH)
            assert kit.picture(memory) == kit.undisturbed()


def test_a_retry_policy_tries_a_step_again(fragile):
    def down():
        raise ModelUnavailableError("not now")

    fragile.step, fragile.crash = "propose", down
    policy = RetryPolicy(initial_interval=0.001, retry_on=ModelUnavailableError)
    graph = build_evolution_graph(fragile, on_error="raise", retry_policy=policy)
    assert graph.invoke(START_WITH)["evolution"]["interrupted"] is None
    assert kit.picture(fragile) == kit.undisturbed()


# Every graph


def invoking(graph, durability, asynchronous=False):
    """Return how to give something to a graph, in either form."""
    if asynchronous:
        return lambda given: asyncio.run(graph.ainvoke(given, kit.CONFIG, durability=durability))
    return lambda given: graph.invoke(given, kit.CONFIG, durability=durability)


def finish(invoke):
    """Resume a run to its end, and return whether there was anything to resume."""
    resumed, given = True, None
    for _ in range(4):
        try:
            result = invoke(given)
        except EmptyInputError:
            # Nothing of the run was written down, so it is started anew.
            resumed, given = False, kit.BEGIN
            continue
        if "__interrupt__" not in result:
            return resumed
        given = kit.APPROVED
    raise AssertionError("the run does not end")


# With which durability, and whether awaited. The reviewed graph alone is the subgraph of another.
FORMS = (("sync", False), ("exit", False), ("async", True))
ENDS = [*STEPS, *REVIEW, ("waiting", "before")]
CRASHES = [(kit.reviewed, ENDS, FORMS[:1])]
CRASHES += [
    (kit.with_nodes, [*TURN, ("answer", "before")], FORMS),
    (kit.with_subgraph, ENDS, FORMS),
]


@pytest.mark.parametrize(
    ("build", "step", "when"), [(build, *end) for build, ends, _ in CRASHES for end in ends]
)
def test_after_an_exception_every_graph_resumes(build, step, when):
    (forms,) = [forms for one, _, forms in CRASHES if one is build]
    for durability, asynchronous in forms:
        with kit.crashing() as memory:
            kit.seed(memory)
            memory.step, memory.when = step, when
            invoke = invoking(build(memory, InMemorySaver()), durability, asynchronous)
            with pytest.raises(kit.CrashError):  # noqa: PT012 - in whichever of the two
                invoke(kit.BEGIN)
                memory.reach("waiting")
                invoke(kit.APPROVED)
            assert finish(invoke)
            assert kit.picture(memory) == kit.undisturbed(build)


PROCESSES = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module")
def _server():
    """Start the process that forks those to be killed; it has everything imported already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        PROCESSES.set_forkserver_preload(["evolution_kit", "pytest"])
        forkserver.ensure_running()


@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize(
    ("build", "step", "when", "durability"),
    [
        (kit.with_nodes, "remember", "after", "sync"),
        (kit.with_nodes, "evolve", "before", "exit"),
        (kit.with_subgraph, "construct", "after", "sync"),
        (kit.with_subgraph, "waiting", "before", "async"),
        (kit.with_subgraph, "commit", "after", "sync"),
    ],
)
def test_after_kill_9_another_process_resumes(tmp_path, build, step, when, durability):
    arguments = (str(tmp_path), build, step, when, durability)
    process = PROCESSES.Process(target=kit.run_and_die, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with kit.opened(tmp_path) as (memory, saver):
        resumed = finish(invoking(build(memory, saver), durability))
        assert resumed or durability != "sync"
        assert kit.picture(memory) == kit.undisturbed(build)
