"""The process that `kills.py` kills: four threads do things at random with a memory, and write down what.

python benchmarks/kill_worker.py <folder> <journal> <seed>
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    MemoryConfig,
    Note,
    NoteInput,
    NoteNotFoundError,
    RevisionConflictError,
)
from amem_integrations.testing import CopyingModel, HashEmbedder

THREADS = 4
KEPT, CLEARED = ("ann",), ("bob",)  # the second is cleared now and then
# Digits, letters and a script without spaces; the number is another one in each.
SECRETS = ("Quokka{}Beta", "pin{}77", "我的密码是{}号东方红", "sk-live-{}abcdefghijk", "Żółw{}ka")
SETTINGS = MemoryConfig(min_gate_similarity=-1, batch_size=3, split_tokens=20)
# What another thread brings about: the note is gone, or was changed meanwhile.
EXPECTED = (NoteNotFoundError, InvalidInputError, RevisionConflictError)


def open_memory(folder: Path) -> AgenticMemory:
    """Return the memory in a folder, with the model that copies."""
    model, embedder = CopyingModel(), HashEmbedder()
    return AgenticMemory.open(folder, model=model, embedder=embedder, config=SETTINGS)


class Worker:
    """One of the threads: does things at random, and writes down what."""

    def __init__(self, memory: AgenticMemory, journal: int, seed: str) -> None:
        self._memory, self._journal, self._rng = memory, journal, random.Random(seed)
        self._name, self._count = seed, 0
        self._number = int(self._rng.random() * 1e9)

    def work(self) -> None:
        """Go on until the process is killed."""
        often = {self.add: 40, self.update: 30, self.delete: 20, self.undo: 10, self.evolve: 10}
        acts = [act for act, times in {**often, self.clear: 1}.items() for _ in range(times)]
        while True:
            try:
                self._rng.choice(acts)()
            except EXPECTED:
                continue
            except Exception:  # noqa: BLE001 - whatever it is, the check reports it
                write(self._journal, {"do": "fault", "why": traceback.format_exc()})

    def add(self) -> None:
        """Add some notes, some of them longer than the embedder reads."""
        space = self._rng.choice([KEPT, KEPT, KEPT, CLEARED])
        items = [self._item() for _ in range(self._rng.randint(1, 3))]
        op = self._begin("add", space, texts={item.key: item.content for item in items})
        self._memory.add_many(items, namespace=space, evolve=self._rng.choice([True, True, False]))
        self._end(op)

    def update(self) -> None:
        """Correct a note."""
        if note := self._any_note():
            item = self._item()
            op = self._begin("update", note.namespace, texts={note.key: item.content})
            self._memory.update(note.id, namespace=note.namespace, content=item.content)
            self._end(op)

    def delete(self) -> None:
        """Delete a note."""
        if note := self._any_note():
            op = self._begin("delete", note.namespace, key=note.key)
            self._memory.delete(note.id, namespace=note.namespace)
            self._end(op)

    def undo(self) -> None:
        """Take back one of the last changes of a note."""
        if note := self._any_note():
            history = self._memory.history(note.id, namespace=note.namespace)
            made = self._rng.choice(history[-4:])
            op = self._begin("undo", note.namespace, key=note.key)
            self._memory.undo(made.id, namespace=note.namespace)
            self._end(op)

    def evolve(self) -> None:
        """Finish some of what is unfinished."""
        op = self._begin("evolve", KEPT)
        self._memory.evolve(limit=self._rng.choice([2, 8]))
        self._end(op)

    def clear(self) -> None:
        """Clear the namespace that is there for it."""
        op = self._begin("clear", CLEARED)
        self._memory.clear(namespace=CLEARED)
        self._end(op)

    def _item(self) -> NoteInput:
        self._number += 1 + self._rng.randrange(1000)
        secret = self._rng.choice(SECRETS).format(self._number)
        more = " And so it went on." * self._rng.choice([0, 0, 0, 9])
        thread, key = self._rng.choice("tu"), f"{self._name}-{self._number}"
        return NoteInput(content=f"It is {secret}.{more}", thread=thread, key=key)

    def _any_note(self) -> Note | None:
        space = self._rng.choice([KEPT, KEPT, KEPT, CLEARED])
        notes = [n for n in self._memory.get_all(namespace=space, limit=500) if n.key]
        return self._rng.choice(notes) if notes else None

    def _begin(self, do: str, space: tuple[str, ...], **what: Any) -> str:  # noqa: ANN401
        self._count += 1
        op = f"{self._name}:{self._count}"
        write(self._journal, {"op": op, "do": do, "space": space, **what})
        return op

    def _end(self, op: str) -> None:
        write(self._journal, {"op": op, "do": "done"})


def write(journal: int, line: dict[str, Any]) -> None:
    """Write one line to the journal; what was written outlives the process."""
    text = json.dumps({"at": time.monotonic_ns(), **line}, ensure_ascii=False)
    os.write(journal, f"{text}\n".encode())


def work(folder: Path, journal_path: Path, seed: str) -> None:
    """Work on a memory with several threads until killed."""
    journal = os.open(journal_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    write(journal, {"do": "start"})
    memory = open_memory(folder)
    write(journal, {"do": "open"})
    workers = [Worker(memory, journal, f"{seed}.{number}") for number in range(THREADS)]
    threads = [threading.Thread(target=worker.work) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
