"""How many files of the package one `add` and one `search` run through, and how often the store is called.

The memory is in a folder, works by rules without a language model, and holds a short conversation. One more note
is added, with its evolution, and one question is searched for. Calls of functions are counted, imports are not. One
of the files is that of `HashEmbedder`, which stands in for the user's embedder.

    python benchmarks/layout.py [--files]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import amem_integrations
from amem_integrations import AgenticMemory
from amem_integrations.ports import NoteStore
from amem_integrations.stores import EdgeStore
from amem_integrations.testing import HashEmbedder

PACKAGE = Path(amem_integrations.__file__).parent
NAMESPACE, THREAD = ("ann",), "chat"
WRITES = {"insert", "replace", "delete", "clear", "flush", "close"}
EARLIER = (
    "My sister Lena marries in Porto on 14 June.",
    "The wedding cake for Lena is made by a baker in Lisbon.",
    "I booked the train from Madrid to Porto for the wedding.",
    "My allergy to nuts got worse this spring.",
)
ADDED = "The wedding of my sister Lena in Porto was moved to 21 June."
QUESTION = "When does Lena marry in Porto?"


class CountingStore:
    """Passes every call on to a store, and counts those of the port by name."""

    def __init__(self, store: NoteStore) -> None:
        """Take the store."""
        self.calls: Counter[str] = Counter()
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        """Return an attribute of the store; a method of the port comes with a counter."""
        value = getattr(self._store, name)
        if not callable(value) or not hasattr(NoteStore, name):
            return value

        def counted(*args: object, **options: object) -> object:
            self.calls[name] += 1
            return value(*args, **options)

        return counted


@dataclass
class Trace:
    """The files that functions were called in, how often, and how often one call followed in another file."""

    entered: Counter[str] = field(default_factory=Counter)
    switches: int = 0
    last: str | None = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call, as the function that `sys.setprofile` takes."""
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return
        file = str(path.relative_to(PACKAGE))
        self.entered[file] += 1
        self.switches += self.last is not None and file != self.last
        self.last = file


def traced(call: Callable[[], object]) -> Trace:
    """Run a call and return its trace."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return trace


@dataclass(frozen=True)
class Measured:
    """What one call ran through, and what it called of the store's port."""

    trace: Trace
    calls: Counter[str]


def measure() -> dict[str, Measured]:
    """Return what one `add` and one `search` ran through."""
    embedder = HashEmbedder()
    with TemporaryDirectory(prefix="amem-layout-") as folder:
        store = EdgeStore(folder, dimensions=embedder.dimensions, embedder=embedder.name)
        counting = CountingStore(store)
        with AgenticMemory._over(counting, embedder) as memory:  # noqa: SLF001
            calls: dict[str, Callable[[], object]] = {
                "add": lambda: memory.add(ADDED, namespace=NAMESPACE, thread=THREAD),
                "search": lambda: memory.search(QUESTION, namespace=NAMESPACE),
            }
            for text in EARLIER:
                memory.add(text, namespace=NAMESPACE, thread=THREAD)
            calls["search"]()  # what is imported on first use is there
            measured = {}
            for name, call in calls.items():
                counting.calls.clear()
                trace = traced(call)
                measured[name] = Measured(trace, counting.calls.copy())
            return measured


def main(*, files: bool) -> None:
    """Measure, and print a table."""
    measured = measure()
    _print_row("", "files", "switches", "reads", "calls of the store")
    for name, one in measured.items():
        _print(name, one)
    for name, one in measured.items() if files else ():
        print(f"\nCalls in each file, by one {name}:")
        for file, calls in one.trace.entered.most_common():
            print(f"{calls:7}  {file}")


def _print(name: str, one: Measured) -> None:
    reads = sum(count for method, count in one.calls.items() if method not in WRITES)
    shown = ", ".join(f"{method} {count}" for method, count in one.calls.most_common())
    _print_row(name, len(one.trace.entered), one.trace.switches, reads, shown)


def _print_row(name: str, files: object, switches: object, reads: object, calls: str) -> None:
    print(f"{name:8}{files:>7}{switches:>10}{reads:>7}  {calls}")


if __name__ == "__main__":
    main(files="--files" in sys.argv[1:])
