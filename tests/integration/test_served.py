"""The served store in asynchronous programs, on clusters, and when nodes go away."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from qdrant_client import models
from support.models import model, update_first
from support.qdrant_server import FakeQdrant, Fault, rate_limited, serving
from support.stored import DIMENSIONS, change, item, note_id

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    MemoryConfig,
    StoreUnavailableError,
)
from amem_integrations.ports import Query
from amem_integrations.stores import QdrantStore
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)
QUICK = {"pauses": (0.001, 0.001)}
TENANT_GRAPHS = models.HnswConfigDiff(m=0, payload_m=16)
pytestmark = pytest.mark.enable_socket


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant()) as fake:
        yield fake


def opened(fake: FakeQdrant, **options: Any) -> AgenticMemory:
    return AgenticMemory.open(fake.url, embedder=HashEmbedder(), **{**QUICK, **options})


# --- asynchronous -------------------------------------------------------------------------------


async def test_asynchronous_calls_use_no_thread_and_share_a_bounded_pool(fake: FakeQdrant) -> None:
    async with opened(fake, connections=8) as memory:
        await asyncio.gather(*(memory.aadd(f"Thing {n} is here", namespace=ANN) for n in range(20)))
        store: Any = memory._runtime.store
        threads, before = threading.active_count(), fake.connections
        fake.most_at_once = 0
        found = await asyncio.gather(
            *(store.asearch(ANN, [Query(text=f"thing {n}")]) for n in range(200))
        )
        assert all(ranked.lexical for (ranked,) in found)
        # The server has a thread for each connection; the client has none.
        assert threading.active_count() - threads <= fake.connections - before <= 8
        assert 1 < fake.most_at_once <= 8
        assert all(
            await asyncio.gather(*(memory.asearch("thing", namespace=ANN) for _ in range(20)))
        )


def test_threads_share_a_bounded_pool(fake: FakeQdrant) -> None:
    with opened(fake, connections=8) as memory:
        memory.add("A thing is here", namespace=ANN)
        before, fake.most_at_once = fake.connections, 0
        with ThreadPoolExecutor(32) as pool:
            found = list(pool.map(lambda _: memory.search("thing", namespace=ANN), range(64)))
        assert all(found)
        assert fake.connections - before <= 8
        assert fake.most_at_once <= 8


def test_each_loop_has_its_own_connections_which_end_with_it(fake: FakeQdrant) -> None:
    memory = opened(fake)

    async def use() -> None:
        await memory.aadd("A thing is here", namespace=ANN)
        assert await memory.asearch("thing", namespace=ANN)

    for _ in range(3):
        asyncio.run(use())  # a warning of an unclosed connection would be an error
        assert memory._runtime.store._connection._loops == {}  # type: ignore[attr-defined]
    gc.collect()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(use())
        loop.run_until_complete(memory.aclose())
        assert memory._runtime.store._connection._loops == {}  # type: ignore[attr-defined]
    finally:
        loop.close()
    memory.close()


async def test_both_forms_work_beside_each_other_in_a_loop(fake: FakeQdrant) -> None:
    async with opened(fake) as memory:
        await memory.aadd("A thing is here", namespace=ANN)
        assert memory.search("thing", namespace=ANN)
        assert len(await memory.asearch("thing", namespace=ANN)) == 1


async def test_an_asynchronous_call_waits_without_standing_still(fake: FakeQdrant) -> None:
    async with opened(fake, pauses=(0.05,)) as memory:
        await memory.aadd("A thing is here", namespace=ANN)
        fake.faults.append(Fault(status=503))
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        counting = asyncio.create_task(count())
        assert await memory.asearch("thing", namespace=ANN)
        counting.cancel()
        assert turns > 5


# --- collections --------------------------------------------------------------------------------


def test_a_collection_has_one_shard_and_its_replicas_a_majority(fake: FakeQdrant) -> None:
    with opened(fake) as memory:
        memory.add("The kiln is old", namespace=ANN)
    assert fake.collections["amem"].wanted.shard_number == 1
    scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    options = {
        "shard_number": 2,
        "replication_factor": 3,
        "quantization_config": models.ScalarQuantization(scalar=scalar),
        "on_disk": True,
        "on_disk_payload": True,
    }
    with opened(fake, collection="other", collection_options=options) as memory:
        memory.add("The kiln is old", namespace=ANN)
        assert memory.search("kiln", namespace=ANN)
    wanted = fake.collections["other"].wanted
    assert (wanted.shard_number, wanted.replication_factor) == (2, 3)
    assert wanted.write_consistency_factor == 2
    assert wanted.quantization_config == models.ScalarQuantization(scalar=scalar)
    assert (wanted.vectors["dense"].on_disk, wanted.on_disk_payload) == (True, True)
    reads = [
        url for method, url, _ in fake.requests if "/other/points?" in url and method == "POST"
    ]
    assert reads
    assert all("consistency=majority" in url for url in reads)
    with opened(
        fake,
        collection="third",
        collection_options={"replication_factor": 2, "write_consistency_factor": 1},
    ):
        assert fake.collections["third"].wanted.write_consistency_factor == 1


@pytest.mark.parametrize("options", [{"shards": 2}, {"sharding_method": "custom"}])
def test_an_unknown_option_of_collections_is_refused(
    fake: FakeQdrant, options: dict[str, Any]
) -> None:
    with pytest.raises(
        ConfigurationError, match=f"{next(iter(options))!r}.*known are.*shard_number"
    ):
        opened(fake, collection_options=options)


def test_no_search_goes_without_a_namespace(fake: FakeQdrant) -> None:
    """With a graph for each tenant only, such a search would be wrong without a word."""
    with opened(fake, collection_options={"hnsw_config": TENANT_GRAPHS}) as memory:
        for n in range(3):
            memory.add(f"The kiln {n} is old", namespace=ANN, thread="t")
        assert memory.search("kiln", namespace=ANN, where={"thread": "t"})
    assert fake.collections["amem"].wanted.hnsw_config == TENANT_GRAPHS
    queries = [
        query
        for (_, url, _), body in zip(fake.requests, fake.bodies, strict=True)
        if "/query" in url
        for query in body["searches"]
    ]
    assert queries
    for query in queries:
        parts = query.get("prefetch") or [query]
        for part in parts if isinstance(parts, list) else [parts]:
            assert '"key": "namespace"' in str(part["filter"]).replace("'", '"')


def test_writes_to_notes_have_a_leader_that_can_be_replaced(fake: FakeQdrant) -> None:
    with opened(fake) as memory:
        memory.add("The kiln is old", namespace=ANN)
    writes = [url for method, url, _ in fake.requests if method == "PUT" and "points?" in url]
    assert writes
    assert all("ordering=medium" in url for url in writes)


# --- faults -------------------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_when_it_says(fake: FakeQdrant) -> None:
    store = QdrantStore(fake.url, dimensions=DIMENSIONS, pauses=(0.001,))
    waited: list[float] = []
    fake.faults.append(rate_limited(1))
    fake.on_request = waited.append
    assert store.count(ANN) == 0
    assert waited[1] - waited[0] >= 1
    fake.faults.append(rate_limited(3600))
    with pytest.raises(StoreUnavailableError, match="try again later"):
        store.count(ANN)
    assert len(waited) == 3
    store.close()


def test_half_a_commit_is_finished_by_the_next_write_once_the_shard_is_back() -> None:
    """Spread by the server, both ends of a link may be in different shards, and one of them fails."""
    with (
        serving(FakeQdrant()) as fake,
        AgenticMemory.open(
            fake.url,
            model=model(update_first("It was moved to May.")),
            embedder=HashEmbedder(),
            config=MemoryConfig(min_gate_similarity=-1.0, recent=1, candidates=1),
            collection_options={"shard_number": 2},
            pauses=(),
        ) as memory,
    ):
        made = [memory.add(f"The trip, part {n}", namespace=ANN, evolve=False) for n in range(6)]
        for note in made:
            memory.construct([note.id], namespace=ANN)
            plan = memory.propose([note.id], namespace=ANN)
            fake.down_for_notes = 1
            with suppress(StoreUnavailableError):
                memory.commit(plan, namespace=ANN)
            fake.down_for_notes = None
        memory.add("The trip is over", namespace=ANN, evolve=False)
        memory.evolve(namespace=ANN)
        notes = {note.id: note for note in memory.get_all(namespace=ANN)}
        sides = [(n.id, t) for n in notes.values() for t in n.links]
        assert sides
        assert all(one in notes[other].links for one, other in sides)
        assert {note.state for note in notes.values()} == {"done"}


def test_what_a_killed_process_left_is_settled_by_who_has_the_memory_open(
    fake: FakeQdrant,
) -> None:
    living = QdrantStore(fake.url, dimensions=DIMENSIONS, **QUICK)
    living.insert(ANN, [item("a")], [change("add", "a")])
    dying = QdrantStore(fake.url, dimensions=DIMENSIONS, **QUICK)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    dying._notes.swap = die  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        dying.replace(ANN, [item("a", revision=1, ops=("o",))], [change("lost", "a")])
    living.settle_after, living._settles_at = 0, 0.0  # a quarter of an hour has passed
    living.insert(ANN, [item("b")], [])
    assert {made.op for made in living.changes(ANN)} == {"op add"}
    assert {found.id for found in living.scan(ANN)} == {note_id("a"), note_id("b")}
    living.close()


# --- what it says of itself ---------------------------------------------------------------------


def test_a_memory_says_where_it_is_and_asks_once_how_much_it_holds(fake: FakeQdrant) -> None:
    memory = opened(fake)
    memory.add("The kiln is old", namespace=ANN)
    with fake.counting() as counted:
        said = repr(memory)
    assert said == f"<AgenticMemory at {fake.url!r}: 1 notes, embedder='hash', model='rules'>"
    assert counted.total() == 1
    fake.faults.extend([Fault(status=503)] * 2)
    with fake.counting() as counted:
        assert "unknown notes" in repr(memory)
    assert counted.total() == 1
    fake.faults.clear()
    memory.close()
    assert "unknown notes" in repr(memory)
