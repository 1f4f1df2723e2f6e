"""Builds a memory of some size, and measures its time and space, with the vectors of queries known beforehand."""

from __future__ import annotations

import os
import platform
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from amem_integrations import AgenticMemory
from amem_integrations.errors import MissingExtraError
from amem_integrations.filters import check_count
from amem_integrations.ports import Embedder, Vector
from amem_integrations.ranking import FUSION_DEPTH
from amem_integrations.runtime import resolve, run
from amem_integrations.stores import EdgeStore

from ...synthetic import DIMENSIONS, SPACE, KnownVectors, World
from ..provenance import code_digest, versions
from ..statistics import percentile

try:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]
except ModuleNotFoundError as error:
    raise MissingExtraError("threadpoolctl", "evaluation") from error

MB = 2**20
BATCH = 250  # notes inserted at once
ROUNDS = 4  # of all queries
WORDS = 9  # of a query

# A tokenizer would split made-up words into several tokens each, which takes longer.
_PLAIN = (
    "when where who what did she he they move meet paint sister brother house garden city river "
    "summer week last first before after with about think want book music train work friend dog"
)

_BLOCK = 512  # bytes: the unit of `st_blocks`

Row = dict[str, Any]
Progress = Callable[[str, int, int], None]  # stage, done, total
Sizes = dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is measured: `queries` searches for `k` notes each, `links` from each note to earlier ones."""

    queries: int = 50
    k: int = 10
    links: int = 2
    seed: int = 7

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("queries", "k", "links"):
            check_count(name, getattr(self, name))

    def described(self) -> dict[str, Any]:
        """Return everything the figures depend on, as JSON values."""
        system, architecture, cpus = platform.system(), platform.machine(), os.cpu_count()
        machine = {"system": system, "architecture": architecture, "cpus": cpus}
        return {
            **asdict(self),
            "rounds": ROUNDS,
            "dimensions": DIMENSIONS,
            "machine": machine,
            "code": code_digest(),
            "versions": versions(),
        }


class Tape:
    """The engine calls of an embedded store, to be timed in the same moment as the operation itself."""

    def __init__(self, store: EdgeStore) -> None:
        self.calls: list[partial[Any]] = []
        for shard in (store._notes, store._history):  # noqa: SLF001 - the engine is private
            engine: Any = shard
            engine._shard = _Recorder(engine._shard, self.calls)  # noqa: SLF001

    def time(self, operation: Callable[[], object]) -> tuple[float, float]:
        """Return the milliseconds of an operation on the memory, and of its engine calls alone."""
        self.calls.clear()
        return milliseconds(operation), milliseconds(lambda: [call() for call in self.calls])


class _Recorder:
    def __init__(self, engine: Any, calls: list[partial[Any]]) -> None:  # noqa: ANN401 - the engine's type is private
        self._engine, self._calls = engine, calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def record(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it takes
            call = partial(getattr(self._engine, name), *args, **options)
            self._calls.append(call)
            return call()

        return record


def milliseconds(operation: Callable[[], object]) -> float:
    """Return how long an operation takes."""
    start = time.perf_counter()
    operation()
    return (time.perf_counter() - start) * 1000


def measure_row(number: int, setup: Setup, progress: Progress) -> Row:
    """Build a memory of `number` notes, measure it, and return a row of the report (see `measure_all`)."""
    world, embedder = World(links=setup.links, seed=setup.seed), KnownVectors()
    questions = [world.text(topic, WORDS) for topic in range(setup.queries)]
    embedder.known = {text: world.query(topic) for topic, text in enumerate(questions)}
    before = memory_mb()
    with TemporaryDirectory(prefix="amem-scale-") as folder:
        with AgenticMemory.open(folder, embedder=embedder) as memory:
            store: Any = memory._runtime.store  # noqa: SLF001
            filled = _fill(store, world, number, progress)
            for text in questions:  # what is loaded on first use counts as memory, not as time
                memory.search(text, namespace=SPACE, k=setup.k)
            grown = growth_mb(before)
            searching = partial(progress, f"{number:,} notes: search")
            matrix = world.vectors(number)
            times = _times(memory, Tape(store), embedder.known, matrix, setup.k, searching)
        spaces = {"disk_mb": disk_mb(Path(folder)), "vectors_mb": round(matrix.nbytes / MB, 2)}
    return {"notes": number, **filled, **times, **grown, **spaces}


def encoding_ms(embedder: Embedder, setup: Setup) -> dict[str, Any]:
    """Return what encoding a query takes: `embedder`, and percentiles in milliseconds."""
    choose = random.Random(setup.seed)
    texts = [" ".join(choose.choices(_PLAIN.split(), k=WORDS)) for _ in range(setup.queries + 1)]

    def encode(text: str) -> object:
        return run(resolve(embedder.embed_query(text)))

    times = [milliseconds(partial(encode, text)) for text in texts]
    return {"embedder": embedder.name, **_percentiles(times[1:])}  # the first one loads the model


def _fill(store: EdgeStore, world: World, number: int, progress: Progress) -> Row:
    notes = world.notes(number)
    spent, links, done = 0.0, 0, 0
    while batch := list(islice(notes, BATCH)):
        spent += milliseconds(partial(store.insert, SPACE, batch, []))
        links += sum(len(item.note.links) for item in batch)
        done += len(batch)
        progress(f"{number:,} notes: insert", done, number)
    return {"links": round(links / number, 2), "insert_ms": round(spent / number, 4)}


def _times(
    memory: AgenticMemory,
    tape: Tape,
    asked: Mapping[str, Vector],
    matrix: Vector,
    k: int,
    progress: Callable[[int, int], None],
) -> Row:
    times: defaultdict[str, list[float]] = defaultdict(list)
    # One thread each: threads of numpy that wait for a processor would make the scan look slow.
    with threadpool_limits(1):
        for done in range(1, ROUNDS + 1):
            for text, vector in asked.items():
                find = partial(memory.search, text, namespace=SPACE, k=k)
                whole, engine = tape.time(find)
                times["search_ms"].append(whole)
                times["engine_ms"].append(engine)
                times["without_links_ms"].append(milliseconds(partial(find, links=False)))
                times["dense_scan_ms"].append(milliseconds(partial(_scan, matrix, vector)))
            progress(done, ROUNDS)
    return {name: _percentiles(spent) for name, spent in times.items()}


def _scan(matrix: Vector, vector: Vector) -> Sequence[int]:
    """Return as many of the nearest notes as the memory's own dense list has, best first."""
    cosines = matrix @ vector
    depth = min(FUSION_DEPTH, len(cosines))
    near = np.argpartition(cosines, -depth)[-depth:]
    best: list[int] = near[np.argsort(-cosines[near])].tolist()
    return best


def _percentiles(times: Sequence[float]) -> Row:
    return {f"p{share}": round(percentile(times, share) or 0.0, 4) for share in (50, 95)}


def memory_mb() -> Sizes:
    """Return this process's memory (on macOS its peak), and what of it is not mapped from files, in MB."""
    if sys.platform == "linux":
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
        resident, mapped = (int(field) * os.sysconf("SC_PAGESIZE") / MB for field in fields[1:3])
        return {"memory_mb": resident, "private_mb": resident - mapped}
    most = None
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - not on Windows

        unit = MB if sys.platform == "darwin" else 1024
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"memory_mb": most, "private_mb": None}


def growth_mb(before: Sizes) -> Sizes:
    """Return by how much this process has grown since."""
    return {
        name: None if now is None else round(now - (before[name] or 0.0), 1)
        for name, now in memory_mb().items()
    }


def disk_mb(folder: Path) -> float:
    """Return the MB that a folder takes on the disk: the engine's files are sparse."""
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    used = sum(getattr(one, "st_blocks", one.st_size / _BLOCK) * _BLOCK for one in stats)
    return round(used / MB, 1)
