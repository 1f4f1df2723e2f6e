"""A memory to import into, and files to import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amem_integrations import AgenticMemory
from amem_integrations.importers import ImportReport, import_from
from amem_integrations.testing import HashEmbedder


def open_memory() -> AgenticMemory:
    return AgenticMemory.open(":memory:", embedder=HashEmbedder(64))


def write(folder: Path, name: str, data: Any) -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def imported_twice(source: Any, *arguments: Any, **options: Any) -> tuple[ImportReport, list[Any]]:
    """Import into a new memory, check that a second time adds nothing, return report and notes."""
    with open_memory() as memory:
        report = import_from(memory, source, *arguments, evolve=False, **options)
        again = import_from(memory, source, *arguments, evolve=False, **options)
        assert set(again.added.values()) == {0}
        assert (again.found, again.skipped) == (report.found, report.skipped)
        notes = [
            note for space in report.found for note in memory.get_all(namespace=space, limit=9999)
        ]
    assert len(notes) == sum(report.added.values())
    assert {note.state for note in notes} <= {"pending"}
    return report, notes
