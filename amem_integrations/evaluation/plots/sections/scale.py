"""Time and space over the number of notes: from `scale.json`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .. import labels, scale
from .parts import Picture, Section, Table, Values


def sections(report: Values) -> Iterator[Section]:
    """Return the section on scaling, if anything was measured."""
    rows, settings = report["rows"], report.get("settings", {})
    if not rows:
        return
    about = [
        (
            f"Synthetic notes in one namespace of the embedded engine, {settings.get('dimensions', '?')} "
            f"dimensions, {settings.get('links', '?')} links from each to earlier ones. A search is hybrid, "
            "follows links and returns whole notes; the vector of the query is known beforehand. Each size was "
            "measured in a process of its own."
        ),
        (
            "Compare times within a row, not between machines: everything in it was timed in turn, query by "
            "query. The numpy scan is the least that an exact search takes: one product of the query with all "
            "vectors, in one thread, with no words, filters, links or notes."
        ),
    ]
    if encoding := report.get("encode_ms"):
        about.append(
            f"Encoding a query with {encoding['embedder']} takes {labels.number(encoding['p50'])} ms on top "
            f"(median; {labels.number(encoding['p95'])} ms at the 95th percentile), whatever the number of "
            "notes."
        )
    yield Section(
        title="Time and space over the number of notes",
        about=about,
        pictures=[_picture(rows)],
        tables=list(_tables(rows)),
    )


def _picture(rows: list[Values]) -> Picture:
    said = "; ".join(
        f"{row['notes']:,} notes: search {labels.number(row['search_ms']['p50'])} ms, numpy scan "
        f"{labels.number(row['dense_scan_ms']['p50'])} ms"
        for row in rows
    )
    return Picture(
        name="scale",
        alt=f"Lines of time and of space over the number of notes, both on logarithmic scales. {said}.",
        caption="Medians of a search and, as a bar, its 95th percentile; both axes are logarithmic. Space is "
        "by how much the process grew, what of that is not mapped from the engine's files, the folder on "
        "the disk, and the bare vectors for comparison.",
        draw=partial(scale.draw, rows),
    )


def _tables(rows: list[Values]) -> Iterator[Table]:
    times = _there(
        rows,
        {
            "search_ms": "search",
            "without_links_ms": "without links",
            "engine_ms": "its engine calls",
            "dense_scan_ms": "numpy scan",
        },
    )
    yield Table(
        caption="Milliseconds: median, and below it the 95th percentile; the ratio is of the medians",
        head=["notes", *times.values(), "search / scan"],
        rows=[
            [
                f"{row['notes']:,}",
                *("\n".join(labels.number(row[name][p]) for p in ("p50", "p95")) for name in times),
                labels.number(row["search_ms"]["p50"] / row["dense_scan_ms"]["p50"]),
            ]
            for row in rows
        ],
    )
    spaces = _there(
        rows,
        {
            "memory_mb": "process, MB",
            "private_mb": "not of files, MB",
            "disk_mb": "folder, MB",
            "vectors_mb": "bare vectors, MB",
            "insert_ms": "insertion of a note, ms",
        },
    )
    yield Table(
        caption="What a memory takes up, in MB of 2²⁰ bytes, and what it takes to insert a note that is "
        "encoded already",
        head=["notes", *spaces.values()],
        rows=[
            [f"{row['notes']:,}", *(labels.number(row[name]) for name in spaces)] for row in rows
        ],
    )


def _there(rows: list[Values], columns: dict[str, str]) -> dict[str, str]:
    """Return the columns that every row has."""
    return {name: title for name, title in columns.items() if all(name in row for row in rows)}
