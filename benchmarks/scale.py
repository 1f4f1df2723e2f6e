"""Measures time of a search and space of a memory over the number of notes, each size in a process of its own.

Synthetic notes in one namespace of the embedded engine; a search is hybrid, follows links and returns whole notes, and
the vector of the query is known beforehand. Beside it stands the engine alone with bare vectors: as they are, as int8 copies
in memory, and on disk; `--texts` says what that costs in recall with the vectors of real texts. What was measured is kept in `cache` in --out.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import qdrant_edge as edge
from matplotlib.figure import Figure

from amem_integrations import MiniLmEmbedder
from amem_integrations.errors import AmemError
from amem_integrations.retrieval.ranking import FUSION_DEPTH
from amem_integrations.stored_note import Vector

from . import command, plots
from .cache import Cache, key_of
from .data import load
from .provenance import code_digest, versions
from .report import Table, write
from .statistics import rounded
from .synthetic import BATCH, DIMENSIONS, SPACE, KnownVectors, World, fill, opened
from .timing import Tape, milliseconds

ROOT = Path(__file__).parents[1]
MB = 2**20
K, LINKS, SEED, ROUNDS = 10, 2, 7, 4
# A product of matrices in more threads would wait for a processor, which makes it look slow.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
TIMES = {
    "search_ms": "search",
    "without_links_ms": "without links",
    "engine_ms": "its engine calls",
    "dense_scan_ms": "numpy scan, dense",
}
SPACES = {
    "memory_mb": "process",
    "private_mb": "process, not of files",
    "disk_mb": "folder",
    "vectors_mb": "bare vectors",
}

EXACT, INT8, RESCORED, ON_DISK = "as they are", "int8", "int8, rescored", "on disk"

Values = Mapping[str, Any]
Report = dict[str, Any]


def measure_row(number: int, queries: int, folder: str) -> Report:
    """Build a memory of so many notes in a folder, and return how long its searches take and what it takes up.

    Returns:
        The number of `notes`, the percentiles `p50` and `p95` of what is timed (`…_ms`), the mean
        `insert_ms` of a note that is encoded already, and sizes in MB of 2**20 bytes (`…_mb`): the process by how much
        it grew, if the system is Linux, also without what is mapped from files; the folder; and the bare vectors.
    """
    world, embedder = World(links=LINKS, seed=SEED), KnownVectors()
    embedder.known = world.questions(queries)
    before = _memory_mb()
    with opened(folder, embedder) as memory:
        row: Report = {"notes": number, "insert_ms": round(fill(memory, world, number), 4)}
        for text in embedder.known:  # what is loaded on first use counts as memory, not as time
            memory.search(text, namespace=SPACE, k=K)
        row |= {name: round(now - before[name], 1) for name, now in _memory_mb().items()}
        matrix, tape = world.vectors(number), Tape(memory)
        times: dict[str, list[float]] = {name: [] for name in TIMES}
        for text, vector in [*embedder.known.items()] * ROUNDS:
            find = partial(memory.search, text, namespace=SPACE, k=K)
            whole, engine = tape.time(find)
            times["search_ms"].append(whole)
            times["engine_ms"].append(engine)
            times["without_links_ms"].append(milliseconds(partial(find, links=False)))
            times["dense_scan_ms"].append(milliseconds(partial(nearest, matrix, vector)))
    row |= {name: _percentiles(taken) for name, taken in times.items()}
    bare = bare_vectors(matrix, np.stack(list(embedder.known.values())), ROUNDS)
    return {
        **row,
        "bare": bare,
        "disk_mb": _disk_mb(Path(folder)),
        "vectors_mb": round(matrix.nbytes / MB, 2),
    }


def bare_vectors(matrix: Vector, queries: Vector, rounds: int = 1) -> Report:
    """Return by way of keeping vectors the milliseconds of a search for ten, their recall, and the MB of their folder."""
    best = [set(nearest(matrix, query)[:K]) for query in queries]
    found: Report = {}
    for ways in ([EXACT], [INT8, RESCORED], [ON_DISK]):
        with TemporaryDirectory(prefix="amem-bare-") as folder:
            shard = _shard(folder, matrix, ways[0])
            for way in ways:
                rescore = edge.QuantizationSearchParams(rescore=way == RESCORED, oversampling=2.0)
                params, hits, times = edge.SearchParams(quantization=rescore), [], []
                for query in [*queries] * rounds:
                    near = edge.Query.Nearest(query.tolist(), using="bare")
                    asked = edge.QueryRequest(limit=K, query=near, params=params)
                    times.append(milliseconds(lambda: hits.append(shard.query(asked))))  # noqa: B023 - called at once
                pairs = zip(best, hits, strict=False)
                shares = [len(some & {hit.id for hit in ten}) / len(some) for some, ten in pairs]
                found[way] = {
                    **_percentiles(times),
                    "recall": rounded(fmean(shares)),
                    "disk_mb": _disk_mb(Path(folder)),
                }
            shard.close()
    return found


def _shard(folder: str, matrix: Vector, way: str) -> edge.EdgeShard:
    """Return the engine alone with these vectors, searched without a graph."""
    small = edge.ScalarQuantizationConfig(edge.ScalarType.Int8, always_ram=True)
    flat = edge.HnswIndexConfig(m=0, ef_construct=16, full_scan_threshold=10)
    size: dict[str, Any] = {
        "on_disk": way != EXACT,
        "quantization_config": small if way == INT8 else None,
    }
    kept = edge.EdgeVectorParams(matrix.shape[1], edge.Distance.Cosine, hnsw_config=flat, **size)
    soon = edge.EdgeOptimizersConfig(indexing_threshold=1)  # copies are made of every segment
    shard = edge.EdgeShard.create(
        folder, edge.EdgeConfig(vectors={"bare": kept}, optimizers=soon, wal_enabled=False)
    )
    for start in range(0, len(matrix), BATCH):
        rows = enumerate(matrix[start : start + BATCH].tolist(), start)
        points = [edge.Point(place, {"bare": row}, {}) for place, row in rows]
        shard.update(edge.UpdateOperation.upsert_points(points))
    shard.optimize()
    return shard


def recall_of_texts(path: Path) -> Report:
    """Return what `bare_vectors` gives for the turns and questions of a LoCoMo file, encoded by the default embedder."""
    conversations, embedder = load(path), MiniLmEmbedder()
    turns = [f"{turn.speaker}: {turn.content}" for one in conversations for turn in one.turns]
    asked = [question.text for one in conversations for question in one.questions]
    queries = np.stack([embedder.embed_query(text) for text in asked])
    return {
        "texts": len(turns),
        "queries": len(asked),
        **bare_vectors(embedder.embed_documents(turns), queries),
    }


def exponent(rows: Sequence[Values], name: str) -> float | None:
    """Return the b of a·n^b that fits a figure over the sizes best, or None with fewer than two of them."""
    values = [row.get(name) for row in rows]
    values = [one["p50"] if isinstance(one, Mapping) else one for one in values]
    points = [(row["notes"], one) for row, one in zip(rows, values, strict=True) if one]
    sizes, figures = np.log(points).T if points else ((), ())
    return float(np.polyfit(sizes, figures, 1)[0]) if len(points) > 1 else None


def nearest(matrix: Vector, vector: Vector) -> Sequence[int]:
    """Return as many of the nearest rows as the memory's own dense list has, best first."""
    cosines = matrix @ vector
    depth = min(FUSION_DEPTH, len(cosines))
    near = np.argpartition(cosines, -depth)[-depth:]
    best: list[int] = near[np.argsort(-cosines[near])].tolist()
    return best


def measure_all(sizes: Sequence[int], queries: int, folder: Path) -> Report:
    """Return `settings` and the `rows` of `measure_row` by size; each is kept in a folder, and measured once.

    Raises:
        AmemError: The process that measured died.
    """
    settings = {
        "queries": queries,
        "k": K,
        "links": LINKS,
        "seed": SEED,
        "rounds": ROUNDS,
        "machine": [platform.system(), platform.machine(), os.cpu_count()],
        "dimensions": DIMENSIONS,
        "code": code_digest(),
        "versions": versions(),
    }
    rows = []
    with closing(Cache(folder)) as kept:
        for size in sizes:
            key = key_of(settings, size)
            if not (known := kept.get([key])):
                print(f"measuring {size:,} notes", file=sys.stderr)
                known = {key: json.dumps(_measured_apart(size, queries)).encode()}
                kept.add(known)
            rows.append(json.loads(known[key]))
    return {"rows": rows, "settings": settings}


def _measured_apart(size: int, queries: int) -> Report:
    """Return the row of a size from a fresh process: a process that has done something else has grown already."""
    with TemporaryDirectory(prefix="amem-scale-") as folder:
        row = ["-m", "benchmarks.scale", "--row", str(size), str(queries), folder]
        run_in: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, **ONE_THREAD}, "text": True}
        done = subprocess.run([sys.executable, *row], check=False, stdout=subprocess.PIPE, **run_in)  # noqa: S603 - this module
    if done.returncode:
        raise AmemError(
            f"the process that measured {size:,} notes ended with status {done.returncode}; if it was killed, there was "
            "too little memory: try fewer notes"
        )
    return dict(json.loads(done.stdout))


def _percentiles(times: Sequence[float]) -> Report:
    return {f"p{share}": rounded(float(np.percentile(times, share))) for share in (50, 95)}


def _memory_mb() -> dict[str, float]:
    """Return this process's memory, and what of it is not mapped from files; nothing where there is no /proc."""
    if not (file := Path("/proc/self/statm")).exists():
        return {}
    fields = file.read_text(encoding="ascii").split()
    resident, mapped = (int(field) * os.sysconf("SC_PAGESIZE") / MB for field in fields[1:3])
    return {"memory_mb": resident, "private_mb": resident - mapped}


def _disk_mb(folder: Path) -> float:
    """Return what a folder takes on the disk: the engine's files are sparse."""
    used = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    return round(used / MB, 1)


def tables(report: Values) -> Iterator[Table]:
    """Yield the tables of a report."""
    rows = report["rows"]
    ratios = [row["search_ms"]["p50"] / row["dense_scan_ms"]["p50"] for row in rows]
    yield Table(
        "Milliseconds of a query, median (95th percentile), and the ratio of the medians of search and scan. Compare within "
        "a row, not between machines: all in it were timed in turn. The scan is the least that an exact search takes",
        [
            {**_labelled(row, TIMES), "search / scan": ratio}
            for row, ratio in zip(rows, ratios, strict=True)
        ],
    )
    yield Table(
        "What a memory takes up, in MB of 2²⁰ bytes (of the process by how much it grew), and what it takes to insert a note "
        "that is encoded already",
        [{**_labelled(row, SPACES), "insertion, ms": row["insert_ms"]} for row in rows],
    )
    yield Table(
        "The engine alone, with bare vectors and no graph: milliseconds of a search for ten, median (95th percentile)",
        [{"notes": row["notes"], **row["bare"]} for row in rows],
    )
    real = dict(report.get("texts") or {})
    about = (
        f"{real.pop('queries', 0)} questions to {real.pop('texts', 0)} turns of real conversations"
    )
    yield Table(
        f"What keeping vectors in a smaller form costs: {about}",
        [{"vectors": n, f"recall@{K}": one["recall"], "ms": one["p50"]} for n, one in real.items()],
    )
    yield Table(
        "How time and space grow with the number of notes n: the exponent b of a·n^b",
        [{label: exponent(rows, name) for name, label in (TIMES | SPACES).items()}],
    )


def _labelled(row: Values, columns: Mapping[str, str]) -> Report:
    return {"notes": row["notes"], **{label: row.get(name) for name, label in columns.items()}}


def figure(rows: Sequence[Values]) -> Figure:
    """Return the medians of a search and of what it is compared with, and what the memory takes up, on logarithmic axes."""
    made, (times, spaces) = plots.axes_in(2, height=4)
    sizes = [row["notes"] for row in rows]
    for axes, labels, unit in ((times, TIMES, "ms a query"), (spaces, SPACES, "MB (of 2²⁰ bytes)")):
        for name, line, hue in zip(labels, ("o-", "^-", "v--", "s:"), plots.HUES, strict=False):
            values = [
                row[name]["p50"] if labels is TIMES else row.get(name) or math.nan for row in rows
            ]
            power = exponent(rows, name)
            label = labels[name] if power is None else f"{labels[name]} ~ n^{power:.2f}"
            axes.plot(sizes, values, line, color=hue, ms=5, lw=1.5, label=label)
        axes.set(xscale="log", yscale="log", xlabel="notes", ylabel=unit)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.minorticks_off()
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1))  # above, where it covers nothing
    return made


def _scale(given: Namespace) -> None:
    sizes = command.numbers(given.sizes, "sizes")
    given.out.mkdir(parents=True, exist_ok=True)
    report = measure_all(sizes, given.queries, given.out / "cache")
    report["texts"] = recall_of_texts(given.texts) if given.texts else None
    plot = {"scale": figure(report["rows"])}
    write(given.out, "scale", report, tables(report), plot)


# fmt: off
main = command.command(
    "scale", __doc__, _scale,
    command.option("--sizes", default="1000,10000,100000", help="numbers of notes, separated by commas"),
    command.option("--queries", type=command.count, default=50, help="how many searches are timed, several times each"),
    command.option("--texts", type=Path, metavar="FILE", help="a LoCoMo file: recall of smaller vectors"),
    command.option("--out", type=Path, default=Path("report"), help="folder of JSON, Markdown and a plot"),
)
# fmt: on

if __name__ == "__main__":
    if sys.argv[1:2] == ["--row"]:
        sys.stdout.write(json.dumps(measure_row(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
    else:
        sys.exit(main())
