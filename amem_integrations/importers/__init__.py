"""Moving in: importers for what other memories and programs have kept, one format a module.

`import_from(memory, "conversations.json", namespace=("ann",))` takes a file, a Qdrant collection or rows into a memory, and reports
what it could not take. Each module says which form it reads, and where that form is described.
"""

from __future__ import annotations

from .import_report import ImportReport, Skipped
from .importing import FORMATS, Format, Import, find_format, import_from
from .source import Entry, Source

__all__ = [
    "FORMATS",
    "Entry",
    "Format",
    "Import",
    "ImportReport",
    "Skipped",
    "Source",
    "find_format",
    "import_from",
]
