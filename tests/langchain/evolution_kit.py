"""What the tests of the evolution graph share: a memory to evolve, and what can go wrong in it.

Run as a program it evolves a memory on disk and is killed where it is told to; see `test_langgraph_crashes`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_kit import ANN, scripted

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import build_evolution_graph

SAID = ("I moved to Oslo.", "Oslo is cold.", "My cat is called Mia.", "Mia hates the cold.")
STEPS = ("construct", "propose", "commit")
WHEN = ("before", "after")


class CrashError(RuntimeError):
    """What is raised in place of a killed process."""


class Crashing(AgenticMemory):
    """A memory that breaks once, before or after one of the three steps."""

    step: str | None = None
    when = "before"
    crash: Callable[[], None]

    def _around(self, step: str, act: Callable[[], Any]) -> Any:
        hit = step == self.step
        if hit and self.when == "before":
            self.step = None
            self.crash()
        result = act()
        if hit and self.when == "after":
            self.step = None
            self.crash()
        return result

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        return self._around("construct", lambda: super(Crashing, self).construct(*args, **kwargs))

    def propose(self, *args: Any, **kwargs: Any) -> Any:
        return self._around("propose", lambda: super(Crashing, self).propose(*args, **kwargs))

    def add_many(self, *args: Any, **kwargs: Any) -> Any:
        return self._around("remember", lambda: super(Crashing, self).add_many(*args, **kwargs))

    def evolve(self, *args: Any, **kwargs: Any) -> Any:
        return self._around("evolve", lambda: super(Crashing, self).evolve(*args, **kwargs))

    def search(self, *args: Any, **kwargs: Any) -> Any:
        return self._around("recall", lambda: super(Crashing, self).search(*args, **kwargs))

    def get_all(self, *args: Any, **kwargs: Any) -> Any:
        reviewing = "id" in (kwargs.get("where") or {})
        read = super().get_all
        step = "review" if reviewing else "other"
        return self._around(step, lambda: read(*args, **kwargs))

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return self._around("commit", lambda: super(Crashing, self).commit(*args, **kwargs))


def raising() -> None:
    raise CrashError


def killing() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def seed(memory: AgenticMemory) -> None:
    """Store what was said, one finished note and three raw ones."""
    memory.add(SAID[0], namespace=ANN, thread="t")
    for text in SAID[1:]:
        memory.add(text, namespace=ANN, thread="t", evolve=False)


def picture(memory: AgenticMemory) -> list[dict[str, Any]]:
    """Return all that matters of what is stored: no times, no operation ids."""
    return [
        {
            "id": note.id,
            "content": note.content,
            "state": note.state,
            "contexts": [(e.text, e.cause, e.tags, e.keywords) for e in note.contexts],
            "links": sorted((t, link.relation, link.direction) for t, link in note.links.items()),
        }
        for note in memory.get_all(namespace=ANN)
    ]


def undisturbed() -> list[dict[str, Any]]:
    """Return what the store looks like when nothing goes wrong."""
    with AgenticMemory.open(":memory:", model=scripted(), embedder=HashEmbedder()) as memory:
        seed(memory)
        build_evolution_graph(memory).invoke({"namespace": list(ANN)})
        return picture(memory)


@contextmanager
def opened(folder: Path) -> Any:
    with Crashing.open(str(folder), model=scripted(), embedder=HashEmbedder()) as memory:
        yield memory


def main(folder: str, step: str, when: str, durability: str) -> None:
    """Evolve the memory in `folder` with a SQLite checkpointer beside it, and die on the way."""
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - of one test only

    root = Path(folder)
    with (
        opened(root / "memory") as memory,
        SqliteSaver.from_conn_string(str(root / "checkpoints.sqlite")) as saver,
    ):
        seed(memory)
        memory.step, memory.when, memory.crash = step, when, killing
        graph = build_evolution_graph(memory, checkpointer=saver)
        graph.invoke(
            {"namespace": list(ANN)}, {"configurable": {"thread_id": "1"}}, durability=durability
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
