"""The suite every `NoteStore` has to pass. Each test's name is a rule of the contract.

::

    class TestMyStore(NoteStoreConformance):
        def make_store(self, folder):
            return MyStore(folder, dimensions=DIMENSIONS)

`make_store` returns an open, empty store for vectors of `DIMENSIONS` numbers; `folder` is a fresh folder
that it may use, `METADATA_INDEXES` what it may need to know of metadata. A store whose methods are coroutine functions is not covered: wrap it.

`machine.NoteStoreMachine` (it needs hypothesis) makes any sequence of calls, to several stores at once.
"""

import pytest

for _rules in ("_filtering", "_history", "_reading", "_searching", "_writing", "machine"):
    pytest.register_assert_rewrite(f"{__name__}.{_rules}")  # so that a failure shows the values

# ruff: noqa: E402 - only what is imported later is rewritten
from ._builders import DIMENSIONS, change, item, note, note_id, unit
from ._filtering import METADATA_INDEXES, FilteringRules
from ._history import HistoryRules
from ._reading import ReadingRules
from ._searching import SearchingRules
from ._writing import WritingRules

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


class NoteStoreConformance(
    WritingRules, HistoryRules, ReadingRules, SearchingRules, FilteringRules
):
    """All the rules; subclass it and say how to make your store."""
