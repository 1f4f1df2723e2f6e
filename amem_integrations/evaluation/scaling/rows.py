"""The rows of a scaling report: measured size by size, kept as they are found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import InvalidInputError
from .apart import Tell, run_apart
from .measure import Row, Setup, measure

Report = dict[str, Any]


def measure_all(sizes: Sequence[int], setup: Setup, path: Path, tell: Tell) -> Report:
    """Measure each size, and keep each row in the file as soon as it is there.

    Sizes that the file holds, measured with the same settings, are not measured again; rows of other
    settings are replaced.

    Returns:
        `settings`, and `rows` by size: `notes`; `links`, the mean number a note has; the percentiles
        `p50` and `p95`, in milliseconds, of a search (`search_ms`), of one that follows no links
        (`without_links_ms`), of the search's engine calls alone (`engine_ms`), and of an exact scan of
        the same vectors by numpy in one thread (`dense_scan_ms`); the mean `insert_ms` of a note; and in
        MB of 2**20 bytes by how much the process grew (`memory_mb`; `private_mb` is what of it is
        mapped from no file; None where that cannot be told), the folder (`disk_mb`) and the bare vectors
        (`vectors_mb`).

    Raises:
        InvalidInputError: A size below 1, or the file holds something else.
        AmemError: A memory could not be built, or the process that measured it died.
        OSError: The file cannot be written.
    """
    if not sizes or min(sizes) < 1:
        raise InvalidInputError(f"sizes={list(sizes)!r} must be numbers of at least 1")
    report = known(path, setup.described())
    rows = {row["notes"]: row for row in report["rows"]}
    for number in sorted(set(sizes) - rows.keys()):
        rows[number] = run_apart(partial(measure, number, setup), tell)
        report["rows"] = [rows[size] for size in sorted(rows)]
        save(path, report)
    return report


def known(path: Path, settings: Mapping[str, Any]) -> Report:
    """Return the report of a file, or one without rows if the file is of other settings or not there.

    Raises:
        InvalidInputError: The file holds something else.
    """
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


def save(path: Path, report: Report) -> None:
    """Write a report so that the file is whole whenever the process is stopped."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)
