"""Kill a process that works on a memory, at random moments, and check what is left.

Four threads add, correct, delete, undo, evolve and clear, with a model that copies all that it is shown. Each
text holds a secret of its own. The process is killed (SIGKILL) while it works or while it opens the folder. Then the
folder is opened, and checked by what the process had written into a journal before and after each operation:

- what was added and acknowledged is there, in the words in which it was added;
- what was deleted or cleared and acknowledged is gone, and its secrets stand nowhere in the export;
- what was replaced by a correction stands in the history of its own note only;
- a supersession that was acknowledged shows;
- nothing is left to be finished, and every view is what the decisions say.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
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
from amem_integrations.flows.writing import writer_of
from amem_integrations.journal.projection import differing
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.runtime import resolve
from amem_integrations.runtime import run as run_flow
from amem_integrations.testing import HashEmbedder, as_completion

ROOT = Path(__file__).parents[2]
THREADS = 4
# All threads write to it; each also has a namespace of its own, which it clears now and then.
SHARED = ("ann",)
# Digits, letters and a script without spaces; the number is another one in each.
SECRETS = ("Quokka{}Beta", "pin{}77", "我的密码是{}号东方红", "sk-live-{}abcdefghijk", "Żółw{}ka")
SETTINGS = MemoryConfig(min_gate_similarity=-1, batch_size=3)
# What another thread brings about: the note is gone, or was changed meanwhile.
EXPECTED = (NoteNotFoundError, InvalidInputError, RevisionConflictError)

KILLS_A_FOLDER = 20  # then a new one: what is checked grows with every kill
WORKING, OPENING = 1.2, 0.4  # seconds within which the process is killed
OPENING_EVERY = 4  # of so many kills one while the memory is opened

Line = dict[str, Any]
Shown = Mapping[str, Any]

CONTEXT_WORDS = 50  # the gate lets no entry of more than 60 words pass
REASON_CHARS = 190


class CopyingModel:
    """A chat model that copies all that it is shown into all that it writes.

    Contexts, keywords, tags, relations and reasons quote the notes of the prompt, and what was copied into those
    before: at second hand too. Each note is linked to its first candidates, and updates two of them.

    Attributes:
        name: What the notes record as their model.
    """

    def __init__(self, name: str = "copying") -> None:
        self.name = name

    def generate(self, request: ModelRequest) -> Completion:
        """Return quotes, for `construct` and for every other task."""
        notes = request.inputs["notes"]
        shown = (request.inputs.get(name, ()) for name in ("before", "candidates"))
        words = [word for note in [*chain(*shown), *notes] for word in _words(note)]
        answer = _attributes if request.task == "construct" else _changes
        return as_completion(request, {"notes": [answer(note, words) for note in notes]})


def _words(note: Shown) -> list[str]:
    texts = (note["content"], note.get("speaker") or "", note.get("context") or "")
    return " ".join([*texts, *note.get("keywords", ()), *note.get("tags", ())]).split()


def _attributes(note: Shown, words: Sequence[str]) -> dict[str, Any]:
    context = f"{note['content']} {' '.join(words)}"
    return {"id": note["alias"], "context": context, "keywords": words[-6:], "tags": words[:4]}


def _changes(note: Shown, words: Sequence[str]) -> dict[str, Any]:
    each = list(dict.fromkeys(words))
    text, sentence = " ".join(each), {"context": " ".join(each[:CONTEXT_WORDS]), "tags": []}
    link = {"relation": text[:30], "reason": text[-REASON_CHARS:], "strength": 0.5}
    targets = [candidate["alias"] for candidate in note["candidates"]]
    return {
        "id": note["alias"],
        "links": [{"to": to, **link} for to in targets[:3]],
        "updates": [{"to": to, "keywords": each[:8], **sentence} for to in targets[:2]],
    }


def opened(folder: Path) -> AgenticMemory:
    """Return the memory in a folder, with the model that copies."""
    model, embedder = CopyingModel(), HashEmbedder()
    return AgenticMemory.open(folder, model=model, embedder=embedder, config=SETTINGS)


# --- the process that is killed


def work(folder: Path, journal_path: Path, seed: str) -> None:
    """Work on a memory with several threads until killed."""
    journal = os.open(journal_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    _say("start")
    memory = opened(folder)
    _say("open")
    for number in range(THREADS):
        worker = Worker(memory, journal, f"{seed}.{number}")
        threading.Thread(target=worker.work).start()


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class Worker:
    """One of the threads: does things at random, and writes down what before and after."""

    def __init__(self, memory: AgenticMemory, journal: int, name: str) -> None:
        self._memory, self._journal, self._name = memory, journal, name
        self._dice, self._own, self._count = random.Random(name), (name,), 0
        self._number = self._dice.randrange(10**9)

    def work(self) -> None:
        """Go on until the process is killed."""
        while True:
            self.act()

    def act(self, *expected: type[Exception]) -> None:
        """Do something; what goes wrong is written down, unless it was to be expected."""
        often = {self.add: 40, self.update: 30, self.delete: 20, self.undo: 10, self.evolve: 10}
        often |= {self.supersede: 5, self.clear: 1}
        (do,) = self._dice.choices(list(often), list(often.values()))
        allowed: tuple[type[Exception], ...] = (*EXPECTED, *expected)
        try:
            do()
        except allowed:
            return
        except Exception:  # noqa: BLE001 - whatever it is, the check reports it
            _write(self._journal, {"do": "fault", "why": traceback.format_exc()})

    def add(self) -> None:
        """Add some notes."""
        space, items = self._space(), [self._item() for _ in range(self._dice.randint(1, 3))]
        with self._told("add", space, texts={item.key: item.content for item in items}):
            self._memory.add_many(items, namespace=space, evolve=self._dice.random() < 2 / 3)

    def update(self) -> None:
        """Correct a note."""
        if note := self._any_note():
            content = self._item().content
            with self._told("update", note.namespace, key=note.key, text=content):
                self._memory.update(note.id, namespace=note.namespace, content=content)

    def delete(self) -> None:
        """Delete a note."""
        if note := self._any_note():
            with self._told("delete", note.namespace, key=note.key):
                thorough = self._dice.random() < 1 / 3
                self._memory.delete(note.id, namespace=note.namespace, thorough=thorough)

    def supersede(self) -> None:
        """Say that a note takes the place of an earlier one."""
        if note := self._any_note():
            item = replace(self._item(), supersedes=[note.id])
            told = {"texts": {item.key: item.content}, "older": note.key}
            with self._told("add", note.namespace, **told):
                self._memory.add_many([item], namespace=note.namespace)

    def undo(self) -> None:
        """Take back one of the last changes of a note."""
        if note := self._any_note():
            history = self._memory.history(note.id, namespace=note.namespace)
            with self._told("undo", note.namespace, key=note.key):
                self._memory.undo(self._dice.choice(history[-4:]).id, namespace=note.namespace)

    def evolve(self) -> None:
        """Finish some of what is unfinished."""
        with self._told("evolve", SHARED):
            self._memory.evolve(limit=self._dice.choice([2, 8]))

    def clear(self) -> None:
        """Clear the namespace that is this thread's own."""
        with self._told("clear", self._own):
            self._memory.clear(namespace=self._own)

    def _space(self) -> tuple[str, ...]:
        return self._dice.choice([SHARED, SHARED, SHARED, self._own])

    def _item(self) -> NoteInput:
        self._number += 1 + self._dice.randrange(1000)
        text = f"It is {self._dice.choice(SECRETS).format(self._number)}."
        key = f"{self._name}-{self._number}"
        return NoteInput(content=text, thread=self._dice.choice("tu"), key=key)

    def _any_note(self) -> Note | None:
        notes = self._memory.get_all(namespace=self._space(), limit=500)
        return self._dice.choice(notes) if notes else None

    @contextmanager
    def _told(self, do: str, space: tuple[str, ...], **what: object) -> Iterator[None]:
        """Write down that something begins and, unless it fails, that it is done."""
        self._count += 1
        op = f"{self._name}:{self._count}"
        _write(self._journal, {"op": op, "do": do, "space": space, **what})
        yield
        _write(self._journal, {"op": op, "do": "done"})


def _write(journal: int, line: Line) -> None:
    """Write one line to the journal; what was written outlives the process."""
    os.write(journal, f"{json.dumps(line, ensure_ascii=False)}\n".encode())


# --- what is checked


@dataclass(slots=True)
class Told:
    """What the journal tells of one note; what was begun may be done or not."""

    space: tuple[str, ...]
    texts: list[str]  # the one it was added with, then those of its corrections
    added: bool  # for sure
    changing: bool = False
    leaving: bool = False
    gone: bool = False  # for sure
    newer: str | None = None  # the note that takes its place, for sure


@dataclass(slots=True)
class Journal:
    """What processes did to a memory: notes by key, how often what was done, and exceptions."""

    notes: dict[str, Told] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Return what a journal tells."""
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        ended = {line["op"] for line in lines if line["do"] == "done"}
        journal = cls(faults=[line["why"] for line in lines if line["do"] == "fault"])
        for line in lines:
            if "space" in line:
                journal._take(line, ended=line["op"] in ended)
        return journal

    def _take(self, line: Line, *, ended: bool) -> None:
        do, space = line["do"], tuple(line["space"])
        self.done[do] += ended
        if do == "add":
            for key, text in line["texts"].items():
                self.notes[key] = Told(space, [text], added=ended)
                if ended and "older" in line and line["older"] in self.notes:
                    self.notes[line["older"]].newer = key
        elif do in ("update", "undo"):
            self.notes[line["key"]].texts += [line["text"]] if "text" in line else []
            self.notes[line["key"]].changing = True
            for key, told in self.notes.items() if do == "undo" else ():
                if line["key"] in (key, told.newer):  # that may be what was undone
                    told.newer = None
        elif do in ("delete", "clear"):
            for key, told in self.notes.items():
                if told.space == space and line.get("key", key) == key:
                    told.leaving, told.gone = True, told.gone or ended


class Left:
    """All that can be read of a memory: the lines of its export, by the note that they belong to."""

    def __init__(self, memory: AgenticMemory) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "export.jsonl"
            memory.export(path)
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.by_key = {line["note"]["key"]: line["note"] for line in lines if "note" in line}
        self.superseded: dict[str, set[str]] = {}
        runtime = memory._runtime
        unfinished = run_flow(resolve(runtime.store.unfinished()))
        self.wrong = [f"{space} has something left" for space in unfinished]
        for space in memory.namespaces():
            notes = memory.get_all(namespace=space, limit=10**6)
            self.superseded |= {note.id: set(note.supersessions) for note in notes}
            wrong = run_flow(differing(writer_of(runtime, space), [note.id for note in notes]))
            self.wrong += [f"the view of {one} is not what its decisions say" for one in wrong]
        self._texts: defaultdict[str, str] = defaultdict(str)
        for line in lines:
            about = line.get("decision") or line.get("note") or {}
            text = json.dumps(line, ensure_ascii=False).casefold()
            self._texts[about.get("note", about.get("id", ""))] += text
        self._all = "\n".join(self._texts.values())

    def holders(self, secret: str) -> set[str]:
        """Return the ids of the notes in which, or in whose history, a secret stands."""
        if secret not in self._all:
            return set()
        return {note_id for note_id, text in self._texts.items() if secret in text}


def faults(journal: Journal, left: Left) -> Iterator[str]:
    """Yield what is wrong with what is left of a memory."""
    yield from journal.faults
    yield from left.wrong
    for key, told in journal.notes.items():
        note = left.by_key.get(key)
        said = note["content"] if note else ""
        if note is None and told.added and not told.leaving:
            yield f"{key} was added and acknowledged, and is lost"
        newer = left.by_key.get(told.newer) if told.newer else None
        if note and newer and newer["id"] not in left.superseded[note["id"]]:
            yield f"{key} was superseded by {told.newer}, and is current"
        if note and told.gone:
            yield f"{key} was deleted and acknowledged, and is there"
        if note and not told.changing and said != told.texts[0]:
            yield f"{key} was added as {told.texts[0]!r} and is {said!r}"
        for text in told.texts:
            secret = text.removeprefix("It is ").removesuffix(".").casefold()
            holders = left.holders(secret) - {note["id"] if note else ""}
            if holders and text != said:
                what = "replaced" if note else "deleted"
                yield f"{secret!r} of {key} was {what}, and stands in {sorted(holders)}"


# --- the runs


@dataclass(slots=True)
class Report:
    """What happened in all runs: what was done is counted by the journal that tells of it."""

    kills: int = 0
    faults: list[str] = field(default_factory=list)
    told: dict[Path, Counter[str]] = field(default_factory=dict)

    @property
    def done(self) -> Counter[str]:
        """How often what was done."""
        return sum(self.told.values(), Counter())

    def check(self, memory: AgenticMemory, path: Path, about: str) -> bool:
        """Compare what is left of a memory with what a journal tells, and return whether anything is wrong."""
        journal = Journal.read(path)
        found = list(faults(journal, Left(memory)))
        self.faults += [f"{about}: {fault}" for fault in found]
        self.told[path] = journal.done
        return bool(found)


def run(folder: Path, kills: int, seed: int = 0) -> Report:
    """Kill that many processes, check each time, and return what was found."""
    report, dice = Report(), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    left, place = 0, folder
    for report.kills in range(1, kills + 1):
        if not left:
            left, place = KILLS_A_FOLDER, folder / str(report.kills)
        journal = place.with_suffix(".journal")
        _start_and_kill(place, journal, f"{seed}-{report.kills}", dice, report.kills)
        with opened(place) as memory:
            is_wrong = report.check(memory, journal, f"kill {report.kills}")
        left = 0 if is_wrong else left - 1  # after a fault, the next ones may follow from it
    return report


def _start_and_kill(place: Path, journal: Path, seed: str, dice: random.Random, at: int) -> None:
    """Start a process, and kill it while it works; every now and then while it opens the memory."""
    wait_for, within = ("start", OPENING) if at % OPENING_EVERY == 0 else ("open", WORKING)
    command = [sys.executable, "-m", "tests.protocol.kills", str(place), str(journal), seed]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            if wait_for not in map(str.strip, process.stdout or ()):
                raise RuntimeError(f"the process ended by itself with {process.wait()}")
            time.sleep(dice.uniform(0, within))
        finally:
            process.kill()


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
