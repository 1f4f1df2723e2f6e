"""Measures time of a search and space of a memory over the number of notes, each size in a process of its own.

Synthetic notes in one namespace of the embedded engine; a search is hybrid, follows links and returns whole notes, and
the vector of the query is known beforehand. Sizes that the report in --out has are not measured again.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from amem_integrations.errors import AmemError, InvalidInputError
from amem_integrations.ranking import FUSION_DEPTH
from amem_integrations.stored_note import Vector

from . import command, plots
from .cache import write_json
from .provenance import code_digest, versions
from .report import Table, cell, write
from .statistics import percentile
from .synthetic import DIMENSIONS, SPACE, KnownVectors, World, fill, opened
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
    return {**row, "disk_mb": _disk_mb(Path(folder)), "vectors_mb": round(matrix.nbytes / MB, 2)}


def nearest(matrix: Vector, vector: Vector) -> Sequence[int]:
    """Return as many of the nearest rows as the memory's own dense list has, best first."""
    cosines = matrix @ vector
    depth = min(FUSION_DEPTH, len(cosines))
    near = np.argpartition(cosines, -depth)[-depth:]
    best: list[int] = near[np.argsort(-cosines[near])].tolist()
    return best


def measure_all(sizes: Sequence[int], queries: int, path: Path) -> Report:
    """Measure each size that the report in a file does not have yet, and keep each row as soon as it is there.

    Returns:
        `settings`, and by size the `rows` of `measure_row`.

    Raises:
        InvalidInputError: A number below 1, or the file is something else.
        AmemError: The process that measured died.
    """
    for name, values in (("sizes", sizes), ("queries", [queries])):
        if not values or min(values) < 1:
            raise InvalidInputError(f"{name}={list(values)!r} must be numbers of at least 1")
    report = _known(path, queries)
    rows = {row["notes"]: row for row in report["rows"]}
    for size in sorted(set(sizes) - rows.keys()):
        print(f"measuring {size:,} notes", file=sys.stderr)
        rows[size] = _measured_apart(size, queries)
        report["rows"] = [rows[one] for one in sorted(rows)]
        write_json(path, report)
    return report


def _known(path: Path, queries: int) -> Report:
    """Return the report of a file, or one without rows if there is no file, or if the file has other settings."""
    # fmt: off
    settings = {"queries": queries, "k": K, "links": LINKS, "seed": SEED, "rounds": ROUNDS, "dimensions": DIMENSIONS}
    machine = {"system": platform.system(), "architecture": platform.machine(), "cpus": os.cpu_count()}
    settings |= {"machine": machine, "code": code_digest(), "versions": versions()}
    # fmt: on
    fresh: Report = {"rows": [], "settings": settings}
    if not path.exists():
        return fresh
    try:
        found: Report = json.loads(path.read_text(encoding="utf-8"))
        found["rows"] = [row for row in found["rows"] if row["notes"]]
        return found if found["settings"] == settings else fresh
    except (KeyError, TypeError, ValueError) as error:
        said = f"{str(path)!r} is no report of scaling ({error!r}): remove it, or write elsewhere"
        raise InvalidInputError(said) from error


def _measured_apart(size: int, queries: int) -> Report:
    """Return the row of a size from a fresh process: a process that has done something else has grown already."""
    with TemporaryDirectory(prefix="amem-scale-") as folder:
        command_line = [
            sys.executable,
            "-m",
            "benchmarks.scale",
            "--row",
            str(size),
            str(queries),
            folder,
        ]
        run_in = {"cwd": ROOT, "env": {**os.environ, **ONE_THREAD}, "text": True}
        done = subprocess.run(command_line, check=False, stdout=subprocess.PIPE, **run_in)  # noqa: S603 - this module
    if done.returncode:
        raise AmemError(
            f"the process that measured {size:,} notes ended with status {done.returncode}; if it was killed, there was "
            "too little memory: try fewer notes"
        )
    return dict(json.loads(done.stdout))


def _percentiles(times: Sequence[float]) -> Report:
    return {f"p{share}": percentile(times, share) for share in (50, 95)}


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
    yield Table(
        "Milliseconds of a query, median (95th percentile), and the ratio of the medians of search and scan. Compare within "
        "a row, not between machines: all in it were timed in turn. The scan is the least that an exact search takes",
        [
            {
                "notes": row["notes"],
                **{label: _both(row[name]) for name, label in TIMES.items()},
                "search / scan": row["search_ms"]["p50"] / row["dense_scan_ms"]["p50"],
            }
            for row in report["rows"]
        ],
    )
    yield Table(
        "What a memory takes up, in MB of 2²⁰ bytes (of the process by how much it grew), and what it takes to insert a note "
        "that is encoded already",
        [
            {
                "notes": row["notes"],
                **{label: row.get(name) for name, label in SPACES.items()},
                "insertion, ms": row["insert_ms"],
            }
            for row in report["rows"]
        ],
    )


def _both(value: Values) -> str:
    return f"{cell(value['p50'])} ({cell(value['p95'])})"


def figure(rows: Sequence[Values]) -> Figure:
    """Return the medians of a search and of what it is compared with, and what the memory takes up, on logarithmic axes."""
    made, (times, spaces) = plots.grid(1, 2, height=3.4)
    sizes = [row["notes"] for row in rows]
    for axes, labels, unit in ((times, TIMES, "ms a query"), (spaces, SPACES, "MB (of 2²⁰ bytes)")):
        for name, line, hue in zip(labels, ("o-", "^-", "v--", "s:"), plots.HUES, strict=False):
            values = [row.get(name) for row in rows]
            values = [value["p50"] if labels is TIMES else value or math.nan for value in values]
            axes.plot(sizes, values, line, color=hue, ms=5, lw=1.5, label=labels[name])
        axes.set(xscale="log", yscale="log", xlabel="notes", ylabel=unit)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.legend()
    return made


def _scale(given: Namespace) -> None:
    sizes = command.numbers(given.sizes, "sizes")
    given.out.mkdir(parents=True, exist_ok=True)
    report = measure_all(sizes, given.queries, given.out / "scale.json")
    plot = {"scale": figure(report["rows"])}
    write(given.out, "scale", report, tables(report), plot, as_json=given.json)


def _parser() -> ArgumentParser:
    layout = {"description": __doc__, "formatter_class": ArgumentDefaultsHelpFormatter}
    parser = ArgumentParser("python -m benchmarks.scale", **layout)
    add = parser.add_argument
    add("--sizes", default="1000,10000,100000", help="numbers of notes, separated by commas")
    add("--queries", type=int, default=50, help="how many searches are timed, several times each")
    add("--out", type=Path, default=Path("report"), help="folder of JSON, Markdown and a plot")
    add("--json", action="store_true", help="print the report as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return command.run(_parser, _scale, arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--row"]:
        sys.stdout.write(json.dumps(measure_row(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
    else:
        sys.exit(main())
