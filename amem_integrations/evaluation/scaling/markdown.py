"""Pure: a report of scaling as a page to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_HEAD = (
    "notes",
    "search p50",
    "p95",
    "without links",
    "engine calls",
    "numpy scan",
    "search / scan",
    "insert a note",
    "process MB",
    "private MB",
    "folder MB",
    "vectors MB",
)


def render(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    settings = report["settings"]
    parts = [
        "# Time and space over the number of notes",
        (
            f"Synthetic notes in one namespace of the embedded engine, {settings['dimensions']} dimensions, "
            f"{settings['links']} links from each to earlier ones; {settings['queries']} queries for "
            f"{settings['k']} notes, {settings['rounds']} times. A search is hybrid and follows links; its "
            "query is encoded beforehand. The numpy scan is exact, dense, over the same vectors, in the same "
            "run and in one thread: the machine's speed falls out of the ratio. Milliseconds are medians "
            "unless they are called p95; MB are of 2**20 bytes."
        ),
        _table([_HEAD, ["---:"] * len(_HEAD), *map(_row, report["rows"])]),
    ]
    if encoding := report.get("encode_ms"):
        parts.append(
            f"Encoding a query with `{encoding['embedder']}` takes {encoding['p50']:.2f} ms on top "
            f"(p95: {encoding['p95']:.2f} ms), whatever the number of notes."
        )
    return "\n\n".join(parts) + "\n"


def _row(row: Mapping[str, Any]) -> list[str]:
    search, scan = row["search_ms"], row["dense_scan_ms"]
    times = (search["p50"], search["p95"], row["without_links_ms"]["p50"], row["engine_ms"]["p50"])
    return [
        f"{row['notes']:,}",
        *(f"{time:.2f}" for time in (*times, scan["p50"])),
        f"{search['p50'] / scan['p50']:.2f}",
        f"{row['insert_ms']:.2f}",
        *(_mb(row[name]) for name in ("memory_mb", "private_mb", "disk_mb", "vectors_mb")),
    ]


def _mb(size: float | None) -> str:
    return "-" if size is None else f"{size:,.0f}" if size >= 10 else f"{size:.1f}"  # noqa: PLR2004


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
