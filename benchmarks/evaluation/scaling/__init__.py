"""Time of a search, and space of a memory, over the number of notes; each size in a process of its own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from amem_integrations.errors import AmemError, InvalidInputError

from ..cache import write_json
from ..document import Picture, Section, Table, Values, number, table
from .measure import Progress, Row, Setup, encoding_ms, measure_row

__all__ = ["Setup", "encoding_ms", "measure_all", "run_apart", "sections"]

Report = dict[str, Any]
T = TypeVar("T")

_FRESH = get_context("spawn")  # a forked child would inherit the memory that is to be measured
PATIENCE = 10.0  # seconds that a measuring process has to tidy up before it is interrupted again
_TIMES = {
    "search_ms": "search",
    "without_links_ms": "without links",
    "engine_ms": "its engine calls",
    "dense_scan_ms": "numpy scan",
}
_SPACES = {
    "memory_mb": "process, MB",
    "private_mb": "not of files, MB",
    "disk_mb": "folder, MB",
    "vectors_mb": "bare vectors, MB",
    "insert_ms": "insertion of a note, ms",
}


def measure_all(sizes: Sequence[int], setup: Setup, path: Path, progress: Progress) -> Report:
    """Measure each size, and keep each row in the file as soon as it is there.

    Sizes that the file holds are not measured again, unless the settings were others.

    Returns:
        `settings`, and `rows` by size: `notes`, the mean number of `links`, the percentiles `p50` and `p95`
        of what is timed (`…_ms`), the mean `insert_ms` of a note, and sizes in MB of 2**20 bytes (`…_mb`).
        Memory is by how much the process grew; None where the system has no figure.

    Raises:
        AmemError: A size below 1, a file of something else, or the process that measured died.
    """
    if not sizes or min(sizes) < 1:
        raise InvalidInputError(f"sizes={list(sizes)!r} must be numbers of at least 1")
    report = _known(path, setup.described())
    rows = {row["notes"]: row for row in report["rows"]}
    for size in sorted(set(sizes) - rows.keys()):
        rows[size] = run_apart(partial(measure_row, size, setup), progress)
        report["rows"] = [rows[one] for one in sorted(rows)]
        write_json(path, report)
    return report


def _known(path: Path, settings: Mapping[str, Any]) -> Report:
    """Return the report of a file, or one without rows if there is no file or it has other settings."""
    fresh: Report = {"rows": [], "settings": dict(settings)}
    if not path.exists():
        return fresh
    try:
        found: Report = json.loads(path.read_text(encoding="utf-8"))
        measured: list[Row] = [row for row in found["rows"] if row["notes"]]
        return {**found, "rows": measured} if found["settings"] == settings else fresh
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r} is no report of scaling ({error!r}): remove it, or write elsewhere"
        ) from error


def run_apart(work: Callable[[Progress], T], progress: Progress) -> T:
    """Return what `work` returns, or raise what it raises, in a fresh process; it is given `progress`."""
    receiver, sender = _FRESH.Pipe(duplex=False)
    process = _FRESH.Process(target=_work, args=(work, sender))
    process.start()
    sender.close()  # this end; else the other end's death would not be noticed
    try:
        while (received := receiver.recv())[0] == "progress":
            progress(*received[1])
    except KeyboardInterrupt:
        receiver.close()
        _stop(process)
        raise
    except EOFError:
        process.join()
        raise AmemError(
            f"the measuring process ended with status {process.exitcode!r} before it was done; "
            "if it was killed, there was too little memory: try fewer notes"
        ) from None
    finally:
        receiver.close()  # the next report of the process will end it
        process.join()
    kind, value = received
    if kind == "error":
        raise value
    result: T = value
    return result


def _stop(process: BaseProcess) -> None:
    """Wait for a process that was interrupted as well; one that was so inside a callback has not noticed it."""
    while process.is_alive():
        process.join(PATIENCE)
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGINT)


def _work(work: Callable[[Progress], object], sender: Connection) -> None:
    with suppress(KeyboardInterrupt, BrokenPipeError):  # the parent was stopped
        try:
            sender.send(("result", work(lambda *report: sender.send(("progress", report)))))
        except (AmemError, OSError) as error:
            sender.send(("error", error))  # to a parent that was stopped, that fails again


def sections(report: Values) -> Iterator[Section]:
    """Yield the section on `scale.json`, if anything was measured."""
    if not (rows := report["rows"]):
        return
    about = [
        (
            "Synthetic notes in one namespace of the embedded engine, {dimensions} dimensions, {links} links "
            "from each to earlier ones; {queries} queries for {k} notes, {rounds} times. A search is hybrid, "
            "follows links and returns whole notes; the vector of the query is known beforehand. Each size was "
            "measured in a process of its own."
        ).format_map(report["settings"]),
        (
            "Compare times within a row, not between machines: everything in it was timed in turn, query by "
            "query. The numpy scan is the least that an exact search takes: one product of the query with all "
            "vectors, in one thread, with no words, filters, links or notes."
        ),
    ]
    if encoding := report.get("encode_ms"):
        about.append(
            f"Encoding a query with {encoding['embedder']} takes {number(encoding['p50'])} ms on top "
            f"(median; {number(encoding['p95'])} ms at the 95th percentile), whatever the number of notes."
        )
    yield Section(
        title="Time and space over the number of notes",
        about=about,
        pictures=[_picture(rows)],
        tables=list(_tables(rows)),
    )


def _picture(rows: Sequence[Values]) -> Picture:
    from ..plots import scale  # noqa: PLC0415 - imports matplotlib

    words = "; ".join(
        f"{row['notes']:,} notes: search {number(row['search_ms']['p50'])} ms, numpy scan "
        f"{number(row['dense_scan_ms']['p50'])} ms"
        for row in rows
    )
    return Picture(
        name="scale",
        alt=f"Lines of time and of space over the number of notes, both on logarithmic scales. {words}.",
        caption="Medians of a search and, as a bar, its 95th percentile; both axes are logarithmic. Space is "
        "by how much the process grew, what of that is not mapped from the engine's files, the folder on "
        "the disk, and the bare vectors for comparison.",
        draw=partial(scale.draw, rows),
    )


def _tables(rows: Sequence[Values]) -> Iterator[Table]:
    yield table(
        "Milliseconds: median, and below it the 95th percentile; the ratio is of the medians",
        [*_TIMES.values(), "search / scan"],
        (
            [
                row["notes"],
                *("\n".join(number(row[name][p]) for p in ("p50", "p95")) for name in _TIMES),
                number(row["search_ms"]["p50"] / row["dense_scan_ms"]["p50"]),
            ]
            for row in rows
        ),
        first="notes",
    )
    yield table(
        "What a memory takes up, in MB of 2²⁰ bytes, and what it takes to insert a note that is "
        "encoded already",
        _SPACES.values(),
        ([row["notes"], *(number(row[name]) for name in _SPACES)] for row in rows),
        first="notes",
    )
