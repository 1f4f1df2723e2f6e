"""Kill a process that works on a memory, at random moments, and check what is left; print what was found.

Four threads add, correct, delete, undo, evolve and clear, with a model that copies all that it is shown. Each
text holds a secret of its own. The process is killed (SIGKILL) while it works or while it opens the folder,
with no regard to what it is doing. Then the folder is opened, and checked by what the process had written into a
journal before and after each operation:

- what was added and acknowledged is there, in the words in which it was added;
- what was deleted or cleared and acknowledged is gone, and its secrets stand nowhere in the export;
- what was replaced by a correction stands in the history of its own note only;
- every link is held by both of its notes.

    python benchmarks/kills.py [--kills 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kill_worker import CLEARED, KEPT, open_memory

from amem_integrations import AgenticMemory

WORKER = Path(__file__).with_name("kill_worker.py")
KILLS_A_FOLDER = 20  # then a new one: what is checked grows with every kill
WORKING, OPENING = 1.2, 0.4  # seconds within which the process is killed
OPENING_EVERY = 4  # of so many kills one while the memory is opened

Line = dict[str, Any]


# --- what is checked


@dataclass(slots=True)
class Told:
    """What the journal tells of one note."""

    space: tuple[str, ...]
    added_at: int
    texts: list[str]  # the one it was added with, then those of its corrections
    acknowledged: int | None = None  # when the add had returned
    changed: bool = False
    deleting: bool = False
    deleted: bool = False


@dataclass(slots=True)
class Journal:
    """What a process did to a memory: notes by key, the times of clears, and exceptions."""

    notes: dict[str, Told] = field(default_factory=dict)
    clears: list[tuple[int, float]] = field(default_factory=list)  # begun, returned
    faults: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Return what a journal tells."""
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        ended = {line["op"]: line["at"] for line in lines if line["do"] == "done"}
        journal = cls()
        for line in lines:
            if line["do"] == "fault":
                journal.faults.append(line["why"])
            elif "space" in line:
                journal._take(line, ended.get(line["op"]))
        return journal

    def _take(self, line: Line, ended: int | None) -> None:
        do, space = line["do"], tuple(line["space"])
        self.done[do] += ended is not None
        if do == "add":
            for key, text in line["texts"].items():
                self.notes[key] = Told(space, line["at"], [text], ended)
        elif do == "update":
            ((key, text),) = line["texts"].items()
            self.notes[key].texts.append(text)
            self.notes[key].changed = True
        elif do == "undo":
            self.notes[line["key"]].changed = True
        elif do == "delete":
            self.notes[line["key"]].deleting = True
            self.notes[line["key"]].deleted |= ended is not None
        elif do == "clear":
            self.clears.append((line["at"], float("inf") if ended is None else ended))

    def must_be_there(self, told: Told) -> bool:
        """Return whether a note was added for sure, and nobody has begun to remove it."""
        if told.acknowledged is None or told.deleting:
            return False
        return told.space != CLEARED or all(end < told.added_at for _, end in self.clears)

    def must_be_gone(self, told: Told) -> bool:
        """Return whether a note was deleted for sure, or cleared after it was added for sure."""
        if told.deleted:
            return True
        known = told.acknowledged
        if told.space != CLEARED or known is None:
            return False
        return any(known < begun for begun, end in self.clears if end != float("inf"))


class Left:
    """All that a fresh open can read: the lines of the exports, by the text that they belong to."""

    def __init__(self, memory: AgenticMemory) -> None:
        self.notes: dict[str, Line] = {}
        lines = [line for space in (KEPT, CLEARED) for line in _exported(memory, space)]
        for line in lines:
            if "note" in line:
                self.notes[line["note"]["id"]] = line["note"]
        self.by_key = {note["key"]: note for note in self.notes.values() if note["key"]}
        parts: defaultdict[str, list[str]] = defaultdict(list)
        for line in lines:
            about = line.get("note") or line.get("change") or {}
            note_id = about.get("note_id", about.get("id", ""))
            parts[self._whole(note_id)].append(json.dumps(line, ensure_ascii=False).casefold())
        self._texts = {note_id: "\n".join(texts) for note_id, texts in parts.items()}
        self._all = "\n".join(self._texts.values())

    def _whole(self, note_id: str) -> str:
        """Return the first note of a text by any of them."""
        return self.notes.get(note_id, {}).get("chunk_of") or note_id

    def content(self, note: Line) -> str:
        """Return the whole text of a note."""
        chunks = [other for other in self.notes.values() if other["chunk_of"] == note["id"]]
        ordered = sorted(chunks, key=lambda chunk: chunk["chunk"])
        return "".join(part["content"] for part in [note, *ordered])

    def holders(self, secret: str) -> set[str]:
        """Return the first notes of the texts in whose notes or history a secret stands."""
        if secret not in self._all:
            return set()
        return {note_id for note_id, text in self._texts.items() if secret in text}

    def one_sided(self) -> Iterator[str]:
        """Yield what is wrong with links."""
        for note in self.notes.values():
            for target in note["links"]:
                if note["id"] not in self.notes.get(target, {"links": ()})["links"]:
                    yield f"{note['id']} is linked to {target}, which does not hold the link"


def _exported(memory: AgenticMemory, space: tuple[str, ...]) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        memory.export(path, namespace=space)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def secret_in(text: str) -> str:
    """Return the secret of a text, as it is looked for."""
    return text.removeprefix("It is ").partition(".")[0].casefold()


def faults(journal: Journal, left: Left) -> Iterator[str]:
    """Yield what is wrong with what is left of a memory."""
    yield from journal.faults
    yield from left.one_sided()
    for key, told in journal.notes.items():
        note = left.by_key.get(key)
        if note is None and journal.must_be_there(told):
            yield f"{key} was added and acknowledged, and is lost"
        if note is not None and journal.must_be_gone(told):
            yield f"{key} was deleted and acknowledged, and is there"
        yield from _secret_faults(key, told, note, left)


def _secret_faults(key: str, told: Told, note: Line | None, left: Left) -> Iterator[str]:
    said = "" if note is None else left.content(note)
    if (
        note is not None
        and not told.changed
        and "".join(told.texts[0].split()) != "".join(said.split())
    ):
        yield f"{key} was added as {told.texts[0]!r} and is {said!r}"
    for secret in map(secret_in, told.texts):
        if secret not in said.casefold():
            holders = left.holders(secret) - ({note["id"]} if note else set())
            if holders:
                what = "deleted" if note is None else "replaced"
                yield f"{secret!r} of {key} was {what}, and stands in {sorted(holders)}"


# --- the runs


@dataclass(slots=True)
class Report:
    """What happened in all runs."""

    kills: int = 0
    opening: int = 0
    done: Counter[str] = field(default_factory=Counter)
    secrets: int = 0
    longest_open: float = 0.0
    faults: list[str] = field(default_factory=list)

    def count(self, found: Iterable[str], took: float, *, opening: bool) -> None:
        """Count one kill."""
        self.faults += [f"kill {self.kills}: {fault}" for fault in found]
        self.kills += 1
        self.opening += opening
        self.longest_open = max(self.longest_open, took)


def run(folder: Path, kills: int, seed: int = 0) -> Report:
    """Kill that many processes, check each time, and return what was found."""
    report, rng = Report(), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    left, place = 0, folder
    for number in range(kills):
        if not left:
            left, place = KILLS_A_FOLDER, folder / str(number)
        opening = number % OPENING_EVERY == OPENING_EVERY - 1
        journal_path = place.with_suffix(".journal")
        _start_and_kill(place, journal_path, f"{seed}-{number}", rng, opening=opening)
        started = time.perf_counter()
        with open_memory(place) as memory:
            took = time.perf_counter() - started
            journal = Journal.read(journal_path)
            found = list(faults(journal, Left(memory)))
        report.count(found, took, opening=opening)
        # After a fault, the next ones may follow from it.
        left = 0 if found or number == kills - 1 else left - 1
        if not left:
            report.done += journal.done
            report.secrets += sum(len(told.texts) for told in journal.notes.values())
    return report


def _start_and_kill(
    place: Path, journal: Path, seed: str, rng: random.Random, *, opening: bool
) -> None:
    """Start a process, and kill it while it opens the memory or while it works."""
    before = _count(journal, "start"), _count(journal, "open")
    command = [sys.executable, str(WORKER), str(place), str(journal), seed]
    root = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})  # noqa: S603 - our own file
    try:
        wanted, known = ("start", before[0]) if opening else ("open", before[1])
        while _count(journal, wanted) == known:
            if process.poll() is not None:
                raise RuntimeError(f"the process ended by itself with {process.returncode}")
            time.sleep(0.005)
        time.sleep(rng.uniform(0, OPENING if opening else WORKING))
    finally:
        process.kill()
        process.wait()


def _count(journal: Path, do: str) -> int:
    with suppress(FileNotFoundError):
        return journal.read_text(encoding="utf-8").count(f'"do": "{do}"')
    return 0


def _print(report: Report) -> None:
    print(f"{report.kills} kills, {report.opening} of them while the memory was opened")
    done = ", ".join(f"{count} {do}" for do, count in sorted(report.done.items()))
    print(f"acknowledged: {done}; {report.secrets} secrets")
    print(f"longest open after a kill: {report.longest_open * 1000:.0f} ms")
    print(f"faults: {len(report.faults)}")
    for fault in report.faults[:20]:
        print(f"  {fault}")


def main(arguments: Iterable[str] | None = None) -> int:
    """Run as a program; the status is 1 if anything was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to work, and to leave everything")
    given = parser.parse_args(None if arguments is None else list(arguments))
    with tempfile.TemporaryDirectory(prefix="amem-kills-") as aside:
        report = run(given.folder or Path(aside), given.kills, given.seed)
    _print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
