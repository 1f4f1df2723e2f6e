"""Both engines do what a dictionary does, whatever is asked of them in whatever order."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from amem_integrations.stores import EdgeStore, QdrantStore
from amem_integrations.testing.conformance import DIMENSIONS
from amem_integrations.testing.conformance.machine import NoteStoreMachine


class BothEngines(NoteStoreMachine):
    """A folder and `":memory:"`, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="amem-")
        place = Path(self._folder.name) / "m"
        self.make_stores = (
            lambda: EdgeStore(place, dimensions=DIMENSIONS, min_free_bytes=2**20),
            lambda: QdrantStore(":memory:", dimensions=DIMENSIONS),
        )

    def teardown(self) -> None:
        super().teardown()
        self._folder.cleanup()


TestBothEngines = BothEngines.TestCase
TestBothEngines.settings = settings(
    max_examples=int(os.environ.get("AMEM_EXAMPLES", "25")),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
