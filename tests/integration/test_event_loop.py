"""Nothing of Python's own blocks the event loop: every asynchronous door, over every store, from the first call on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from protocol.kills import CopyingModel
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

ANN = ("ann",)
pytestmark = pytest.mark.enable_socket


@pytest.fixture(params=["folder", ":memory:", "server"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    fake = FakeQdrant() if request.param == "server" else None
    with serving(fake) if fake else nullcontext():
        folder = str(tmp_path / "memory")
        yield fake.url if fake else folder if request.param == "folder" else ":memory:"


async def test_no_asynchronous_method_blocks_the_loop(location: str) -> None:
    options: dict[str, Any] = {"model": CopyingModel(), "embedder": HashEmbedder()}
    memory = await asyncio.to_thread(AgenticMemory.open, location, **options)
    with blockbuster_ctx():
        async with memory:
            first = await memory.aadd("I moved to Oslo", namespace=ANN, thread="t")
            rows = ["We like Oslo", "We left Oslo"]
            others = await memory.aadd_many(rows, namespace=ANN, evolve=False)
            await memory.aevolve(namespace=ANN)
            await memory.asupersede(first.id, others[1].id, namespace=ANN)
            await memory.acontext("Oslo", namespace=ANN)
            await memory.aupdate(first.id, namespace=ANN, content="I live in Bergen. " * 99)
            await memory.adelete(first.id, namespace=ANN)
            assert len(await memory.aget_all(namespace=ANN, where={"source": "user"})) == 2
