"""What the tests of the graphs share: a memory to evolve, graphs that do it, and what can go wrong in them.

`run_and_die` is run by a process of its own, which is killed where it is told to be; see
`test_langgraph_crashes`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_kit import ANN, scripted
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from amem_integrations import AgenticMemory, ModelRequest
from amem_integrations.testing import HashEmbedder
from langchain_amem import (
    MemoryState,
    build_evolution_graph,
    evolve_node,
    recall_node,
    remember_node,
)

SAID = ("I moved to Oslo.", "Oslo is cold.", "My cat is called Mia.", "Mia hates the cold.")
STEPS = ("construct", "propose", "commit")
WHEN = ("before", "after")
CONFIG: Any = {"configurable": {"thread_id": "1"}}
APPROVED: Any = Command(resume=True)


class CrashError(RuntimeError):
    """What is raised in place of a killed process."""


class Crashing(AgenticMemory):
    """A memory that breaks once, before or after one of the things that nodes do with it."""

    step: str | None = None
    when = "before"
    crash: Callable[[], None]
    requests: Sequence[ModelRequest]  # what its model was asked

    def reach(self, step: str, when: str) -> None:
        """Break if it is to happen here."""
        if (step, when) == (self.step, self.when):
            self.step = None
            self.crash()

    @contextmanager
    def _at(self, step: str) -> Iterator[None]:
        self.reach(step, "before")
        yield
        self.reach(step, "after")

    def get_all(self, *args: Any, **kwargs: Any) -> Any:
        with self._at("review" if "id" in (kwargs.get("where") or {}) else "other"):
            return super().get_all(*args, **kwargs)

    async def aget_all(self, *args: Any, **kwargs: Any) -> Any:
        with self._at("review" if "id" in (kwargs.get("where") or {}) else "other"):
            return await super().aget_all(*args, **kwargs)


def _breaking(name: str, step: str) -> Any:
    """Return a method of the memory, in both forms, before and after which `Crashing` breaks."""

    def now(self: Crashing, *args: Any, **kwargs: Any) -> Any:
        with self._at(step):
            return getattr(super(Crashing, self), name)(*args, **kwargs)

    async def later(self: Crashing, *args: Any, **kwargs: Any) -> Any:
        with self._at(step):
            return await getattr(super(Crashing, self), f"a{name}")(*args, **kwargs)

    now.__name__ = name  # by which the asynchronous form is found
    return now, later


TURN = {"recall": "recall_turn", "remember": "remember_turn", "evolve": "evolve_turn"}
for _step, _name in ({step: step for step in STEPS} | TURN).items():
    for _form, _method in zip((_name, f"a{_name}"), _breaking(_name, _step), strict=True):
        setattr(Crashing, _form, _method)


def raising() -> None:
    raise CrashError


def killing() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def seed(memory: AgenticMemory) -> None:
    """Store what was said, one finished note and three raw ones."""
    memory.add(SAID[0], namespace=ANN, thread="t")
    for text in SAID[1:]:
        memory.add(text, namespace=ANN, thread="t", evolve=False)


class Talk(MessagesState, MemoryState):
    """A conversation with a memory."""


def conversation(memory: Crashing, saver: Any, last: str, step: Any) -> Any:
    """Return a graph in which the memory takes three of four steps, with a new answer each time."""

    def answer(_: Talk) -> dict[str, Any]:
        memory.reach("answer", "before")
        return {"messages": [AIMessage("I see.")]}

    graph = StateGraph(Talk)
    graph.add_node("recall", recall_node(memory, namespace=ANN))
    graph.add_node("answer", answer)
    graph.add_node("remember", remember_node(memory, namespace=ANN))
    graph.add_node(last, step)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", last)
    return graph.compile(checkpointer=saver)


def reviewed(memory: Crashing, saver: Any) -> Any:
    """Return the evolution graph with a review, alone."""
    return build_evolution_graph(memory, namespace=ANN, review=True, checkpointer=saver)


def with_nodes(memory: Crashing, saver: Any) -> Any:
    """Return a user's graph of the three nodes."""
    return conversation(memory, saver, "evolve", evolve_node(memory, namespace=ANN))


def with_subgraph(memory: Crashing, saver: Any) -> Any:
    """Return a user's graph with the evolution graph as its last node."""
    evolution = build_evolution_graph(memory, namespace=ANN, review=True)
    return conversation(memory, saver, "evolution", evolution)


GRAPHS = {"reviewed": reviewed, "with_nodes": with_nodes, "with_subgraph": with_subgraph}
BEGIN: Any = {"messages": [HumanMessage("Mia likes the snow.", id="question")]}


def picture(memory: AgenticMemory) -> list[dict[str, Any]]:
    """Return all that matters of what is stored, without times and generated ids."""
    notes = memory.get_all(namespace=ANN)
    number = {note.id: number for number, note in enumerate(notes)}
    return [
        {
            "content": note.content,
            "state": note.state,
            "contexts": [(e.text, number[e.cause], e.tags, e.keywords) for e in note.contexts],
            "links": sorted(
                (number[target], link.relation, link.direction)
                for target, link in note.links.items()
            ),
        }
        for note in notes
    ]


@cache
def undisturbed() -> list[dict[str, Any]]:
    """Return what the store looks like when the evolution graph runs and nothing goes wrong."""
    with AgenticMemory.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        seed(memory)
        build_evolution_graph(memory).invoke({"namespace": list(ANN)})
        return picture(memory)


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Crashing, SqliteSaver]]:
    """Yield the memory in a folder, and the checkpoints beside it."""
    place, file = str(folder / "memory"), str(folder / "checkpoints.sqlite")
    with (
        Crashing.open(place, model=scripted(), embedder=HashEmbedder()) as memory,
        SqliteSaver.from_conn_string(file) as saver,
    ):
        yield memory, saver


def run_and_die(folder: str, kind: str, step: str, when: str, durability: Any) -> None:
    """Run a graph, approve what it shows, and be killed on the way."""
    with opened(Path(folder)) as (memory, saver):
        seed(memory)
        memory.step, memory.when, memory.crash = step, when, killing
        graph = GRAPHS[kind](memory, saver)
        graph.invoke(BEGIN, CONFIG, durability=durability)
        memory.reach("waiting", "before")
        graph.invoke(APPROVED, CONFIG, durability=durability)


def invoking(graph: Any, durability: Any, asynchronous: bool = False) -> Callable[[Any], Any]:
    """Return how to give something to a graph, in either form."""
    options: dict[str, Any] = {"durability": durability}
    if asynchronous:
        return lambda given: asyncio.run(graph.ainvoke(given, CONFIG, **options))
    return lambda given: graph.invoke(given, CONFIG, **options)


def finish(invoke: Callable[[Any], Any]) -> bool:
    """Resume a run to its end, and return whether there was anything to resume."""
    resumed, given = True, None
    for _ in range(4):
        try:
            result = invoke(given)
        except EmptyInputError:
            # Nothing of the run was written down, so it is started anew.
            resumed, given = False, BEGIN
            continue
        if "__interrupt__" not in result:
            return resumed
        given = APPROVED
    raise AssertionError("the run does not end")
