"""What every flow works with: the ports in their synchronous or asynchronous form, the settings, shared state."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from ._sync import Mapper
from .budget import Budget
from .config import MemoryConfig
from .notes import RULES, Note
from .plans import Cost
from .ports import ChatModel, Completion, Embedder, NoteStore, Vector

SIZE = 1024  # vectors; with 384 dimensions 1.5 MiB
COSTS = ("calls", "input_tokens", "output_tokens")


class VectorCache:
    """Safe to use from threads. A text is known by a digest, so that nothing deleted lives on in here."""

    def __init__(self, size: int = SIZE) -> None:
        """Start empty; of more than `size` vectors the least recently used go first."""
        self._size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, role: str, text: str) -> Vector | None:
        """Return the vector of a text as a `"document"` or as a `"query"`, if it is known."""
        key = _key(role, text)
        with self._lock:
            if key in self._vectors:
                self._vectors.move_to_end(key)
            return self._vectors.get(key)

    def put(self, role: str, text: str, vector: Vector) -> None:
        """Keep a vector."""
        with self._lock:
            # A row is a view that would keep its whole batch in memory.
            self._vectors[_key(role, text)] = vector.copy()
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._vectors.clear()


def _key(role: str, text: str) -> bytes:
    return blake2b(f"{role}:{text}".encode(errors="surrogatepass"), digest_size=16).digest()


class Usage:
    """Thread-safe counters of one model, readable as a dict at any time."""

    def __init__(self, model: str, whole: Usage | None = None) -> None:
        """Start at zero.

        Args:
            model: The name it is recorded by in notes and history.
            whole: Counters that count all that these count.
        """
        self._model, self._whole = model, whole
        self._lock = threading.Lock()
        self._tasks: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def completed(self, task: str, completion: Completion) -> None:
        """Count a call that was answered."""
        self.count(
            task,
            calls=1,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
        )

    def count(self, task: str, **amounts: int) -> None:
        """Add to the counters of a task, such as `rejected_replies`, `refused`, `unavailable`."""
        with self._lock:
            self._tasks[task].update(amounts)
        if self._whole is not None:
            self._whole.count(task, **amounts)

    def cost(self) -> Cost:
        """Return what answered calls cost; a model that works by rules costs nothing."""
        if self._model == RULES:
            return Cost()
        with self._lock:
            tasks = {
                task: {name: counts[name] for name in COSTS}
                for task, counts in self._tasks.items()
                if counts["calls"]
            }
        return Cost(model=self._model, tasks=tasks)

    def snapshot(self) -> dict[str, Mapping[str, Any]]:
        """Return the counters of each task, their sums under `"total"`, and under `"models"` those by model."""
        with self._lock:
            tasks = {task: dict(counts) for task, counts in self._tasks.items()}
        total: Counter[str] = Counter()
        for counts in tasks.values():
            total.update(counts)
        models = {self._model: dict(total)} if tasks else {}
        return {**tasks, "total": dict(total), "models": models}


class Claims:
    """The notes that this process is working on, so that no two evolutions take the same one."""

    def __init__(self) -> None:
        """Start with nothing claimed."""
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    @contextmanager
    def claiming(self, notes: Iterable[Note]) -> Iterator[Sequence[Note]]:
        """Yield those of the notes that nobody else is working on, and hold them meanwhile."""
        with self._lock:
            mine = [note for note in notes if note.id not in self._ids]
            self._ids.update(note.id for note in mine)
        try:
            yield mine
        finally:
            with self._lock:
                self._ids.difference_update(note.id for note in mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The ports as the caller's form of a flow sees them."""

    store: NoteStore
    embedder: Embedder
    model: ChatModel
    model_name: str
    config: MemoryConfig
    usage: Usage
    map: Mapper
    budget: Budget = field(default_factory=Budget)
    vectors: VectorCache = field(default_factory=VectorCache)
    claims: Claims = field(default_factory=Claims)

    def counting(self) -> Runtime:
        """Return the same with counters of its own, for what one operation costs."""
        return replace(self, usage=Usage(self.model_name, self.usage))
