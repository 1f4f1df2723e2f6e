"""The suite every `NoteStore` has to pass. Each test's name is a rule of the contract.

::

    class TestMyStore(NoteStoreConformance):
        def make_store(self, folder):
            return MyStore(folder, dimensions=DIMENSIONS)

`METADATA_INDEXES` says what a store may need to know of metadata. One whose methods are coroutine functions
is not covered: wrap it. `machine.NoteStoreMachine` (it needs hypothesis) makes any sequence of calls, to
several stores at once.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

for _rules in ("filtering", "reading", "writing", "machine"):
    pytest.register_assert_rewrite(f"{__name__}.{_rules}")  # so that a failure shows the values

# ruff: noqa: E402 - only what is imported later is rewritten
from ...ports import NoteStore
from .builders import DIMENSIONS, change, done, item, note, note_id, unit
from .filtering import METADATA_INDEXES, FilteringRules
from .reading import ReadingRules
from .writing import HistoryRules, WritingRules

__all__ = [
    "DIMENSIONS",
    "METADATA_INDEXES",
    "NoteStoreConformance",
    "change",
    "item",
    "note",
    "note_id",
    "unit",
]


class NoteStoreConformance(WritingRules, HistoryRules, ReadingRules, FilteringRules):
    """All the rules; subclass it and say how to make your store."""

    def make_store(self, folder: Path) -> NoteStore:
        """Return an open, empty store for vectors of `DIMENSIONS` numbers, in a fresh folder if it likes."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[NoteStore]:
        """A fresh store, closed after the test."""
        store = self.make_store(tmp_path / "store")
        yield store
        done(store.close())
