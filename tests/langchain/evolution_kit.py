"""What the tests of the graphs share: a memory that breaks, and graphs that evolve it.

`run_and_die` is run by a process of its own, which is killed where it is told to be; see `test_langgraph_crashes`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_kit import ANN, around, ask, scripted, within
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from amem_integrations import AgenticMemory, ModelRequest, NoteInput
from amem_integrations.testing import HashEmbedder
from langchain_amem import build_evolution_graph, evolve_node

SAID = ("I moved to Oslo.", "Oslo is cold.", "My cat is called Mia.", "Mia hates the cold.")
CONFIG = within()
APPROVED = Command(resume=True)
BEGIN = ask("Mia likes the snow.")
BEGIN["messages"][0].id = "question"


class CrashError(RuntimeError):
    """What is raised in place of a killed process."""


def raising():
    raise CrashError


def killing():
    os.kill(os.getpid(), signal.SIGKILL)


class Crashing(AgenticMemory):
    """A memory that breaks once, before or after one of the things that nodes do with it."""

    step: str | None = None
    when = "before"
    crash: Callable[[], None] = staticmethod(raising)
    requests: Sequence[ModelRequest]  # what its model was asked

    def reach(self, step, when="before"):
        """Break if it is to happen here."""
        if (step, when) == (self.step, self.when):
            self.step = None
            self.crash()


def _breaking(name):
    """Return a method of the memory, in both forms, before and after which `Crashing` breaks."""

    def step_of(given):
        return "review" if "id" in (given.get("where") or {}) else name.removesuffix("_turn")

    def now(self, *args, **given):
        self.reach(step_of(given))
        result = getattr(super(Crashing, self), name)(*args, **given)
        self.reach(step_of(given), "after")
        return result

    async def later(self, *args, **given):
        self.reach(step_of(given))
        result = await getattr(super(Crashing, self), f"a{name}")(*args, **given)
        self.reach(step_of(given), "after")
        return result

    now.__name__ = name  # by which the asynchronous form is found
    return now, later


TURN = ("recall_turn", "remember_turn", "evolve_turn")
for _name in ("construct", "propose", "commit", "get_all", *TURN):
    for _form, _method in zip((_name, f"a{_name}"), _breaking(_name), strict=True):
        setattr(Crashing, _form, _method)


def add_raw(memory, texts):
    """Store what was said in the thread, as raw notes."""
    notes = [NoteInput(content=text, thread="t") for text in texts]
    memory.add_many(notes, namespace=ANN, evolve=False)


def seed(memory):
    """Store what was said, one finished note and three raw ones."""
    memory.add(SAID[0], namespace=ANN, thread="t")
    add_raw(memory, SAID[1:])


@contextmanager
def crashing(location=":memory:"):
    """Yield a memory that can break."""
    model = scripted()
    with Crashing.open(location, model=model, embedder=HashEmbedder()) as memory:
        memory.requests = model.requests
        yield memory


def conversation(memory, saver, evolution):
    """Return a graph in which the memory takes three of four steps, with a new answer each time."""

    def answer(_):
        memory.reach("answer")
        return {"messages": [AIMessage("I see.")]}

    graph = around(memory, ANN, answer=answer, after={"evolution": evolution})
    graph.checkpointer = saver
    return graph


def reviewed(memory, saver):
    """Return the evolution graph with a review, alone."""
    return build_evolution_graph(memory, namespace=ANN, review=True, checkpointer=saver)


def with_nodes(memory, saver):
    """Return a user's graph of the three nodes."""
    return conversation(memory, saver, evolve_node(memory, namespace=ANN))


def with_subgraph(memory, saver):
    """Return a user's graph with the evolution graph as its last node."""
    return conversation(memory, saver, build_evolution_graph(memory, namespace=ANN, review=True))


def picture(memory):
    """Return all that matters of what is stored, without times and generated ids."""
    notes = memory.get_all(namespace=ANN)
    number = {note.id: number for number, note in enumerate(notes)}
    seen = []
    for note in notes:
        contexts = [(e.text, number[e.cause], e.tags, e.keywords) for e in note.contexts]
        links = {number[to]: (one.relation, one.direction) for to, one in note.links.items()}
        seen.append((note.content, note.state, contexts, links))
    return seen


@cache
def undisturbed(build=None):
    """Return what the store looks like when a graph, or the evolution graph alone, runs and nothing goes wrong."""
    with crashing() as memory:
        seed(memory)
        if build is None:
            build_evolution_graph(memory).invoke({"namespace": list(ANN)})
        else:
            graph = build(memory, InMemorySaver())
            graph.invoke(BEGIN, CONFIG)
            graph.invoke(APPROVED, CONFIG)
        return picture(memory)


@contextmanager
def opened(folder):
    """Yield the memory in a folder, and the checkpoints beside it."""
    file = str(folder / "checkpoints.sqlite")
    with crashing(str(folder / "memory")) as memory, SqliteSaver.from_conn_string(file) as saver:
        yield memory, saver


def run_and_die(folder, build, step, when, durability):
    """Run a graph, approve what it shows, and be killed on the way."""
    with opened(Path(folder)) as (memory, saver):
        seed(memory)
        memory.step, memory.when, memory.crash = step, when, killing
        graph = build(memory, saver)
        graph.invoke(BEGIN, CONFIG, durability=durability)
        memory.reach("waiting")
        graph.invoke(APPROVED, CONFIG, durability=durability)
