"""Fixtures of the tests that drive a whole memory."""

from __future__ import annotations

import pytest
from support.qdrant_server import FakeQdrant, serving


@pytest.fixture
def fake():
    """The stand-in of a server, on loopback; a test that uses it enables sockets."""
    with serving(FakeQdrant()) as served:
        yield served


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the clock."""

    def set_to(time):
        instant = int(time.timestamp()) * 10**9
        monkeypatch.setattr("amem_integrations.ids.time.time_ns", lambda: instant)

    return set_to
