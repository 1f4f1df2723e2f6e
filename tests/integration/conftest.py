"""Fixtures of the tests that drive a whole memory."""

from __future__ import annotations

import pytest
from support import models


@pytest.fixture
def open_memory():
    """Opens memories that are closed after the test; the gate lets HashEmbedder's rough cosines pass."""
    made = []

    def open_(model=None, embedder=None, **settings):
        made.append(models.opened(model=model, embedder=embedder, **settings))
        return made[-1]

    yield open_
    for memory in made:
        memory.close()


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the clock."""

    def set_to(time):
        instant = int(time.timestamp()) * 10**9
        monkeypatch.setattr("amem_integrations.ids.time.time_ns", lambda: instant)

    return set_to
