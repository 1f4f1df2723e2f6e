"""Building the memory of a conversation, or opening the one that is kept from an earlier run.

It is kept in a folder under a key of everything that decides it. One that was not finished is built anew.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from amem_integrations import AgenticMemory
from amem_integrations.config import MemoryConfig
from amem_integrations.errors import StoreError, StoreLockedError
from amem_integrations.notes import Note
from amem_integrations.ports import ChatModel, Embedder
from amem_integrations.testing import RecordedModel

from .cache import write_json
from .data import Turn, Writes
from .models import DIGESTING

log = logging.getLogger("amem_integrations")

DONE = "built.json"  # written last, so a folder without it is not finished
_ALL = 1_000_000

Progress = Callable[[int, int], None]  # done, total


@dataclass(slots=True, kw_only=True)
class Built:
    """A memory, the model that makes its notes, and what building took in an earlier run, if it is `known`."""

    memory: AgenticMemory
    namespace: tuple[str, ...]
    model: ChatModel | None = None
    known: Writes | None = None
    _seconds: float = field(default=0.0, init=False)

    def add(self, turns: Sequence[Turn], progress: Progress | None = None) -> None:
        """Add turns, and link and evolve them; nothing is added to a memory that is built already."""
        if self.known is not None:
            return
        start = time.perf_counter()
        items = [turn.as_input() for turn in turns]
        self.memory.add_many(items, namespace=self.namespace, progress=progress or False)
        self._seconds += time.perf_counter() - start

    def notes(self) -> list[Note]:
        """Return all notes, and facts, but no digests."""
        return self.memory.get_all(
            namespace=self.namespace, limit=_ALL, where={"kind": {"$ne": "digest"}}
        )

    def writes(self) -> Writes:
        """Return what building took so far; without a model the calls of rules are not counted."""
        if self.known is not None:
            return self.known
        notes = self.notes()
        usage = self.memory.stats()["usage"]
        spent = Counter(usage["total"] if self.model else {})
        on_digests = Counter[str]()
        for task in DIGESTING if self.model else ():
            on_digests.update(usage.get(task, {}))
        spent.subtract(on_digests)
        where = {"kind": "digest"}
        digests = self.memory.get_all(namespace=self.namespace, limit=_ALL, where=where)
        recorded = self.model if isinstance(self.model, RecordedModel) else None
        return Writes(
            notes=len(notes),
            model_calls=spent["calls"],
            input_tokens=spent["input_tokens"],
            output_tokens=spent["output_tokens"],
            rejected_replies=spent["rejected_replies"],
            links=sum(link.direction == "out" for note in notes for link in note.links.values()),
            updates=sum(entry.cause != note.id for note in notes for entry in note.contexts),
            unfinished=sum(note.state != "done" for note in notes),
            annotated_links=recorded.annotated_links if recorded else 0,
            offered_links=recorded.offered_links if recorded else 0,
            seconds=self._seconds,
            digests=len(digests),
            digest_calls=on_digests["calls"],
            digest_input_tokens=on_digests["input_tokens"],
            digest_output_tokens=on_digests["output_tokens"],
        )


@contextmanager
def kept_memory(
    folder: Path | None,
    build: Callable[[Built], None],
    *,
    namespace: tuple[str, ...],
    embedder: Embedder,
    model: ChatModel | None,
    config: MemoryConfig,
) -> Iterator[Built]:
    """Open the memory kept in a folder; it is built first if it is not there or not finished.

    Without a folder it is empty and deleted afterwards. A `StoreError` is raised if another run has it open.
    """
    with TemporaryDirectory(prefix="amem-eval-") as passing, ExitStack() as opened:
        place = (folder or Path(passing)) / "memory"
        known = _read(folder / DONE) if folder and place.exists() else None
        if known is None:
            _discard(place, embedder)
        memory = AgenticMemory.open(place, model=model, embedder=embedder, config=config)
        built = Built(
            memory=opened.enter_context(memory), namespace=namespace, model=model, known=known
        )
        if folder and known is None:
            build(built)
            built.known = built.writes()
            write_json(folder / DONE, asdict(built.known))
        yield built


def _read(done: Path) -> Writes | None:
    """Return what building took, or None if it was not finished or the file is unreadable."""
    try:
        return Writes(**json.loads(done.read_text(encoding="utf-8"))) if done.exists() else None
    except (TypeError, ValueError) as error:
        log.info("%s cannot be read, so the memory is built again: %r", done, error)
        return None


def _discard(folder: Path, embedder: Embedder) -> None:
    if not folder.exists():
        return
    try:
        AgenticMemory.open(folder, embedder=embedder).close()
    except StoreLockedError:
        raise
    except StoreError as error:
        log.info("%s was left unfinished: %s", folder, error)
    shutil.rmtree(folder)
